import { describe, expect, test } from "vitest";
import { type Column, layoutFields, layoutTable } from "./tables.ts";

const first = ([text = ""]: readonly string[]): string => text;
const second = ([, text = ""]: readonly string[]): string => text;

describe("layoutTable", () => {
  test("makes each column as wide as its widest text", () => {
    const columns: Column<string[]>[] = [
      ["ID", first],
      ["STATE", second],
    ];
    const items = [
      ["a-long-id", "OK"],
      ["b", "RUNNING"],
    ];
    expect(layoutTable(items, columns).split("\n")).toEqual([
      "ID         STATE",
      "a-long-id  OK",
      "b          RUNNING",
    ]);
  });

  test("puts numbers under each other", () => {
    const columns: Column<string[]>[] = [
      ["DONE", first, "right"],
      ["X", second],
    ];
    const items = [
      ["5", "a"],
      ["12345", "b"],
    ];
    expect(layoutTable(items, columns).split("\n")).toEqual([" DONE  X", "    5  a", "12345  b"]);
  });

  test("gives colours no width", () => {
    const columns: Column<string[]>[] = [
      ["A", first],
      ["B", second],
    ];
    const red = "\u001B[31mred\u001B[39m";
    const items = [
      [red, "x"],
      ["green", "y"],
    ];
    expect(layoutTable(items, columns).split("\n")).toEqual([
      "A      B",
      `${red}    x`,
      "green  y",
    ]);
  });

  test("keeps a text with line breaks on its line", () => {
    expect(layoutTable([["one\n  two"]], [["E", first]])).toBe("E\none two");
  });
});

describe("layoutFields", () => {
  test("puts values under each other, without those that are null", () => {
    expect(
      layoutFields([
        ["id", "1"],
        ["reason of it", null],
        ["state", "OK"],
      ]),
    ).toBe("id     1\nstate  OK");
  });
});
