import { SingleBar } from "cli-progress";
import { formatDuration } from "./options.ts";
import { type Terminal, withoutControls } from "./terminal.ts";
import { stripVTControlCharacters } from "node:util";

/** How far some work is. */
export type ProgressState = {
  total: number;
  done: number;
  failed: number;
  ratePerSecond: number | null;
  etaMs: number | null;
  note: string;
};

/** Something that shows how far work is, on standard error. */
export interface ProgressBar {
  update(state: ProgressState): void;
  close(): void;
}

/** Lines for people who read a log are no closer together than this. */
const LINE_MS = 2_000;

const SILENT: ProgressBar = { update: () => undefined, close: () => undefined };

/** A bar on a terminal, a line now and then elsewhere, and nothing where machines read. */
export function openProgress(terminal: Terminal, noun: string): ProgressBar {
  if (terminal.stderr.isTTY === true) return bar(terminal, noun);
  return terminal.json ? SILENT : lineByLine(terminal, noun);
}

function bar(terminal: Terminal, noun: string): ProgressBar {
  const single = new SingleBar({
    format: `{bar} {percentage}%  {value}/{total} ${noun}{extra}`,
    barCompleteChar: "█",
    barIncompleteChar: "░",
    barsize: 30,
    hideCursor: true,
    clearOnComplete: false,
    stream: (terminal.stderr.raw ?? terminal.stderr) as NodeJS.WriteStream,
  });
  let isStarted = false;
  return {
    update(state) {
      const extra = withoutControls(extraOf(state));
      if (!isStarted) single.start(state.total, state.done, { extra });
      isStarted = true;
      single.setTotal(state.total);
      single.update(state.done, { extra });
    },
    close() {
      if (isStarted) single.stop();
    },
  };
}

function lineByLine(terminal: Terminal, noun: string): ProgressBar {
  let saidAt = terminal.now();
  let said = -1;
  return {
    update(state) {
      const isDue = terminal.now() - saidAt >= LINE_MS;
      if (!isDue || state.done === said) return;
      saidAt = terminal.now();
      said = state.done;
      terminal.stderr.write(`${progressLine(state, noun)}\n`);
    },
    close: () => undefined,
  };
}

/** One line of progress: `120/365 partitions (33%), 2 failed, 14.0/s, 18s left`. */
export function progressLine(state: ProgressState, noun: string): string {
  const percent = state.total === 0 ? 0 : Math.floor((state.done / state.total) * 100);
  return `${state.done}/${state.total} ${noun} (${percent}%)${extraOf(state).replaceAll("  ", ", ")}`;
}

function extraOf({ failed, ratePerSecond, etaMs, note }: ProgressState): string {
  const parts = [
    failed > 0 ? `${failed} failed` : "",
    ratePerSecond === null ? "" : `${ratePerSecond.toFixed(1)}/s`,
    etaMs === null ? "" : `${formatDuration(etaMs)} left`,
    note,
  ];
  return parts.map((part) => (part === "" ? "" : `  ${part}`)).join("");
}

/** Something that is shown while it changes, on standard error. */
export interface LiveView {
  /**
   * Shows it as it is now: all lines on a terminal, and elsewhere just the one, at once when `mark`
   * is another than before and else now and then.
   */
  show(lines: readonly string[], line: string, mark: string): void;
  close(): void;
}

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
