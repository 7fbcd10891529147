import { setTimeout as sleep } from "node:timers/promises";
import type { Command } from "commander";
import type { Client } from "../../client/client.ts";
import type { Json } from "../../kernel/canonical.ts";
import { PawlError } from "../../kernel/errors.ts";
import { addMs } from "../../kernel/instant.ts";
import { compareText } from "../../kernel/table.ts";
import type { RunLogLineDocument } from "../../work/run/api.ts";
import { type OwnApi, shortId, withApi } from "../base/api.ts";
import { omitUndefined, option } from "../base/options.ts";
import { counted, paint, print, type Terminal } from "../base/terminal.ts";
import { act, type Cli, type GlobalOptions, projectOf } from "../cli.ts";
import { indented } from "../text/run.ts";
import { BACKFILL_ARGUMENT } from "./backfill.ts";
import { RUN_ARGUMENT } from "./run.ts";

type LogsOptions = GlobalOptions & { follow?: boolean; limit?: number };

/** Which lines of a run. */
type LinesOfRun = { run_id: string; task_key?: number; asset?: string; partition?: string };

/** Whose lines are shown; no run where a partition was never tried. */
type Wanted = { type: "run"; of: LinesOfRun | null } | { type: "backfill"; backfill_id: string };

const LIMIT_DEFAULT = 1_000;
const LIMIT_MAX = 100_000;
const PAGE_LINES = 1_000;
const FOLLOW_MS = 500;
/** Lines that were written at once may become visible in another order: so much is read again. */
const OVERLAP_MS = 5_000;
/** Unfinished runs that are looked through for one that makes a partition. */
const OPEN_RUNS_MAX = 1_000;

/** Adds the command that shows what tasks logged. */
export function addLogsCommand(program: Command, cli: Cli): void {
  program
    .command("logs")
    .description("show what tasks of a run, a partition or a backfill logged")
    .argument("<what>", "a run or a backfill, by its id or its short form, or the key of an asset")
    .argument("[part]", "of a run the number of a task, of an asset the key of a partition")
    .option("--follow", "go on with lines as they come, until the work has ended")
    .addOption(
      option.integer("--limit <n>", `only the newest (default: ${LIMIT_DEFAULT})`, 1, LIMIT_MAX),
    )
    .action(
      act(async (options: LogsOptions, what: string, part: string | undefined) => {
        await withApi(cli, options, "rows", async (api) => {
          const wanted = await wantedOf(api.client, what, part);
          const limit = options.limit ?? LIMIT_DEFAULT;
          if (options.follow === true) await follow(cli, api, options, wanted, limit);
          else await list(cli, api.client, wanted, limit);
        });
      }),
    );
}

async function wantedOf(client: Client, what: string, part: string | undefined): Promise<Wanted> {
  if (what.startsWith("run_")) {
    const run_id = await RUN_ARGUMENT.find(client, what);
    const task_key = part === undefined ? undefined : taskKeyOf(part);
    await client.call("getRun", { params: { run_id } });
    return { type: "run", of: omitUndefined({ run_id, task_key }) };
  }
  const [, asset = what, key = part] = /^([^@]+)@(.*)$/.exec(what) ?? [];
  if (key !== undefined) return { type: "run", of: await runOfPartition(client, asset, key) };
  const backfill_id = await BACKFILL_ARGUMENT.find(client, what);
  try {
    await client.call("getBackfill", { params: { backfill_id } });
    return { type: "backfill", backfill_id };
  } catch (error) {
    if (!isCode(error, "BACKFILL_NOT_FOUND")) throw error;
  }
  return { type: "run", of: await runOfPartition(client, what, "") };
}

function taskKeyOf(text: string): number {
  if (/^\d{1,9}$/.test(text)) return Number(text);
  throw new PawlError(
    "INPUT_INVALID",
    `Expected the number of a task behind the run, such as 0, got ${JSON.stringify(text)}. ` +
      "`pawl run show` lists the tasks of a run.",
  );
}

function isCode(error: unknown, code: PawlError["code"]): boolean {
  return error instanceof PawlError && error.code === code;
}

