import type pg from "pg";
import { INSTALL_STATEMENTS, INSTALLED_VERSION } from "./install-sql.ts";
import { withTransaction } from "./session.ts";

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
