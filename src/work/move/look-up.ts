import { PawlError, present } from "../../kernel/errors.ts";
import type { MoveSpec } from "./spec.ts";
import type { MoveRow, MoveSegmentRow, MoveState } from "./rows.ts";
import type { Rows } from "../rows.ts";
import type { EventData, NewEvent } from "../events.ts";
import { IDEMPOTENCY_KEYS } from "../keys.ts";
import { notFound } from "../command.ts";
import type { Condition, Key } from "../../kernel/table.ts";
import { cancelEvents, needForCancel } from "../run/cancel.ts";
import { type Context, DECISION_EVENTS_MAX } from "../decision.ts";

/** The refusal of a move that there is not. */
export function moveNotFound(reference: string): PawlError {
  const more = ", and `pawl move plan` makes one of a definition";
  return notFound("MOVE_NOT_FOUND", "move", reference, { more });
}

/** The move under an id, or the newest one of a definition's name; refuses what there is not. */
export function knownMove(rows: Rows, reference: string): MoveRow {
  const found = rows.moves.get(reference) ?? newestOf(rows, reference);
  if (found === null) throw moveNotFound(reference);
  return found;
}

function newestOf(rows: Rows, name: string): MoveRow | null {
  const where = [{ cell: "name", is: "=", value: name }] as const;
  return rows.moves.find(where, [{ cell: "created_pos", descending: true }], 1)[0] ?? null;
}

/** The refusal of a segment that the move does not have. */
export function moveSegmentNotFound(
  { move_id, segments_total }: MoveRow,
  index: number,
): PawlError {
  const there =
    segments_total === 0
      ? "none is known yet"
      : `those known so far are 0 to ${segments_total - 1}`;
  return new PawlError(
    "SEGMENT_NOT_FOUND",
    `The move ${move_id} has no segment ${index}; ${there}.`,
    { details: { move_id, segment_index: index } },
  );
}

/** The segment of a move; refuses one that there is not. */
export function knownMoveSegment(rows: Rows, move: MoveRow, index: number): MoveSegmentRow {
  const segment = rows.moveSegments.get(move.move_id, index);
  if (segment === null) throw moveSegmentNotFound(move, index);
  return segment;
}

/** The definition of a move as it is published now; refuses one that there is not. */
export function knownMoveSpec(rows: Rows, name: string): MoveSpec {
  const definition = rows.definitions.get("move", name);
  const body = definition === null ? undefined : rows.specs.get(definition.spec_hash)?.body;
  if (body?.kind === "move") return body;
  throw new PawlError(
    "MOVE_NOT_FOUND",
    `There is no definition of a move ${JSON.stringify(name)}. Define it with move() in the ` +
      "project and publish it with `pawl deploy`.",
    { details: { move: name } },
  );
}

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

/** Whether no segment has ended yet, so that a check now still shows the shards before the move. */
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
