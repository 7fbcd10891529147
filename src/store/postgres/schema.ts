import type pg from "pg";
import { kindTables, pendingSteps, schemaSteps } from "../schema-steps.ts";
import { type Connection, POSTGRES, withConnection } from "./connection.ts";

// Two servers may start at once; the second waits here until the first has brought the schema up
// to date. The number is arbitrary, but the same for ever.
const LOCK = `
begin;
set local lock_timeout = '60s';
select pg_advisory_xact_lock(7291834650)`;

const MAKE_RECORD = `
create schema if not exists pawl;
create table if not exists pawl.schema_steps (
  step bigint primary key,
  name text not null,
  applied_at timestamptz not null
)`;

const IS_RECORDED = "select to_regclass('pawl.schema_steps') is not null";
const NEWEST = "select coalesce(max(step), 0) from pawl.schema_steps";
const RECORD = `
insert into pawl.schema_steps (step, name, applied_at)
values ($1, $2, clock_timestamp())`;

/** Fewer rows are read through sooner than looked up. */
const ROWS_MIN = 1_000;

/*
 * PostgreSQL reckons with as many rows on a page as it found when it last analysed the table. One that
 * was nearly empty then has grown a thousandfold before that is done again, and is read through for
 * every look-up meanwhile. Of one that was never analysed it knows nothing, and takes whatever index.
 */
const MISJUDGED = `
select format('%I.%I', relnamespace::regnamespace, relname)
from pg_class
where relnamespace = 'pawl'::regnamespace and relkind = 'r'
  and pg_stat_get_live_tuples(oid) > greatest(
    ${ROWS_MIN},
    10 * reltuples / nullif(relpages, 0) * pg_relation_size(oid) / current_setting('block_size')::int
  )
  and pg_has_role(relowner, 'USAGE')`;

/** Has tables analysed that PostgreSQL takes for much smaller than they are. */
export async function analyseMisjudged(pool: pg.Pool): Promise<void> {
  await withConnection(pool, async (connection) => {
    for (const [table] of await connection.rows(MISJUDGED, [])) {
      await connection.execute(`analyze (skip_locked) ${String(table)}`);
    }
  });
}

const TABLES = {
  table: (name: string) => POSTGRES.table(name),
  types: { text: 'text collate "C"', int: "bigint", json: 'text collate "C"' },
  integer: "bigint",
  end: "",
};

/**
 * Brings the schema up to date. All pending steps are one transaction under an advisory lock, so a
 * kill at any statement leaves the schema as it was.
 */
export async function applySchemaSteps(pool: pg.Pool, place: string): Promise<void> {
  const steps = schemaSteps("postgres");
  const ofKinds = kindTables(TABLES);
  await withConnection(pool, async (connection) => {
    // A look without the lock: an up-to-date database opens without waiting.
    const pending = pendingSteps(steps, await newestStep(connection), place);
    if (pending.length === 0 && ofKinds.length === 0) return;
    await connection.execute(LOCK);
    try {
      await connection.execute(MAKE_RECORD);
      for (const { step, name, sql } of pendingSteps(steps, await newestStep(connection), place)) {
        await connection.rows(RECORD, [step, name]);
        await connection.execute(sql);
      }
      for (const sql of ofKinds) await connection.execute(sql);
      await connection.execute("commit");
    } catch (error) {
      if (!connection.failed) await connection.execute("rollback");
      throw error;
    }
  });
}

async function newestStep(connection: Connection): Promise<number> {
  const [recorded] = await connection.rows(IS_RECORDED, []);
  if (recorded?.[0] !== "t") return 0;
  const [newest] = await connection.rows(NEWEST, []);
  return Number(newest?.[0]);
}
