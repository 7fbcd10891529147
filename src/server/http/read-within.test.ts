import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { cursorOf, keyOfCursor, PAGE_LENGTH_MAX, readWithin } from "./read-within.ts";

/** A list of texts of these lengths, which notes how many are read at once. */
function listOf(lengths: readonly number[]) {
  const reads: number[] = [];
  const read = async (after: number | null, limit: number): Promise<number[]> => {
    const from = after === null ? 0 : after + 1;
    const found = [...lengths.keys()].slice(from, from + limit);
    reads.push(found.length);
    return found;
  };
  const texts = (rows: number[]): string[] => rows.map((row) => "x".repeat(lengths[row] ?? 0));
  return { reads, page: (limit: number) => readWithin(limit, read, texts) };
}

describe("a page", () => {
  test("I64: ends where its documents are long enough, and goes on behind the last of them", async () => {
    const { page, reads } = listOf(Array.from({ length: 200 }, () => PAGE_LENGTH_MAX / 5));
    const { items, last } = await page(200);
    expect([items.length, last]).toEqual([4, 3]);
    expect(reads).toEqual([10]);
  });

  test("I64: has one document at least, however long that is", async () => {
    const { page } = listOf([PAGE_LENGTH_MAX * 2, 1]);
    expect(await page(50)).toMatchObject({ items: { length: 1 }, last: 0 });
  });

  test("passes over what a list leaves out, and is none the longer for it", async () => {
    const read = async (after: number | null, limit: number): Promise<number[]> => {
      return Array.from({ length: limit }, (_, index) => (after ?? 0) + 1 + index);
    };
    const evens = (rows: number[]) => rows.filter((row) => row % 2 === 0);
    const { items, last } = await readWithin(30, read, evens);
    expect([items, last]).toEqual([Array.from({ length: 15 }, (_, index) => 2 + 2 * index), 30]);
    const long = (rows: number[]) => evens(rows).map(() => "x".repeat(PAGE_LENGTH_MAX / 4));
    expect(await readWithin(30, read, long)).toMatchObject({ items: { length: 5 }, last: 10 });
    expect(await readWithin(30, read, () => [])).toEqual({ items: [], last: 30 });
  });

  test("has as many as were asked for where they are short, and a next only if there are more", async () => {
    for (const [limit, there] of [
      [1, 1],
      [10, 10],
      [50, 50],
      [200, 199],
    ] as const) {
      const { page } = listOf(Array.from({ length: there }, () => 100));
      expect(await page(limit)).toMatchObject({ items: { length: there }, last: null });
      const more = listOf(Array.from({ length: limit + 1 }, () => 100));
      expect(await more.page(limit)).toMatchObject({ items: { length: limit }, last: limit - 1 });
      expect(Math.max(...more.reads)).toBeLessThanOrEqual(50);
    }
    expect(await listOf([]).page(5)).toEqual({ items: [], last: null });
  });
});

describe("cursors", () => {
  test("stand for the key they were made of", () => {
    const text = fc.string({ unit: "grapheme" }).filter((each) => !each.includes("\0"));
    fc.assert(
      fc.property(fc.maxSafeInteger(), text, (pos, name) => {
        expect(keyOfCursor(cursorOf([pos, name]), ["int", "text"])).toEqual([pos, name]);
      }),
    );
  });

  test("of another list, or of nobody, are refused", () => {
    const others = [cursorOf(["a"]), cursorOf([1, 2]), cursorOf([]), "", "!", "bnVsbA"];
    for (const cursor of others) {
      expect(() => keyOfCursor(cursor, ["int"]), cursor).toThrow("Start again without a cursor");
    }
    expect(() => keyOfCursor(cursorOf(["a\0"]), ["text"])).toThrow("Start again");
  });
});
