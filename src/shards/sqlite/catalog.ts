import type { TablePolicy } from "../../work/shard/spec.ts";
import type { ShardDatabase } from "./connection.ts";
import type { SqliteValue } from "./literals.ts";
import { type TableDetail, tableDetail } from "./table-detail.ts";

const known = new WeakMap<
  ShardDatabase,
  { version: SqliteValue; tables: Map<string, TableDetail> }
>();

/**
 * What a table looks like in the transaction at hand, looked up once for each version of the
 * schema. Not for transactions that change the schema: another can have the same version later.
 */
export function lookUp(db: ShardDatabase, { table, shard_by }: TablePolicy): TableDetail {
  const version = db.value("pragma schema_version");
  let entry = known.get(db);
  if (entry === undefined || entry.version !== version) {
    entry = { version, tables: new Map() };
    known.set(db, entry);
  }
  const name = JSON.stringify([table, shard_by]);
  const detail = entry.tables.get(name) ?? tableDetail(db, { table, shard_by });
  entry.tables.set(name, detail);
  return detail;
}
