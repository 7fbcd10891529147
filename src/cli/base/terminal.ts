import { styleText, stripVTControlCharacters } from "node:util";
import type { Client } from "../../client/client.ts";
import { PawlError } from "../../kernel/errors.ts";

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

/** A column of a table: its heading, and on which side its texts are aligned. */
export type Column = { heading: string; align?: "left" | "right" };

const GAP = "  ";

/** Lays out rows under headings, each column as wide as its widest text; colours have no width. */
export function layoutTable(
  columns: readonly Column[],
  rows: readonly (readonly string[])[],
): string {
  const lines = [columns.map(({ heading }) => heading), ...rows.map((row) => row.map(oneLine))];
  const widths = columns.map((_, at) => Math.max(...lines.map((line) => widthOf(line[at] ?? ""))));
  return lines
    .map((line) => {
      const cells = columns.map(({ align }, at) => padded(line[at] ?? "", widths[at] ?? 0, align));
      return cells.join(GAP).trimEnd();
    })
    .join("\n");
}

/** Lays out names and values under each other. */
export function layoutFields(fields: readonly (readonly [name: string, value: string])[]): string {
  const width = Math.max(0, ...fields.map(([name]) => name.length));
  return fields.map(([name, value]) => `${name.padEnd(width)}${GAP}${value}`.trimEnd()).join("\n");
}

function padded(text: string, width: number, align: Column["align"]): string {
  const room = " ".repeat(Math.max(0, width - widthOf(text)));
  return align === "right" ? room + text : text + room;
}

function widthOf(text: string): number {
  return Array.from(stripVTControlCharacters(text)).length;
}

/** A line break in a cell would tear the table apart. */
function oneLine(text: string): string {
  return text.replace(/\s*\n\s*/g, " ");
}

const SHORT_LENGTH = 8;

const ULID_LENGTH = 26;

/** What a ULID is written with, so that most names are told from the end of one. */
const CROCKFORD = /^[0-9A-HJKMNP-TV-Z]+$/i;

/** As many of the newest as are looked through for a short id. */
const LOOKED_THROUGH_MAX = 1_000;

/** What is shown of an id: enough to tell it from others, and taken back by every command. */
export function shortId(id: string): string {
  if (id.startsWith("run_")) return id.slice(0, "run_".length + SHORT_LENGTH);
  // A ULID begins with its time, which is the same for all of a burst; its end is chance. An id of
  // somebody's own is shown whole.
  return id.length === ULID_LENGTH && CROCKFORD.test(id) ? id.slice(-SHORT_LENGTH) : id;
}

/** The backfill that an id or a part of one means. Throws INPUT_INVALID when it means several. */
export async function backfillIdOf(client: Client, text: string): Promise<string> {
  // An id of somebody's own may be as short as a part of another.
  if (text.length < ULID_LENGTH && (await isBackfill(client, text))) return text;
  const newest = client.each("listBackfills", { query: { limit: 200 } });
  return fullId(text, 26, newest, ({ backfill_id }) => backfill_id);
}

async function isBackfill(client: Client, text: string): Promise<boolean> {
  try {
    await client.call("getBackfill", { params: { backfill_id: text } });
    return true;
  } catch (error) {
    if (error instanceof PawlError && error.code === "BACKFILL_NOT_FOUND") return false;
    throw error;
  }
}

/** The run that an id or a part of one means. Throws INPUT_INVALID when it means several. */
export function runIdOf(client: Client, text: string): Promise<string> {
  const newest = client.each("listRuns", { query: { limit: 200 } });
  return fullId(text, 30, newest, ({ run_id }) => run_id);
}

/** The schedule that a name, an id or the end of one means, as the API takes it. */
export function scheduleRefOf(client: Client, text: string): Promise<string> {
  const query = { limit: 200, status: "ACTIVE,PAUSED,DELETED" };
  return entityRefOf(text, () => client.each("listSchedules", { query }), "schedule_id");
}

