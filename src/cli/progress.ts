import { SingleBar } from "cli-progress";
import { formatDuration } from "./duration.ts";
import { type Terminal, withoutControls } from "./terminal.ts";

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
export interface Progress {
  update(state: ProgressState): void;
  close(): void;
}

/** Lines for people who read a log are no closer together than this. */
const LINE_MS = 2_000;

const SILENT: Progress = { update: () => undefined, close: () => undefined };

/** A bar on a terminal, a line now and then elsewhere, and nothing where machines read. */
export function openProgress(terminal: Terminal, noun: string): Progress {
  if (terminal.stderr.isTTY === true) return bar(terminal, noun);
  return terminal.json ? SILENT : lines(terminal, noun);
}

function bar(terminal: Terminal, noun: string): Progress {
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

function lines(terminal: Terminal, noun: string): Progress {
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
