import { setImmediate as nextTurn } from "node:timers/promises";
import type { AttentionDocument } from "../../work/server-api.ts";
import type { Instant } from "../../kernel/instant.ts";
import { BACKFILLS, type BackfillRow, type ChunkRow, CHUNKS } from "../../work/backfill/rows.ts";
import { loadPartitions } from "../../work/asset/partition-blocks.ts";
import { type RunRow, RUN_KEY_CONFLICTS, RUNS } from "../../work/run/rows.ts";
import { SCHEDULES, SCHEDULE_TICKS } from "../../work/schedule/rows.ts";
import { SENSORS } from "../../work/sensor/rows.ts";
import { OPEN_SPLITS, type SplitRow, SPLITS } from "../../work/split/rows.ts";
import { SYNCS } from "../../work/sync/rows.ts";
import type { Condition, Key } from "../../kernel/table.ts";
import type { Engine } from "../../engine/engine.ts";
import type { Reader } from "../../store/store.ts";
import { because, countedText, namesText, OF_A_KIND_MAX, syncName } from "./item.ts";
import { failurePattern } from "../../kernel/message-text.ts";

/** Partitions that are looked at for whether others have tried them since, for one overview. */
const LEFT_LOOKED_AT_MAX = 5_000;

/** Chunks that are read between two turns of the process, and partitions in them. */
const PAGE_CHUNKS = 100;
const PAGE_PARTITIONS = 10_000;

/** Backfills that are remembered. */
const REMEMBERED_MAX = 1_000;

/**
 * The chunk of each failed backfill from which on it is not known whether others have tried what it
 * left. What was tried since stays so: it never has to be looked at again.
 */
type LookedThrough = Map<string, number>;

const lookedThroughOf = new WeakMap<Engine, LookedThrough>();

/** Failed backfills that nothing has made good since, and those under way with failures. */
export async function failedBackfills(
  reader: Reader,
  engine: Engine,
  since: Instant,
): Promise<AttentionDocument[]> {
  const lookedThrough = lookedThroughOf.get(engine) ?? new Map<string, number>();
  lookedThroughOf.set(engine, lookedThrough);
  if (lookedThrough.size > REMEMBERED_MAX) lookedThrough.clear();
  const budget = { left: LEFT_LOOKED_AT_MAX };
  const ended = await reader.find({
    table: BACKFILLS,
    where: [
      { cell: "state", is: "=", value: "FAILED" },
      { cell: "finished_at", is: ">=", value: since },
    ],
    order: [{ cell: "created_pos", descending: true }],
    limit: OF_A_KIND_MAX,
  });
  const active = await reader.find({
    table: BACKFILLS,
    where: [
      { cell: "state", is: "=", value: "RUNNING" },
      { cell: "partitions_failed", is: ">", value: 0 },
    ],
    order: [{ cell: "created_pos", descending: true }],
    limit: OF_A_KIND_MAX,
  });
  const items: AttentionDocument[] = [];
  for (const row of [...active, ...ended]) {
    const retries = row.state === "FAILED" ? await retriesOf(reader, row) : [];
    // A retry that has ended speaks for what is left, unless more failed after it was made.
    const { finished_at } = row;
    const isSpokenFor = ({ state, created_at }: BackfillRow): boolean =>
      (state === "SUCCEEDED" || state === "FAILED") && created_at >= (finished_at ?? created_at);
    if (retries.some(isSpokenFor)) continue;
    if (row.state === "FAILED" && (await isMadeGood(reader, row, lookedThrough, budget))) continue;
    items.push(failedBackfill(row, retries));
  }
  return items;
}