/** The run that makes a partition now, or else the last that tried to; null while none has. */
async function runOfPartition(
  client: Client,
  asset: string,
  key: string,
): Promise<LinesOfRun | null> {
  const params = { asset_key: asset };
  if (key === "") await refusePartitioned(client, asset);
  const around = { around: key, limit: 1 };
  const places =
    key === "" ? [] : (await client.call("listPartitionValues", { params, query: around })).items;
  const query = omitUndefined({ limit: 1, from: places[0]?.ordinal });
  const [partition] = (await client.call("listAssetPartitions", { params, query })).items;
  const of = omitUndefined({ asset, partition: key === "" ? undefined : key });
  const open = await openRunOf(client, asset, key);
  if (open !== null) {
    const first = { params: { run_id: open }, query: { ...of, limit: 1 } };
    const { items } = await client.call("listRunLogs", first);
    // One that has not come to the partition yet has nothing to tell of it.
    if (items.length > 0 || partition?.status === "IN_PROGRESS") return { run_id: open, ...of };
  }
  const last = partition?.last_attempt_run_id ?? open;
  return last === null ? null : { run_id: last, ...of };
}

async function refusePartitioned(client: Client, asset: string): Promise<void> {
  try {
    const { partition_count } = await client.call("getAsset", { params: { asset_key: asset } });
    if (partition_count === null) return;
  } catch (error) {
    if (!isCode(error, "ASSET_NOT_FOUND")) throw error;
    throw new PawlError(
      "ASSET_NOT_FOUND",
      `There is no run, no backfill and no asset ${JSON.stringify(asset)}. ` +
        "`pawl run list`, `pawl backfill list` and `pawl asset list` show those that there are.",
      { details: { asset_key: asset } },
    );
  }
  throw new PawlError(
    "INPUT_INVALID",
    `The asset ${asset} has partitions: say which, as in \`pawl logs ${asset} <key>\`. ` +
      "`pawl partitions list` shows them.",
  );
}

async function openRunOf(client: Client, asset: string, key: string): Promise<string | null> {
  const runs = client.each("listRuns", { query: { status: "PENDING,RUNNING", limit: 200 } });
  let looked = 0;
  for await (const { run_id, asset_selection, partition_keys, started_at } of runs) {
    const isOfKey = key === "" ? partition_keys === null : partition_keys?.includes(key) === true;
    if (isOfKey && started_at !== null && asset_selection.includes(asset)) return run_id;
    looked++;
    if (looked >= OPEN_RUNS_MAX) break;
  }
  return null;
}

/** Reads the lines of runs, each line once, however often a run is read. */
class LineReader {
  readonly #client: Client;
  /** Of each run that may be read again: the newest lines that were read. */
  readonly #read = new Map<string, { since: string; lines: Set<string> }>();

  constructor(client: Client) {
    this.#client = client;
  }

  /** The lines of a run that were not read before, task by task. */
  async *linesOf({ run_id, ...which }: LinesOfRun): AsyncGenerator<RunLogLineDocument> {
    const before = this.#read.get(run_id);
    const query = omitUndefined({ ...which, limit: PAGE_LINES, since: before?.since });
    const newest: { key: string; at: string }[] = [];
    let last = before?.since ?? "";
    for await (const line of this.#client.each("listRunLogs", { params: { run_id }, query })) {
      const key = `${line.task_key} ${line.line}`;
      newest.push({ key, at: line.at });
      if (line.at > last) last = line.at;
      if (before?.lines.has(key) !== true) yield line;
    }
    if (last === "") return;
    const overlap = addMs(last, -OVERLAP_MS);
    const since = before !== undefined && before.since > overlap ? before.since : overlap;
    const recent = newest.filter(({ at }) => at >= since).map(({ key }) => key);
    this.#read.set(run_id, { since, lines: new Set(recent) });
  }

  /** Says that a run is not read again. */
  forget(run_id: string): void {
    this.#read.delete(run_id);
  }
}

/** The newest of many lines; `leftOut` counts the others. */
class NewestLines {
  readonly #limit: number;
  #lines: RunLogLineDocument[] = [];
  leftOut = 0;

  constructor(limit: number) {
    this.#limit = limit;
  }

  get isFull(): boolean {
    return this.#lines.length >= this.#limit;
  }

