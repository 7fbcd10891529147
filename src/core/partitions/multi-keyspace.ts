import { assert, present } from "../assert.ts";
import { PawlError } from "../errors.ts";
import type { Dimension, Keyspace } from "./keyspace.ts";
import { encodeValue, valuesOfMultiKey } from "./multi-key.ts";
import { multiOrdinals } from "./multi-ordinals.ts";

/** The keys of every combination of the dimensions, which must be sorted by name. */
export function multiKeyspace(dimensions: readonly Dimension[]): Keyspace {
  const last = present(dimensions.at(-1), "there are two or more dimensions");
  const names = dimensions.map(({ name }) => name);
  const count = productOf(dimensions);
  const times = dimensions.filter(({ keyspace }) => keyspace.time !== null);

  function ordinalsAt(ordinal: number): number[] {
    assert(ordinal >= 0 && ordinal < count, `ordinal ${ordinal} is within ${count} partitions`);
    const digits: number[] = [];
    let rest = ordinal;
    for (let at = dimensions.length - 1; at >= 0; at--) {
      const radix = present(dimensions[at], "at is within").keyspace.count;
      const above = Math.floor(rest / radix);
      digits[at] = rest - above * radix;
      rest = above;
    }
    return digits;
  }

  function indexOf(key: string): number | null {
    const values = valuesOfMultiKey(key, names);
    if (values === null) return null;
    let ordinal = 0;
    for (const [at, { keyspace }] of dimensions.entries()) {
      const digit = keyspace.indexOf(values[at] ?? "");
      if (digit === null) return null;
      ordinal = ordinal * keyspace.count + digit;
    }
    return ordinal;
  }

  /** All of the key but the last value: `day=2025-01-01,region=`. */
  function prefixAt(ordinal: number): string {
    const digits = ordinalsAt(ordinal);
    let text = "";
    for (let at = 0; at < dimensions.length - 1; at++) {
      const { name, keyspace } = present(dimensions[at], "at is within");
      text += `${name}=${encodeValue(keyspace.keyAt(digits[at] ?? 0))},`;
    }
    return `${text}${last.name}=`;
  }

  /** The keys of many combinations: each value of a dimension is made once. */
  function keysOf(combinations: readonly number[][]): string[] {
    const texts = dimensions.map(({ name, keyspace }, at) => {
      const ordinals = [...new Set(combinations.map((digits) => digits[at] ?? 0))];
      const values = keyspace.keysAt(ordinals);
      return new Map(
        ordinals.map((ordinal, place) => [ordinal, `${name}=${encodeValue(values[place] ?? "")}`]),
      );
    });
    return combinations.map((digits) =>
      texts.map((textOf, at) => textOf.get(digits[at] ?? 0) ?? "").join(","),
    );
  }

  return {
    count,
    dimensions,
    time: null,
    keyAt(ordinal) {
      const value = last.keyspace.keyAt(ordinal % last.keyspace.count);
      return prefixAt(ordinal) + encodeValue(value);
    },
    keysAt: (ordinals) => keysOf(ordinals.map(ordinalsAt)),
    indexOf,
    indexesOf: (keys) => multiOrdinals(dimensions, keys),
    slice(offset, limit) {
      assert(offset >= 0, "an offset is a natural number");
      const until = Math.min(count, offset + limit);
      const keys: string[] = [];
      const radix = last.keyspace.count;
      // Rows shorter than the slice come round again and again, so their values are made once.
      const row = until - offset > radix ? last.keyspace.slice(0, radix).map(encodeValue) : null;
      for (let at = offset; at < until; ) {
        const from = at % radix;
        const size = Math.min(radix - from, until - at);
        const prefix = prefixAt(at);
        if (row === null) {
          for (const value of last.keyspace.slice(from, size))
            keys.push(prefix + encodeValue(value));
        } else {
          for (let next = from; next < from + size; next++) keys.push(prefix + (row[next] ?? ""));
        }
        at += size;
      }
      return keys;
    },
    valuesAt(ordinal) {
      const digits = ordinalsAt(ordinal);
      return Object.fromEntries(
        dimensions.map(({ name, keyspace }, at) => [name, keyspace.keyAt(digits[at] ?? 0)]),
      );
    },
    windowAt(ordinal) {
      const [only] = times;
      if (only === undefined || times.length > 1) return null;
      return only.keyspace.windowAt(ordinalsAt(ordinal)[dimensions.indexOf(only)] ?? 0);
    },
  };
}

function productOf(dimensions: readonly Dimension[]): number {
  const product = dimensions.reduce((sofar, { keyspace }) => sofar * keyspace.count, 1);
  if (Number.isSafeInteger(product)) return product;
  const sizes = dimensions.map(({ name, keyspace }) => `${name} ${keyspace.count}`).join(", ");
  throw new PawlError(
    "DEFINITION_INVALID",
    `The dimensions have more than 2^53 combinations (${sizes}); give the largest an end.`,
  );
}
