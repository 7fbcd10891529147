import { describe, expect, test } from "vitest";
import { nextChunkRows } from "./advance-stream.ts";
import { SPLIT_LIMITS } from "./work.ts";

const after = (asked: number, ms: number, bytes = asked): number =>
  nextChunkRows(asked, { ms, rows: asked, bytes }, SPLIT_LIMITS);

describe("nextChunkRows", () => {
  test("doubles while chunks are quick and halves when they are slow", () => {
    expect(after(200, 1)).toBe(400);
    expect(after(400, 100)).toBe(400);
    expect(after(400, 1_000)).toBe(200);
    expect(after(400, 125)).toBe(320);
  });

  test("stays within its bounds", () => {
    expect(after(50_000, 1)).toBe(50_000);
    expect(after(50, 10_000)).toBe(50);
  });

  test("takes fewer rows when they are wide", () => {
    expect(after(1_000, 50, 160_000_000)).toBe(100);
    expect(after(1_000, 50, 0)).toBe(2_000);
  });
});
