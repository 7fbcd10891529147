import { setTimeout as sleep } from "node:timers/promises";
import type pg from "pg";
import { PawlError } from "../../kernel/errors.ts";
import type { Fence, Guard, SequenceValue, TableShape } from "../shard.ts";
import { FENCE_LOCK_CLASS, fenceLock } from "./enter.ts";
import { sqlState } from "./failures.ts";
import { guardSql } from "./install.ts";
import { type ResultRows, type Session, withSession, withTransaction } from "./session.ts";
import { literal, literalArray, literalOrNull, tableName, tableSql } from "./sql-text.ts";

/*
 * A tenant is a text: to the routing, to routers, to fences and to the log of changes. So the column
 * that a table is sharded by must have one text for each value, or some take two rows for those of
 * one tenant and others do not.
 */

/** Types that come with PostgreSQL and have one text for each value, whatever a session is set to. */
const ONE_TEXT = new Set([
  "bool",
  "int2",
  "int4",
  "int8",
  "oid",
  "text",
  "varchar",
  "bpchar",
  "name",
  "uuid",
  "date",
  "time",
  "timestamp",
  "bytea",
  "inet",
  "cidr",
  "macaddr",
  "macaddr8",
]);

const WHAT_TO_DO =
  "Give it a type that has one text for each value, such as text, uuid or bigint, or shard by another column";

/** Why texts do not stand for the tenants of these tables everywhere alike; null when they do. */
export async function tenantProblem(
  pool: pg.Pool,
  schema: string,
  tables: readonly TableShape[],
  tenants: readonly string[],
): Promise<string | null> {
  if (tables.length === 0) return null;
  return withSession(pool, async (session) => {
    const types = await session.rows(typesSql(tables, schema));
    for (const [at, table] of tables.entries()) {
      const problem =
        looseColumn(table, types[at]) ?? (await otherSpelling(session, table, tenants));
      if (problem !== null) return problem;
    }
    return null;
  });
}

/** What the columns that tables are sharded by are made of, below any domains. */
function typesSql(tables: readonly TableShape[], schema: string): string {
  const wanted = tables.map(({ table, shard_by }, place) => {
    const reference = literal(tableSql(tableName(table, schema)));
    return `(${place}, to_regclass(${reference})::oid, ${literal(shard_by)})`;
  });
  return `
with recursive made(place, declared, type, typmod, attcollation) as (
  select w.place, a.atttypid, a.atttypid, a.atttypmod, a.attcollation
  from (values ${wanted.join(", ")}) as w(place, oid, name)
  join pg_attribute a on a.attrelid = w.oid and a.attname = w.name
  union all
  select m.place, m.declared, t.typbasetype, t.typtypmod, m.attcollation
  from made m join pg_type t on t.oid = m.type
  where t.typtype = 'd'
)
select t.typname, t.typtype, n.nspname, m.typmod, coalesce(c.collisdeterministic, true),
  format_type(m.declared, null), c.collname
from made m
join pg_type t on t.oid = m.type and t.typtype <> 'd'
join pg_namespace n on n.oid = t.typnamespace
left join pg_collation c on c.oid = m.attcollation
order by m.place`;
}

function looseColumn(table: TableShape, row: ResultRows[number] | undefined): string | null {
  const [name, kind, schema, typmod, isDeterministic, declared, collation] = row ?? [];
  const column = `The column ${table.shard_by} of ${table.table}`;
  const loose = (type: string): string =>
    `${column} is of type ${type}, in which one value can have several texts: routing and fences ` +
    `would tell apart what the table takes for equal. ${WHAT_TO_DO}`;
  if (isDeterministic !== "t") return loose(`${declared} collate ${collation}`);
  if (kind === "e") return null;
  // With a scale, every value is written with all of its places.
  const isScaled = name === "numeric" && Number(typmod) >= 0;
  if (schema === "pg_catalog" && (ONE_TEXT.has(name ?? "") || isScaled)) return null;
  return loose(String(declared));
}

