import { setImmediate as turnOfOthers } from "node:timers/promises";
import { RUNNING_MAX, type RunningDocument } from "../../work/server-api.ts";
import { addMs, type Instant } from "../../kernel/instant.ts";
import { type BackfillRow, BACKFILLS } from "../../work/backfill/rows.ts";
import { MOVES } from "../../work/move/rows.ts";
import { ACTIVE_RUNS, type RunRow, RUNS } from "../../work/run/rows.ts";
import { SPLITS } from "../../work/split/rows.ts";
import { SYNCS } from "../../work/sync/rows.ts";
import {
  type AnyRow,
  type AnyTable,
  type Condition,
  keyOf,
  type Table,
} from "../../kernel/table.ts";
import type { Reader } from "../../store/store.ts";
import { backfillDocument, extrasOf } from "../routes/backfills.ts";
import { moveDocuments } from "../routes/move-documents.ts";
import { splitName } from "./failed.ts";
import { countedText, namesText, syncName } from "./item.ts";
import { liveSplits } from "../routes/splits.ts";
import { syncDocuments } from "../routes/sync-documents.ts";

/** Unfinished runs of no backfill that are gone through for what they are part of, and how many at once. */
const RUNS_LOOKED_AT = 10_000;
const RUNS_AT_ONCE = 100;
/** How long their rows may be together, in characters. */
const LENGTH_LOOKED_AT = 32_000_000;

/** What is under way, as far as it is listed, and how much there is. */
type RunningThings = { items: RunningDocument[]; total: number };

/**
 * What is under way: what was asked for by somebody first, then what goes on by itself. Whatever a
 * worker is at belongs to something that is listed, also where that was paused or is at its head.
 */
export async function runningThings(
  reader: Reader,
  now: Instant,
): Promise<RunningThings & { isComplete: boolean }> {
  const active = await activeRuns(reader);
  const all = [
    await backfills(reader, now),
    await splits(reader, active.splits),
    await moves(reader, active.moves, now),
    await syncs(reader, active.syncs, now),
    { items: active.own.map(runningRun), total: active.ownTotal },
  ];
  return {
    items: all.flatMap(({ items }) => items),
    total: all.reduce((sum, { total }) => sum + total, 0),
    isComplete: active.isComplete,
  };
}

/**
 * Unfinished runs of no backfill: the newest of those that stand for themselves and how many there are,
 * and what others that run are part of, by id.
 */
type ActiveRuns = {
  own: RunRow[];
  ownTotal: number;
  /** Whether all were gone through. */
  isComplete: boolean;
  syncs: Set<string>;
  moves: Set<string>;
  splits: Set<string>;
};

async function activeRuns(reader: Reader): Promise<ActiveRuns> {
  const active: ActiveRuns = {
    own: [],
    ownTotal: 0,
    isComplete: false,
    syncs: new Set(),
    moves: new Set(),
    splits: new Set(),
  };
  let before = Number.MAX_SAFE_INTEGER;
  let length = 0;
  for (let looked = 0; looked < RUNS_LOOKED_AT; looked += RUNS_AT_ONCE) {
    const page = await activeRunsBefore(reader, before);
    for (const run of page) addRun(active, run);
    active.isComplete = page.length < RUNS_AT_ONCE;
    length += JSON.stringify(page).length;
    if (active.isComplete || length > LENGTH_LOOKED_AT) break;
    before = page.at(-1)?.run_pos ?? 0;
    await turnOfOthers();
  }
  return active;
}

async function activeRunsBefore(reader: Reader, before: number): Promise<RunRow[]> {
  const where: Condition[] = [
    ACTIVE_RUNS,
    { cell: "backfill_id", is: "null" },
    { cell: "run_pos", is: "<", value: before },
  ];
  const order = [{ cell: "run_pos", descending: true }];
  return reader.find({ table: RUNS, where, order, limit: RUNS_AT_ONCE });
}

function addRun(active: ActiveRuns, run: RunRow): void {
  const { trigger_source_ref: source, state } = run;
  if (!["sync", "shards", "work"].includes(source.type)) {
    active.ownTotal += 1;
    if (active.own.length < RUNNING_MAX) active.own.push(run);
  }
  if (state !== "RUNNING") return;
  if (source.type === "sync") active.syncs.add(source.sync_id);
  if (source.type !== "shards") return;
  if (source.work.work === "move") active.moves.add(source.work.move_id);
  else active.splits.add(source.work.split_id);
}

/** States in which something is under way by itself. */
type InStates = Extract<Condition, { is: "in" | "not in" }>;

/** What is in one of the states, and what else has a run; and how much that is. */
async function found<Row extends AnyRow>(
  reader: Reader,
  table: Table<Row>,
  where: InStates,
  along: string,
  withRun: ReadonlySet<string>,
): Promise<{ rows: Row[]; total: number }> {
  const order = [{ cell: along, descending: true }];
  const find = { table, where: [where], order, limit: RUNNING_MAX };
  const rows = await reader.find(find);
  const listed = new Set(rows.map((row) => String(keyOf(table, row)[0])));
  const missing = [...withRun].filter((id) => !listed.has(id)).map((id) => [id]);
  const others = (await reader.load(table, missing)).filter((row) => !isIn(row, where));
  const isAll = rows.length < RUNNING_MAX;
  const acting = isAll ? rows.length : await countOf(reader, table, where);
  return { rows: [...rows, ...others], total: acting + others.length };
}

function isIn(row: AnyRow, { cell, values }: InStates): boolean {
  return values.includes(row[cell] as string);
}

async function countOf(reader: Reader, table: AnyTable, where: InStates): Promise<number> {
  const groups = await reader.countBy(table, [where], [where.cell]);
  return groups.reduce((sum, { count }) => sum + count, 0);
}

