import type pg from "pg";
import type { SequenceValue, TableShape } from "../shard.ts";
import { literal, tableName, tableSql } from "./identifiers.ts";
import { withSession } from "./session.ts";

/**
 * The sequences that columns take their values from: identities, serials, and defaults that name
 * one. The offset keeps later functions from being asked about what is no sequence.
 */
function sequencesOf(tables: readonly { table: string }[], schema: string): string {
  const wanted = tables.map(({ table }) => {
    const place = literal(tableSql(tableName(table, schema)));
    return `(${literal(table)}, to_regclass(${place})::oid)`;
  });
  return `
select w.name as table_name, a.attname as column_name, d.sequence, s.seqincrement as step
from (values ${wanted.join(", ")}) as w(name, oid)
join pg_attribute a on a.attrelid = w.oid and a.attnum > 0 and not a.attisdropped
cross join lateral (
  select d.objid as sequence from pg_depend d
  where d.refclassid = 'pg_class'::regclass and d.refobjid = w.oid and d.refobjsubid = a.attnum
    and d.classid = 'pg_class'::regclass and d.deptype in ('a', 'i')
  union
  select d.refobjid from pg_attrdef f
  join pg_depend d on d.classid = 'pg_attrdef'::regclass and d.objid = f.oid
    and d.refclassid = 'pg_class'::regclass
  where f.adrelid = w.oid and f.adnum = a.attnum) as d
join pg_sequence s on s.seqrelid = d.sequence
offset 0`;
}

/** Where sequences of tables stand; those that gave no value yet are left out. */
export async function readSequences(
  pool: pg.Pool,
  schema: string,
  tables: readonly TableShape[],
): Promise<SequenceValue[]> {
  if (tables.length === 0) return [];
  const rows = await withSession(pool, (session) =>
    session.rows(`
select table_name, column_name, pg_sequence_last_value(sequence)
from (${sequencesOf(tables, schema)}) as found
where pg_sequence_last_value(sequence) is not null
order by table_name collate "C", column_name collate "C"`),
  );
  return rows.map(([table, column, value]) => ({
    table: table ?? "",
    column: column ?? "",
    value: value ?? "",
  }));
}

/** Moves sequences on to values where they are behind; a descending one is behind when it is above. */
export async function advanceSequences(
  pool: pg.Pool,
  schema: string,
  values: readonly SequenceValue[],
): Promise<void> {
  if (values.length === 0) return;
  const wanted = values.map(
    ({ table, column, value }) =>
      `(${literal(table)}, ${literal(column)}, ${literal(value)}::bigint)`,
  );
  const tables = [...new Set(values.map(({ table }) => table))].map((table) => ({ table }));
  await withSession(pool, (session) =>
    session.run([
      `select setval(found.sequence::regclass, v.value)
      from (${sequencesOf(tables, schema)}) as found
      join (values ${wanted.join(", ")}) as v(table_name, column_name, value)
        on v.table_name = found.table_name and v.column_name = found.column_name
      where coalesce((v.value - pg_sequence_last_value(found.sequence)) * sign(found.step) > 0, true)`,
    ]),
  );
}
