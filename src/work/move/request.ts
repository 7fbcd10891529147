import type { NewEvent } from "../events.ts";
import { stepRunKey } from "../keys.ts";
import type { MoveRow, MoveSegmentRow } from "./rows.ts";
import type { Rows } from "../rows.ts";
import type { Condition, Order } from "../../kernel/table.ts";
import { shardWorkName } from "../shard/spec.ts";
import type { RetryPolicy } from "../definition/spec.ts";
import type { ShardWorkRef } from "../shard/step-protocol.ts";
import { pinnedWork } from "../asset/look-up.ts";
import type { Context } from "../decision.ts";
import { currentShards } from "../shard/look-up.ts";
import { RUN_CLASS, singleTaskRun } from "../run/request.ts";
import { lostAttemptsMax } from "../definition/spec.ts";

/** Pending segments from which on a running move finds no further ones: copying comes first. */
export const PENDING_AHEAD_MAX = 400;

type MoveRef = Extract<ShardWorkRef, { work: "move" }>;
type SegmentStep = "copy" | "verify" | "remove";

const BY_TABLE: Order[] = [{ cell: "table_order" }, { cell: "segment_index" }];
const BY_TABLE_BACKWARDS: Order[] = [
  { cell: "table_order", descending: true },
  { cell: "segment_index", descending: true },
];

/** The place of the first table whose segments are not all known; infinite when all are. */
function firstUnsealed(move: MoveRow): number {
  return move.lanes.find(({ sealed }) => !sealed)?.order ?? Number.POSITIVE_INFINITY;
}

/** Asks for the next pages of surveys, of as many lanes as segments may run at once. */
export function surveyRuns(rows: Rows, move: MoveRow, context: Context): NewEvent[] {
  if (move.lanes_sealed === move.lanes.length) return [];
  if (move.state === "RUNNING" && isFarAhead(rows, move)) return [];
  const active = move.lanes.filter(({ run_pos }) => run_pos !== null).length;
  const waiting = [...move.lanes.entries()].filter(
    ([, { sealed, run_pos }]) => !sealed && run_pos === null,
  );
  return waiting.slice(0, Math.max(0, move.segment_concurrency - active)).map(([index, lane]) => {
    const ref = refOf(move, "survey", index, lane.runs + 1);
    return runOfStep(rows, move, ref, shardWorkName(lane.from), null, context);
  });
}

/** Whether there is plenty to copy; what cannot be copied before the survey has gone on is none. */
function isFarAhead(rows: Rows, move: MoveRow): boolean {
  if (move.segments_pending < PENDING_AHEAD_MAX) return false;
  const [first] = rows.moveSegments.find([ofMove(move), inState("PENDING")], BY_TABLE, 1);
  return first !== undefined && first.table_order <= firstUnsealed(move);
}

/** Asks for copies of the table that comes next: one whose rows name it has to wait for all of them. */
export function copyRuns(rows: Rows, move: MoveRow, room: number, context: Context): NewEvent[] {
  if (room <= 0 || move.segments_pending === 0) return [];
  const [first] = rows.moveSegments.find([ofMove(move), inState("PENDING")], BY_TABLE, 1);
  if (first === undefined || first.table_order > firstUnsealed(move)) return [];
  return waitingSegments(rows, move, "PENDING", first.table_order, BY_TABLE, room).map((segment) =>
    runOfSegment(rows, move, segment, "copy", context),
  );
}

/** Asks for removals, the last table first: what names another goes before what it names. */
export function removeRuns(rows: Rows, move: MoveRow, room: number, context: Context): NewEvent[] {
  if (room <= 0 || move.segments_copied === 0) return [];
  const where = [ofMove(move), inState("COPIED")];
  const [last] = rows.moveSegments.find(where, BY_TABLE_BACKWARDS, 1);
  if (last === undefined) return [];
  const order = BY_TABLE_BACKWARDS;
  return waitingSegments(rows, move, "COPIED", last.table_order, order, room).map((segment) =>
    runOfSegment(rows, move, segment, "remove", context),
  );
}

function waitingSegments(
  rows: Rows,
  move: MoveRow,
  state: MoveSegmentRow["state"],
  tableOrder: number,
  order: Order[],
  room: number,
): MoveSegmentRow[] {
  const where: Condition[] = [
    ofMove(move),
    inState(state),
    { cell: "table_order", is: "=", value: tableOrder },
    { cell: "run_pos", is: "null" },
  ];
  return rows.moveSegments.find(where, order, room);
}

