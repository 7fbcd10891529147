import { setTimeout as sleep } from "node:timers/promises";
import type pg from "pg";
import { PawlError } from "../../kernel/errors.ts";
import type { Fence, Guard } from "../shard.ts";
import { FENCE_LOCK_CLASS, fenceLock } from "./enter.ts";
import { sqlState } from "./failures.ts";
import { literal, literalArray, literalOrNull } from "./sql-text.ts";
import { guardSql } from "./install.ts";
import { type ResultRows, withSession, withTransaction } from "./session.ts";

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
    session.rowsIfInstalled(`
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
  const set = `insert into _pawl.fences (tenant, epoch, state, shard) values ${values.join(", ")}
    on conflict (tenant) do update
    set epoch = excluded.epoch, state = excluded.state, shard = excluded.shard, until = null`;
  await shardBusy(async () => {
    await changeFences(pool, guard, tenants, SET_WAIT_MS, set);
    await settle(pool, guard, tenants, SET_WAIT_MS);
  });
}

/** Waits for writes under way and closes fences for a time. */
export async function closeFences(
  pool: pg.Pool,
  guard: Guard,
  tenants: readonly string[],
  { waitMs, holdMs }: { waitMs: number; holdMs: number },
): Promise<void> {
  await settle(pool, guard, tenants, waitMs);
  await changeFences(
    pool,
    guard,
    tenants,
    waitMs,
    `update _pawl.fences set
      state = case state when 'held' then state else 'closed' end,
      until = case state when 'held' then null
        else clock_timestamp() + interval '1 ms' * ${Math.trunc(holdMs)} end
    where tenant = any (${literalArray(tenants)}) and state in ('open', 'closed', 'held')
    returning tenant`,
    (closed) => refuseMissing(tenants, closed),
  );
}

/** Makes closed fences held, all or none. */
export async function holdFences(
  pool: pg.Pool,
  guard: Guard,
  tenants: readonly string[],
): Promise<void> {
  await changeFences(
    pool,
    guard,
    tenants,
    SET_WAIT_MS,
    `update _pawl.fences set state = 'held', until = null
    where tenant = any (${literalArray(tenants)})
      and (state = 'held' or (state = 'closed' and until > clock_timestamp())) returning tenant`,
    (held) => refuseMissing(tenants, held),
  );
}

/** Takes fences away, as far as there are any. */
export async function dropFences(
  pool: pg.Pool,
  guard: Guard,
  tenants: readonly string[],
): Promise<void> {
  const drop = `delete from _pawl.fences where tenant = any (${literalArray(tenants)})`;
  await shardBusy(() => changeFences(pool, guard, tenants, SET_WAIT_MS, drop));
}

/**
 * Only a cutover that has not begun may be given up because of a write under way; whoever sets
 * fences as they have to be tries again until it has come to that.
 */
async function shardBusy(act: () => Promise<void>): Promise<void> {
  try {
    await act();
  } catch (error) {
    if (!(error instanceof PawlError) || error.code !== "FENCE_BUSY") throw error;
    throw new PawlError("SHARD_BUSY", error.message, { details: error.details, cause: error });
  }
}

/** Changes fences under their locks, if the check lets what the statement gave pass. */
async function changeFences(
  pool: pg.Pool,
  guard: Guard,
  tenants: readonly string[],
  waitMs: number,
  statement: string,
  check: ((changed: ResultRows) => void) | null = null,
): Promise<void> {
  const statements = [
    "begin",
    guardSql(guard),
    ...lockTenants(tenants, waitMs),
    ...NOTE_CHANGE,
    statement,
  ];
  try {
    await withTransaction(pool, async (session) => {
      // In one round trip where there is nothing to look at: somebody may be waiting for it.
      if (check === null) {
        await session.run([...statements, "commit"]);
        return;
      }
      const { results } = await session.run(statements);
      check(results.at(-1) ?? []);
      await session.run(["commit"]);
    });
  } catch (error) {
    if (!["57014", "55P03", "40P01"].includes(sqlState(error))) throw error;
    throw fenceBusy(tenants, waitMs, error);
  }
}

/** Refuses when a fence was not as it had to be, so that the change of the others is undone. */
function refuseMissing(tenants: readonly string[], changed: ResultRows): void {
  const done = new Set(changed.map(([tenant]) => tenant));
  const missing = tenants.filter((tenant) => !done.has(tenant));
  if (missing.length === 0) return;
  throw new PawlError(
    "FENCE_EXPIRED",
    `The fence of ${missing.join(", ")} is not closed for a cutover any more, or not there.`,
    { details: { tenants: missing } },
  );
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
