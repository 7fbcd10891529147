import {
  LANES_SHOWN_MAX,
  MOVE_FIELDS,
  type MoveDetails,
  type MoveDocument,
} from "../core/api/move-documents.ts";
import {
  MOVE_SEGMENTS,
  type MovePhase,
  type MoveRow,
  type MoveSegmentRow,
} from "../core/rows/move-rows.ts";
import { shardWorkName } from "../core/shard-spec.ts";
import type { Reader } from "../store/store.ts";
import { nextOfMove } from "./move-next.ts";
import { pickFields } from "./pick-fields.ts";
import { percent } from "./sync-document.ts";

/** Moves as the API lists them. */
export async function moveDocuments(
  reader: Reader,
  rows: readonly MoveRow[],
  claimed: ReadonlySet<string>,
): Promise<MoveDocument[]> {
  const documents: MoveDocument[] = [];
  for (const row of rows) {
    documents.push(documentOf(row, await currentSegment(reader, row), claimed));
  }
  return documents;
}

/** A move with all that is known of it. */
export async function moveDetails(
  reader: Reader,
  row: MoveRow,
  claimed: ReadonlySet<string>,
): Promise<MoveDetails> {
  const document = documentOf(row, await currentSegment(reader, row), claimed);
  const lanes = row.lanes.slice(0, LANES_SHOWN_MAX).map(({ table, from, to, sealed }, lane) => ({
    lane,
    ...table,
    from,
    to,
    sealed,
  }));
  return { ...document, from: row.plan.from, to: row.plan.to, lanes };
}

/** The first of the segments that have a run; null when none has. */
export async function currentSegment(reader: Reader, row: MoveRow): Promise<number | null> {
  if (row.segments_active === 0) return null;
  const [first] = (await reader.find({
    table: MOVE_SEGMENTS,
    where: [
      { cell: "move_id", is: "=", value: row.move_id },
      { cell: "run_pos", is: "not null" },
    ],
    order: [{ cell: "segment_index" }],
    limit: 1,
  })) as MoveSegmentRow[];
  return first?.segment_index ?? null;
}

function documentOf(
  row: MoveRow,
  current_segment: number | null,
  claimed: ReadonlySet<string>,
): MoveDocument {
  const { plan, lanes } = row;
  const lacks_worker = lacksWorker(row, claimed);
  const phase = phaseOfMove(row);
  // What an earlier look found does not count any more.
  const found = row.check_ok === null ? null : row.check_report;
  return {
    ...pickFields(row, MOVE_FIELDS),
    dry_run: row.dry_run === 1,
    phase,
    shards_from: distinct(lanes.map(({ from }) => from)),
    shards_to: distinct(lanes.map(({ to }) => to)),
    tables: distinct(lanes.map(({ table }) => table.table)),
    strategy: plan.strategy,
    replication_lag_ms: plan.replication_lag_ms,
    segment_attempts: plan.segment_attempts,
    retry_budget: plan.retry_budget,
    keep_source: plan.keep_source,
    lanes_total: lanes.length,
    surveyed: isSurveyed(row),
    lacks_worker,
    current_segment,
    progress_pct: percent(settledSegments(row), row.segments_total),
    rate_rows_per_second: rowsPerSecond(row),
    eta_seconds: etaSeconds(row),
    check: {
      n: row.checks,
      running: row.check_run_pos !== null,
      answers: row.checked_n,
      ok: row.check_ok === null ? null : row.check_ok === 1,
      note: found?.note ?? null,
      excepted: found?.excepted ?? 0,
      misplaced: found?.misplaced ?? [],
    },
    next: nextOfMove(row, phase, lacks_worker),
  };
}

function distinct(names: readonly string[]): string[] {
  return [...new Set(names)];
}

function isSurveyed({ lanes, lanes_sealed }: MoveRow): boolean {
  return lanes_sealed === lanes.length;
}

/** Whether there is something to do between shards that nobody has asked for lately. */
function lacksWorker(row: MoveRow, claimed: ReadonlySet<string>): boolean {
  const isSurvey = row.state === "PLANNED";
  if (!isSurvey && row.state !== "RUNNING") return false;
  return row.lanes.some(({ from, to, sealed }) => {
    // A survey needs only the shard that it is of.
    const name = isSurvey || !sealed ? shardWorkName(from) : shardWorkName(from, to);
    return !(isSurvey && sealed) && !claimed.has(name);
  });
}

/** What a move is busy with, or would be if it went on; of a cancelled one, how far it came. */
export function phaseOfMove(row: MoveRow): MovePhase {
  if (row.state === "COMPLETE") return "done";
  if (!isSurveyed(row) || row.state === "PLANNED" || row.started_at === null) return "survey";
  if (row.segments_pending > 0 || row.segments_poisoned > 0) return "copy";
  if (row.segments_copied > 0 && !row.plan.keep_source) return "remove";
  return "check";
}

/** Segments that need no copying any more. */
export function settledSegments(row: MoveRow): number {
  return row.segments_copied + row.segments_removed + row.segments_excluded;
}

/** What the segments do together that can still run, by the work so far and within the limit. */
function rowsPerSecond(row: MoveRow): number | null {
  const { state, segments_pending, rows_copied, work_ms, segment_concurrency } = row;
  if (state !== "RUNNING" || segments_pending === 0 || rows_copied === 0 || work_ms === 0) {
    return null;
  }
  const atOnce = Math.min(segments_pending, segment_concurrency);
  const rate = (rows_copied / work_ms) * 1_000 * atOnce;
  const limited = Math.min(rate, row.rows_per_second ?? Number.POSITIVE_INFINITY);
  return Math.max(0.001, Math.round(limited * 1_000) / 1_000);
}

function etaSeconds(row: MoveRow): number | null {
  const rate = rowsPerSecond(row);
  if (rate === null || !isSurveyed(row)) return null;
  return Math.ceil(Math.max(0, row.rows_estimated - row.rows_copied) / rate);
}
