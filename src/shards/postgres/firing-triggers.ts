import type pg from "pg";
import type { TableShape } from "../shard.ts";
import { CAPTURE_TRIGGERS } from "./capture-sql.ts";
import { literal, literalArray, tableName, tableSql } from "./identifiers.ts";
import { onlyValue, type Session, withSession } from "./session.ts";

/** Whether the role may keep triggers and foreign keys from firing; since 15 it can be granted. */
export async function mayBeReplica(session: Session): Promise<boolean> {
  const rows = await session.rows(`
select case
  when current_setting('is_superuser') = 'on' then true
  when current_setting('server_version_num')::integer < 150000 then false
  else has_parameter_privilege('session_replication_role', 'SET') end`);
  return onlyValue(rows) === "t";
}

/** Triggers of the user, and rules, that fire for rows that are copied: `table: trigger`. */
export async function firingTriggers(
  pool: pg.Pool,
  schema: string,
  isReplica: boolean,
  tables: readonly TableShape[],
): Promise<string[]> {
  if (tables.length === 0) return [];
  const wanted = tables.map(({ table }) => {
    const place = literal(tableSql(tableName(table, schema)));
    return `(${literal(table)}, to_regclass(${place})::oid)`;
  });
  const states = literalArray(isReplica ? ["A", "R"] : ["O", "A"]);
  const rows = await withSession(pool, (session) =>
    session.rows(`
select w.name || ': ' || f.name
from (values ${wanted.join(", ")}) as w(name, oid)
cross join lateral (
  select tgname as name from pg_trigger
  where tgrelid = w.oid and not tgisinternal and tgenabled::text = any (${states})
    and tgname <> all (${literalArray(CAPTURE_TRIGGERS)})
  union all
  select rulename from pg_rewrite where ev_class = w.oid and ev_enabled::text = any (${states})
) as f
order by 1`),
  );
  return rows.map(([name]) => name ?? "");
}