/** A tenant that the column writes otherwise, or cannot have. */
async function otherSpelling(
  session: Session,
  table: TableShape,
  tenants: readonly string[],
): Promise<string | null> {
  const type = declaredType(table);
  const column = `the column ${table.shard_by} of ${table.table}`;
  const found = await written(session, type, tenants);
  if (found instanceof PawlError) {
    if (tenants.length > 1) {
      // One at a time, to say which.
      for (const tenant of tenants) {
        const problem = await otherSpelling(session, table, [tenant]);
        if (problem !== null) return problem;
      }
    }
    return `No row is of tenant ${JSON.stringify(tenants[0])}: ${column} is of type ${type}, which has no such value`;
  }
  const [row] = found;
  if (row === undefined) return null;
  const [given, text] = row;
  return (
    `Tenant ${JSON.stringify(given)} is ${JSON.stringify(text)} to ${column}, of type ${type}. ` +
    "Write it so, in the routing too"
  );
}

/** Tenants that a type writes otherwise, with how; or that it cannot read one of them. */
async function written(
  session: Session,
  type: string,
  tenants: readonly string[],
): Promise<ResultRows | PawlError> {
  try {
    return await session.rows(
      `select given, text from (
        select given, given::${type}::text as text from unnest(${literalArray(tenants)}) as given) as texts
      where text collate "C" <> given limit 1`,
    );
  } catch (error) {
    // A value that cannot be read, or that a domain does not allow.
    if (error instanceof PawlError && /^2[23]/.test(sqlState(error))) return error;
    throw error;
  }
}

/** With its length or scale, which is part of how a value is written, and without its order. */
function declaredType({ columns, shard_by }: TableShape): string {
  const [type = "text"] =
    columns.find(({ name }) => name === shard_by)?.type.split(" collate ") ?? [];
  return type;
}

/**
 * The sequences that columns take their values from: identities, serials, and defaults that name
 * one. The offset keeps later functions from being asked about what is no sequence.
 */
function sequencesOf(tables: readonly { table: string }[], schema: string): string {
  const wanted = tables.map(({ table }) => {
    const place = literal(tableSql(tableName(table, schema)));
    return `(${literal(table)}, to_regclass(${place})::oid)`;
  });
  return `
select w.name as table_name, a.attname as column_name, d.sequence, s.seqincrement as step
from (values ${wanted.join(", ")}) as w(name, oid)
join pg_attribute a on a.attrelid = w.oid and a.attnum > 0 and not a.attisdropped
cross join lateral (
  select d.objid as sequence from pg_depend d
  where d.refclassid = 'pg_class'::regclass and d.refobjid = w.oid and d.refobjsubid = a.attnum
    and d.classid = 'pg_class'::regclass and d.deptype in ('a', 'i')
  union
  select d.refobjid from pg_attrdef f
  join pg_depend d on d.classid = 'pg_attrdef'::regclass and d.objid = f.oid
    and d.refclassid = 'pg_class'::regclass
  where f.adrelid = w.oid and f.adnum = a.attnum) as d
join pg_sequence s on s.seqrelid = d.sequence
offset 0`;
}

/** Where sequences of tables stand; those that gave no value yet are left out. */
export async function readSequences(
  pool: pg.Pool,
  schema: string,
  tables: readonly TableShape[],
): Promise<SequenceValue[]> {
  if (tables.length === 0) return [];
  const rows = await withSession(pool, (session) =>
    session.rows(`
select table_name, column_name, pg_sequence_last_value(sequence)
from (${sequencesOf(tables, schema)}) as found
where pg_sequence_last_value(sequence) is not null
order by table_name collate "C", column_name collate "C"`),
  );
  return rows.map(([table, column, value]) => ({
    table: table ?? "",
    column: column ?? "",
    value: value ?? "",
  }));
}

