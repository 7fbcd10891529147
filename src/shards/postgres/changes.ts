import type pg from "pg";
import type { RowChange, Position, ReadRequest, StreamCursor, TableShape } from "../shard.ts";
import { keySql, scopeSql } from "./conditions.ts";
import { canonicalName, columnType, literal, tableName, tableSql } from "./identifiers.ts";
import type { ResultRows } from "./script.ts";
import { onlyValue, withSession } from "./session.ts";

/** Most changes that are counted behind a position. */
const LAG_MAX = 100_000;

/**
 * The position of a snapshot, with a note of how much had been written to the WAL by then: the end of
 * every transaction that the position covers is in it.
 */
export const POSITION =
  "pg_current_snapshot(), set_config('pawl.wal', pg_current_wal_insert_lsn()::text, false)";

/**
 * Has that much of the WAL flushed, after the transaction that read a position and before the position
 * is used. Else a crash could forget transactions that it covers, committed or given up, whose numbers
 * are then given out again: changes made under them would count as taken over. As a rule others have
 * flushed it by now; if not, a commit that is waited for does. (A number alone would not do: a commit
 * that wrote nothing before is not waited for.)
 */
export const FLUSH: readonly string[] = [
  "begin",
  `select pg_logical_emit_message(true, 'pawl', '')
    where pg_current_wal_flush_lsn() < current_setting('pawl.wal')::pg_lsn`,
  "commit",
];

/** An instant as a text that every reader of dates knows. */
const INSTANT = `'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'`;

/** The statement that reads one change more than asked for: it tells whether any is left. */
export function changesSql(request: ReadRequest, from: Position, schema: string): string {
  const upto = request.to === undefined || request.to === null ? null : request.to;
  const snapshot = upto === null ? "pg_current_snapshot()" : `${literal(upto)}::pg_snapshot`;
  const above = request.after_id ?? null;
  const scopes = request.tables.map((table) => {
    const type = columnType(table, table.shard_by);
    return `when ${name(table, schema)} then ${scopeSql(request.scope, `c.tenant::${type}`, type)}`;
  });
  const covers = request.tables.map(
    (table, index) => `when ${name(table, schema)} then ${coversSql(table, index, request.cursor)}`,
  );
  const older = request.tables.map(
    (table) => `when ${name(table, schema)} then ${isOlderSql(table, schema)}`,
  );
  return `
select c.id, c.op, c.table_name, to_json(c.key), c.image, c.ddl, c.fingerprint,
  to_char(c.at, ${INSTANT}), c.covered, c.older
from (
  select c.id,
    case when c.op = 'ddl' or h.hit then c.op end as op,
    case when h.hit then c.table_name end as table_name,
    case when h.hit then c.key end as key,
    case when h.hit then c.image end as image,
    c.ddl, c.fingerprint, c.at,
    case when h.hit then case c.table_name ${covers.join(" ")} end else true end as covered,
    case when h.hit then case c.table_name ${older.join(" ")} end end as older
  from _pawl.changes_between(
    ${literal(from)}::pg_snapshot, ${snapshot},
    ${above === null ? "0" : `${literal(above)}::bigint`}, ${Math.trunc(request.changesMax) + 1}) c
  cross join lateral (
    select c.op <> 'ddl' and coalesce(case c.table_name ${scopes.join(" ")} end, false) as hit) h
) c
order by c.id`;
}

function name(table: TableShape, schema: string): string {
  return literal(canonicalName(tableName(table.table, schema)));
}

/**
 * Whether a change is from before the last change of its table's columns, of whatever kind, or from the
 * same transaction. Columns that are older than ids can tell have a negative age, and count for nothing.
 */
function isOlderSql(table: TableShape, schema: string): string {
  const reference = literal(tableSql(tableName(table.table, schema)));
  return `age(c.xid::xid) >= (
    select min(age(a.xmin)) from pg_attribute a
    where a.attrelid = to_regclass(${reference}) and a.attnum > 0 and age(a.xmin) >= 0)`;
}

/** Whether a cursor has passed a change's key. */
function coversSql(table: TableShape, index: number, cursor: StreamCursor | null): string {
  if (cursor === null || index < cursor.table) return "true";
  if (index > cursor.table || cursor.key === null) return "false";
  const parts = table.key.map((column, part) => `c.key[${part + 1}]::${columnType(table, column)}`);
  return keySql(table, "<=", cursor.key, parts);
}

/** What `changesSql` found: at most as many as asked for, of those the ones that matter. */
export function readChanges(
  rows: ResultRows,
  request: ReadRequest,
  schema: string,
): { changes: RowChange[]; older: Set<string>; throughId: string | null; complete: boolean } {
  const names = new Map(
    request.tables.map(({ table }) => [canonicalName(tableName(table, schema)), table]),
  );
  const looked = rows.slice(0, request.changesMax);
  const changes = looked.flatMap((row): RowChange[] => {
    const [id, op, table, key, image, ddl, fingerprint, at, covered] = row;
    if (op !== "put" && op !== "delete" && op !== "ddl") return [];
    return [
      {
        id: id ?? "",
        op,
        table: names.get(table ?? "") ?? "",
        key: key === null || key === undefined ? [] : (JSON.parse(key) as string[]),
        covered: covered === "t",
        image: image ?? null,
        ddl: op === "ddl" ? { sql: ddl ?? "", fingerprint: fingerprint ?? "" } : null,
        at: at ?? "",
      },
    ];
  });
  return {
    changes,
    older: new Set(looked.flatMap((row) => (row[9] === "t" ? (row[0] ?? []) : []))),
    throughId: looked.at(-1)?.[0] ?? null,
    complete: rows.length <= request.changesMax,
  };
}

/** The present position. */
export async function presentPosition(pool: pg.Pool): Promise<Position> {
  const { results } = await withSession(pool, (session) =>
    session.run([`select ${POSITION}`, ...FLUSH]),
  );
  return onlyValue(results[0]);
}

/** How many changes lie behind a position, and since when. */
export async function lag(
  pool: pg.Pool,
  from: Position,
): Promise<{ events: number; oldest_at: string | null }> {
  const since = `${literal(from)}::pg_snapshot`;
  const [row] = await withSession(pool, (session) =>
    session.rows(`
select count(*), to_char(min(at), ${INSTANT}) from (
  select at from _pawl.changes
  where xid >= pg_snapshot_xmin(${since}) and not pg_visible_in_snapshot(xid, ${since})
  limit ${LAG_MAX}) behind`),
  );
  return { events: Number(row?.[0] ?? 0), oldest_at: row?.[1] ?? null };
}