/** Whether others have tried since, in whatever runs, all that an ended backfill left. */
async function isMadeGood(
  reader: Reader,
  backfill: BackfillRow,
  lookedThrough: LookedThrough,
  budget: { left: number },
): Promise<boolean> {
  const { backfill_id, chunk_size } = backfill;
  const limit = Math.max(1, Math.min(PAGE_CHUNKS, Math.floor(PAGE_PARTITIONS / chunk_size)));
  while (budget.left > 0) {
    const where: Condition[] = [
      { cell: "backfill_id", is: "=", value: backfill_id },
      { cell: "state", is: "in", values: ["FAILED", "CANCELLED"] },
      { cell: "chunk_index", is: ">=", value: lookedThrough.get(backfill_id) ?? 0 },
    ];
    const find = { table: CHUNKS, where, order: [{ cell: "chunk_index" }], limit };
    const chunks = await reader.find(find);
    for (const chunk of chunks) {
      if (!(await isTriedSince(reader, backfill, chunk, budget))) return false;
      lookedThrough.set(backfill_id, chunk.chunk_index + 1);
    }
    if (chunks.length < limit) return true;
    await nextTurn();
  }
  return false;
}

/** Whether an attempt of another run is the last one at all that a chunk left. */
async function isTriedSince(
  reader: Reader,
  { asset_selection }: BackfillRow,
  { run_pos, parts, failed, cancelled }: ChunkRow,
  budget: { left: number },
): Promise<boolean> {
  const [run] = run_pos === null ? [] : await reader.load(RUNS, [[run_pos]]);
  if (run === undefined) return false;
  const ordinals = parts.flatMap(({ from, to }) => ordinalsOf(from, to));
  // A run has the partitions of its chunk in the order of its parts.
  const keyOf = new Map(ordinals.map((ordinal, at) => [ordinal, run.partition_keys?.[at] ?? ""]));
  const left = [...(failed ?? []), ...(cancelled ?? [])].flatMap(({ asset, ordinals: intervals }) =>
    intervals
      .flatMap(([from, to]) => ordinalsOf(from, to))
      .map((ordinal): Key => [asset_selection[asset] ?? "", keyOf.get(ordinal) ?? ""]),
  );
  budget.left -= left.length;
  const rows = await loadPartitions(reader, left);
  const tried = rows.filter(
    // What was never begun has no attempt of this run, nor one that is later.
    ({ last_attempt_run_id, row_version }) =>
      last_attempt_run_id !== run.run_id && row_version > run.run_pos,
  );
  return tried.length === left.length;
}

function ordinalsOf(from: number, to: number): number[] {
  return Array.from({ length: to - from + 1 }, (_, at) => from + at);
}

async function retriesOf(reader: Reader, { backfill_id }: BackfillRow): Promise<BackfillRow[]> {
  const where = [{ cell: "parent_backfill_id", is: "=", value: backfill_id }] as const;
  const order = [{ cell: "created_pos", descending: true }];
  return reader.find({ table: BACKFILLS, where, order, limit: 20 });
}

function failedBackfill(row: BackfillRow, retries: readonly BackfillRow[]): AttentionDocument {
  const { partitions_failed, partitions_cancelled, partitions_total, state } = row;
  const isRetried = retries.some((retry) => retry.state === "RUNNING" || retry.state === "PENDING");
  const soFar = state === "RUNNING" ? " so far" : "";
  const retry = isRetried ? " A retry is under way." : "";
  const of = countedText(partitions_total, "partition");
  // A run that somebody cancelled leaves its backfill failed as well.
  const isCancelled = partitions_failed === 0 && partitions_cancelled > 0;
  const count = isCancelled ? partitions_cancelled : partitions_failed;
  return {
    kind: "backfill",
    id: row.backfill_id,
    name: namesText(row.asset_selection),
    what: "failed",
    since: row.finished_at ?? row.started_at,
    text:
      `${count.toLocaleString("en")} of ${of} ${isCancelled ? "were cancelled" : "failed"}${soFar}` +
      `${because(row.first_error)}${retry}`,
  };
}