/** Moves sequences on to values where they are behind; a descending one is behind when it is above. */
export async function advanceSequences(
  pool: pg.Pool,
  schema: string,
  values: readonly SequenceValue[],
): Promise<void> {
  if (values.length === 0) return;
  const wanted = values.map(
    ({ table, column, value }) =>
      `(${literal(table)}, ${literal(column)}, ${literal(value)}::bigint)`,
  );
  const tables = [...new Set(values.map(({ table }) => table))].map((table) => ({ table }));
  await withSession(pool, (session) =>
    session.run([
      `select setval(found.sequence::regclass, v.value)
      from (${sequencesOf(tables, schema)}) as found
      join (values ${wanted.join(", ")}) as v(table_name, column_name, value)
        on v.table_name = found.table_name and v.column_name = found.column_name
      where coalesce((v.value - pg_sequence_last_value(found.sequence)) * sign(found.step) > 0, true)`,
    ]),
  );
}

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
    // Asked in the same round trip: whoever sets one fence after another may keep writers waiting.
    const unsettled = await changeFences(pool, guard, tenants, SET_WAIT_MS, [
      set,
      unsettledSql(tenants),
    ]);
    if (unsettled.length > 0) await settle(pool, guard, tenants, SET_WAIT_MS);
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
  const closed = await changeFences(pool, guard, tenants, waitMs, [
    allOrNone(
      tenants,
      "fence.state in ('open', 'closed', 'held')",
      `state = case fence.state when 'held' then fence.state else 'closed' end,
      until = case fence.state when 'held' then null
        else clock_timestamp() + interval '1 ms' * ${Math.trunc(holdMs)} end`,
    ),
  ]);
  refuseMissing(tenants, closed);
}

/** Makes closed fences held, all or none. */
export async function holdFences(
  pool: pg.Pool,
  guard: Guard,
  tenants: readonly string[],
): Promise<void> {
  const held = await changeFences(pool, guard, tenants, SET_WAIT_MS, [
    allOrNone(
      tenants,
      "fence.state = 'held' or (fence.state = 'closed' and fence.until > clock_timestamp())",
      "state = 'held', until = null",
    ),
  ]);
  refuseMissing(tenants, held);
}

/**
 * Changes the fences of tenants if all of them fulfil a condition, and gives those that do. The
 * locks of the tenants are held, so what is found is what is changed.
 */
function allOrNone(tenants: readonly string[], condition: string, set: string): string {
  return `
with fit as materialized (
  select fence.tenant from _pawl.fences as fence
  where fence.tenant = any (${literalArray(tenants)}) and (${condition})),
changed as (
  update _pawl.fences as fence set ${set}
  from fit
  where fence.tenant = fit.tenant and (select count(*) from fit) = ${new Set(tenants).size})
select tenant from fit`;
}

/** Takes fences away, as far as there are any. */
export async function dropFences(
  pool: pg.Pool,
  guard: Guard,
  tenants: readonly string[],
): Promise<void> {
  const drop = `delete from _pawl.fences where tenant = any (${literalArray(tenants)})`;
  await shardBusy(async () => {
    await changeFences(pool, guard, tenants, SET_WAIT_MS, [drop]);
  });
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

/** Changes fences under their locks, in one round trip, and gives the rows of the last statement that has any. */
async function changeFences(
  pool: pg.Pool,
  guard: Guard,
  tenants: readonly string[],
  waitMs: number,
  statements: readonly string[],
): Promise<ResultRows> {
  const locked = ["begin", guardSql(guard), ...lockTenants(tenants, waitMs), ...NOTE_CHANGE];
  try {
    return await withTransaction(pool, (session) =>
      session.rows(...locked, ...statements, "commit"),
    );
  } catch (error) {
    if (!["57014", "55P03", "40P01"].includes(sqlState(error))) throw error;
    throw fenceBusy(tenants, waitMs, error);
  }
}

/** Refuses when a fence was not as it had to be: then the others were left as they were, too. */
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
  const fresh = await withSession(pool, (session) => session.rows(unsettledSql(tenants)));
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

function unsettledSql(tenants: readonly string[]): string {
  return `select tenant from _pawl.fences where tenant = any (${literalArray(tenants)}) and not settled`;
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
