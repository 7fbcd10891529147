import { setTimeout as sleep } from "node:timers/promises";
import type pg from "pg";
import { PawlError } from "../../core/errors.ts";
import type { Fence, Guard } from "../shard.ts";
import { FENCE_LOCK_CLASS, fenceLock } from "./enter-sql.ts";
import { sqlState } from "./failures.ts";
import { literal, literalArray, literalOrNull } from "./identifiers.ts";
import { guardSql } from "./plans.ts";
import type { Rows } from "./script.ts";
import { withSession, withTransaction } from "./session.ts";

/** How long setting fences waits for writes under way. */
const SET_WAIT_MS = 10_000;
const LOOK_MS = 10;

/**
 * Held from the moment that the last change of fences is noted to its commit: so that the last
 * noted one is the last to commit.
 */
const NOTE_CHANGE = [
  "select pg_advisory_xact_lock(729185, 0)",
  "select setval('_pawl.fence_xid', pg_current_xact_id()::text::bigint)",
];

/**
 * Takes the locks of tenants in one order, all of them within a time. Whoever wants to enter in the
 * meantime waits behind.
 */
function lockTenants(tenants: readonly string[], waitMs: number): string[] {
  return [
    `set local statement_timeout = ${Math.max(1, Math.trunc(waitMs))}`,
    "set local lock_timeout = 0",
    `select pg_advisory_xact_lock(${FENCE_LOCK_CLASS}, bucket) from (
      select distinct ${fenceLock("tenant")} as bucket
      from unnest(${literalArray(tenants)}) as tenant order by 1) as buckets`,
    "set local statement_timeout = 0",
    "set local lock_timeout = '5s'",
  ];
}

/** The fences of tenants, as far as they have any, by tenant. */
export async function readFences(pool: pg.Pool, tenants: readonly string[]): Promise<Fence[]> {
  const rows = await withSession(pool, (session) =>
    session.rows(`
select tenant, epoch, state, shard, to_char(until, 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
from _pawl.fences where tenant = any (${literalArray(tenants)}) order by tenant`),
  );
  return rows.map(([tenant, epoch, state, shard, until]) => ({
    tenant: tenant ?? "",
    epoch: Number(epoch),
    state: state as Fence["state"],
    shard: shard ?? null,
    until: until ?? null,
  }));
}

/** Sets fences as they are given, after writes that are under way have ended. */
export async function setFences(
  pool: pg.Pool,
  guard: Guard,
  fences: readonly Omit<Fence, "until">[],
): Promise<void> {
  if (fences.length === 0) return;
  const tenants = fences.map(({ tenant }) => tenant);
  const values = fences.map(
    ({ tenant, epoch, state, shard }) =>
      `(${literal(tenant)}, ${Math.trunc(epoch)}, ${literal(state)}, ${literalOrNull(shard)})`,
  );
  await changeFences(pool, guard, tenants, SET_WAIT_MS, [
    `insert into _pawl.fences (tenant, epoch, state, shard) values ${values.join(", ")}
    on conflict (tenant) do update
    set epoch = excluded.epoch, state = excluded.state, shard = excluded.shard, until = null`,
  ]);
  await settle(pool, guard, tenants, SET_WAIT_MS);
}

/** Waits for writes under way and closes fences for a time. */
export async function closeFences(
  pool: pg.Pool,
  guard: Guard,
  tenants: readonly string[],
  { waitMs, holdMs }: { waitMs: number; holdMs: number },
): Promise<void> {
  await settle(pool, guard, tenants, waitMs);
  const list = literalArray(tenants);
  const closed = await changeFences(pool, guard, tenants, waitMs, [
    `update _pawl.fences
    set state = 'closed', until = clock_timestamp() + interval '1 ms' * ${Math.trunc(holdMs)}
    where tenant = any (${list}) and state in ('open', 'closed') returning tenant`,
  ]);
  const missing = without(tenants, closed);
  if (missing.length > 0) {
    throw new PawlError(
      "STATE_ILLEGAL",
      `Fences of ${missing.join(", ")} are neither open nor closed, so they cannot be closed.`,
      { details: { tenants: missing } },
    );
  }
}