/** The sensor that a name, an id or the end of one means, as the API takes it. */
export function sensorRefOf(client: Client, text: string): Promise<string> {
  const query = { limit: 200, status: "ACTIVE,PAUSED,ERROR,DELETED" };
  return entityRefOf(text, () => client.each("listSensors", { query }), "sensor_id");
}

/** The webhook that a name, an id or the end of one means, as the API takes it. */
export function webhookRefOf(client: Client, text: string): Promise<string> {
  const query = { limit: 200, status: "ACTIVE,PAUSED,DELETED" };
  return entityRefOf(text, () => client.each("listWebhooks", { query }), "webhook_id");
}

/** The sync that an id or the end of one means; the text itself when that is no part of one. */
export function syncIdOf(client: Client, text: string): Promise<string> {
  if (!CROCKFORD.test(text)) return Promise.resolve(text);
  const status = "PENDING,RUNNING,PAUSED,COMPLETE,FOLLOWING,FAILED,REMOVED";
  const syncs = client.each("listSyncs", { query: { limit: 200, status } });
  return fullId(text, 26, syncs, ({ sync_id }) => sync_id);
}

/**
 * The sync that an id, the end of one, `name@target` or the name of one with a single target means,
 * as the API takes it.
 */
export async function syncRefOf(client: Client, text: string): Promise<string> {
  if (text.includes("@") || text.length >= 26) return text;
  const id = await syncIdOf(client, text);
  if (id !== text) return id;
  const { items } = await client.call("listSyncs", { query: { name: text, limit: 2 } });
  const [only, other] = items;
  if (only === undefined) return text;
  if (other === undefined) return only.sync_id;
  throw new PawlError(
    "INPUT_INVALID",
    `${text} has several targets: name one of them, such as ${text}@${only.target_key}.`,
    { details: { name: text } },
  );
}

/** The split that an id or a part of one means. Throws INPUT_INVALID when it means several. */
export function splitIdOf(client: Client, text: string): Promise<string> {
  const newest = client.each("listSplits", { query: { limit: 200 } });
  return fullId(text, 26, newest, ({ split_id }) => split_id);
}

/** The move that an id, the end of one or the name of its definition means, as the API takes it. */
export function moveRefOf(client: Client, text: string): Promise<string> {
  if (!CROCKFORD.test(text)) return Promise.resolve(text);
  const newest = client.each("listMoves", { query: { limit: 200 } });
  return fullId(text, 26, newest, ({ move_id }) => move_id);
}

async function entityRefOf<
  Field extends string,
  Entity extends { [Name in Field]: string } & { name: string; state: string },
>(text: string, list: () => AsyncIterable<Entity>, field: Field): Promise<string> {
  if (!CROCKFORD.test(text) || text.length >= 26 || text.length < 4) return text;
  const known: Entity[] = [];
  for await (const entity of list()) {
    if (entity.name === text && entity.state !== "DELETED") return text;
    known.push(entity);
    if (known.length >= LOOKED_THROUGH_MAX) break;
  }
  return fullId(text, 26, known, (entity) => entity[field]);
}

async function fullId<Item>(
  text: string,
  fullLength: number,
  newest: AsyncIterable<Item> | Iterable<Item>,
  idOf: (item: Item) => string,
): Promise<string> {
  if (text.length >= fullLength || text.length < 4) return text;
  const matches: string[] = [];
  let looked = 0;
  for await (const item of newest) {
    const id = idOf(item);
    if (id.startsWith(text) || id.endsWith(text.toUpperCase())) matches.push(id);
    looked++;
    if (looked >= LOOKED_THROUGH_MAX) break;
  }
  if (matches.length <= 1) return matches[0] ?? text;
  throw new PawlError(
    "INPUT_INVALID",
    `${text} means ${matches.length} of them: ${matches.slice(0, 3).join(", ")}. Give more of the id.`,
    { details: { matches } },
  );
}
