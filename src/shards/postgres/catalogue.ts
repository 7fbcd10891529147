import { createHash } from "node:crypto";
import type pg from "pg";
import { PawlError } from "../../kernel/errors.ts";
import type { TablePolicy } from "../../work/shard/spec.ts";
import type { CopyKind, KeyRange, TableShape } from "../shard.ts";
import { CAPTURE_TRIGGERS } from "./capture-sql.ts";
import { onlyValue, type ResultRows, type Session, withSession } from "./session.ts";
import { keyOrder, literal, literalArray, rangeSql, tableName, tableSql } from "./sql-text.ts";

type Column = {
  name: string;
  type: string;
  generated: string;
  identity: string;
  not_null: boolean;
};

/** What the catalogue says of a table. */
type Entry = {
  table: string;
  found: boolean;
  kind: string;
  persistence: string;
  inherits: boolean;
  subscribed: boolean;
  columns: Column[] | null;
  key: string[] | null;
  key_deferrable: boolean;
  references: { schema: string; name: string }[] | null;
  locale: string;
};

/** Asks the catalogue about tables: one row each, in order, with all that a shape is made of. */
export function catalogueSql(tables: readonly string[], schema: string): string {
  const wanted = tables.map((table, index) => {
    const place = literal(tableSql(tableName(table, schema)));
    return `(${index}, ${literal(table)}, to_regclass(${place})::oid)`;
  });
  return `
with wanted(place, given, oid) as (values ${wanted.join(", ")}),
locale as (
  select pg_encoding_to_char(d.encoding) || ' ' || concat_ws(' ', r ->> 'datlocprovider',
    r ->> 'datcollate', r ->> 'datlocale', r ->> 'daticulocale') as name
  from pg_database d, lateral to_jsonb(d) r
  where d.datname = current_database()
)
select json_build_object(
  'table', w.given,
  'found', c.oid is not null,
  'kind', c.relkind,
  'persistence', c.relpersistence,
  'inherits', coalesce(c.relispartition, false) or exists (
    select from pg_inherits i where w.oid in (i.inhrelid, i.inhparent)),
  'subscribed', exists (select from pg_subscription_rel s where s.srrelid = w.oid),
  'columns', (
    select json_agg(json_build_object(
      'name', a.attname,
      'type', format_type(a.atttypid, a.atttypmod) || case
        when a.attcollation in (0, t.typcollation) then ''
        else ' collate ' || (select case when n.nspname = 'pg_catalog' then '' else quote_ident(n.nspname) || '.' end
          || quote_ident(l.collname) from pg_collation l join pg_namespace n on n.oid = l.collnamespace
          where l.oid = a.attcollation) end,
      'generated', a.attgenerated,
      'identity', a.attidentity,
      'not_null', a.attnotnull) order by a.attnum)
    from pg_attribute a join pg_type t on t.oid = a.atttypid
    where a.attrelid = w.oid and a.attnum > 0 and not a.attisdropped),
  'key', (
    select json_agg(a.attname order by k.place)
    from pg_index i
    cross join lateral unnest(i.indkey::int2[]) with ordinality k(attnum, place)
    join pg_attribute a on a.attrelid = w.oid and a.attnum = k.attnum
    where i.indrelid = w.oid and i.indisprimary and k.place <= i.indnkeyatts),
  'key_deferrable', exists (
    select from pg_index i where i.indrelid = w.oid and i.indisprimary and not i.indimmediate),
  'references', (
    select json_agg(distinct jsonb_build_object('schema', n.nspname, 'name', f.relname))
    from pg_constraint o
    join pg_class f on f.oid = o.confrelid
    join pg_namespace n on n.oid = f.relnamespace
    where o.conrelid = w.oid and o.contype = 'f' and o.confrelid <> w.oid),
  'locale', (select name from locale)
)
from wanted w left join pg_class c on c.oid = w.oid
order by w.place`;
}

