import { describe, expect, test } from "vitest";
import {
  type Column,
  layoutFields,
  layoutTable,
  paint,
  type Terminal,
  withoutControls,
  withoutControlsOn,
} from "./terminal.ts";
import { openLiveView } from "./waiting.ts";

const HOSTILE = "ok\u001B[2J\u001B]0;title\u0007\rforged\u009B31m\u202Etxt.exe\b";

describe("withoutControls", () => {
  test("I83: shows what a terminal would obey", () => {
    expect(withoutControls(HOSTILE)).toBe(
      "ok\\u001b[2J\\u001b]0;title\\u0007\\u000dforged\\u009b31m\\u202etxt.exe\\u0008",
    );
  });

  test("I83: leaves lines, tabs, our colours and every letter as they are", () => {
    const terminal = { colours: true } as Terminal;
    const text = `${paint(terminal, "red", "FAILED")}\t${paint(terminal, "dim", "größe 日本")}\n`;
    expect(withoutControls(text)).toBe(text);
  });

  test("I83: keeps a JSON document one, with the same text in it", () => {
    const document = { message: HOSTILE };
    const written = withoutControls(JSON.stringify(document));
    expect(JSON.parse(written)).toEqual(document);
    expect(written).not.toMatch(/[\u007F-\u009F\u202A-\u202E]/);
  });
});

test("I83: a picture that is drawn over moves the cursor only by itself", () => {
  const written: string[] = [];
  const stream = { isTTY: true, columns: 200, write: (text: string) => written.push(text) };
  const stderr = withoutControlsOn(stream);
  const view = openLiveView({ stdout: stderr, stderr, json: false, colours: false, now: () => 0 });
  view.show([HOSTILE], "", "");
  view.show(["two"], "", "");
  expect(written).toEqual([`${withoutControls(HOSTILE)}\n`, "\u001B[1A\u001B[0Jtwo\n"]);
});

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
