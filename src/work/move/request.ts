import type { Condition, Order } from "../../kernel/table.ts";
import { pinnedWork } from "../asset/look-up.ts";
import type { Context } from "../decision.ts";
import { lostAttemptsMax, type RetryPolicy } from "../definition/spec.ts";
import type { NewEvent } from "../events.ts";
import { stepRunKey } from "../keys.ts";
import type { Rows } from "../rows.ts";
import { RUN_CLASS, singleTaskRun } from "../run/request.ts";
import { currentShards } from "../shard/look-up.ts";
import { type Scope, shardsOf, shardWorkName, type TablePolicy } from "../shard/spec.ts";
import type { ClaimedMove, ShardWorkRef } from "../shard/step-protocol.ts";
import { misplacedScope, pairScope, type ShardPair } from "./lanes.ts";
import { isBeforeCopies } from "./look-up.ts";
import type { MoveLane, MoveRow, MoveSegmentRow } from "./rows.ts";
import type { MovePlan } from "./spec.ts";

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

/** Most excluded segments that a look is told of. */
const EXCLUDED_MAX = 10_000;

/** What a worker is told of a step of a move; null when it is not to be done any more. */
export function claimedMove(rows: Rows, ref: MoveRef): ClaimedMove | null {
  const move = rows.moves.get(ref.move_id);
  if (move === null) return null;
  switch (ref.step) {
    case "survey":
      return claimedSurvey(move, ref);
    case "check":
      return move.checks === ref.n ? claimedCheck(rows, move, ref) : null;
    default:
      return claimedSegment(rows, move, ref);
  }
}

function claimedSurvey(move: MoveRow, ref: MoveRef): ClaimedMove | null {
  const lane = move.lanes[ref.index ?? -1];
  if (lane === undefined || lane.runs !== ref.n) return null;
  return { ...claimedLane(move, lane, ref), lower: lane.after };
}

function claimedSegment(rows: Rows, move: MoveRow, ref: MoveRef): ClaimedMove | null {
  const segment = rows.moveSegments.get(ref.move_id, ref.index ?? -1);
  if (segment === null || segment.runs !== ref.n) return null;
  const lane = move.lanes[segment.lane];
  if (lane === undefined) return null;
  const { generation, lower, upper, digest } = segment;
  const verified = { rows: digest === null ? null : segment.rows_copied, digest };
  return { ...claimedLane(move, lane, ref), generation, lower, upper, ...verified };
}

function claimedLane(move: MoveRow, lane: MoveLane, ref: MoveRef): ClaimedMove {
  const { plan, rows_per_second: limit } = move;
  const { table, from, to } = lane;
  return {
    ...ref,
    generation: 0,
    table,
    from,
    to,
    scope: scopeOfPair(plan, lane),
    lower: null,
    upper: null,
    strategy: plan.strategy,
    // As many as may run at once share what all together may do.
    rows_per_second: limit === null ? null : limit / move.segment_concurrency,
    replication_lag_ms: plan.replication_lag_ms,
    rows: null,
    digest: null,
    places: [],
    excluded: [],
  };
}

const scopesOfPlans = new WeakMap<MovePlan, Map<string, Scope>>();

/** Made once for a plan that is in memory: topologies are large, and every claim asks. */
function scopeOfPair(plan: MovePlan, lane: ShardPair): Scope {
  const known = scopesOfPlans.get(plan) ?? new Map<string, Scope>();
  scopesOfPlans.set(plan, known);
  const name = `${lane.from}\n${lane.to}`;
  const scope = known.get(name) ?? pairScope(plan.from, plan.to, lane);
  known.set(name, scope);
  return scope;
}

function claimedCheck(rows: Rows, move: MoveRow, ref: MoveRef): ClaimedMove | null {
  const { plan, lanes } = move;
  const [first] = lanes;
  if (first === undefined) return null;
  const tables = tablesOf(lanes);
  // Where the rows stay, or nothing has moved yet, only what belongs on neither side is out of place.
  const isBefore = move.dry_run === 1 || isBeforeCopies(move);
  const topologies = plan.keep_source || isBefore ? [plan.from, plan.to] : [plan.to];
  const shards = [...new Set([...shardsOf(plan.from), ...shardsOf(plan.to)])].toSorted();
  const places = shards.flatMap((shard) => {
    const scope = misplacedScope(topologies, shard);
    return scope === null ? [] : [{ shard, tables, scope }];
  });
  const claimed = claimedLane(move, first, ref);
  const asked = { table: null, scope: [], places, excluded: excludedOf(rows, move) };
  if (!isBefore) return { ...claimed, ...asked };
  return { ...claimed, ...asked, lanes: lanes.map(({ table, from, to }) => ({ table, from, to })) };
}

function tablesOf(lanes: readonly MoveLane[]): TablePolicy[] {
  const byName = new Map(lanes.map(({ table }) => [table.table, table]));
  return [...byName.values()];
}

function excludedOf(rows: Rows, move: MoveRow): ClaimedMove["excluded"] {
  if (move.segments_excluded === 0) return [];
  const where: Condition[] = [
    { cell: "move_id", is: "=", value: move.move_id },
    { cell: "state", is: "=", value: "EXCLUDED" },
  ];
  const order = [{ cell: "table_order" }, { cell: "segment_index" }];
  const byLane = new Map<number, ClaimedMove["excluded"][number]>();
  for (const { lane: index, lower, upper } of rows.moveSegments.find(where, order, EXCLUDED_MAX)) {
    const lane = move.lanes[index];
    if (lane === undefined) continue;
    const scope = scopeOfPair(move.plan, lane);
    const entry = byLane.get(index) ?? { shard: lane.from, table: lane.table, scope, ranges: [] };
    entry.ranges.push({ lower, upper });
    byLane.set(index, entry);
  }
  return [...byLane.values()];
}
