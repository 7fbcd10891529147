import {
  MOVE_SEGMENT_FIELDS,
  type MoveSegmentDocument,
  type SegmentRun,
} from "../core/api/move-documents.ts";
import { stepRunKey } from "../core/keys.ts";
import type { MoveRow, MoveSegmentRow } from "../core/rows/move-rows.ts";
import { type TaskRow, TASKS } from "../core/rows/run-rows.ts";
import type { Key } from "../core/rows/table.ts";
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
  const checkpointOf = new Map(kept.map((checkpoint) => [checkpoint.run_pos, checkpoint]));
  const attempts = await attemptsOf(reader, tasks);
  return segments.map((segment) => {
    const checkpoint = checkpointOf.get(segment.run_pos ?? -1);
    const report = StepReport.safeParse(checkpoint?.value).data;
    if (checkpoint === undefined || report?.work !== "move") return documentOf(move, segment);
    // Rows are those of all attempts, bytes of one, which the row has once that has ended.
    const isGoingOn =
      segment.running === 1 && attempts.get(checkpoint.run_pos) === checkpoint.attempt;
    return documentOf(move, {
      ...segment,
      rows_copied: report.rows ?? segment.rows_copied,
      bytes_copied: segment.bytes_copied + (isGoingOn ? (report.bytes ?? 0) : 0),
      cursor: report.cursor ?? segment.cursor,
      position: report.position ?? segment.position,
    });
  });
}

/** The present attempt of each of these runs. */
async function attemptsOf(
  reader: Reader,
  tasks: readonly { run_pos: number; task_key: number }[],
): Promise<Map<number, number>> {
  if (tasks.length === 0) return new Map();
  const keys = tasks.map(({ run_pos, task_key }): Key => [run_pos, task_key]);
  const rows = (await reader.load(TASKS, keys)) as TaskRow[];
  return new Map(rows.map(({ run_pos, attempt }) => [run_pos, attempt]));
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