/** Paused backfills whose chunks go on to their end. */
async function pausedAtWork(reader: Reader): Promise<ReadonlySet<string>> {
  const where: Condition[] = [
    { cell: "state", is: "=", value: "PAUSED" },
    { cell: "chunks_running", is: ">", value: 0 },
  ];
  const order = [{ cell: "created_pos", descending: true }];
  const find = { table: BACKFILLS, where, order, limit: RUNNING_MAX };
  const rows = await reader.find(find);
  return new Set(rows.map(({ backfill_id }) => backfill_id));
}

async function backfills(reader: Reader, now: Instant): Promise<RunningThings> {
  const where: InStates = { cell: "state", is: "in", values: ["RUNNING", "CANCELLING"] };
  const paused = await pausedAtWork(reader);
  const { rows, total } = await found(reader, BACKFILLS, where, "created_pos", paused);
  const items: RunningDocument[] = [];
  for (const row of rows) {
    const document = backfillDocument(row, await extrasOf(reader, row), now);
    const { partitions_succeeded, partitions_failed } = row;
    items.push({
      kind: "backfill",
      id: row.backfill_id,
      name: namesText(row.asset_selection),
      text: doingText(row),
      done: partitions_succeeded + partitions_failed,
      total: row.partitions_total,
      unit: "partitions",
      failed: partitions_failed,
      rate_per_second: document.rate_per_second,
      eta_at: document.eta_at,
      started_at: row.started_at,
    });
  }
  return { items, total };
}

function doingText({ state, chunks_running }: BackfillRow): string {
  if (state === "CANCELLING") return "cancelling";
  const chunks = `${countedText(chunks_running, "chunk")} running`;
  return state === "PAUSED" ? `paused; ${chunks}` : chunks;
}

/** How something stands whose last runs go on, where that is not by itself. */
function stoodText(state: string): string {
  if (state === "PAUSED") return "paused; ";
  if (state === "CANCELLED") return "cancelled; ";
  return state === "REMOVED" ? "removed; " : "";
}

/** A run that stands for itself: those of other work are shown there. */
function runningRun(row: RunRow): RunningDocument {
  const { type } = row.trigger_source_ref;
  return {
    kind: "run",
    id: row.run_id,
    name: namesText(row.asset_selection),
    text: `triggered by a ${type === "manual" ? "user" : type}`,
    done: row.tasks_succeeded + row.tasks_failed + row.tasks_skipped,
    total: row.tasks_total,
    unit: "tasks",
    failed: row.tasks_failed,
    rate_per_second: null,
    eta_at: null,
    started_at: row.started_at,
  };
}

/** Syncs that catch up, and those at the head while they fetch or verify. */
async function syncs(
  reader: Reader,
  withRun: ReadonlySet<string>,
  now: Instant,
): Promise<RunningThings> {
  const where: InStates = { cell: "state", is: "in", values: ["RUNNING"] };
  const { rows, total } = await found(reader, SYNCS, where, "sync_id", withRun);
  const documents = await syncDocuments(reader, rows, now);
  const items = documents.map(
    (document): RunningDocument => ({
      kind: "sync",
      id: document.sync_id,
      name: syncName(document),
      text:
        stoodText(document.state) +
        `${countedText(document.segments_running + document.verify_active, "segment")} running`,
      done: Math.min(document.blocks_complete, document.blocks_total),
      total: document.blocks_total,
      unit: "blocks",
      failed: document.segments_failed + document.segments_quarantined,
      rate_per_second: document.rate_blocks_per_second,
      eta_at: document.eta_at,
      started_at: document.started_at,
    }),
  );
  return { items, total };
}

async function moves(
  reader: Reader,
  withRun: ReadonlySet<string>,
  now: Instant,
): Promise<RunningThings> {
  const where: InStates = { cell: "state", is: "in", values: ["RUNNING"] };
  const { rows, total } = await found(reader, MOVES, where, "move_id", withRun);
  const documents = await moveDocuments(reader, rows, new Set());
  const items = documents.map((document, index): RunningDocument => {
    const row = rows[index];
    const estimated = row?.rows_estimated ?? 0;
    return {
      kind: "move",
      id: document.move_id,
      name: document.name ?? document.move_id,
      text: `${stoodText(document.state)}phase ${document.phase}`,
      done: Math.min(row?.rows_copied ?? 0, estimated),
      total: document.surveyed ? estimated : null,
      unit: "rows",
      failed: document.segments_poisoned,
      rate_per_second: document.rate_rows_per_second,
      eta_at: document.eta_seconds === null ? null : addMs(now, document.eta_seconds * 1_000),
      started_at: document.started_at,
    };
  });
  return { items, total };
}

async function splits(reader: Reader, withRun: ReadonlySet<string>): Promise<RunningThings> {
  const phases = ["dual_write", "backfill", "tailing", "cutover_pending", "reversible"];
  const where: InStates = { cell: "phase", is: "in", values: phases };
  const { rows, total } = await found(reader, SPLITS, where, "split_id", withRun);
  const items = (await liveSplits(reader, rows)).map(({ row }): RunningDocument => {
    const lag = row.tail_lag_ms === null ? "" : `, ${row.tail_lag_ms} ms behind`;
    return {
      kind: "split",
      id: row.split_id,
      name: splitName(row),
      text: `phase ${row.phase.replaceAll("_", " ")}${lag}`,
      done: row.total_rows_copied,
      total: null,
      unit: "rows",
      failed: 0,
      rate_per_second: null,
      eta_at: null,
      started_at: row.dual_write_started_at,
    };
  });
  return { items, total };
}
