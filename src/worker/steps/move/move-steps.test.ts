import { describe, expect, test } from "vitest";
import { widthBounds } from "./move-steps.ts";

describe("widthBounds", () => {
  test("cuts a range of keys into pieces of equal width", () => {
    expect(widthBounds({ least: "0", greatest: "39" }, 4, null)).toEqual(["10", "20", "30"]);
    expect(widthBounds({ least: "-5", greatest: "5" }, 2, null)).toEqual(["1"]);
    expect(widthBounds({ least: "7", greatest: "7" }, 16, null)).toEqual([]);
  });

  test("I47: goes on from the last bound with the same widths", () => {
    const ends = { least: "-9223372036854775808", greatest: "9223372036854775807" };
    const first = widthBounds(ends, 500, null);
    expect(first).toHaveLength(201);
    const rest = widthBounds(ends, 500, first[199] ?? null);
    expect(rest[0]).toBe(first[200]);
  });
});
