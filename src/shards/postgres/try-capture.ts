import { randomBytes } from "node:crypto";
import type pg from "pg";
import type { TableShape } from "../shard.ts";
import { captureFunctions, captureTriggers } from "./capture-sql.ts";
import { exactText } from "./conditions.ts";
import { columnList, literal, quoted, tableName, tableSql } from "./identifiers.ts";
import { withTransaction } from "./session.ts";

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
