import type pg from "pg";
import type { Guard, Position } from "../shard.ts";
import { givenUp } from "../went-back.ts";
import { literal } from "./identifiers.ts";
import { guardSql } from "./plans.ts";
import { onlyValue, withSession } from "./session.ts";

const PAGE = 20_000;

/**
 * Deletes a page of changes that every plan with a capture has behind it: not by the oldest
 * transaction that was running, as one that runs for hours must not keep all. Many plans do this at
 * once: none compares each change with each plan, or waits for what another is deleting. What is
 * found first is deleted where it lies, however few changes PostgreSQL believes the table to have.
 */
const DELETE_PAGE = `
with needed as materialized (
  select coalesce(needs, armed_at) as since from _pawl.plans where coalesce(needs, armed_at) is not null
  union all
  -- A plan that is being armed has no position yet: it will take one that is not before this.
  select pg_current_snapshot() where not exists (select from _pawl.plans where armed_at is not null)
),
gone as (
  delete from _pawl.changes where ctid = any (array(
    select c.ctid from _pawl.changes c
    where c.xid < (select min(pg_snapshot_xmax(since)) from needed)
      and c.xid not in (select running from needed, pg_snapshot_xip(since) as running)
    limit ${PAGE} for update skip locked))
  returning 1
)
select count(*) from gone`;

/** Deletes changes that no plan needs, and says how many. */
export async function pruneChanges(pool: pg.Pool, guard: Guard): Promise<number> {
  let total = 0;
  for (;;) {
    const { results } = await withSession(pool, (session) =>
      session.run(["begin", guardSql(guard), DELETE_PAGE, "commit"]),
    );
    const deleted = Number(onlyValue(results.at(-1)));
    total += deleted;
    if (deleted < PAGE) return total;
  }
}

/** A plan has no use for changes up to a position. */
export async function release(pool: pg.Pool, guard: Guard, position: Position): Promise<number> {
  const given = `${literal(position)}::pg_snapshot`;
  const own = `plan = ${literal(guard.plan)} and armed_at is not null`;
  const { results } = await withSession(pool, (session) =>
    session.run([
      "begin",
      guardSql(guard),
      `select needs from _pawl.plans
        where ${own} and pg_snapshot_xmax(needs) > pg_snapshot_xmax(${given})`,
      `update _pawl.plans set needs = ${given}
        where ${own} and (needs is null or pg_snapshot_xmax(needs) <= pg_snapshot_xmax(${given}))`,
      "commit",
    ]),
  );
  const released = results.at(-1)?.[0]?.[0] ?? null;
  if (released !== null) throw givenUp(position, released);
  return pruneChanges(pool, guard);
}
