import type { SegmentRef } from "../core/events/run-events.ts";
import type { ReportedResult } from "../core/protocol.ts";
import type { Failure } from "../core/rows/backfill-rows.ts";
import type { Rows } from "../core/rows/rows.ts";
import type { SegmentRow } from "../core/rows/sync-rows.ts";
import type { SegmentReport } from "../core/segment-protocol.ts";

/** Most characters of what is said of blocks that were set aside, all together: events have a limit. */
const MESSAGES_LENGTH_MAX = 200_000;
const CLASS_LENGTH_MAX = 40;

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
  const done = checked?.last_processed_block ?? null;
  if (reported.outcome !== "SUCCEEDED" || done === segment.to_block) return result;
  const { from_block, to_block } = segment;
  const reached = done === null ? "stored nothing" : `got to ${done}`;
  return failed(result, `success was reported of ${from_block} to ${to_block}, but it ${reached}`);
}

function failed(reported: ReportedResult, message: string): ReportedResult {
  return { ...reported, outcome: "FAILED", error: { class: "incomplete", message } };
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
    quarantined: quarantined.map(({ block, error }) => ({ block, error: cut(error, length) })),
  };
}

function cut({ class: name, message }: Failure, length: number): Failure {
  return {
    class: name.slice(0, CLASS_LENGTH_MAX).toWellFormed(),
    message: message.slice(0, length).toWellFormed(),
  };
}
