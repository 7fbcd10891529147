import { createHash } from "node:crypto";
import { PawlError } from "../../kernel/errors.ts";
import type { TablePolicy } from "../../work/shard/spec.ts";
import type { TableShape } from "../shard.ts";
import { literal, tableName, tableSql } from "./identifiers.ts";
import type { ResultRows } from "./script.ts";

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
