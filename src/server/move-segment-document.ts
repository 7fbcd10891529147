import {
  MOVE_SEGMENT_FIELDS,
  type MoveSegmentDocument,
  type SegmentRun,
} from "../core/api/move-documents.ts";
import { stepRunKey } from "../core/keys.ts";
import type { MoveRow, MoveSegmentRow } from "../core/rows/move-rows.ts";
import { StepReport } from "../core/step-protocol.ts";
import type { Reader } from "../store/store.ts";
import { pickFields } from "./pick-fields.ts";
import { runsOfKeys } from "./runs-of-keys.ts";

/** Most runs of a segment that are shown: the newest. */
const RUNS_SHOWN_MAX = 50;

/** Segments of a move as the API shows them; how far a copy is now only its checkpoint knows. */
export async function moveSegmentDocuments(
  reader: Reader,
  move: MoveRow,
  segments: readonly MoveSegmentRow[],
): Promise<MoveSegmentDocument[]> {
  const tasks = segments.flatMap(({ run_pos, step }) => {
    return run_pos === null || step !== "copy" ? [] : [{ run_pos, task_key: 0 }];
  });
  const kept = tasks.length === 0 ? [] : await reader.checkpoints(tasks);
  const checkpointOf = new Map(kept.map(({ run_pos, value }) => [run_pos, value]));
  return segments.map((segment) => {
    const value = segment.run_pos === null ? undefined : checkpointOf.get(segment.run_pos);
    const report = StepReport.safeParse(value).data;
    if (report?.work !== "move") return documentOf(move, segment);
    return documentOf(move, {
      ...segment,
      rows_copied: report.rows ?? segment.rows_copied,
      bytes_copied: report.bytes ?? segment.bytes_copied,
      cursor: report.cursor ?? segment.cursor,
      position: report.position ?? segment.position,
    });
  });
}

function documentOf(move: MoveRow, segment: MoveSegmentRow): MoveSegmentDocument {
  const { verify_n, verify_ok, verify_note, verified_at, running } = segment;
  const lane = move.lanes[segment.lane];
  return {
    ...pickFields(segment, MOVE_SEGMENT_FIELDS),
    from: lane?.from ?? "",
    to: lane?.to ?? "",
    running: running === 1,
    worker_id: running === 1 ? segment.worker_id : null,
    verification:
      verify_n === 0
        ? null
        : {
            n: verify_n,
            ok: verify_ok === null ? null : verify_ok === 1,
            note: verify_note,
            at: verified_at,
          },
  };
}

/** The runs of a segment, newest first. */
export async function runsOfSegment(
  reader: Reader,
  { move_id, segment_index: index, runs: count }: MoveSegmentRow,
): Promise<SegmentRun[]> {
  const refs = [];
  for (let n = count; n > 0 && n > count - RUNS_SHOWN_MAX; n--) {
    for (const step of ["copy", "verify", "remove"] as const) {
      refs.push({ run_key: stepRunKey({ work: "move", move_id, step, index, n }), step, n });
    }
  }
  const runs = await runsOfKeys(reader, refs);
  return runs.map(({ run, step, n }) => ({
    run_id: run.run_id,
    step,
    n,
    state: run.state,
    requested_at: run.requested_at,
    started_at: run.started_at,
    finished_at: run.finished_at,
    error: run.first_error,
  }));
}
