import { randomBytes, randomUUID } from "node:crypto";
import type pg from "pg";
import { PawlError } from "../../kernel/errors.ts";
import {
  parseSchemaChange,
  requireTable,
  type SchemaChange,
} from "../../work/shard/schema-change.ts";
import type { TablePolicy } from "../../work/shard/spec.ts";
import {
  type ApplyRequest,
  type Guard,
  type Position,
  positionGivenUp,
  type TableShape,
} from "../shard.ts";
import {
  CAPTURE_TRIGGERS,
  captureFunctions,
  captureTriggers,
  dropFunctions,
  dropTriggers,
  markStatements,
} from "./capture-sql.ts";
import { catalogueSql, readFingerprint, readShapes } from "./catalogue.ts";
import { sqlState } from "./failures.ts";
import { guardSql } from "./install.ts";
import {
  inTurns,
  onlyValue,
  type Session,
  TURN_MS,
  withSession,
  withTransaction,
} from "./session.ts";
import {
  canonicalName,
  columnList,
  exactText,
  literal,
  literalArray,
  quoted,
  tableName,
  tableSql,
} from "./sql-text.ts";

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
  if (released !== null) throw positionGivenUp(position, released);
  return pruneChanges(pool, guard);
}

const LOCK_TURN = `set local lock_timeout = '${TURN_MS}ms'`;

/** The tables, of those given by canonical name, whose changes are not all captured. */
export function uncapturedSql(tables: readonly TableShape[], schema: string): string {
  const wanted = tables.map(({ table }) => {
    const place = tableName(table, schema);
    return `(${literal(canonicalName(place))}, to_regclass(${literal(tableSql(place))})::oid)`;
  });
  return `
select w.name from (values ${wanted.join(", ")}) as w(name, oid)
where (
  select count(*) from pg_trigger t
  where t.tgrelid = w.oid and t.tgenabled = 'A'
    and t.tgname = any (${literalArray(CAPTURE_TRIGGERS)})) < ${CAPTURE_TRIGGERS.length}`;
}

/**
 * Has changes of tables captured for a plan. Making a trigger waits for all writes to the table
 * that are under way, so every write after the answered position is captured.
 */
export async function armCapture(
  pool: pg.Pool,
  schema: string,
  guard: Guard,
  tables: readonly TableShape[],
): Promise<Position> {
  const plan = literal(guard.plan);
  const { armedAt, missing } = await withSession(pool, async (session) => {
    const { results } = await session.run([
      "begin",
      guardSql(guard),
      `select armed_at from _pawl.plans where plan = ${plan}`,
      `select table_name from _pawl.captures where plan = ${plan}`,
      uncapturedSql(tables, schema),
      "commit",
    ]);
    const [, armed, captured, lacking] = results;
    const known = new Set(captured?.map(([name]) => name));
    return {
      armedAt: armed?.[0]?.[0] ?? null,
      missing: lacking?.map(([name]) => name).filter((name) => known.has(name)) ?? [],
    };
  });
  if (armedAt !== null && missing.length > 0) throw triggersGone(missing);
  for (const table of tables) await armTable(pool, schema, guard, table);
  return withSession(pool, async (session) =>
    onlyValue(
      await session
        .run([
          "begin",
          guardSql(guard),
          `update _pawl.plans set armed_at = coalesce(armed_at, pg_current_snapshot()) where plan = ${plan} returning armed_at`,
          "commit",
        ])
        .then(({ results }) => results.at(-1)),
    ),
  );
}

async function armTable(
  pool: pg.Pool,
  schema: string,
  guard: Guard,
  table: TableShape,
): Promise<void> {
  const place = tableName(table.table, schema);
  const canonical = literal(canonicalName(place));
  await inTurns(`capture changes of ${table.table}`, () =>
    withTransaction(pool, async (session) => {
      const lacking = await session.rows(
        "begin",
        guardSql(guard),
        LOCK_TURN,
        `lock table ${tableSql(place)} in share row exclusive mode`,
        `insert into _pawl.captures (plan, table_name) values (${literal(guard.plan)}, ${canonical})
          on conflict do nothing`,
        ...captureFunctions(table, schema),
        uncapturedSql([table], schema),
      );
      if (lacking.length > 0) {
        // Made anew, they would hide from another plan that it misses something.
        const others = await session.rows(othersSql(guard, canonical));
        if (others.length > 0) throw triggersGone([table.table]);
        await armTriggers(session, schema, table);
      }
      await session.run(["commit"]);
    }),
  );
}

/** Other plans that have a table captured. */
function othersSql({ plan }: Guard, canonical: string): string {
  return `select plan from _pawl.captures where table_name = ${canonical} and plan <> ${literal(plan)}`;
}

