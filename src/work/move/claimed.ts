import { misplacedScope, pairScope, type ShardPair } from "./lanes.ts";
import type { MovePlan } from "./spec.ts";
import type { MoveLane, MoveRow } from "./rows.ts";
import type { Rows } from "../rows.ts";
import type { Condition } from "../../kernel/table.ts";
import { type TablePolicy, type Scope, shardsOf } from "../shard/spec.ts";
import type { ClaimedMove, ShardWorkRef } from "../shard/step-protocol.ts";
import { isBeforeCopies } from "./look-up.ts";

type MoveRef = Extract<ShardWorkRef, { work: "move" }>;

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
