import { z } from "zod";

/*
 * A shard over HTTP refuses what its documents do not know, so that nothing that matters is dropped
 * in silence. Types of TypeScript let a value have more fields than asked for, and let a document
 * lack one that is optional. So the documents and the types are compared field by field here, and
 * what is sent has the fields of its document and no other.
 */

/** A type as its fields alone: nothing is readonly, nothing optional. */
type Fields<T> = T extends readonly unknown[]
  ? { -readonly [At in keyof T]: Fields<T[At]> }
  : T extends object
    ? { -readonly [Name in keyof T]-?: Fields<Exclude<T[Name], undefined>> }
    : T;

/** `true` when two types have the same fields of the same types, however deep. */
export type SameFields<One, Other> = [Fields<One>] extends [Fields<Other>]
  ? [Fields<Other>] extends [Fields<One>]
    ? true
    : false
  : false;

/** `true` when JSON has room for all of a type: no big integer, bytes, date or function. */
export type IsJson<T> = T extends string | number | boolean | null | undefined | void
  ? true
  : T extends readonly (infer Item)[]
    ? IsJson<Item>
    : T extends (...given: never) => unknown
      ? false
      : T extends object
        ? IsJson<T[keyof T]>
        : false;

/** A value with the fields that its document has and no other. */
export function projected(schema: z.core.$ZodType, value: unknown): unknown {
  if (value === null || typeof value !== "object") return value;
  if (schema instanceof z.ZodNullable || schema instanceof z.ZodDefault) {
    return projected(schema.unwrap(), value);
  }
  if (schema instanceof z.ZodOptional || schema instanceof z.ZodExactOptional) {
    return projected(schema.unwrap(), value);
  }
  if (Array.isArray(value)) {
    const items: unknown[] = value;
    if (schema instanceof z.ZodTuple) {
      const parts: readonly z.core.$ZodType[] = schema.def.items;
      return items.map((item, at) => (parts[at] === undefined ? item : projected(parts[at], item)));
    }
    if (schema instanceof z.ZodArray) return items.map((item) => projected(schema.element, item));
    return items;
  }
  if (!(schema instanceof z.ZodObject)) return value;
  const shape = new Map(Object.entries<z.core.$ZodType>(schema.shape));
  return Object.fromEntries(
    Object.entries(value).flatMap(([name, inner]) => {
      const field = shape.get(name);
      return field === undefined ? [] : [[name, projected(field, inner)]];
    }),
  );
}
