import { readFileSync } from "node:fs";
import type { Client } from "../../client/client.ts";
import { canonicalJson, type Json } from "../../kernel/canonical.ts";
import { PawlError } from "../../kernel/errors.ts";
import type { PartInput } from "../../work/operations.ts";
import { type FlagValues, omitUndefined, option, selectorOfFlags } from "../base/options.ts";
import { type CommandSubject, type Outcome, outcomeOf, subcommand } from "../base/subcommands.ts";

type Item = PartInput<"reportPartitions", "body">["items"][number];
type Selector = Item["selector"];

/** What is said of one partition, as a file or a query has it. */
type Line = Omit<Item, "selector"> & { partition_key: string };

/** Most keys, items and characters of one request. */
const KEYS_SENT = 10_000;
const ITEMS_SENT = 1_000;
const CHARACTERS_SENT = 500_000;

/** Keys that one item names. */
const KEYS_PAGE = 500;

const FLAGS = {
  start: option.text("--start <key>", "the first partition of a range, or a day, month or year"),
  end: option.text(
    "--end <key>",
    "the last of the range, or a day, month or year (default: the last there is)",
  ),
  partitions: option.text("--partitions <keys>", "partition keys separated by commas"),
  filter: option.repeated("--filter <dimension=pattern>", "what matches, such as region=us-*"),
  all: option.switch("--all", "every partition there is"),
  file: option.text(
    "--file <path>",
    "a key on each line, or a JSON object such as {partition_key}",
  ),
  sql: option.text("--sql <query>", "a row for each partition; its key is the first column"),
  database: option.text("--database <url>", "with --sql: a PostgreSQL URL or an SQLite file"),
  at: option.instant("--at <time>", "when they were made (default: now)"),
  codeVersion: option.text("--code-version <text>", "the version of the code that made them"),
  metadata: option.json("--metadata <json>", "what is known of them"),
  forget: option.switch("--forget", "take reports back instead"),
};

/** `pawl partitions report`: what was made elsewhere counts as materialized. */
export function reportCommand(about: CommandSubject) {
  return subcommand({
    description: "record partitions as materialized that were made elsewhere, or take that back",
    about,
    flags: FLAGS,
    need: "definitions",
    prepare: ({ flags }) => refuseMixed(flags),
    async run({ client, ref: asset_key, flags }): Promise<Outcome> {
      const common = omitUndefined({
        materialized_at: flags.at,
        code_version: flags.codeVersion,
        metadata: flags.metadata?.value,
      });
      const items = await itemsOf(flags, common);
      return flags.forget === true
        ? forget(client, asset_key, items)
        : report(client, asset_key, items);
    },
  });
}

type Flags = FlagValues<typeof FLAGS>;

function refuseMixed({ file, sql, database, forget: isForget, ...flags }: Flags): void {
  const { start, end, partitions, filter, all, at, codeVersion, metadata } = flags;
  const selects = [start, end, partitions, filter, all].some((flag) => flag !== undefined);
  const ways = [selects, file !== undefined, sql !== undefined].filter(Boolean).length;
  if (ways !== 1) {
    throw new PawlError(
      "INPUT_INVALID",
      "Which partitions: expected one of --start and --end, --partitions, --filter, --all, --file and " +
        `--sql, got ${ways === 0 ? "none" : "several"}.`,
    );
  }
  if ((sql === undefined) !== (database === undefined)) {
    const [given, missing] = sql === undefined ? ["--database", "--sql"] : ["--sql", "--database"];
    throw new PawlError("INPUT_INVALID", `${given} needs ${missing}: got one without the other.`);
  }
  const said = [at, codeVersion, metadata].some((flag) => flag !== undefined);
  if (isForget !== true || !said) return;
  throw new PawlError(
    "INPUT_INVALID",
    "--forget takes reports back: leave --at, --code-version and --metadata out.",
  );
}

async function itemsOf(flags: Flags, common: Omit<Item, "selector">): Promise<Item[]> {
  if (flags.file !== undefined) return grouped(linesOf(flags.file), common);
  if (flags.sql !== undefined)
    return grouped(await rowsOf(flags.database ?? "", flags.sql), common);
  return [{ selector: selectorOfFlags(flags) as Selector, ...common }];
}