/** The shapes of the tables that `catalogueSql` asked about; refuses with TABLE_UNFIT. */
export function readShapes(
  rows: ResultRows,
  policies: readonly TablePolicy[],
  schema: string,
): TableShape[] {
  const entries = readEntries(rows);
  return policies.map((policy, index) => shapeOf(entries[index], policy, schema));
}

/** The fingerprint of all tables that `catalogueSql` asked about, fit or not. */
export function readFingerprint(rows: ResultRows): string {
  return hashed(readEntries(rows).map((entry) => [entry.table, fingerprintOf(entry)]));
}

/** How many columns a row of each table has as text, in the order in which it was asked. */
export function readWidths(rows: ResultRows): number[] {
  return readEntries(rows).map(({ columns }) => columns?.length ?? 0);
}

function readEntries(rows: ResultRows): Entry[] {
  return rows.map(([text]) => JSON.parse(text ?? "null") as Entry);
}

function shapeOf(entry: Entry | undefined, policy: TablePolicy, schema: string): TableShape {
  const { table, shard_by } = policy;
  const unfit = (why: string): PawlError =>
    new PawlError("TABLE_UNFIT", `The table ${table} cannot be moved: ${why}.`, {
      details: { table },
    });
  if (entry === undefined || !entry.found) {
    throw unfit(
      "it is not in the shard. Names are as the catalogue has them, with upper case kept",
    );
  }
  if (entry.kind === "p")
    throw unfit("it is partitioned. Name its parts as tables of their own kind");
  if (entry.kind !== "r" || entry.persistence === "t") throw unfit("it is not an ordinary table");
  if (entry.inherits)
    throw unfit("it is a part or a parent of another table, which shares its rows");
  if (entry.subscribed) throw unfit("a subscription writes to it, past the capture of changes");
  const columns = entry.columns ?? [];
  const key = entry.key ?? [];
  if (key.length === 0) throw unfit("it has no primary key. Give it one");
  if (entry.key_deferrable) throw unfit("its primary key is deferrable");
  const generated = new Set(
    columns.filter((column) => column.generated !== "").map(({ name }) => name),
  );
  if (!columns.some(({ name }) => name === shard_by)) {
    throw unfit(`it has no column ${shard_by} to be sharded by`);
  }
  const made = [...key, shard_by].find((name) => generated.has(name));
  if (made !== undefined) throw unfit(`its column ${made} is generated`);
  return {
    table,
    shard_by,
    columns: columns
      .filter(({ name }) => !generated.has(name))
      .map(({ name, type }) => ({ name, type })),
    key,
    references: (entry.references ?? []).map((other) =>
      other.schema === schema ? other.name : `${other.schema}.${other.name}`,
    ),
    fingerprint: fingerprintOf(entry),
  };
}

/**
 * Generated columns count too, as an image of a row has their places; the locale as it decides the
 * order of keys. Where the table is does not.
 */
function fingerprintOf({ found, kind, columns, key, locale }: Entry): string {
  return hashed([found, kind, columns, key, locale]);
}

function hashed(value: unknown): string {
  return createHash("sha256").update(JSON.stringify(value)).digest("hex").slice(0, 32);
}

/*
 * Where the role may not keep foreign keys from firing, changed rows are deleted and inserted anew in
 * one statement, which is right only for foreign keys that look when it has ended (`no action`). One
 * with an action would act on rows that the source has kept: of a parent that has left the scope, or
 * whose key is spelled otherwise now. And what it did at the source comes later in the log than its
 * cause, perhaps in another batch.
 */

/** A foreign key to a table that does something, or looks at once, when a row of it goes or changes. */
type ActingKey = {
  /** The schema and the table whose rows name others. */
  readonly schema: string;
  readonly naming: string;
  readonly name: string;
  /** As in SQL: `on delete cascade`. */
  readonly actions: string;
};