/** Schedules whose last decided time could not be acted on. */
export async function failedTicks(reader: Reader, since: Instant): Promise<AttentionDocument[]> {
  const schedules = await reader.find({
    table: SCHEDULES,
    where: [
      { cell: "ticks_failed", is: ">", value: 0 },
      { cell: "state", is: "<>", value: "DELETED" },
    ],
    order: [{ cell: "schedule_id" }],
    limit: OF_A_KIND_MAX,
  });
  const items: AttentionDocument[] = [];
  for (const { schedule_id, name } of schedules) {
    const [tick] = await reader.find({
      table: SCHEDULE_TICKS,
      where: [{ cell: "schedule_id", is: "=", value: schedule_id }],
      order: [{ cell: "schedule_id" }, { cell: "pos", descending: true }],
      limit: 1,
    });
    if (tick?.status !== "failed" || tick.decided_at < since) continue;
    const text = `The tick at ${tick.scheduled_for} failed${because(tick.error)}`;
    items.push({
      kind: "schedule",
      id: schedule_id,
      name,
      what: "failed",
      since: tick.decided_at,
      text,
    });
  }
  return items;
}

/** Sensors whose last evaluation failed. */
export async function failedSensors(reader: Reader): Promise<AttentionDocument[]> {
  const sensors = await reader.find({
    table: SENSORS,
    where: [{ cell: "state", is: "=", value: "ERROR" }],
    order: [{ cell: "sensor_id" }],
    limit: OF_A_KIND_MAX,
  });
  return sensors.map(({ sensor_id, name, last_evaluation_at, error }) => ({
    kind: "sensor",
    id: sensor_id,
    name,
    what: "failed",
    since: last_evaluation_at,
    text: `The last evaluation failed${because(error)}`,
  }));
}

/** Syncs with a segment that waits to be tried again. */
export async function failedSyncs(reader: Reader): Promise<AttentionDocument[]> {
  const syncs = await reader.find({
    table: SYNCS,
    where: [
      { cell: "state", is: "in", values: ["RUNNING", "FOLLOWING"] },
      { cell: "status", is: "=", value: "FAILED" },
    ],
    order: [{ cell: "sync_id" }],
    limit: OF_A_KIND_MAX,
  });
  return syncs.map((row) => ({
    kind: "sync",
    id: row.sync_id,
    name: syncName(row),
    what: "failed",
    since: row.last_error_at,
    text:
      `${countedText(row.segments_failed, "segment")} failed and will be retried` +
      because(row.last_error),
  }));
}

/** Splits whose last step failed. */
export async function failedSplits(reader: Reader): Promise<AttentionDocument[]> {
  const splits = await reader.find({
    table: SPLITS,
    where: [OPEN_SPLITS, { cell: "error", is: "not null" }],
    order: [{ cell: "split_id" }],
    limit: OF_A_KIND_MAX,
  });
  return splits.map((row) => ({
    kind: "split",
    id: row.split_id,
    name: splitName(row),
    what: "failed",
    since: row.error_at,
    text: `Step ${row.step ?? ""} failed in phase ${row.phase.replaceAll("_", " ")}${because(row.error)}`,
  }));
}

/** A split as people tell it from others. */
export function splitName({ description, tenants, source, target }: SplitRow): string {
  return description ?? `${namesText(tenants)}: ${source} → ${target}`;
}

/** Run keys that requests for different things had in common. */
export async function conflicts(reader: Reader, since: Instant): Promise<AttentionDocument[]> {
  const rows = await reader.find({
    table: RUN_KEY_CONFLICTS,
    where: [{ cell: "detected_at", is: ">=", value: since }],
    order: [{ cell: "pos", descending: true }],
    limit: OF_A_KIND_MAX,
  });
  return [...Map.groupBy(rows, ({ run_id }) => run_id)].map(([run_id, [first, ...others]]) => ({
    kind: "conflict",
    id: run_id,
    name: first?.run_key ?? run_id,
    what: "failed",
    since: first?.detected_at ?? null,
    text:
      `${countedText(1 + others.length, "request")} reused this run key with other content, and made no ` +
      "run.",
  }));
}

/** Partitions that are looked at for whether a later run has made them good, in all. */
const PARTITIONS_LOOKED_AT_MAX = 5_000;