/** Lines that say the same, as one item each. */
function grouped(lines: readonly Line[], common: Omit<Item, "selector">): Item[] {
  const groups = new Map<string, { said: Omit<Item, "selector">; partition_keys: string[] }>();
  for (const { partition_key, ...own } of lines) {
    const said = { ...common, ...own };
    const name = canonicalJson(said);
    const group = groups.get(name) ?? { said, partition_keys: [] };
    group.partition_keys.push(partition_key);
    groups.set(name, group);
  }
  return [...groups.values()].flatMap(({ said, partition_keys: keys }) =>
    Array.from({ length: Math.ceil(keys.length / KEYS_PAGE) }, (_, page): Item => {
      const partition_keys = keys.slice(page * KEYS_PAGE, (page + 1) * KEYS_PAGE);
      return { selector: { type: "explicit", partition_keys }, ...said };
    }),
  );
}

/** The keys that a file has, one on each line. */
export function keysInFile(path: string): string[] {
  return linesOf(path).map(({ partition_key }) => partition_key);
}

function linesOf(path: string): Line[] {
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new PawlError("INPUT_INVALID", `--file: ${path} cannot be read: ${why}.`);
  }
  const lines = text.split(/\r?\n/).map((line) => line.trim());
  return lines.flatMap((line, index): Line[] => {
    if (line === "") return [];
    return [line.startsWith("{") ? objectLine(path, line, index + 1) : { partition_key: line }];
  });
}

function objectLine(path: string, line: string, number: number): Line {
  const wrong = (what: string): PawlError =>
    new PawlError(
      "INPUT_INVALID",
      `--file: line ${number} of ${path} ${what}. Expected a key, or a JSON object with ` +
        "partition_key, and perhaps materialized_at, code_version and metadata.",
      { details: { line: number } },
    );
  let value: Record<string, Json>;
  try {
    value = JSON.parse(line) as Record<string, Json>;
  } catch {
    throw wrong("is no JSON");
  }
  const { partition_key, materialized_at, code_version, metadata, ...others } = value;
  if (typeof partition_key !== "string") throw wrong("has no text as its partition_key");
  const [odd] = Object.keys(others);
  if (odd !== undefined) throw wrong(`has a field ${JSON.stringify(odd)}`);
  return {
    partition_key,
    ...textsOf({ materialized_at, code_version }, wrong),
    ...metadataOf(metadata),
  };
}

function metadataOf(metadata: Json | undefined): Pick<Line, "metadata"> {
  return metadata === undefined || metadata === null ? {} : { metadata };
}

function textsOf(
  fields: Record<"materialized_at" | "code_version", Json | undefined>,
  wrong: (what: string) => PawlError,
): Pick<Line, "materialized_at" | "code_version"> {
  for (const [name, value] of Object.entries(fields)) {
    if (value === undefined || value === null || typeof value === "string") continue;
    throw wrong(`has a ${name} that is no text`);
  }
  const { materialized_at: at, code_version: version } = fields;
  return {
    ...(typeof at === "string" ? { materialized_at: at } : {}),
    ...(typeof version === "string" ? { code_version: version } : {}),
  };
}

/** The rows of a query: the first column is the key, others by their names. */
async function rowsOf(database: string, sql: string): Promise<Line[]> {
  const rows = /^postgres(ql)?:/.test(database)
    ? await postgresRows(database, sql)
    : await sqliteRows(database, sql);
  return rows.map((row) => {
    const [[, key] = ["", null], ...rest] = Object.entries(row);
    if (isNothing(key)) {
      throw new PawlError("INPUT_INVALID", "--sql: a row has no key in its first column.");
    }
    const { materialized_at, code_version, ...metadata } = Object.fromEntries(rest);
    return {
      partition_key: textOf(key),
      ...(isNothing(materialized_at) ? {} : { materialized_at: textOf(materialized_at) }),
      ...(isNothing(code_version) ? {} : { code_version: textOf(code_version) }),
      ...(Object.keys(metadata).length === 0 ? {} : { metadata: plain(metadata) }),
    };
  });
}

