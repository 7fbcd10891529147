import { describe, expect, test } from "vitest";
import { openLiveView } from "./waiting.ts";
import { paint, type Terminal, withoutControls, withoutControlsOn } from "./terminal.ts";

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
