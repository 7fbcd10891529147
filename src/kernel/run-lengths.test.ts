import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { runLengths } from "./run-lengths.ts";

describe("runLengths", () => {
  test("writes neighbours that are alike as one", () => {
    expect(runLengths(Uint8Array.of(0, 0, 0, 2, 1, 1))).toEqual([0, 3, 2, 1, 1, 2]);
    expect(runLengths(new Uint8Array(0))).toEqual([]);
  });

  test("can be read back, and never has two like neighbours or an empty one", () => {
    fc.assert(
      fc.property(fc.uint8Array({ max: 3 }), (cells) => {
        const lengths = runLengths(cells);
        const read: number[] = [];
        for (let at = 0; at < lengths.length; at += 2) {
          expect(lengths[at + 1]).toBeGreaterThan(0);
          if (at > 0) expect(lengths[at]).not.toBe(lengths[at - 2]);
          read.push(...Array<number>(lengths[at + 1] ?? 0).fill(lengths[at] ?? 0));
        }
        expect(read).toEqual([...cells]);
      }),
    );
  });
});
