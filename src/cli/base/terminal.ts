import { stripVTControlCharacters, styleText } from "node:util";

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

/** Writes what somebody has to know of on a line of its own, for machines as JSON, as errors are. */
export function warn(terminal: Terminal, warning: string): void {
  terminal.stderr.write(`${terminal.json ? JSON.stringify({ warning }) : warning}\n`);
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

/** A column of a table: its heading, what stands in it, and on which side that is aligned. */
export type Column<Item> = readonly [
  heading: string,
  cell: (item: Item) => string,
  align?: "right",
];

/** A page of a list, as the API answers it. */
export type Page<Item> = { readonly items: readonly Item[]; readonly next_cursor: string | null };

const GAP = "  ";

/** Lays out items under headings, each column as wide as its widest text; colours have no width. */
export function layoutTable<Item>(
  items: readonly Item[],
  columns: readonly Column<Item>[],
): string {
  const rows = items.map((item) => columns.map(([, cell]) => oneLine(cell(item))));
  const lines = [columns.map(([heading]) => oneLine(heading)), ...rows];
  const widths = columns.map((_, at) => Math.max(...lines.map((line) => widthOf(line[at] ?? ""))));
  return lines
    .map((line) => {
      const cells = columns.map(([, , align], at) =>
        padded(line[at] ?? "", widths[at] ?? 0, align),
      );
      return cells.join(GAP).trimEnd();
    })
    .join("\n");
}

/** A page as a table, or what to say when it is empty, and how to see more. */
export function layoutPage<Item>(
  page: Page<Item>,
  none: string,
  columns: readonly Column<Item>[],
): string {
  const { items, next_cursor } = page;
  return (items.length === 0 ? none : layoutTable(items, columns)) + morePagesText(next_cursor);
}

/** The line that says how to see more of a list, if there is more. */
export function morePagesText(cursor: string | null): string {
  return cursor === null ? "" : `\n\nThere is more: --cursor ${cursor}`;
}

/** A name and its value; null where there is nothing to say. */
export type Field = readonly [name: string, value: string | null];

/** Lays out names and values under each other, without those that are null. */
export function layoutFields(fields: readonly Field[]): string {
  const shown = fields.flatMap(([name, value]) => (value === null ? [] : [{ name, value }]));
  const width = Math.max(0, ...shown.map(({ name }) => name.length));
  return shown.map(({ name, value }) => `${name.padEnd(width)}${GAP}${value}`.trimEnd()).join("\n");
}

function padded(text: string, width: number, align: "right" | undefined): string {
  const room = " ".repeat(Math.max(0, width - widthOf(text)));
  return align === "right" ? room + text : text + room;
}

function widthOf(text: string): number {
  return Array.from(stripVTControlCharacters(text)).length;
}

/** A text on one line: a break in a cell would tear its table apart. */
export function oneLine(text: string): string {
  return text.replace(/\s*\n\s*/g, " ");
}

/** A count for people: `1,234,567`. */
export function countText(count: number): string {
  return count.toLocaleString("en-US");
}

/** So many of something: `1 row`, `1,234 rows`. */
export function counted(count: number, noun: string): string {
  return `${countText(count)} ${noun}${count === 1 ? "" : "s"}`;
}

/** So much a second for people, with digits after the point only where they matter. */
export function rateText(rate: number | null): string {
  if (rate === null) return "-";
  return `${rate < 100 ? rate.toFixed(1) : countText(Math.round(rate))}/s`;
}

/** The counts that are not zero: `3 pending, 1 failed`. */
export function countsText(counts: readonly (readonly [count: number, name: string])[]): string {
  const shown = counts.filter(([count]) => count > 0);
  return shown.map(([count, name]) => `${count} ${name}`).join(", ");
}

/** The first keys of a list, and how many there are where that are more: `a, b, … (7)`. */
export function someKeys(keys: readonly string[], max: number, count = keys.length): string {
  const shown = keys.slice(0, max).join(", ");
  return count > max ? `${shown}, … (${count})` : shown;
}

/** Labels for people: `team=a, tier=b`; null when there are none. */
export function labelsText(labels: Readonly<Record<string, string>>): string | null {
  const pairs = Object.entries(labels).map(([key, value]) => `${key}=${value}`);
  return pairs.join(", ") || null;
}

/** An error for people, behind its kind unless the user's own code threw it; null when there is none. */
export function errorText(error: { class: string; message: string } | null): string | null {
  if (error === null) return null;
  return error.class === "user" ? error.message : `${error.class}: ${error.message}`;
}