function triggersGone(tables: readonly (string | null | undefined)[]): PawlError {
  return new PawlError(
    "SCHEMA_CHANGED",
    `The triggers that capture changes of ${tables.join(", ")} were taken away or disabled. Changes may be lost: roll back and begin again.`,
    { details: { tables } },
  );
}

async function armTriggers(session: Session, schema: string, table: TableShape): Promise<void> {
  const marks = await session.rows(
    ...captureTriggers(table, schema),
    ...markStatements(table, schema, randomUUID()),
  );
  if (marks[0]?.[0] !== "t") {
    throw new PawlError(
      "TABLE_UNFIT",
      `Changes of ${table.table} cannot be captured: its triggers do not fire. Look for rules on the table.`,
      { details: { table: table.table } },
    );
  }
}

/** Ends the capture for a plan; what no plan needs any more is taken away. */
export async function disarmCapture(pool: pg.Pool, schema: string, guard: Guard): Promise<void> {
  const plan = literal(guard.plan);
  const captured = await withSession(pool, (session) =>
    session.run([
      "begin",
      guardSql(guard),
      `select table_name from _pawl.captures where plan = ${plan}`,
      "commit",
    ]),
  );
  for (const [name] of captured.results.at(-1) ?? []) {
    if (name !== null && name !== undefined) await disarmTable(pool, schema, guard, name);
  }
  await withSession(pool, (session) =>
    session.run([
      "begin",
      guardSql(guard),
      `update _pawl.plans set armed_at = null, needs = null where plan = ${plan}`,
      "commit",
    ]),
  );
  await pruneChanges(pool, guard);
}

async function disarmTable(
  pool: pg.Pool,
  schema: string,
  guard: Guard,
  canonical: string,
): Promise<void> {
  const name = literal(canonical);
  const target = tableSql(tableName(canonical, schema));
  await inTurns(`end the capture of ${canonical}`, () =>
    withTransaction(pool, async (session) => {
      const { results } = await session.run([
        "begin",
        guardSql(guard),
        LOCK_TURN,
        // Two plans that end at once must not each take the other for one that stays.
        `select pg_advisory_xact_lock(729186, hashtext(${name}))`,
        `select to_regclass(${literal(target)}) is not null,
          exists (${othersSql(guard, name)})`,
      ]);
      const [exists, needed] = results.at(-1)?.[0] ?? [];
      if (needed === "f") {
        // Looked at again under the lock: another plan may have come for the table.
        const locking = exists === "t" ? [`lock table ${target} in access exclusive mode`] : [];
        const others = await session.rows(...locking, othersSql(guard, name));
        if (others.length === 0) {
          const triggers = exists === "t" ? dropTriggers(target) : [];
          await session.run([...triggers, ...dropFunctions(canonical)]);
        }
      }
      await session.run([
        `delete from _pawl.captures where plan = ${literal(guard.plan)} and table_name = ${name}`,
        "commit",
      ]);
    }),
  );
}

/**
 * Captures writes to each of the tables in a transaction that is rolled back: says why that fails,
 * null when it does not. It writes to a table that is made like the one in question, with one of its
 * rows: nobody has to wait for a lock, and no trigger of the user fires.
 */
export async function tryCapture(
  pool: pg.Pool,
  schema: string,
  tables: readonly TableShape[],
): Promise<string | null> {
  for (const table of tables) {
    const problem = await tryTable(pool, schema, table);
    if (problem !== null) return `Changes of ${table.table} cannot be captured: ${problem}`;
  }
  return null;
}

/** SQLSTATE classes that say something about the table or the statement, and nothing of the moment. */
const ABOUT_THE_TABLE = /^(?:0A|2[1-9A-F]|3[A-F]|42|44|P0|XX)/;

async function tryTable(pool: pg.Pool, schema: string, table: TableShape): Promise<string | null> {
  const place = tableName(table.table, schema);
  const like: TableShape = { ...table, table: `_pawl.try_${randomBytes(6).toString("hex")}` };
  const copy = tableSql(tableName(like.table, schema));
  const columns = columnList(table.columns.map(({ name }) => name));
  const tenant = exactText(quoted(table.shard_by));
  const own = `table_name = ${literal(like.table)}`;
  try {
    return await withTransaction(pool, async (session) => {
      const [row] = await session.rows(
        "begin",
        `create table ${copy} (like ${tableSql(place)} including generated including indexes)`,
        ...captureFunctions(like, schema, place.schema),
        ...captureTriggers(like, schema),
        // A fence makes the triggers compare tenants.
        `insert into _pawl.fences (tenant, epoch, state)
          select ${tenant}, 0, 'open' from (select ${quoted(table.shard_by)} from ${tableSql(place)} limit 1) as row_of_it
          where ${tenant} is not null on conflict do nothing`,
        "select set_config('pawl.entered', coalesce((select array_agg(tenant)::text from _pawl.fences), ''), true)",
        `insert into ${copy} (${columns}) overriding system value
          select ${columns} from ${tableSql(place)} limit 1`,
        `select set_config('pawl.tried', (select count(*)::text from ${copy}), true)`,
        `update ${copy} set ${quoted(table.shard_by)} = ${quoted(table.shard_by)}`,
        `delete from ${copy}`,
        `select (select count(*) from _pawl.changes where ${own} and op = 'put'),
          (select count(*) from _pawl.changes where ${own} and op = 'delete'),
          current_setting('pawl.tried')::bigint`,
      );
      await session.run(["rollback"]);
      const [puts, deletions, rows] = (row ?? []).map(Number);
      const isLogged = puts === 2 * (rows ?? 0) && deletions === rows;
      return isLogged
        ? null
        : `of ${rows} rows ${puts} writes and ${deletions} deletions were found`;
    });
  } catch (error) {
    const cause = error instanceof Error && error.cause !== undefined ? error.cause : error;
    const { code, message } = cause as { code?: unknown; message?: unknown };
    if (typeof code !== "string" || !ABOUT_THE_TABLE.test(code) || code === "42501") throw error;
    return String(message);
  }
}

