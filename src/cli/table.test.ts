import { describe, expect, test } from "vitest";
import { layoutFields, layoutTable } from "./table.ts";

describe("layoutTable", () => {
  test("makes each column as wide as its widest text", () => {
    const columns = [{ heading: "ID" }, { heading: "STATE" }];
    expect(
      layoutTable(columns, [
        ["a-long-id", "OK"],
        ["b", "RUNNING"],
      ]).split("\n"),
    ).toEqual(["ID         STATE", "a-long-id  OK", "b          RUNNING"]);
  });

  test("puts numbers under each other", () => {
    const columns = [{ heading: "DONE", align: "right" as const }, { heading: "X" }];
    expect(
      layoutTable(columns, [
        ["5", "a"],
        ["12345", "b"],
      ]).split("\n"),
    ).toEqual([" DONE  X", "    5  a", "12345  b"]);
  });

  test("gives colours no width", () => {
    const columns = [{ heading: "A" }, { heading: "B" }];
    const red = "\u001B[31mred\u001B[39m";
    expect(
      layoutTable(columns, [
        [red, "x"],
        ["green", "y"],
      ]).split("\n"),
    ).toEqual(["A      B", `${red}    x`, "green  y"]);
  });

  test("keeps a text with line breaks on its line", () => {
    expect(layoutTable([{ heading: "E" }], [["one\n  two"]])).toBe("E\none two");
  });
});

describe("layoutFields", () => {
  test("puts values under each other", () => {
    expect(
      layoutFields([
        ["id", "1"],
        ["state", "OK"],
      ]),
    ).toBe("id     1\nstate  OK");
  });
});
