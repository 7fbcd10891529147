import { present } from "../core/assert.ts";
import type { EventData, NewEvent } from "../core/events/index.ts";
import { IDEMPOTENCY_KEYS } from "../core/keys.ts";
import type { MoveRow, MoveSegmentRow, MoveState } from "../core/rows/move-rows.ts";
import type { Rows } from "../core/rows/rows.ts";
import type { Condition, Key } from "../core/rows/table.ts";
import { cancelEvents, needForCancel } from "./cancel-run.ts";
import { type Context, DECISION_EVENTS_MAX } from "./decision.ts";

/** Most segments that have a run at once: those of the greatest concurrency, and some that end. */
const ACTIVE_MAX = 500;
/** Longest reason that an event holds. */
const REASON_LENGTH_MAX = 2_000;

/** The event that moves a move to another state. */
export function moveStateChanged(
  move: MoveRow,
  toState: MoveState,
  said: { changedBy?: string | undefined; reason?: string | null | undefined } = {},
): NewEvent {
  const state_version = move.state_version + 1;
  return {
    type: "MoveStateChanged",
    idempotency_key: IDEMPOTENCY_KEYS.moveState(move.move_id, state_version, toState),
    data: {
      move_id: move.move_id,
      from_state: move.state,
      to_state: toState,
      state_version,
      changed_by: said.changedBy ?? null,
      reason: said.reason?.slice(0, REASON_LENGTH_MAX) ?? null,
    },
  };
}

/** The event that says what becomes of a segment. */
export function moveSegmentChanged(
  segment: MoveSegmentRow,
  becomes: EventData<"MoveSegmentChanged">["becomes"],
  said: Partial<
    Pick<
      EventData<"MoveSegmentChanged">,
      "generation" | "report" | "error" | "changed_by" | "reason"
    >
  > = {},
): NewEvent {
  const { move_id, segment_index, generation, changes } = segment;
  const n = changes + 1;
  return {
    type: "MoveSegmentChanged",
    idempotency_key: IDEMPOTENCY_KEYS.moveSegment(move_id, segment_index, n),
    data: {
      move_id,
      segment_index,
      n,
      generation,
      becomes,
      report: null,
      error: null,
      changed_by: null,
      reason: null,
      ...said,
    },
  };
}

/** Whether there is something to copy, and nothing of it has come to an end: a look now is one before. */
export function isBeforeCopies({ segments_pending, segments_total }: MoveRow): boolean {
  return segments_pending > 0 && segments_pending === segments_total;
}

/** Stops the runs of a move that nobody has cancelled yet; comparisons go on unless they are meant too. */
export function stopMoveRuns(
  rows: Rows,
  move: MoveRow,
  context: Context,
  options: { comparisons: boolean },
): NewEvent[] {
  const runPositions = activeRuns(rows, move, options);
  if (runPositions.length === 0) return [];
  rows.runs.need(runPositions.map((runPos): Key => [runPos]));
  const active = runPositions
    .map((runPos) => present(rows.runs.get(runPos), "a step's run exists"))
    .filter((run) => run.cancel_requested_at === null && run.finished_at === null);
  needForCancel(rows, active);
  const reason = `move ${move.move_id} was ${options.comparisons ? "cancelled" : "paused"}`;
  const events: NewEvent[] = [];
  for (const run of active) {
    const cancelled = cancelEvents(rows, run, reason, context);
    // What one decision cannot hold, the controller goes on with.
    if (events.length + cancelled.length > DECISION_EVENTS_MAX - 1) return events;
    events.push(...cancelled);
  }
  return events;
}

function activeRuns(
  rows: Rows,
  move: MoveRow,
  { comparisons }: { comparisons: boolean },
): number[] {
  const surveys = move.lanes.flatMap(({ run_pos }) => run_pos ?? []);
  const check = comparisons ? (move.check_run_pos ?? []) : [];
  if (move.segments_active === 0) return surveys.concat(check);
  const where: Condition[] = [
    { cell: "move_id", is: "=", value: move.move_id },
    { cell: "run_pos", is: "not null" },
  ];
  const segments = rows.moveSegments
    .find(where, [{ cell: "segment_index" }], ACTIVE_MAX)
    .filter(({ step }) => comparisons || step !== "verify");
  return surveys.concat(
    check,
    segments.flatMap(({ run_pos }) => run_pos ?? []),
  );
}