  add(line: RunLogLineDocument): void {
    this.#lines.push(line);
    if (this.#lines.length >= 2 * this.#limit + PAGE_LINES) this.#cut();
  }

  /** Oldest first. */
  sorted(): RunLogLineDocument[] {
    this.#cut();
    return this.#lines;
  }

  #cut(): void {
    const all = this.#lines.toSorted(byTime);
    this.#lines = all.slice(-this.#limit);
    this.leftOut += all.length - this.#lines.length;
  }
}

/** Lines that came together have one time: then those of a task stay together. */
function byTime(one: RunLogLineDocument, other: RunLogLineDocument): number {
  return (
    compareText(one.at, other.at) ||
    compareText(one.run_id, other.run_id) ||
    one.task_key - other.task_key ||
    one.line - other.line
  );
}

/** Lines oldest first, and what is known of older ones that are not among them. */
type Gathered = { lines: RunLogLineDocument[]; leftOut: number; hasOlder: boolean };

/** The newest lines; of a backfill those of the runs of its last chunks. */
async function gather(
  client: Client,
  reader: LineReader,
  wanted: Wanted,
  limit: number,
): Promise<Gathered> {
  const newest = new NewestLines(limit);
  let hasOlder = false;
  if (wanted.type === "run") {
    if (wanted.of !== null) for await (const line of reader.linesOf(wanted.of)) newest.add(line);
  } else {
    const params = { backfill_id: wanted.backfill_id };
    for await (const { run_id } of client.each("listLoggedRuns", { params })) {
      hasOlder = newest.isFull;
      if (hasOlder) break;
      for await (const line of reader.linesOf({ run_id })) newest.add(line);
    }
  }
  const lines = newest.sorted();
  return { lines, leftOut: newest.leftOut, hasOlder: hasOlder || newest.leftOut > 0 };
}

async function list(cli: Cli, client: Client, wanted: Wanted, limit: number): Promise<void> {
  const { terminal } = cli;
  const gathered = await gather(client, new LineReader(client), wanted, limit);
  const { lines, hasOlder } = gathered;
  print(terminal, { lines, older_left_out: hasOlder }, () => {
    if (lines.length === 0) return "Nothing was logged.";
    return [...cutText(wanted, gathered), ...lines.map((line) => lineText(terminal, line))].join(
      "\n",
    );
  });
}

/** The line that stands where older ones are left out. */
function cutText(wanted: Wanted, { leftOut, hasOlder }: Gathered): string[] {
  if (!hasOlder) return [];
  // Of the other runs of a backfill nobody has counted the lines.
  const what = wanted.type === "run" ? counted(leftOut, "older line") : "older lines";
  return [`… ${what} left out here: --limit shows more.`];
}

async function follow(
  cli: Cli,
  api: OwnApi,
  options: GlobalOptions,
  wanted: Wanted,
  limit: number,
): Promise<void> {
  const { terminal, signal } = cli;
  const { client } = api;
  const say = (line: RunLogLineDocument): void => {
    // A stream has no end, so machines get a document on each line.
    const text = terminal.json ? JSON.stringify(line) : lineText(terminal, line);
    terminal.stdout.write(`${text}\n`);
  };
  const reader = new LineReader(client);
  // Before the lines are read: what begins meanwhile is new.
  const work = await followed(client, wanted);
  const gathered = await gather(client, reader, wanted, limit);
  if (!terminal.json)
    for (const text of cutText(wanted, gathered)) terminal.stdout.write(`${text}\n`);
  for (const line of gathered.lines) say(line);
  for (;;) {
    const { runs, isEnded } = await work.next();
    const lines: RunLogLineDocument[] = [];
    for (const { of, isOver } of runs) {
      for await (const line of reader.linesOf(of)) lines.push(line);
      if (isOver) reader.forget(of.run_id);
    }
    for (const line of lines.toSorted(byTime)) say(line);
    if (isEnded) return;
    refuseDeafFollow(cli, options, api.isEmbedded);
    await sleep(FOLLOW_MS, undefined, { signal });
  }
}

/** Without a server nobody works on an embedded store, so nothing would ever come. */
function refuseDeafFollow(cli: Cli, options: GlobalOptions, isEmbedded: boolean): void {
  if (!isEmbedded || projectOf(cli, options).config.database_url !== null) return;
  throw new PawlError(
    "SERVER_UNREACHABLE",
    "The work has not ended and no server runs for this project, so no line would come. Start one with `pawl start`.",
  );
}

