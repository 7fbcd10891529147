import type pg from "pg";
import { INSTALL_STATEMENTS, INSTALLED_VERSION } from "./install-sql.ts";
import { withTransaction, APPLICATION_NAME, withSession } from "./session.ts";
import type { Guard, StreamState } from "../shard.ts";
import { sqlState } from "./failures.ts";
import { literal } from "./identifiers.ts";

// Many may install at once; the others wait here and find it done. The number is arbitrary, but the
// same for ever.
const LOCK = "select pg_advisory_xact_lock(7291834651)";

const IS_THERE = "select to_regclass('_pawl.about') is not null";
const VERSION = "select coalesce(max(version), 0) from _pawl.about";

/** Makes Pawl's own tables and functions in a shard, or brings them up to date. */
export async function install(pool: pg.Pool): Promise<void> {
  await withTransaction(pool, async (session) => {
    const isCurrent = async (): Promise<boolean> => {
      const [[there] = []] = await session.rows(IS_THERE);
      if (there !== "t") return false;
      const [[version] = []] = await session.rows(VERSION);
      return Number(version) >= INSTALLED_VERSION;
    };
    if (await isCurrent()) return;
    await session.run(["begin", "set local lock_timeout = '30s'", LOCK]);
    if (!(await isCurrent())) await session.run(INSTALL_STATEMENTS);
    await session.run(["commit"]);
  });
}

/** The statement that refuses a step that was overtaken, and keeps the next one out until the end. */
export function guardSql({ plan, token }: Guard): string {
  return `select _pawl.guard(${literal(plan)}, ${Math.trunc(token)})`;
}

/** Lets a plan's step act from now on. */
export async function take(pool: pg.Pool, { plan, token }: Guard): Promise<void> {
  const taking = async (): Promise<void> => {
    await withSession(pool, (session) =>
      session.run([
        "begin",
        "set local lock_timeout = '3s'",
        `select _pawl.take(${literal(plan)}, ${Math.trunc(token)})`,
        "commit",
      ]),
    );
  };
  try {
    await taking();
  } catch (error) {
    if (sqlState(error) !== "55P03") throw error;
    // A worker that froze in the middle of sending rows holds its transaction for as long as its
    // connection lives. Its step was given to us, so its connection may go.
    await withSession(pool, (session) => session.run([endHolders(plan)]));
    await taking();
  }
}

function endHolders(plan: string): string {
  return `
select pg_terminate_backend(a.pid)
from pg_locks l join pg_stat_activity a on a.pid = l.pid
where l.locktype = 'advisory' and l.classid = 729183 and l.objsubid = 2 and l.granted
  and l.database = (select oid from pg_database where datname = current_database())
  and l.objid::bigint = hashtext(${literal(plan)})::bigint & 4294967295
  and a.application_name = ${literal(APPLICATION_NAME)} and a.pid <> pg_backend_pid()`;
}

/** The state of a stream into this shard. */
export async function loadStream(pool: pg.Pool, stream: string): Promise<StreamState | null> {
  const [row] = await withSession(pool, (session) =>
    session.rowsIfInstalled(`select state from _pawl.streams where stream = ${literal(stream)}`),
  );
  return row === undefined ? null : readState(row[0]);
}

/** The streams of a plan into this shard, by name. */
export async function listStreams(
  pool: pg.Pool,
  plan: string,
): Promise<{ stream: string; state: StreamState }[]> {
  const rows = await withSession(pool, (session) =>
    session.rowsIfInstalled(
      `select stream, state from _pawl.streams where plan = ${literal(plan)} order by stream`,
    ),
  );
  return rows.map(([stream, state]) => ({ stream: stream ?? "", state: readState(state) }));
}

/** Forgets a stream, once. */
export async function dropStream(pool: pg.Pool, guard: Guard, stream: string): Promise<void> {
  await withSession(pool, (session) =>
    session.run([
      "begin",
      guardSql(guard),
      `delete from _pawl.streams where stream = ${literal(stream)}`,
      "commit",
    ]),
  );
}

/** What was written by `apply`, which alone writes it. */
function readState(text: string | null | undefined): StreamState {
  return JSON.parse(text ?? "null") as StreamState;
}
