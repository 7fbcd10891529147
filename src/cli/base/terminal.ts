import { styleText } from "node:util";

type Style = Parameters<typeof styleText>[0];

/** A stream to write lines on, such as standard output. */
export interface LineStream {
  readonly isTTY?: boolean;
  /** How wide it is, where it is a terminal. */
  readonly columns?: number;
  /** The stream behind one that shows control characters, for what is drawn with our own. */
  readonly raw?: LineStream;
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

/**
 * What a terminal would obey: control characters but for line ends and tabs, and those that turn the
 * direction of text. The colours that `paint` gives are left alone.
 */
const OBEYED =
  // oxlint-disable-next-line no-control-regex -- they are what it is about.
  /(\u001B\[(?:0|1|2|22|39|3[1-6])m)|[\u0000-\u0008\u000B-\u001F\u007F-\u009F\u202A-\u202E\u2066-\u2069]/g;

/**
 * The text with its control characters shown instead of obeyed, as `\u001b`: errors, names and logs
 * come from others, and could move the cursor, rename the window or hide a line.
 */
export function withoutControls(text: string): string {
  return text.replace(
    OBEYED,
    (found, colour?: string) => colour ?? `\\u${found.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

/** A stream on which nothing that is written moves the cursor. */
export function withoutControlsOn(stream: LineStream): LineStream {
  return {
    raw: stream,
    write: (text) => stream.write(withoutControls(text)),
    get isTTY() {
      return stream.isTTY === true;
    },
    // A terminal may become wider.
    get columns() {
      return stream.columns as number;
    },
  };
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
  ABANDONED: "magenta",
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