/** Asks for what was copied of excluded segments to be taken away from where it came to. */
export function discardRuns(rows: Rows, move: MoveRow, room: number, context: Context): NewEvent[] {
  if (room <= 0 || move.segments_discarding === 0) return [];
  const where: Condition[] = [
    ofMove(move),
    inState("EXCLUDED"),
    { cell: "leftover", is: "=", value: 1 },
    { cell: "run_pos", is: "null" },
  ];
  return rows.moveSegments
    .find(where, BY_TABLE, room)
    .map((segment) => runOfSegment(rows, move, segment, "remove", context));
}

/** Asks for comparisons of what was copied, where somebody wants them, in the order of the segments. */
export function verifyRuns(rows: Rows, move: MoveRow, room: number, context: Context): NewEvent[] {
  if (room <= 0 || move.verify_waiting === 0) return [];
  const waitingFrom = (first: number): MoveSegmentRow[] => {
    const where: Condition[] = [
      ofMove(move),
      { cell: "segment_index", is: ">=", value: first },
      inState("COPIED"),
      { cell: "verify_n", is: "<", value: move.verifications },
      { cell: "run_pos", is: "null" },
    ];
    return rows.moveSegments.find(where, [{ cell: "segment_index" }], room);
  };
  const next = waitingFrom(move.verify_next);
  // One that was passed over, as it had a run or was quarantined, may be free by now.
  const segments = next.length > 0 || move.verify_next === 0 ? next : waitingFrom(0);
  return segments.map((segment) => runOfSegment(rows, move, segment, "verify", context));
}

/** Asks for a look at where all rows are. */
export function checkRun(rows: Rows, move: MoveRow, context: Context): NewEvent[] {
  if (move.check_run_pos !== null) return [];
  const [first] = move.lanes;
  if (first === undefined) return [];
  const ref = refOf(move, "check", null, move.checks + 1);
  return [runOfStep(rows, move, ref, shardWorkName(first.from, first.to), null, context)];
}

function runOfSegment(
  rows: Rows,
  move: MoveRow,
  segment: MoveSegmentRow,
  step: SegmentStep,
  context: Context,
): NewEvent {
  const lane = move.lanes[segment.lane];
  const ref = refOf(move, step, segment.segment_index, segment.runs + 1);
  const name = shardWorkName(lane?.from ?? "", lane?.to);
  const retry = step === "verify" ? null : retryOf(rows, move, segment);
  return runOfStep(rows, move, ref, name, retry, context);
}

/** As many attempts as the segment may still fail; those that are only taken back are not its fault. */
function retryOf(rows: Rows, move: MoveRow, { failures }: MoveSegmentRow): RetryPolicy {
  const { retry } = pinnedWork(rows, specOf(rows, move));
  const max_attempts = Math.max(1, move.plan.segment_attempts - failures);
  return { ...retry, max_attempts, max_lost_attempts: lostAttemptsMax(retry) };
}

function refOf(move: MoveRow, step: MoveRef["step"], index: number | null, n: number): MoveRef {
  return { work: "move", move_id: move.move_id, step, index, n };
}

function ofMove({ move_id }: MoveRow): Condition {
  return { cell: "move_id", is: "=", value: move_id };
}

function inState(state: MoveSegmentRow["state"]): Condition {
  return { cell: "state", is: "=", value: state };
}

/**
 * The spec of the shards that steps are run by: how long one may take and be silent has to be for
 * the operator to change, also of a move that is under way. Its tables are those it was planned with.
 */
function specOf(rows: Rows, move: MoveRow): string {
  return currentShards(rows)?.spec_hash ?? move.spec_hash;
}

/** The request of the run of a step: one task. */
function runOfStep(
  rows: Rows,
  move: MoveRow,
  work: MoveRef,
  asset_key: string,
  retry: RetryPolicy | null,
  context: Context,
): NewEvent {
  const spec_hash = specOf(rows, move);
  return singleTaskRun(
    {
      run_key: stepRunKey(work),
      asset_key,
      spec_hash,
      code_version: pinnedWork(rows, spec_hash).code_version,
      pool: null,
      trigger: { type: "shards", work },
      class: RUN_CLASS.backfill,
      priority: 0,
      retry,
    },
    context,
  );
}
