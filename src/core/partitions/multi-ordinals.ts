import { present } from "../assert.ts";
import type { Dimension } from "./keyspace.ts";
import { valuesOfMultiKey } from "./multi-key.ts";

/**
 * The ordinals of many keys of these dimensions. Keys that stand together have all but their last
 * value in common, and the last values come round again, so each is read and looked up once.
 */
export function multiOrdinals(
  dimensions: readonly Dimension[],
  keys: readonly string[],
): (number | null)[] {
  const last = present(dimensions.at(-1), "a key has a value");
  if (dimensions.length === 1) return digitsOf(last, keys);
  const heads = new Numbering();
  const tails = new Numbering();
  const places = keys.map((key) => {
    const cut = key.lastIndexOf(",");
    if (cut === -1) return null;
    return { head: heads.of(key.slice(0, cut)), tail: tails.of(key.slice(cut + 1)) };
  });
  const above = multiOrdinals(dimensions.slice(0, -1), heads.texts);
  const digits = digitsOf(last, tails.texts);
  return places.map((place) => {
    const head = place === null ? null : (above[place.head] ?? null);
    const digit = place === null ? null : (digits[place.tail] ?? null);
    return head === null || digit === null ? null : head * last.keyspace.count + digit;
  });
}

/** Texts numbered in the order they first come. */
class Numbering {
  readonly texts: string[] = [];
  readonly #numbers = new Map<string, number>();

  of(text: string): number {
    const before = this.#numbers.get(text);
    if (before !== undefined) return before;
    this.#numbers.set(text, this.texts.length);
    return this.texts.push(text) - 1;
  }
}

/** The ordinals in one dimension of values as they stand in a key: `region=us`. */
function digitsOf({ name, keyspace }: Dimension, parts: readonly string[]): (number | null)[] {
  const values = parts.map((part) => valuesOfMultiKey(part, [name])?.[0] ?? null);
  const known = values.filter((value) => value !== null);
  const ordinals = keyspace.indexesOf(known);
  let next = 0;
  return values.map((value) => (value === null ? null : (ordinals[next++] ?? null)));
}
