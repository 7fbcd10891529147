import { stripVTControlCharacters } from "node:util";
import { type Terminal, withoutControls } from "./terminal.ts";

/** Something that is shown while it changes, on standard error. */
export interface LiveView {
  /**
   * Shows it as it is now: all lines on a terminal, and elsewhere just the one, at once when `mark`
   * is another than before and else now and then.
   */
  show(lines: readonly string[], line: string, mark: string): void;
  close(): void;
}

/** Lines for people who read a log are no closer together than this. */
const LINE_MS = 2_000;

/** Where nobody says how wide the terminal is. */
const WIDTH_DEFAULT = 80;

/** Puts the cursor so many lines up and clears everything from there on. */
const upAndClear = (lines: number): string => (lines === 0 ? "" : `\u001B[${lines}A\u001B[0J`);

/** A picture that is drawn over on a terminal, lines elsewhere, and nothing where machines read. */
export function openLiveView(terminal: Terminal): LiveView {
  if (terminal.stderr.isTTY === true) return picture(terminal);
  return terminal.json ? { show: () => undefined, close: () => undefined } : log(terminal);
}

function picture({ stderr }: Terminal): LiveView {
  const screen = stderr.raw ?? stderr;
  let drawn = 0;
  let shown = "";
  return {
    show(lines) {
      const width = (screen.columns ?? WIDTH_DEFAULT) - 1;
      // A line that wraps would be counted as one and leave its rest behind.
      const fitting = lines.map((line) => fit(line, width));
      const text = `${fitting.join("\n")}\n`;
      if (text === shown) return;
      screen.write(`${upAndClear(drawn)}${text}`);
      drawn = fitting.length;
      shown = text;
    },
    close() {
      screen.write(upAndClear(drawn));
      drawn = 0;
      shown = "";
    },
  };
}

function fit(line: string, width: number): string {
  const shown = withoutControls(line);
  const plain = stripVTControlCharacters(shown);
  return plain.length <= width ? shown : `${plain.slice(0, width - 1)}…`;
}

function log(terminal: Terminal): LiveView {
  let saidAt = Number.NEGATIVE_INFINITY;
  let said = "";
  let marked = "";
  return {
    show(_lines, line, mark) {
      const isDue = mark !== marked || terminal.now() - saidAt >= LINE_MS;
      if (!isDue || line === said) return;
      saidAt = terminal.now();
      said = line;
      marked = mark;
      terminal.stderr.write(`${line}\n`);
    },
    close: () => undefined,
  };
}
