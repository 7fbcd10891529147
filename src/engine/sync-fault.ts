import { syncStateChanged, stopRuns } from "../controllers/sync-state.ts";
import type { Decide } from "../controllers/decision.ts";
import { tilingFault } from "../controllers/tiling.ts";
import type { Rows } from "../core/rows/rows.ts";
import type { SegmentRow, SyncRow } from "../core/rows/sync-rows.ts";
import type { Condition } from "../core/rows/table.ts";
import { TABLES } from "../core/rows/tables.ts";
import type { Reader } from "../store/store.ts";

/** Segments that one look-up brings. */
const PAGE = 2_000;

/** The order in which segments tile a range; of several with one beginning, which none should have. */
const BY_BLOCK = [{ cell: "from_block" }, { cell: "segment_index" }];

/** What is wrong with a sync by all its segments, in order of their blocks; null when nothing is. */
export function syncFault(sync: SyncRow, segments: readonly SegmentRow[]): string | null {
  const fault = tilingFault(segments, sync.from_block, sync.planned_to);
  if (fault !== null) return fault;
  if (segments.length !== sync.segments_total) {
    return `there are ${segments.length} segments, and ${sync.segments_total} are counted`;
  }
  const open = segments.find(({ status }) => status !== "COMPLETE");
  if (open === undefined || sync.synced_to < open.from_block) return null;
  return (
    `it counts as synced to ${sync.synced_to}, but segment ${open.segment_index} ` +
    `(${open.from_block} to ${open.to_block}) is ${open.status}`
  );
}

function pageOf(syncId: string, last: SegmentRow | undefined): Condition[] {
  const own: Condition = { cell: "sync_id", is: "=", value: syncId };
  if (last === undefined) return [own];
  const key = [last.from_block, last.segment_index];
  return [own, { cells: ["from_block", "segment_index"], is: "after", key }];
}

/** All segments of a sync, in order of their blocks. */
export async function readSegments(reader: Reader, syncId: string): Promise<SegmentRow[]> {
  const segments: SegmentRow[] = [];
  for (;;) {
    const where = pageOf(syncId, segments.at(-1));
    const find = { table: TABLES.segments, where, order: BY_BLOCK, limit: PAGE };
    const page = (await reader.find(find)) as SegmentRow[];
    segments.push(...page);
    if (page.length < PAGE) return segments;
  }
}

function segmentsIn(rows: Rows, syncId: string): SegmentRow[] {
  const segments: SegmentRow[] = [];
  for (;;) {
    const page = rows.segments.find(pageOf(syncId, segments.at(-1)), BY_BLOCK, PAGE);
    segments.push(...page);
    if (page.length < PAGE) return segments;
  }
}

/** Pauses a sync whose segments are not whole, and answers what is wrong; null when nothing is. */
export function pauseFaulty(syncId: string): Decide<string | null> {
  return (rows, context) => {
    const sync = rows.syncs.get(syncId);
    if (sync === null || sync.state === "REMOVED") return { events: [], result: null };
    const fault = syncFault(sync, segmentsIn(rows, syncId));
    if (fault === null || sync.state === "PAUSED") return { events: [], result: fault };
    const reason = `its segments do not add up: ${fault}`;
    const paused = syncStateChanged(sync, "PAUSED", { reason });
    return { events: [paused, ...stopRuns(rows, sync, false, context)], result: fault };
  };
}
