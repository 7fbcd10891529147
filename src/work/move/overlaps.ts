import { PawlError } from "../../kernel/errors.ts";
import type { Hash } from "../../kernel/canonical.ts";
import { pairScope, scopeOf, type ShardPair } from "./lanes.ts";
import type { MovePlan } from "./spec.ts";
import type { MoveRow } from "./rows.ts";
import type { Rows } from "../rows.ts";
import type { Condition } from "../../kernel/table.ts";
import { type Scope, type ScopeTest, type Topology, shardsOf } from "../shard/spec.ts";

/** Most moves and tenants that are looked at. */
const MOVES_MAX = 10_000;
const TENANTS_MAX = 100_000;
/** First characters of a hash that make 32 bits. */
const HASH_LENGTH = 8;

/** Refuses to let a move go on while another one works on the same rows, or a split on its tenants. */
export function refuseMoveOverlaps(rows: Rows, move: MoveRow, hash: Hash): void {
  refuseMoves(rows, move);
  refuseSplits(rows, move, hash);
}

/** The moves that have rows in hand, or will again when they are resumed. */
function movesAtWork(rows: Rows): MoveRow[] {
  const where: Condition[] = [{ cell: "state", is: "in", values: ["RUNNING", "PAUSED"] }];
  return rows.moves
    .find(where, [{ cell: "move_id" }], MOVES_MAX)
    .filter(({ started_at }) => started_at !== null);
}

/** Refuses tenants whose rows a move may have in hand. */
export function refuseMovedTenants(rows: Rows, tenants: readonly string[], hash: Hash): void {
  for (const { plan, move_id, state } of movesAtWork(rows)) {
    const tenant = tenants.find(movesOf(plan, hash));
    if (tenant === undefined) continue;
    throw new PawlError(
      "STATE_ILLEGAL",
      `Move ${move_id} (${state}) may have rows of the tenant ${JSON.stringify(tenant)} in hand. ` +
        "Let it come to an end or cancel it first.",
      { details: { tenant, move_id, state } },
    );
  }
}

function refuseMoves(rows: Rows, move: MoveRow): void {
  const others = movesAtWork(rows).filter(({ move_id }) => move_id !== move.move_id);
  for (const other of others) {
    const table = sharedTable(move, other);
    if (table === null) continue;
    throw new PawlError(
      "STATE_ILLEGAL",
      `Move ${other.move_id} (${other.state}) works on rows of ${table} that this one would move ` +
        "too. Let it come to an end or cancel it first.",
      { details: { move_id: move.move_id, other_move_id: other.move_id, table } },
    );
  }
}

/** A table of which both may have the same rows in hand; null when there is none. */
function sharedTable(move: MoveRow, other: MoveRow): string | null {
  const theirs = new Set(other.lanes.map(({ table }) => table.table));
  const shared = move.lanes.find(({ table }) => theirs.has(table.table))?.table.table;
  if (shared === undefined) return null;
  const pairs = pairsOf(other);
  const meets = pairsOf(move).some((pair) =>
    pairs.some((their) => isSharing(pair, their) && !areApart(move, pair, other, their)),
  );
  return meets ? shared : null;
}

/** The pairs of shards that a move goes along, each once. */
function pairsOf({ lanes }: MoveRow): ShardPair[] {
  return [...new Map(lanes.map((lane) => [`${lane.from}\n${lane.to}`, lane])).values()];
}

function isSharing(a: ShardPair, b: ShardPair): boolean {
  return a.from === b.from || a.from === b.to || a.to === b.from || a.to === b.to;
}

/** Whether no value can be in both: certain only where both name their tenants. */
function areApart(move: MoveRow, pair: ShardPair, other: MoveRow, their: ShardPair): boolean {
  const ours = tenantsOf(move, pair);
  const theirs = tenantsOf(other, their);
  if (ours === null || theirs === null) return false;
  const named = new Set(theirs);
  return !ours.some((tenant) => named.has(tenant));
}

function tenantsOf({ plan }: MoveRow, pair: ShardPair): string[] | null {
  if (plan.from.by !== "tenant" || plan.to.by !== "tenant") return null;
  const [part] = pairScope(plan.from, plan.to, pair);
  const [test] = part?.any ?? [];
  return part === undefined || part.negate || test?.is !== "in" ? null : test.values;
}

function refuseSplits(rows: Rows, { plan, move_id }: MoveRow, hash: Hash): void {
  const tenants = rows.splitTenants.find([], [{ cell: "tenant" }], TENANTS_MAX);
  if (tenants.length === 0) return;
  const isMoved = movesOf(plan, hash);
  for (const { tenant, split_id } of tenants) {
    if (!isMoved(tenant)) continue;
    throw new PawlError(
      "STATE_ILLEGAL",
      `Split ${split_id} has the tenant ${JSON.stringify(tenant)} in hand, whose rows this move ` +
        "would take along. Complete the split or roll it back first.",
      { details: { move_id, split_id, tenant } },
    );
  }
}

/** Whether a plan may take a tenant from one shard to another. */
function movesOf(plan: MovePlan, hash: Hash): (tenant: string) => boolean {
  const placesOf = (topology: Topology): ((tenant: string) => string[]) => {
    const scopes = shardsOf(topology).map((shard) => [shard, scopeOf(topology, shard)] as const);
    return (tenant) =>
      scopes.flatMap(([shard, scope]) => (mayHold(scope, tenant, hash) ? [shard] : []));
  };
  const [before, after] = [placesOf(plan.from), placesOf(plan.to)];
  return (tenant) => {
    const targets = after(tenant);
    return before(tenant).some((source) => targets.some((target) => target !== source));
  };
}

/** Whether a tenant may be in a scope; ranges are in the order of the column, which is not known here. */
export function mayHold(scope: Scope, tenant: string, hash: Hash): boolean {
  return scope.every(({ any, negate }) => {
    const verdicts = any.map((test) => verdictOf(test, tenant, hash));
    if (verdicts.includes("perhaps") && !verdicts.includes("yes")) return true;
    return verdicts.includes("yes") !== negate;
  });
}

function verdictOf(test: ScopeTest, tenant: string, hash: Hash): "yes" | "no" | "perhaps" {
  switch (test.is) {
    case "in":
      return test.values.includes(tenant) ? "yes" : "no";
    case "hash": {
      const number = Number.parseInt(hash.sha256(tenant).slice(0, HASH_LENGTH), 16);
      return test.buckets.includes(number % test.modulus) ? "yes" : "no";
    }
    case "between":
      return test.from === null && test.below === null ? "yes" : "perhaps";
  }
}
