import { PawlError } from "../core/errors.ts";
import type { Hash } from "../core/hash.ts";
import { pairScope } from "../core/move-lanes.ts";
import type { MoveLane, MoveRow } from "../core/rows/move-rows.ts";
import type { Rows } from "../core/rows/rows.ts";
import type { Condition } from "../core/rows/table.ts";
import type { Scope, ScopeTest } from "../core/topology.ts";

/** Most moves and tenants that are looked at. */
const MOVES_MAX = 10_000;
const TENANTS_MAX = 100_000;
/** First characters of a hash that make 32 bits. */
const HASH_LENGTH = 8;

/** Refuses to let a move go on while another one works on the same rows, or a split on its tenants. */
export function refuseOverlaps(rows: Rows, move: MoveRow, hash: Hash): void {
  refuseMoves(rows, move);
  refuseSplits(rows, move, hash);
}

function refuseMoves(rows: Rows, move: MoveRow): void {
  const where: Condition[] = [{ cell: "state", is: "in", values: ["RUNNING", "PAUSED"] }];
  const others = rows.moves
    .find(where, [{ cell: "move_id" }], MOVES_MAX)
    .filter(({ move_id, started_at }) => move_id !== move.move_id && started_at !== null);
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
  for (const lane of move.lanes) {
    const shards = new Set([lane.from, lane.to]);
    const meets = other.lanes.some(
      (theirs) =>
        theirs.table.table === lane.table.table &&
        (shards.has(theirs.from) || shards.has(theirs.to)) &&
        !areApart(scopeOfLane(move, lane), scopeOfLane(other, theirs)),
    );
    if (meets) return lane.table.table;
  }
  return null;
}

function scopeOfLane({ plan }: MoveRow, lane: MoveLane): Scope {
  return pairScope(plan.from, plan.to, lane);
}

/** Whether no value can be in both: certain only where both name their tenants. */
function areApart(a: Scope, b: Scope): boolean {
  const ours = namedOf(a);
  const theirs = namedOf(b);
  if (ours === null || theirs === null) return false;
  return !ours.some((tenant) => theirs.includes(tenant));
}

function namedOf(scope: Scope): string[] | null {
  const [part] = scope;
  const [test] = part?.any ?? [];
  if (part === undefined || scope.length !== 1 || part.any.length !== 1 || part.negate) return null;
  return test?.is === "in" ? test.values : null;
}

function refuseSplits(rows: Rows, move: MoveRow, hash: Hash): void {
  const tenants = rows.splitTenants.find([], [{ cell: "tenant" }], TENANTS_MAX);
  if (tenants.length === 0) return;
  const scopes = new Map(
    move.lanes.map((lane) => [`${lane.from}\n${lane.to}`, scopeOfLane(move, lane)]),
  );
  for (const { tenant, split_id } of tenants) {
    if (![...scopes.values()].some((scope) => mayHold(scope, tenant, hash))) continue;
    throw new PawlError(
      "STATE_ILLEGAL",
      `Split ${split_id} has the tenant ${JSON.stringify(tenant)} in hand, whose rows this move ` +
        "would take along. Complete the split or roll it back first.",
      { details: { move_id: move.move_id, split_id, tenant } },
    );
  }
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
