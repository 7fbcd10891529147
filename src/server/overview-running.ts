import { RUNNING_MAX, type RunningDocument } from "../core/api/overview-documents.ts";
import { addMs, type Instant } from "../core/instant.ts";
import { type BackfillRow, BACKFILLS } from "../core/rows/backfill-rows.ts";
import { type MoveRow, MOVES } from "../core/rows/move-rows.ts";
import { type RunRow, RUNS } from "../core/rows/run-rows.ts";
import { type SplitRow, SPLITS } from "../core/rows/split-rows.ts";
import { type SyncRow, SYNCS } from "../core/rows/sync-rows.ts";
import type { AnyTable, Condition } from "../core/rows/table.ts";
import type { Reader } from "../store/store.ts";
import { backfillDocument } from "./backfill-document.ts";
import { moveDocuments } from "./move-document.ts";
import { splitName } from "./overview-failed.ts";
import { counted, namesText, syncName } from "./overview-item.ts";
import { recentChunks } from "./routes/backfills.ts";
import { liveSplits } from "./split-document.ts";
import { syncDocuments } from "./sync-document.ts";

/** Runs that are gone through for those of no backfill. */
const RUNS_LOOKED_AT = 500;

/** What is under way: what was asked for by somebody first, then what goes on by itself. */
export async function runningThings(reader: Reader, now: Instant): Promise<RunningDocument[]> {
  return [
    ...(await backfills(reader, now)),
    ...(await splits(reader)),
    ...(await moves(reader, now)),
    ...(await syncs(reader, now)),
    ...(await runs(reader)),
  ];
}

async function found<Row>(
  reader: Reader,
  table: AnyTable,
  where: readonly Condition[],
  along: string,
  limit = RUNNING_MAX,
): Promise<Row[]> {
  const order = [{ cell: along, descending: true }];
  return (await reader.find({ table, where, order, limit })) as Row[];
}

async function backfills(reader: Reader, now: Instant): Promise<RunningDocument[]> {
  const where: Condition[] = [{ cell: "state", is: "in", values: ["RUNNING", "CANCELLING"] }];
  const items: RunningDocument[] = [];
  for (const row of await found<BackfillRow>(reader, BACKFILLS, where, "created_pos")) {
    const document = backfillDocument(row, await recentChunks(reader, row), now);
    const { partitions_succeeded, partitions_failed, partitions_cancelled } = row;
    items.push({
      kind: "backfill",
      id: row.backfill_id,
      name: namesText(row.asset_selection),
      text: row.state === "CANCELLING" ? "is being cancelled" : chunksText(row.chunks_running),
      done: partitions_succeeded + partitions_failed + partitions_cancelled,
      total: row.partitions_total,
      unit: "partitions",
      failed: partitions_failed,
      rate_per_second: document.rate_per_second,
      eta_at: document.eta_at,
      started_at: row.started_at,
    });
  }
  return items;
}

function chunksText(running: number): string {
  return `${counted(running, "chunk")} at once`;
}

/** Runs that stand for themselves: those of backfills, syncs and shards are shown there. */
async function runs(reader: Reader): Promise<RunningDocument[]> {
  const where: Condition[] = [
    { cell: "state", is: "in", values: ["PENDING", "RUNNING"] },
    { cell: "backfill_id", is: "null" },
  ];
  const rows = await found<RunRow>(reader, RUNS, where, "run_pos", RUNS_LOOKED_AT);
  const own = rows.filter(
    ({ trigger_source_ref: { type } }) => type !== "sync" && type !== "shards",
  );
  return own.map((row) => ({
    kind: "run",
    id: row.run_id,
    name: namesText(row.asset_selection),
    text: `by ${row.trigger_source_ref.type === "manual" ? "hand" : `a ${row.trigger_source_ref.type}`}`,
    done: row.tasks_succeeded + row.tasks_failed + row.tasks_cancelled + row.tasks_skipped,
    total: row.tasks_total,
    unit: "tasks",
    failed: row.tasks_failed,
    rate_per_second: null,
    eta_at: null,
    started_at: row.started_at,
  }));
}

/** Syncs that catch up; those at the head are only counted. */
async function syncs(reader: Reader, now: Instant): Promise<RunningDocument[]> {
  const where: Condition[] = [{ cell: "state", is: "=", value: "RUNNING" }];
  const rows = await found<SyncRow>(reader, SYNCS, where, "sync_id");
  const documents = await syncDocuments(reader, rows, now);
  return documents.map((document) => ({
    kind: "sync",
    id: document.sync_id,
    name: syncName(document),
    text: `${counted(document.segments_running, "segment")} at once`,
    done: Math.min(document.blocks_complete, document.blocks_total),
    total: document.blocks_total,
    unit: "blocks",
    failed: document.segments_failed + document.segments_quarantined,
    rate_per_second: document.rate_blocks_per_second,
    eta_at: document.eta_at,
    started_at: document.started_at,
  }));
}

async function moves(reader: Reader, now: Instant): Promise<RunningDocument[]> {
  const where: Condition[] = [{ cell: "state", is: "=", value: "RUNNING" }];
  const rows = await found<MoveRow>(reader, MOVES, where, "move_id");
  const documents = await moveDocuments(reader, rows, new Set());
  return documents.map((document, index) => {
    const row = rows[index];
    const estimated = row?.rows_estimated ?? 0;
    return {
      kind: "move",
      id: document.move_id,
      name: document.name ?? document.move_id,
      text: `phase ${document.phase}`,
      done: Math.min(row?.rows_copied ?? 0, estimated),
      total: document.surveyed ? estimated : null,
      unit: "rows",
      failed: document.segments_poisoned,
      rate_per_second: document.rate_rows_per_second,
      eta_at: document.eta_seconds === null ? null : addMs(now, document.eta_seconds * 1_000),
      started_at: document.started_at,
    };
  });
}

async function splits(reader: Reader): Promise<RunningDocument[]> {
  const phases = ["dual_write", "backfill", "tailing", "cutover_pending", "reversible"];
  const where: Condition[] = [{ cell: "phase", is: "in", values: phases }];
  const rows = await found<SplitRow>(reader, SPLITS, where, "split_id");
  return (await liveSplits(reader, rows)).map(({ row }) => {
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
}