/** Runs a statement that changes the schema and captures it as a change, in one transaction. */
export async function runDdl(
  pool: pg.Pool,
  schema: string,
  guard: Guard,
  sql: string,
  tables: readonly TablePolicy[],
): Promise<void> {
  const change = parseSchemaChange(sql);
  requireTable(change, tables, schema);
  await inTurns("change the schema", () =>
    withTransaction(pool, async (session) => {
      await session.run(["begin", guardSql(guard), LOCK_TURN]);
      await requireIndexOfTable(session, change, tables, schema);
      await runWithin(session, sql);
      const named = tables.map(({ table }) => table);
      const rows = await session.rows(catalogueSql(named, schema));
      await renewFunctions(session, schema, readShapes(rows, tables, schema));
      await session.run([
        `insert into _pawl.changes (table_name, op, key, ddl, fingerprint)
        values ('', 'ddl', '{}', ${literal(sql)}, ${literal(readFingerprint(rows))})`,
        "commit",
      ]);
    }),
  );
}

/** Runs a change of the schema that was captured elsewhere, with the state of its stream. */
export async function replayDdl(
  pool: pg.Pool,
  schema: string,
  { guard, tables }: ApplyRequest,
  sql: string,
  moveStream: string,
): Promise<void> {
  const change = parseSchemaChange(sql);
  requireTable(change, tables, schema);
  await inTurns("change the schema", () =>
    withTransaction(pool, async (session) => {
      await session.run([
        "begin",
        "select set_config('pawl.applying', 'on', true)",
        guardSql(guard),
        moveStream,
        LOCK_TURN,
      ]);
      await requireIndexOfTable(session, change, tables, schema);
      await runWithin(session, sql);
      const rows = await session.rows(
        catalogueSql(
          tables.map(({ table }) => table),
          schema,
        ),
      );
      await renewFunctions(session, schema, readShapes(rows, tables, schema));
      await session.run(["commit"]);
    }),
  );
}

/** Refuses to drop an index of another table; one that is not there the database speaks of. */
async function requireIndexOfTable(
  session: Session,
  change: SchemaChange,
  tables: readonly TablePolicy[],
  schema: string,
): Promise<void> {
  if (change.what !== "drop index") return;
  const place = [change.schema, change.name].flatMap((name) =>
    name === null ? [] : [quoted(name.isQuoted ? name.text : name.text.toLowerCase())],
  );
  const [row] = await session.rows(`
select n.nspname || '.' || c.relname
from pg_index i
join pg_class c on c.oid = i.indrelid
join pg_namespace n on n.oid = c.relnamespace
where i.indexrelid = to_regclass(${literal(place.join("."))})`);
  const named = row?.[0] ?? null;
  if (named !== null) requireTable(change, tables, schema, named);
}

/** Runs the statement of a user; what it says of the statement is for its author. */
async function runWithin(session: Session, sql: string): Promise<void> {
  try {
    await session.run([sql]);
  } catch (error) {
    if (!/^(?:0A|42)/.test(sqlState(error)) || sqlState(error) === "42501") throw error;
    const reason = error instanceof Error ? error.message : String(error);
    throw new PawlError("INPUT_INVALID", `The statement was not run: ${reason}.`, {
      details: { sql },
      cause: error,
    });
  }
}

/** Functions that capture changes name columns, so they are made anew where they are. */
async function renewFunctions(
  session: Session,
  schema: string,
  shapes: readonly TableShape[],
): Promise<void> {
  const captured = await session.rows("select distinct table_name from _pawl.captures");
  const names = new Set(captured.map(([name]) => name));
  const statements = shapes
    .filter(({ table }) => names.has(canonicalName(tableName(table, schema))))
    .flatMap((shape) => captureFunctions(shape, schema));
  if (statements.length > 0) await session.run(statements);
}