/** Makes closed fences held, all or none. */
export async function holdFences(
  pool: pg.Pool,
  guard: Guard,
  tenants: readonly string[],
): Promise<void> {
  await withTransaction(pool, async (session) => {
    const held = await session.rows(
      "begin",
      guardSql(guard),
      ...lockTenants(tenants, SET_WAIT_MS),
      ...NOTE_CHANGE,
      `update _pawl.fences set state = 'held', until = null
      where tenant = any (${literalArray(tenants)})
        and (state = 'held' or (state = 'closed' and until > clock_timestamp())) returning tenant`,
    );
    const expired = without(tenants, held);
    if (expired.length > 0) {
      throw new PawlError(
        "FENCE_EXPIRED",
        `The fence of ${expired.join(", ")} is not closed any more. Close it again.`,
        { details: { tenants: expired } },
      );
    }
    await session.run(["commit"]);
  });
}

/** Takes fences away, as far as there are any. */
export async function dropFences(
  pool: pg.Pool,
  guard: Guard,
  tenants: readonly string[],
): Promise<void> {
  await changeFences(pool, guard, tenants, SET_WAIT_MS, [
    `delete from _pawl.fences where tenant = any (${literalArray(tenants)})`,
  ]);
}

/** Changes fences under their locks; gives the rows of the last statement. */
async function changeFences(
  pool: pg.Pool,
  guard: Guard,
  tenants: readonly string[],
  waitMs: number,
  statements: readonly string[],
): Promise<Rows> {
  try {
    const { results } = await withSession(pool, (session) =>
      session.run([
        "begin",
        guardSql(guard),
        ...lockTenants(tenants, waitMs),
        ...NOTE_CHANGE,
        ...statements,
        "commit",
      ]),
    );
    return results.at(-1) ?? [];
  } catch (error) {
    if (!["57014", "55P03", "40P01"].includes(sqlState(error))) throw error;
    throw fenceBusy(tenants, waitMs, error);
  }
}

/**
 * Waits for transactions that wrote to captured tables when a new fence was not there yet: they
 * were not asked to enter, so closing the fence would not wait for them. Nobody is kept from
 * writing meanwhile. Once for each fence: `settled` is set when it is over.
 */
async function settle(
  pool: pg.Pool,
  guard: Guard,
  tenants: readonly string[],
  waitMs: number,
): Promise<void> {
  const list = literalArray(tenants);
  const unsettled = `select from _pawl.fences where tenant = any (${list}) and not settled`;
  const fresh = await withSession(pool, (session) => session.rows(unsettled));
  if (fresh.length === 0) return;

  const deadline = performance.now() + waitMs;
  let writers = await writersAmong(pool, null);
  while (writers.length > 0) {
    if (performance.now() > deadline) throw fenceBusy(tenants, waitMs, null);
    await sleep(LOOK_MS);
    writers = await writersAmong(pool, writers);
  }
  await withSession(pool, (session) =>
    session.run([
      "begin",
      guardSql(guard),
      `update _pawl.fences set settled = true where tenant = any (${list})`,
      "commit",
    ]),
  );
}

/** Transactions that have a captured table open for writing, of those given or of all. */
async function writersAmong(pool: pg.Pool, known: readonly string[] | null): Promise<string[]> {
  const among = known === null ? "" : `and l.virtualtransaction = any (${literalArray(known)})`;
  const rows = await withSession(pool, (session) =>
    session.rows(`
select distinct l.virtualtransaction
from pg_locks l
join pg_class c on c.oid = l.relation
join pg_namespace n on n.oid = c.relnamespace
where l.locktype = 'relation' and l.granted and l.mode <> 'AccessShareLock'
  and l.database = (select oid from pg_database where datname = current_database())
  and n.nspname || '.' || c.relname in (select table_name from _pawl.captures) ${among}`),
  );
  return rows.map(([transaction]) => transaction ?? "");
}

function fenceBusy(tenants: readonly string[], waitMs: number, cause: unknown): PawlError {
  return new PawlError(
    "FENCE_BUSY",
    `Writes of ${tenants.join(", ")} that are under way did not end within ${waitMs} ms.`,
    { details: { tenants: [...tenants] }, cause },
  );
}

function without(tenants: readonly string[], rows: Rows): string[] {
  const done = new Set(rows.map(([tenant]) => tenant));
  return tenants.filter((tenant) => !done.has(tenant));
}
