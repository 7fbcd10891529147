import { setImmediate as nextTurn } from "node:timers/promises";
import type { AttentionDocument } from "../core/api/overview-documents.ts";
import type { Instant } from "../core/instant.ts";
import { BACKFILLS, type BackfillRow, type ChunkRow, CHUNKS } from "../core/rows/backfill-rows.ts";
import { type PartitionRow, PARTITIONS } from "../core/rows/partition-rows.ts";
import {
  type RunKeyConflictRow,
  type RunRow,
  RUN_KEY_CONFLICTS,
  RUNS,
} from "../core/rows/run-rows.ts";
import {
  SCHEDULES,
  SCHEDULE_TICKS,
  type ScheduleRow,
  type ScheduleTickRow,
} from "../core/rows/schedule-rows.ts";
import { type SensorRow, SENSORS } from "../core/rows/sensor-rows.ts";
import { type SplitRow, SPLITS } from "../core/rows/split-rows.ts";
import { type SyncRow, SYNCS } from "../core/rows/sync-rows.ts";
import type { Condition, Key } from "../core/rows/table.ts";
import type { Engine } from "../engine/engine.ts";
import type { Reader } from "../store/store.ts";
import { because, counted, namesText, OF_A_KIND_MAX, syncName } from "./overview-item.ts";

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
  const ended = (await reader.find({
    table: BACKFILLS,
    where: [
      { cell: "state", is: "=", value: "FAILED" },
      { cell: "finished_at", is: ">=", value: since },
    ],
    order: [{ cell: "created_pos", descending: true }],
    limit: OF_A_KIND_MAX,
  })) as BackfillRow[];
  const active = (await reader.find({
    table: BACKFILLS,
    where: [
      { cell: "state", is: "=", value: "RUNNING" },
      { cell: "partitions_failed", is: ">", value: 0 },
    ],
    order: [{ cell: "created_pos", descending: true }],
    limit: OF_A_KIND_MAX,
  })) as BackfillRow[];
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
    const chunks = (await reader.find(find)) as ChunkRow[];
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
  const [run] = run_pos === null ? [] : ((await reader.load(RUNS, [[run_pos]])) as RunRow[]);
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
  const rows = (await reader.load(PARTITIONS, left)) as PartitionRow[];
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
  return (await reader.find({ table: BACKFILLS, where, order, limit: 20 })) as BackfillRow[];
}

function failedBackfill(row: BackfillRow, retries: readonly BackfillRow[]): AttentionDocument {
  const { partitions_failed, partitions_cancelled, partitions_total, state } = row;
  const isRetried = retries.some((retry) => retry.state === "RUNNING" || retry.state === "PENDING");
  const soFar = state === "RUNNING" ? " so far" : "";
  const retry = isRetried ? " A retry is under way." : "";
  const of = counted(partitions_total, "partition");
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
  const schedules = (await reader.find({
    table: SCHEDULES,
    where: [
      { cell: "ticks_failed", is: ">", value: 0 },
      { cell: "state", is: "<>", value: "DELETED" },
    ],
    order: [{ cell: "schedule_id" }],
    limit: OF_A_KIND_MAX,
  })) as ScheduleRow[];
  const items: AttentionDocument[] = [];
  for (const { schedule_id, name } of schedules) {
    const [tick] = (await reader.find({
      table: SCHEDULE_TICKS,
      where: [{ cell: "schedule_id", is: "=", value: schedule_id }],
      order: [{ cell: "schedule_id" }, { cell: "pos", descending: true }],
      limit: 1,
    })) as ScheduleTickRow[];
    if (tick?.status !== "failed" || tick.decided_at < since) continue;
    const text = `Its time at ${tick.scheduled_for} could not be acted on${because(tick.error)}`;
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
  const sensors = (await reader.find({
    table: SENSORS,
    where: [{ cell: "state", is: "=", value: "ERROR" }],
    order: [{ cell: "sensor_id" }],
    limit: OF_A_KIND_MAX,
  })) as SensorRow[];
  return sensors.map(({ sensor_id, name, last_evaluation_at, error }) => ({
    kind: "sensor",
    id: sensor_id,
    name,
    what: "failed",
    since: last_evaluation_at,
    text: `Its last evaluation failed${because(error)}`,
  }));
}

/** Syncs with a segment that waits to be tried again. */
export async function failedSyncs(reader: Reader): Promise<AttentionDocument[]> {
  const syncs = (await reader.find({
    table: SYNCS,
    where: [
      { cell: "state", is: "in", values: ["RUNNING", "FOLLOWING"] },
      { cell: "status", is: "=", value: "FAILED" },
    ],
    order: [{ cell: "sync_id" }],
    limit: OF_A_KIND_MAX,
  })) as SyncRow[];
  return syncs.map((row) => ({
    kind: "sync",
    id: row.sync_id,
    name: syncName(row),
    what: "failed",
    since: row.last_error_at,
    text:
      `${counted(row.segments_failed, "segment")} failed and will be tried again` +
      because(row.last_error),
  }));
}

const OPEN_PHASES = [
  "planning",
  "dual_write",
  "backfill",
  "tailing",
  "cutover_pending",
  "reversible",
];

/** Splits whose last step failed. */
export async function failedSplits(reader: Reader): Promise<AttentionDocument[]> {
  const splits = (await reader.find({
    table: SPLITS,
    where: [
      { cell: "phase", is: "in", values: OPEN_PHASES },
      { cell: "error", is: "not null" },
    ],
    order: [{ cell: "split_id" }],
    limit: OF_A_KIND_MAX,
  })) as SplitRow[];
  return splits.map((row) => ({
    kind: "split",
    id: row.split_id,
    name: splitName(row),
    what: "failed",
    since: row.error_at,
    text: `Its step ${row.step ?? ""} failed in phase ${row.phase.replaceAll("_", " ")}${because(row.error)}`,
  }));
}

/** A split as people tell it from others. */
export function splitName({ description, tenants, source, target }: SplitRow): string {
  return description ?? `${namesText(tenants)}: ${source} → ${target}`;
}

/** Run keys that requests for different things had in common. */
export async function conflicts(reader: Reader, since: Instant): Promise<AttentionDocument[]> {
  const rows = (await reader.find({
    table: RUN_KEY_CONFLICTS,
    where: [{ cell: "detected_at", is: ">=", value: since }],
    order: [{ cell: "pos", descending: true }],
    limit: OF_A_KIND_MAX,
  })) as RunKeyConflictRow[];
  return [...Map.groupBy(rows, ({ run_id }) => run_id)].map(([run_id, [first, ...others]]) => ({
    kind: "conflict",
    id: run_id,
    name: first?.run_key ?? run_id,
    what: "failed",
    since: first?.detected_at ?? null,
    text:
      `${counted(1 + others.length, "request")} used this run key for something else than the ` +
      "request that made the run, and made none.",
  }));
}
