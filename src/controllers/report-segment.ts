import { boundedFailure } from "../core/events/fields.ts";
import type { SegmentRef } from "../core/events/run-events.ts";
import type { ReportedResult } from "../core/protocol.ts";
import type { Rows } from "../core/rows/rows.ts";
import type { SegmentRow } from "../core/rows/sync-rows.ts";
import type { SegmentReport } from "../core/segment-protocol.ts";
import { seesRewrites } from "./sync-lookup.ts";

/** Most characters of what is said of blocks that were set aside, all together: events have a limit. */
const MESSAGES_LENGTH_MAX = 200_000;

/**
 * A worker's report about a segment, held against the segment: a success that did not reach its last
 * block is a failure, and what it says of blocks that are not the segment's is left out.
 */
export function checkSegmentReport(
  rows: Rows,
  ref: SegmentRef,
  reported: ReportedResult,
): ReportedResult {
  if (reported.outcome === "SKIPPED") return failed(reported, "a segment cannot be skipped");
  if (ref.purpose === "verify") return reported;
  const segment = rows.segments.get(ref.sync_id, ref.segment_index);
  // The end of a run whose segment was opened again meanwhile changes nothing any more.
  if (segment === null || segment.generation !== ref.generation) return reported;
  const { segment: report, ...rest } = reported;
  const checked = report === undefined ? undefined : withinSegment(segment, report);
  const result = checked === undefined ? rest : { ...rest, segment: checked };
  if (reported.outcome !== "SUCCEEDED") return result;
  const done = checked?.last_processed_block ?? null;
  if (done === segment.to_block) {
    const conflict = hashConflict(rows, segment, checked?.end_hash ?? null);
    return conflict === null ? result : failed(result, conflict, "rewritten");
  }
  const { from_block, to_block } = segment;
  const reached = done === null ? "stored nothing" : `got to ${done}`;
  return failed(result, `success was reported of ${from_block} to ${to_block}, but it ${reached}`);
}

/**
 * Why what was fetched is not known to hold: another look saw another block in the place of its last
 * one. Either the next attempt sees that too and starts over, or the next look at the head sees what
 * this attempt saw, and opens the segment again. Where nobody looks any more, neither may ever come.
 */
export function hashConflict(
  rows: Rows,
  { sync_id, to_block }: SegmentRow,
  endHash: string | null,
): string | null {
  if (endHash === null) return null;
  const sync = rows.syncs.get(sync_id);
  if (sync === null || !seesRewrites(rows, sync.name)) return null;
  const source = rows.syncSources.get(sync.name, sync.source);
  const anchor = source?.anchors.find(({ block }) => block === to_block);
  if (anchor === undefined || anchor.hash === endHash) return null;
  return `block ${to_block} has the hash ${anchor.hash}, and had ${endHash} when it was fetched`;
}

function failed(
  reported: ReportedResult,
  message: string,
  name: "incomplete" | "rewritten" = "incomplete",
): ReportedResult {
  return { ...reported, outcome: "FAILED", error: { class: name, message } };
}

/** The report without what cannot be; nothing when its progress is none of the segment's. */
function withinSegment(segment: SegmentRow, report: SegmentReport): SegmentReport | undefined {
  const { from_block, to_block } = segment;
  const isWithin = (block: number): boolean => block >= from_block && block <= to_block;
  const done = report.last_processed_block;
  if (done !== null && !isWithin(done)) return undefined;
  const byBlock = new Map(report.quarantined.map((item) => [item.block, item]));
  const quarantined = [...byBlock.values()]
    .filter(({ block }) => isWithin(block))
    .toSorted((a, b) => a.block - b.block);
  const length = Math.floor(MESSAGES_LENGTH_MAX / Math.max(1, quarantined.length));
  return {
    ...report,
    quarantined: quarantined.map(({ block, error }) => ({
      block,
      error: boundedFailure(error, length),
    })),
  };
}
