import type pg from "pg";
import type { CopyKind, TableShape, KeyRange } from "../shard.ts";
import { literal, literalArray, tableName, tableSql } from "./identifiers.ts";
import { type Session, withSession, onlyValue } from "./session.ts";
import { PawlError } from "../../kernel/errors.ts";
import { keyOrder, rangeSql } from "./conditions.ts";
import { CAPTURE_TRIGGERS } from "./capture-sql.ts";

/*
 * Where the role may not keep foreign keys from firing, constraints decide how rows are written:
 *
 *   nobody names the table's rows, or foreign keys only look (no action)   deleted and inserted anew
 *   a foreign key acts, or looks at once, when a row is deleted             updated in place
 *
 * Rows that are updated in place one by one meet in a unique value that goes from one to another.
 * So a column of it is set to NULL first, where there is one that can be.
 */

/** What decides how changed rows of a table are written. */
export type TableConstraints = {
  /** Rows must stay where they are: a foreign key would act on those that name them. */
  readonly isHeld: boolean;
  /** Columns that are set to NULL first, so that unique values do not meet. */
  readonly parked: readonly string[];
  /** Unique indexes that have no such column. */
  readonly stuck: readonly string[];
  /** Foreign keys of the table to itself. */
  readonly selves: readonly string[];
};

/** The constraints of tables, in their order, after some statements in the same round trip. */
export async function constraintsOf(
  session: Session,
  schema: string,
  tables: readonly TableShape[],
  before: readonly string[] = [],
): Promise<TableConstraints[]> {
  if (tables.length === 0) return [];
  const rows = await session.rows(...before, constraintsSql(schema, tables));
  return rows.map(([text]) => JSON.parse(text ?? "null") as TableConstraints);
}

function constraintsSql(schema: string, tables: readonly TableShape[]): string {
  const wanted = tables.map(({ table, shard_by, key }, place) => {
    const oid = `to_regclass(${literal(tableSql(tableName(table, schema)))})::oid`;
    return `(${place}, ${oid}, ${literalArray([shard_by, ...key])})`;
  });
  // A deferrable constraint is not among them: it is checked at the end. A NULL sets a row apart
  // unless the index says otherwise, which it can since 15.
  return `
with wanted(place, oid, kept) as (values ${wanted.join(", ")}),
unique_index as (
  select w.oid, x.relname as name, (
    select a.attname
    from unnest((i.indkey::smallint[])[0:i.indnkeyatts - 1]) k(num)
    join pg_attribute a on a.attrelid = w.oid and a.attnum = k.num
    where not a.attnotnull and a.attgenerated = '' and a.attname <> all (w.kept)
      and to_jsonb(i) ->> 'indnullsnotdistinct' is distinct from 'true'
      and not exists (
        select from pg_constraint c
        where c.contype = 'f' and c.confrelid = w.oid and a.attnum = any (c.confkey))
    order by a.attnum limit 1) as park
  from wanted w
  join pg_index i on i.indrelid = w.oid
  join pg_class x on x.oid = i.indexrelid
  where (i.indisunique or i.indisexclusion) and not i.indisprimary and i.indimmediate)
select json_build_object(
  'isHeld', exists (
    select from pg_constraint c
    where c.contype = 'f' and c.confrelid = w.oid and c.confdeltype <> 'a'),
  'parked', coalesce((select json_agg(distinct u.park) from unique_index u
    where u.oid = w.oid and u.park is not null), '[]'),
  'stuck', coalesce((select json_agg(u.name order by u.name) from unique_index u
    where u.oid = w.oid and u.park is null), '[]'),
  'selves', coalesce((select json_agg(c.conname order by c.conname) from pg_constraint c
    where c.contype = 'f' and c.conrelid = w.oid and c.confrelid = w.oid), '[]'))
from wanted w order by w.place`;
}

const CURE =
  "let the worker's role set session_replication_role, which keeps foreign keys from firing";

/** Constraints that rows cannot be copied past, each with the reason. */
export async function obstacles(
  pool: pg.Pool,
  schema: string,
  isReplica: boolean,
  tables: readonly TableShape[],
  kind: CopyKind,
): Promise<string[]> {
  if (isReplica) return [];
  const found = await withSession(pool, (session) => constraintsOf(session, schema, tables));
  return found.flatMap(({ isHeld, stuck, selves }, at) => {
    const table = tables[at]?.table ?? "";
    const own = selves.map(
      (name) =>
        `rows of ${table} name others of it (${name}), which may come later in the order of its key: ${CURE}`,
    );
    if (kind === "rows" || !isHeld) return own;
    const met = stuck.map(
      (name) =>
        `${table} has rows that other tables name, with an action of a foreign key, and a unique index ` +
        `(${name}) whose values may change places: make it a deferrable constraint, or ${CURE}`,
    );
    return [...own, ...met];
  });
}

/**
 * Refuses to remove rows that rows of other tables name, where the database would delete or change
 * those as well: nobody has copied them. For roles that cannot keep foreign keys from firing.
 */
export async function refuseCascades(
  session: Session,
  schema: string,
  range: KeyRange,
  limit: number | null,
): Promise<void> {
  const { table } = range;
  const reference = tableSql(tableName(table.table, schema));
  const most = limit === null ? "" : `order by ${keyOrder(table)} limit ${Math.trunc(limit)}`;
  const cascades = await session.rows(cascadesSql(reference));
  for (const [naming = "", columns = "", named = ""] of cascades) {
    const found = await session.rows(`
select 1 where exists (
  select from ${naming} where (${columns}) in (
    select ${named} from ${reference} where ${rangeSql(range)} ${most}))`);
    if (found.length === 0) continue;
    throw new PawlError(
      "ROWS_CONFLICT",
      `Rows of ${table.table} were not removed: rows of ${naming} that stay here name them, and a ` +
        "foreign key would delete or change those too. Take them along or delete them first, or " +
        "let the role set session_replication_role.",
      { details: { table: table.table, naming } },
    );
  }
}

/** Other tables whose foreign keys do something when rows of a table are deleted. */
function cascadesSql(reference: string): string {
  return `
select format('%I.%I', n.nspname, r.relname),
  string_agg(quote_ident(a.attname), ', ' order by k.place),
  string_agg(quote_ident(b.attname), ', ' order by k.place)
from pg_constraint c
join pg_class r on r.oid = c.conrelid
join pg_namespace n on n.oid = r.relnamespace
cross join lateral unnest(c.conkey, c.confkey) with ordinality k(ours, theirs, place)
join pg_attribute a on a.attrelid = c.conrelid and a.attnum = k.ours
join pg_attribute b on b.attrelid = c.confrelid and b.attnum = k.theirs
where c.contype = 'f' and c.confrelid = to_regclass(${literal(reference)})
  and c.conrelid <> c.confrelid and c.confdeltype in ('c', 'n', 'd')
group by c.oid, n.nspname, r.relname
order by 1`;
}

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
