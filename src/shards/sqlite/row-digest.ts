import type { Digest } from "../shard.ts";
import { quoted } from "./literals.ts";
import type { TableDetail } from "./table-detail.ts";

/** Arguments that a function of SQLite takes in any build. */
const ARGUMENTS_MAX = 90;
const MASK = (1n << 64n) - 1n;

/**
 * A row as one text in which 1, 1.0, '1' and X'31' differ: what `quote` makes of each value. It
 * cuts texts at a NUL character, but rows with one are never copied.
 */
export function rowText(detail: TableDetail): string {
  let parts = detail.shape.columns.map(({ name }) => `quote(${quoted(name)})`);
  while (parts.length > 1) {
    const groups: string[] = [];
    for (let start = 0; start < parts.length; start += ARGUMENTS_MAX) {
      groups.push(`concat_ws(',', ${parts.slice(start, start + ARGUMENTS_MAX).join(", ")})`);
    }
    parts = groups;
  }
  return parts.join("");
}

/** The sum of the hashes of rows, which does not depend on their order. */
export class RowDigest {
  #rows = 0;
  #first = 0n;
  #second = 0n;

  add(texts: readonly (readonly unknown[])[]): void {
    // Sums of 32-bit hashes stay exact as numbers for two million rows; a window has fewer.
    let first = 0;
    let second = 0;
    for (const [text] of texts) {
      const row = String(text);
      let one = 0x9e3779b9;
      let other = 0x85ebca6b;
      for (let index = 0; index < row.length; index += 1) {
        const unit = row.charCodeAt(index);
        one = Math.imul(one ^ unit, 0x9e3779b1);
        other = Math.imul(other ^ unit, 0x5f356495);
        other = (other << 13) | (other >>> 19);
      }
      first += mixed(one ^ row.length, other);
      second += mixed(other, one);
    }
    this.#rows += texts.length;
    this.#first = (this.#first + BigInt(first)) & MASK;
    this.#second = (this.#second + BigInt(second)) & MASK;
  }

  result(): Digest {
    const hex = (sum: bigint): string => sum.toString(16).padStart(16, "0");
    return { rows: this.#rows, digest: hex(this.#first) + hex(this.#second) };
  }
}

/** The finish of MurmurHash3 over two halves: each bit of them decides about each bit of the result. */
function mixed(one: number, other: number): number {
  let hash = one ^ Math.imul(other, 0xcc9e2d51);
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}
