import { PawlError } from "../../core/errors.ts";
import type { KeyRange } from "../shard.ts";
import { keyOrder, rangeSql } from "./conditions.ts";
import { literal, tableName, tableSql } from "./identifiers.ts";
import type { Session } from "./session.ts";

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
