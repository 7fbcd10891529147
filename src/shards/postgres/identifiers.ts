import pg from "pg";
import type { TableShape } from "../shard.ts";

/** An identifier as SQL writes it, whatever is in it. */
export const quoted: (name: string) => string = pg.escapeIdentifier;

/** A text as SQL writes it, whatever is in it. */
export const literal: (text: string) => string = pg.escapeLiteral;

/** A text or NULL as SQL writes it. */
export function literalOrNull(text: string | null): string {
  return text === null ? "null" : literal(text);
}

/** A list of texts as one SQL value of type `text[]`. */
export function literalArray(texts: readonly string[]): string {
  const elements = texts.map((text) => `"${text.replaceAll(/["\\]/g, "\\$&")}"`);
  return `${literal(`{${elements.join(",")}}`)}::text[]`;
}

/** Where a table is. Names are as the catalogue has them: nothing is folded to lower case. */
export type QualifiedTable = { readonly schema: string; readonly name: string };

/** Reads `table` or `schema.table`; a table whose own name has a dot cannot be named. */
export function tableName(given: string, schema: string): QualifiedTable {
  const dot = given.indexOf(".");
  if (dot < 0) return { schema, name: given };
  return { schema: given.slice(0, dot), name: given.slice(dot + 1) };
}

/** A table in a statement. */
export function tableSql({ schema, name }: QualifiedTable): string {
  return `${quoted(schema)}.${quoted(name)}`;
}

/** The name that Pawl's own tables in the shard know a table by, however it was given. */
export function canonicalName({ schema, name }: QualifiedTable): string {
  return `${schema}.${name}`;
}

/** A list of columns in a statement, each with a prefix. */
export function columnList(names: readonly string[], prefix = ""): string {
  return names.map((name) => prefix + quoted(name)).join(", ");
}

/**
 * A column's type for casts of whole values: without its length, which would cut a value off, and
 * with the collation, which decides how texts compare.
 */
export function castType(type: string): string {
  const [bare = type, collation] = type.split(" collate ");
  const cut = bare.replace(/\([^)]*\)/, "").replace(/^interval .*?(?=(\[\])*$)/, "interval");
  // Without a length these two names mean a length of one, unless they are quoted.
  const named = cut
    .replace(/^character(?=(\[\])*$)/, '"bpchar"')
    .replace(/^bit(?=(\[\])*$)/, '"bit"');
  return collation === undefined ? named : `${named} collate ${collation}`;
}

/** The type of a column of a table. */
export function columnType(table: TableShape, column: string): string {
  const found = table.columns.find(({ name }) => name === column);
  return castType(found?.type ?? "text");
}