/** Runs that are read between two turns of the process: each may have thousands of partitions. */
const PAGE_RUNS = 20;

/** Partition keys of a run that are looked for in its message. */
const KEYS_MAX = 1_000;

/** Who asked for a run that stands for itself: work of syncs and shards is shown there. */
const OWN_TRIGGERS: ReadonlySet<string> = new Set(["manual", "schedule", "sensor"]);

/**
 * Failed runs of no backfill whose partitions no later run has dealt with; those of the same assets
 * and for the same cause are one, by the newest.
 */
export async function failedRuns(reader: Reader, since: Instant): Promise<AttentionDocument[]> {
  const alike = new Map<string, { newest: RunRow; others: number }>();
  let left = PARTITIONS_LOOKED_AT_MAX;
  for await (const run of runsFailed(reader, since)) {
    if (!OWN_TRIGGERS.has(run.trigger_source_ref.type)) continue;
    const pairs = run.asset_selection.length * (run.partition_keys?.length ?? 1);
    if (pairs <= left) {
      left -= pairs;
      if (await isRunMadeGood(reader, run, pairsOf(run))) continue;
    }
    const cause = causeOf(run);
    const known = alike.get(cause);
    if (known === undefined) alike.set(cause, { newest: run, others: 0 });
    else known.others += 1;
  }
  return [...alike.values()].map(({ newest, others }) => failedRun(newest, others));
}

/** The failed runs of no backfill, the newest first; others have their turn in between. */
async function* runsFailed(reader: Reader, since: Instant): AsyncGenerator<RunRow> {
  const where: Condition[] = [
    { cell: "state", is: "=", value: "FAILED" },
    { cell: "backfill_id", is: "null" },
    { cell: "finished_at", is: ">=", value: since },
  ];
  const order = [{ cell: "run_pos", descending: true }];
  let before: Condition[] = [];
  for (let seen = 0; seen < OF_A_KIND_MAX; seen += PAGE_RUNS) {
    const find = { table: RUNS, where: [...where, ...before], order, limit: PAGE_RUNS };
    const page = await reader.find(find);
    yield* page;
    const last = page.at(-1);
    if (last === undefined || page.length < PAGE_RUNS) return;
    before = [{ cell: "run_pos", is: "<", value: last.run_pos }];
    await nextTurn();
  }
}

function causeOf({ asset_selection, partition_keys, first_error }: RunRow): string {
  const message = first_error?.message ?? "";
  const keys = partition_keys?.slice(0, KEYS_MAX) ?? [];
  return JSON.stringify([asset_selection, first_error?.class, failurePattern(message, keys)]);
}

function pairsOf({ asset_selection, partition_keys }: RunRow): Key[] {
  const keys = partition_keys ?? [""];
  return asset_selection.flatMap((asset) => keys.map((key): Key => [asset, key]));
}

/** Whether some run has tried again all that this one left: what it has not is still this one's. */
async function isRunMadeGood(reader: Reader, run: RunRow, keys: readonly Key[]): Promise<boolean> {
  const rows = await loadPartitions(reader, keys);
  if (rows.length === 0) return false;
  return !rows.some(
    ({ last_attempt_run_id, last_attempt_outcome }) =>
      last_attempt_run_id === run.run_id && last_attempt_outcome !== "SUCCEEDED",
  );
}

function failedRun(run: RunRow, othersAlike: number): AttentionDocument {
  const { run_id, tasks_failed, tasks_total, partition_keys } = run;
  const of = partition_keys === null ? "" : ` of ${namesText(partition_keys)}`;
  return {
    kind: "run",
    id: run_id,
    name: namesText(run.asset_selection),
    what: "failed",
    since: run.finished_at,
    text:
      (othersAlike === 0
        ? ""
        : `${countedText(othersAlike + 1, "run")} failed with this error; in the last, `) +
      `${tasks_failed.toLocaleString("en")} of ${countedText(tasks_total, "task")}${of} failed` +
      because(run.first_error),
  };
}
