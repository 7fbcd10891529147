import { PawlError } from "../../core/errors.ts";
import type { Guard } from "../shard.ts";
import type { Connection } from "./connection.ts";

const TOKEN = "select token from _pawl_plans where plan = ?";
const TAKE = `
  insert into _pawl_plans (plan, token) values (?, ?)
  on conflict (plan) do update set token = excluded.token`;

/** Lets a step of a plan act from now on; refuses one that comes too late. */
export function take(db: Connection, { plan, token }: Guard): void {
  const seen = seenToken(db, plan);
  if (seen !== null && seen > token) throw stale({ plan, token }, seen);
  db.run(TAKE, plan, BigInt(token));
}

/** Refuses whoever does not hold the plan now, in the transaction of what it protects. */
export function checkGuard(db: Connection, guard: Guard): void {
  const seen = seenToken(db, guard.plan);
  if (seen !== guard.token) throw stale(guard, seen);
}

/** The token that a plan was taken with; null when it was not. */
function seenToken(db: Connection, plan: string): number | null {
  const row = db.get(TOKEN, plan);
  return row === undefined ? null : Number(row[0]);
}

function stale({ plan, token }: Guard, seen: number | null): PawlError {
  const other = seen === null ? "the plan was not taken here" : `step ${seen} has acted since`;
  return new PawlError(
    "COORDINATOR_STALE",
    `Step ${token} of the plan ${plan} comes too late: ${other}.`,
    { details: { plan, token, seen } },
  );
}
