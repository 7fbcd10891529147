import { randomUUID } from "node:crypto";
import type pg from "pg";
import { PawlError } from "../../core/errors.ts";
import type { Guard, Position, TableShape } from "../shard.ts";
import {
  CAPTURE_TRIGGERS,
  captureFunctions,
  captureTriggers,
  dropFunctions,
  dropTriggers,
  markStatements,
} from "./capture-sql.ts";
import { canonicalName, literal, literalArray, tableName, tableSql } from "./identifiers.ts";
import { guardSql } from "./plans.ts";
import { pruneChanges } from "./prune.ts";
import { onlyValue, type Session, withSession, withTransaction } from "./session.ts";
import { inTurns, TURN_MS } from "./turns.ts";

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