function isNothing(value: unknown): boolean {
  return value === null || value === undefined;
}

function textOf(value: unknown): string {
  return value instanceof Date ? value.toISOString() : String(value);
}

function plain(value: unknown): Json {
  return JSON.parse(
    JSON.stringify(value, (_name, each: unknown) =>
      typeof each === "bigint" ? String(each) : each,
    ),
  ) as Json;
}

type Row = Record<string, unknown>;

async function postgresRows(url: string, sql: string): Promise<Row[]> {
  const { default: pg } = await import("pg");
  // Days as they are written: a Date would be one in the zone of this machine.
  const types = new pg.TypeOverrides();
  types.setTypeParser(pg.types.builtins.DATE, String);
  try {
    const client = new pg.Client({ connectionString: url, types });
    try {
      await client.connect();
      // Extended, or several statements would be run, and answered with as many results.
      const query = { text: sql, queryMode: "extended" };
      return (await client.query<Row>(query)).rows;
    } finally {
      await client.end().catch(() => undefined);
    }
  } catch (error) {
    throw queryFailed(error);
  }
}

async function sqliteRows(path: string, sql: string): Promise<Row[]> {
  const { default: Database } = await import("better-sqlite3");
  try {
    const connection = new Database(path, { readonly: true, fileMustExist: true });
    try {
      return connection.prepare<[], Row>(sql).all();
    } finally {
      connection.close();
    }
  } catch (error) {
    throw queryFailed(error);
  }
}

function queryFailed(error: unknown): PawlError {
  const why = error instanceof Error ? error.message : String(error);
  return new PawlError("INPUT_INVALID", `--sql: the query failed: ${why}.`);
}

/** Sends items in as few requests as they fit into. */
async function report(client: Client, asset_key: string, items: readonly Item[]): Promise<Outcome> {
  let reported = 0;
  for (const batch of batchesOf(items)) {
    const body = { items: batch };
    const sent = client.call("reportPartitions", { params: { asset_key }, body });
    reported += (await sent.catch((error: unknown) => Promise.reject(after(error, reported))))
      .reported;
  }
  return outcomeOf({ asset_key, reported }, () => {
    return `Recorded ${counted(reported)} of ${asset_key} as materialized.`;
  });
}

/** A refusal that says what had been recorded before it. */
function after(error: unknown, reported: number): unknown {
  if (reported === 0 || !(error instanceof PawlError)) return error;
  const { code, message, details } = error;
  return new PawlError(code, `${message} ${counted(reported)} had been recorded before.`, {
    details: { ...details, reported },
    cause: error,
  });
}

function batchesOf(items: readonly Item[]): Item[][] {
  const batches: Item[][] = [];
  let keys = 0;
  let characters = 0;
  for (const item of items) {
    const { selector } = item;
    const own = selector.type === "explicit" ? selector.partition_keys.length : KEYS_SENT;
    const { length } = JSON.stringify(item);
    const last = batches.at(-1);
    const isFull = keys + own > KEYS_SENT || characters + length > CHARACTERS_SENT;
    if (last === undefined || last.length >= ITEMS_SENT || isFull) {
      batches.push([item]);
      keys = own;
      characters = length;
    } else {
      last.push(item);
      keys += own;
      characters += length;
    }
  }
  return batches;
}

async function forget(client: Client, asset_key: string, items: readonly Item[]): Promise<Outcome> {
  let forgotten = 0;
  let left = 0;
  for (const { selector } of items) {
    const answer = await client.call("forgetPartitions", {
      params: { asset_key },
      body: { selector },
    });
    forgotten += answer.forgotten;
    left += answer.left;
  }
  return outcomeOf({ asset_key, forgotten, left }, () => {
    const stay = left === 1 ? "stays as it is" : "stay as they are";
    const rest = left === 0 ? "" : ` ${counted(left)} had no report, and ${stay}.`;
    return `Took the reports of ${counted(forgotten)} of ${asset_key} back.${rest}`;
  });
}

function counted(count: number): string {
  return `${count} ${count === 1 ? "partition" : "partitions"}`;
}
