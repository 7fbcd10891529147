import { describe, expect, test } from "vitest";
import { cursorDifference } from "./cursor-difference.ts";

describe("cursorDifference", () => {
  test("of plain texts is one from the other", () => {
    expect(cursorDifference("12", "40")).toEqual({
      changes: [{ kind: "changed", name: "", before: "12", after: "40" }],
      same: 0,
    });
    expect(cursorDifference(null, "40").changes).toMatchObject([{ kind: "added", after: "40" }]);
    expect(cursorDifference("40", "40")).toEqual({ changes: [], same: 1 });
    expect(cursorDifference("{broken", "{}").changes).toMatchObject([
      { kind: "changed", name: "" },
    ]);
  });

  test("of objects goes field by field, however deep", () => {
    const before = JSON.stringify({ files: { a: 1, b: 2, c: "x" }, at: 5 });
    const after = JSON.stringify({ files: { a: 1, b: 3, d: null }, at: 5 });
    expect(cursorDifference(before, after)).toEqual({
      changes: [
        { kind: "changed", name: "files › b", before: "2", after: "3" },
        { kind: "removed", name: "files › c", before: "x", after: "" },
        { kind: "added", name: "files › d", before: "", after: "null" },
      ],
      same: 2,
    });
  });

  test("of lists says what came and what went", () => {
    expect(cursorDifference('["a","b"]', '["b","c"]').changes).toMatchObject([
      { kind: "removed", name: "a" },
      { kind: "added", name: "c" },
    ]);
  });

  test("from the start has everything added", () => {
    expect(cursorDifference(null, '{"a":1}').changes).toEqual([
      { kind: "added", name: "a", before: "", after: "1" },
    ]);
  });
});
