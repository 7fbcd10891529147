import { styleText } from "node:util";

type Style = Parameters<typeof styleText>[0];

/** A stream to write lines on, such as standard output. */
export interface LineStream {
  readonly isTTY?: boolean;
  /** How wide it is, where it is a terminal. */
  readonly columns?: number;
  write(text: string): unknown;
}

/** Where a command says things: results on standard output, everything else on standard error. */
export type Terminal = {
  readonly stdout: LineStream;
  readonly stderr: LineStream;
  /** Whether results are one JSON document for machines. */
  readonly json: boolean;
  /** Whether results may be coloured. */
  readonly colours: boolean;
  /** Milliseconds since the start of 1970. */
  readonly now: () => number;
};

/** Writes a result: the document for machines, or the text for people. */
export function print(terminal: Terminal, document: unknown, text: () => string): void {
  if (terminal.json) terminal.stdout.write(`${JSON.stringify(document, null, 2)}\n`);
  else terminal.stdout.write(`${text()}\n`);
}

/** Writes a line for people that is not the result; machines get none. */
export function note(terminal: Terminal, text: string): void {
  if (!terminal.json) terminal.stderr.write(`${text}\n`);
}

/** The text in a colour, where there are colours. */
export function paint(terminal: Terminal, style: Style, text: string): string {
  return terminal.colours ? styleText(style, text, { validateStream: false }) : text;
}

const STATE_STYLES: Readonly<Record<string, Style>> = {
  ACTIVE: "green",
  SUCCEEDED: "green",
  triggered: "green",
  created: "green",
  EVALUATED: "green",
  MATERIALIZED: "green",
  COMPLETE: "green",
  FOLLOWING: "green",
  PASSED: "green",
  RUNNING: "cyan",
  IN_PROGRESS: "cyan",
  CANCELLING: "yellow",
  PAUSED: "yellow",
  PAUSED_WITH_FAILURES: "yellow",
  RETRY_WAIT: "yellow",
  STALE: "yellow",
  skipped: "yellow",
  skipped_stale_cursor: "yellow",
  conflict: "yellow",
  FAILED: "red",
  ERROR: "red",
  error: "red",
  refused: "red",
  failed: "red",
  MATERIALIZED_LAST_ATTEMPT_FAILED: "red",
  QUARANTINED: "magenta",
  COPIED: "green",
  REMOVED: "green",
  POISONED: "magenta",
  completed: "green",
  reversible: "green",
  cutover_pending: "cyan",
  rolled_back: "yellow",
};

/** A state in the colour that goes with it. */
export function paintState(terminal: Terminal, state: string): string {
  return paint(terminal, STATE_STYLES[state] ?? "dim", state);
}

/** Whether a stream shows colours, by the conventions of terminals. */
export function showsColours(
  stream: LineStream,
  env: Readonly<Record<string, string | undefined>>,
): boolean {
  const { NO_COLOR: noColour = "", TERM: term } = env;
  return stream.isTTY === true && noColour === "" && term !== "dumb";
}

/** The stream as one that nothing is drawn over on, where its terminal cannot do that: it gets lines. */
export function drawable(
  stream: LineStream,
  env: Readonly<Record<string, string | undefined>>,
): LineStream {
  return env["TERM"] === "dumb" ? { write: (text) => stream.write(text) } : stream;
}
