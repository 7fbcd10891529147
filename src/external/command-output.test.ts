import { describe, expect, test } from "vitest";
import { LINE_LENGTH_MAX, LineReader, type OutputLine, SAID_PREFIX } from "./command-output.ts";

/** The lines of pieces that come one after the other. */
function linesOf(...pieces: (string | Buffer)[]): OutputLine[] {
  const lines: OutputLine[] = [];
  const reader = new LineReader((line) => lines.push(line));
  for (const piece of pieces) reader.push(Buffer.from(piece));
  reader.end();
  return lines;
}

function textsOf(...pieces: (string | Buffer)[]): string[] {
  return linesOf(...pieces).map(({ text }) => text);
}

describe("LineReader", () => {
  test("joins what comes in pieces, within a character too", () => {
    const bytes = Buffer.from("grün\nblau");
    expect(textsOf(bytes.subarray(0, 3), bytes.subarray(3, 6), bytes.subarray(6))).toEqual([
      "grün",
      "blau",
    ]);
  });

  test("leaves out empty lines, and takes both kinds of line breaks", () => {
    expect(textsOf("a\r\n\n\r\nb\r", "\nc")).toEqual(["a", "b", "c"]);
  });

  test("shows of a line that is written over what a terminal shows in the end", () => {
    expect(textsOf("10 %\r50 %", "\r100 %\ndone\n")).toEqual(["100 %", "done"]);
    expect(textsOf("10 %\r", "50 %\r", "\n")).toEqual(["50 %"]);
  });

  test("cuts a long line, says by how much, and holds no more of it", () => {
    const pieces = Array.from({ length: 1_000 }, () => "x".repeat(1_000));
    expect(linesOf(...pieces, "\nnext\n")).toEqual([
      { text: "x".repeat(LINE_LENGTH_MAX), cut: 1_000_000 - LINE_LENGTH_MAX },
      { text: "next", cut: 0 },
    ]);
  });

  test("leaves whole characters where it cuts", () => {
    const [line] = linesOf(`${"x".repeat(LINE_LENGTH_MAX - 1)}😀\n`);
    expect(line?.text.isWellFormed()).toBe(true);
  });

  test("lets a line that says something be as long as a checkpoint may be", () => {
    const said = `${SAID_PREFIX}{"checkpoint":"${"x".repeat(4 * 2 ** 20)}"}`;
    expect(linesOf(said.slice(0, 3), said.slice(3))).toEqual([{ text: said, cut: 0 }]);
    expect(linesOf(`${said}${said}`)[0]?.cut).toBeGreaterThan(0);
  });
});
