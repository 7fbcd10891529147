import type { QuarantineDocument, SegmentDocument } from "../core/api/sync-documents.ts";
import { segmentIdOf } from "../core/keys.ts";
import { ABANDONED_CLASS, type SegmentRow, type SyncRow, SYNCS } from "../core/rows/sync-rows.ts";
import { SegmentCheckpoint } from "../core/segment-protocol.ts";
import type { Reader } from "../store/store.ts";
import { percent } from "./sync-document.ts";

/** Segments as the API shows them; how far an attempt is now only its checkpoint knows. */
export async function segmentDocuments(
  segments: readonly SegmentRow[],
  reader: Reader,
): Promise<SegmentDocument[]> {
  const tasks = segments.flatMap((segment) => {
    return isUnderWay(segment) ? [{ run_pos: segment.run_pos, task_key: 0 }] : [];
  });
  const kept = tasks.length === 0 ? [] : await reader.checkpoints(tasks);
  const checkpointOf = new Map(kept.map(({ run_pos, value }) => [run_pos, value]));
  return segments.map((segment) => {
    const value = isUnderWay(segment) ? checkpointOf.get(segment.run_pos) : undefined;
    const checkpoint = SegmentCheckpoint.safeParse(value).data;
    return checkpoint === undefined
      ? documentOf(segment)
      : documentOf({
          ...segment,
          last_processed_block: checkpoint.last_processed_block,
          rows_stored: checkpoint.rows,
          set_aside: checkpoint.quarantined.length === 0 ? null : checkpoint.quarantined,
        });
  });
}

/**
 * Whether the run of a segment is about it as it is now: one that was opened again may wait for a
 * run that is about what it was.
 */
function isUnderWay(segment: SegmentRow): segment is SegmentRow & { run_pos: number } {
  const isTried = segment.status === "RUNNING" || segment.status === "FAILED";
  return segment.run_pos !== null && isTried;
}

/** Whether a segment was set aside because its tries were used up. */
export function isAbandoned({ status, error_class }: SegmentRow): boolean {
  return status === "QUARANTINED" && error_class === ABANDONED_CLASS;
}

function documentOf({ run_pos, ...row }: SegmentRow): SegmentDocument {
  const { status, to_block, last_processed_block } = row;
  // Whoever set its end aside went past it without having stored it.
  const isPassed = status === "QUARANTINED" && last_processed_block === to_block;
  const segment = { ...row, last_processed_block: isPassed ? null : last_processed_block };
  return {
    ...segment,
    status: isAbandoned({ ...row, run_pos }) ? "ABANDONED" : status,
    updated_at: row.updated_at ?? row.finished_at ?? row.started_at ?? row.created_at,
    segment_id: segmentIdOf(segment.sync_id, segment.segment_index),
    progress_pct: progressOf(segment),
    has_run: run_pos !== null,
    worker_id: segment.status === "RUNNING" ? segment.worker_id : null,
    undo: segment.undo === 1,
    was_quarantined: segment.was_quarantined === 1,
  };
}

type Reached = Pick<SegmentRow, "status" | "from_block" | "to_block" | "last_processed_block">;

function progressOf({ status, from_block, to_block, last_processed_block: last }: Reached): number {
  if (status === "COMPLETE") return 100;
  if (last === null || last < from_block) return 0;
  return percent(Math.min(last, to_block) - from_block + 1, to_block - from_block + 1);
}

/** Segments that were set aside, each with what tells its sync from others. */
export async function quarantineDocuments(
  segments: readonly SegmentRow[],
  reader: Reader,
): Promise<QuarantineDocument[]> {
  const ids = [...new Set(segments.map(({ sync_id }) => sync_id))];
  const syncs = (await reader.load(
    SYNCS,
    ids.map((id) => [id]),
  )) as SyncRow[];
  const syncOf = new Map(syncs.map((sync) => [sync.sync_id, sync]));
  const documents = await segmentDocuments(segments, reader);
  return documents.flatMap((document) => {
    const sync = syncOf.get(document.sync_id);
    if (sync === undefined) return [];
    const { name, target, target_key, source } = sync;
    const standing = { sync_status: sync.status, sync_state_version: sync.state_version };
    return [{ ...document, ...standing, name, target: { ...target }, target_key, source }];
  });
}