/** Runs that may have new lines; what is over by now has written its last. */
type Round = { runs: { of: LinesOfRun; isOver: boolean }[]; isEnded: boolean };

/** Says, round by round, which runs may have new lines, and whether the work has ended. */
async function followed(client: Client, wanted: Wanted): Promise<{ next: () => Promise<Round> }> {
  if (wanted.type === "backfill") return followedBackfill(client, wanted.backfill_id);
  const { of } = wanted;
  return {
    async next() {
      if (of === null) return { runs: [], isEnded: true };
      const isOver = await isWorkOver(client, of);
      return { runs: [{ of, isOver }], isEnded: isOver };
    },
  };
}

async function isWorkOver(client: Client, { run_id, task_key }: LinesOfRun): Promise<boolean> {
  const { finished_at } = await client.call("getRun", { params: { run_id } });
  if (finished_at !== null || task_key === undefined) return finished_at !== null;
  const task = await client.call("getTask", { params: { run_id, task_key } });
  return task.finished_at !== null;
}

async function followedBackfill(client: Client, backfill_id: string) {
  const open = new Set<string>();
  const running = { backfill_id, status: "PENDING,RUNNING", limit: 200 };
  for await (const { run_id } of client.each("listRuns", { query: running })) open.add(run_id);
  const [newest] = (await client.call("listRuns", { query: { backfill_id, limit: 1 } })).items;
  let known = newest?.run_pos ?? 0;
  return {
    async next(): Promise<Round> {
      // Before its runs are looked at: one that has ended begins no more of them.
      const { finished_at } = await client.call("getBackfill", { params: { backfill_id } });
      let last = known;
      for await (const run of client.each("listRuns", { query: { backfill_id, limit: 200 } })) {
        if (run.run_pos <= known) break;
        last = Math.max(last, run.run_pos);
        open.add(run.run_id);
      }
      known = last;
      const runs: Round["runs"] = [];
      for (const run_id of open) {
        const isOver = await isWorkOver(client, { run_id });
        runs.push({ of: { run_id }, isOver });
        if (isOver) open.delete(run_id);
      }
      return { runs, isEnded: finished_at !== null };
    },
  };
}

/** What further lines of a message stand in by. */
const INDENT = 4;

const LEVEL_STYLES = { debug: "dim", info: "green", warn: "yellow", error: "red" } as const;

/** A line for people: time, level, run, task, attempt, what it says, and the stack of an error below. */
function lineText(terminal: Terminal, line: RunLogLineDocument): string {
  const at = paint(terminal, "dim", line.at.slice(0, 23).replace("T", " "));
  const level = paint(terminal, LEVEL_STYLES[line.level], line.level.padEnd(5));
  const task = `${shortId(line.run_id)}/${line.task_key} ${taskText(line)} #${line.attempt}`;
  const { stack, rest } = fieldsOf(line);
  const fields = rest === "" ? "" : ` ${paint(terminal, "dim", rest)}`;
  const below = stack === null ? "" : `\n${indented(stack)}`;
  // So that whatever begins at the edge is a line of the log.
  const message = indented(line.message).slice(INDENT);
  return `${at} ${level} ${task}  ${message}${fields}${below}`;
}

function taskText({ asset_key, partition_keys, partition_count }: RunLogLineDocument): string {
  const [first] = partition_keys;
  if (first === undefined) return asset_key;
  return `${asset_key} ${first}${partition_count > 1 ? ` … (${partition_count})` : ""}`;
}

function fieldsOf({ fields }: RunLogLineDocument): { stack: string | null; rest: string } {
  if (!isObject(fields))
    return { stack: null, rest: fields === null ? "" : JSON.stringify(fields) };
  const { stack, level: _level, ...others } = fields;
  const kept = typeof stack === "string" || stack === undefined ? others : { ...others, stack };
  const rest = Object.entries(kept).map(([name, value]) => `${name}=${JSON.stringify(value)}`);
  return { stack: typeof stack === "string" ? stack : null, rest: rest.join(" ") };
}

function isObject(value: Json): value is { readonly [key: string]: Json } {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