/** Constraints of a table that are in the way of whoever copies rows among them. */
type TableConstraints = {
  /** Foreign keys to the table, from wherever, that do not only look. */
  readonly acting: readonly ActingKey[];
  /** Foreign keys of the table to itself. */
  readonly selves: readonly string[];
};

/** The constraints of tables, in their order, after some statements in the same round trip. */
async function constraintsOf(
  session: Session,
  schema: string,
  tables: readonly TableShape[],
  before: readonly string[] = [],
): Promise<TableConstraints[]> {
  if (tables.length === 0) return [];
  const rows = await session.rows(...before, constraintsSql(schema, tables));
  return rows.map(([text]) => JSON.parse(text ?? "null") as TableConstraints);
}

function actionSql(column: string, event: string): string {
  const actions = { r: "restrict", c: "cascade", n: "set null", d: "set default" };
  const cases = Object.entries(actions).map(
    ([code, action]) => `when '${code}' then 'on ${event} ${action}'`,
  );
  return `case ${column} ${cases.join(" ")} end`;
}

function constraintsSql(schema: string, tables: readonly TableShape[]): string {
  const wanted = tables.map(
    ({ table }, place) =>
      `(${place}, to_regclass(${literal(tableSql(tableName(table, schema)))})::oid)`,
  );
  // Parts of a partitioned table have the constraint of their parent once more.
  return `
with wanted(place, oid) as (values ${wanted.join(", ")})
select json_build_object(
  'acting', coalesce((
    select json_agg(json_build_object(
      'schema', n.nspname,
      'naming', r.relname,
      'name', c.conname,
      'actions', concat_ws(' ', ${actionSql("c.confdeltype", "delete")}, ${actionSql("c.confupdtype", "update")}))
      order by n.nspname, r.relname, c.conname)
    from pg_constraint c
    join pg_class r on r.oid = c.conrelid
    join pg_namespace n on n.oid = r.relnamespace
    where c.contype = 'f' and c.confrelid = w.oid and c.conparentid = 0
      and (c.confdeltype <> 'a' or c.confupdtype <> 'a')), '[]'),
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
  const own = found.flatMap(({ selves }, at) =>
    selves.map((name) => {
      const table = tables[at]?.table ?? "";
      return `rows of ${table} name others of it (${name}), which may come later in the order of its key: ${CURE}`;
    }),
  );
  return kind === "rows" ? own : [...own, ...actingReasons(found, tables, schema)];
}

/** Why changes cannot be taken over where foreign keys act: one sentence with all of them, or none. */
function actingReasons(
  found: readonly TableConstraints[],
  tables: readonly TableShape[],
  schema: string,
): string[] {
  const keys = found.flatMap(({ acting }, at) =>
    acting.map(({ naming, name, actions, ...key }) => {
      const place = key.schema === schema ? naming : `${key.schema}.${naming}`;
      return `${place} to ${tables[at]?.table ?? ""} (${name}, ${actions})`;
    }),
  );
  if (keys.length === 0) return [];
  return [
    "foreign keys would delete, change or hold rows when those that they name are written anew; " +
      `make them "no action", or ${CURE}: ${keys.join(", ")}`,
  ];
}

/**
 * Refuses with TABLE_UNFIT to change rows that foreign keys act for, after some statements in the same
 * round trip; none can be added until the transaction has ended. For roles that cannot keep foreign
 * keys from firing.
 */
export async function refuseActing(
  session: Session,
  schema: string,
  tables: readonly TableShape[],
  before: readonly string[],
): Promise<void> {
  const places = tables.map(({ table }) => tableSql(tableName(table, schema)));
  const lock = `lock table ${places.join(", ")} in row exclusive mode`;
  const found = await constraintsOf(session, schema, tables, [...before, lock]);
  const reasons = actingReasons(found, tables, schema);
  if (reasons.length === 0) return;
  throw new PawlError("TABLE_UNFIT", `Changes cannot be taken over: ${reasons.join("; ")}.`, {
    details: { tables: tables.map(({ table }) => table) },
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
