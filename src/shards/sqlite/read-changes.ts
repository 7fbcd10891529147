import { z } from "zod";
import type { ShardKey } from "../../core/step-protocol.ts";
import type { Change, ReadRequest, StreamCursor } from "../shard.ts";
import type { Connection } from "./connection.ts";
import { measure } from "./exact-values.ts";
import { literal, type SqliteValue, valueOf } from "./literals.ts";
import { keyTexts } from "./range-sql.ts";
import { scopeSql } from "./scope-sql.ts";
import { sameName, type TableDetail } from "./table-detail.ts";

/** A row after a change, with the columns that its table had then. */
export type SqliteImage = {
  readonly columns: readonly string[];
  readonly values: readonly SqliteValue[];
};

/** Changes of a part of the log. */
export type ReadChanges = { changes: Change[]; through: bigint | null; complete: boolean };

type Layout = { readonly columns: readonly string[]; readonly key: readonly number[] };

const THROUGH = `
  select max(id) from (
    select id from _pawl_changes where id > ? and id <= ? order by id limit ?)`;
const MORE = "select 1 from _pawl_changes where id > ? and id <= ? limit 1";

const Names = z.array(z.string());
const Positions = z.array(z.int());

/** Reads changes with ids above one and up to another, and says how far it looked. */
export function readChanges(
  db: Connection,
  details: readonly TableDetail[],
  request: ReadRequest,
  bounds: { readonly above: bigint; readonly upTo: bigint },
): ReadChanges {
  const { above, upTo } = bounds;
  const through = db.value(THROUGH, above, upTo, BigInt(request.changesMax));
  if (typeof through !== "bigint") return { changes: [], through: null, complete: true };
  const layouts = layoutsOf(db);
  const width = Math.max(0, ...[...layouts.values()].map(({ columns }) => columns.length));
  const values = Array.from({ length: width }, (_, index) => `, c${index}`).join("");
  const ours = details.map(
    ({ shape, affinity }) =>
      `(table_name = ${literal(shape.table.toLowerCase())}
        and (${scopeSql("tenant", request.scope, affinity)}))`,
  );
  const rows = db.all(
    `select id, table_name, op, layout, ddl, fingerprint, at${values} from _pawl_changes
     where id > ? and id <= ? and (op = 'ddl' or ${ours.join(" or ") || "0"})
     order by id`,
    above,
    through,
  );
  const complete = db.get(MORE, through, upTo) === undefined;
  const covers = coverage(db, details, request.cursor);
  const changes = rows.map((row) => changeOf(db, row, details, layouts, covers));
  return { changes, through, complete };
}

function changeOf(
  db: Connection,
  row: readonly SqliteValue[],
  details: readonly TableDetail[],
  layouts: ReadonlyMap<SqliteValue, Layout>,
  covers: (table: number, key: readonly SqliteValue[]) => boolean,
): Change {
  const [id, tableName, op, layoutId, ddl, fingerprint, at, ...cells] = row;
  const common = { id: String(id), at: String(at) };
  if (op === "ddl") {
    const change = { sql: String(ddl), fingerprint: String(fingerprint) };
    return { ...common, table: "", op, key: [""], covered: true, image: null, ddl: change };
  }
  const index = details.findIndex(({ shape }) => sameName(shape.table, String(tableName)));
  const detail = details[index];
  const layout = layouts.get(layoutId ?? null);
  if (detail === undefined || layout === undefined)
    throw new Error(`Change ${String(id)} is lost.`);
  const key = layout.key.map((position) => cells[position] ?? null);
  const values = cells.slice(0, layout.columns.length);
  measure(detail.shape.table, [values], (_, column) => isExact(db, id ?? null, column, values));
  const image: SqliteImage = { columns: layout.columns, values };
  return {
    ...common,
    table: detail.shape.table,
    op: op === "put" ? "put" : "delete",
    key: keyTexts(detail, key),
    covered: covers(index, key),
    image: op === "put" ? image : null,
    ddl: null,
  };
}

/** Judges keys by a cursor; the database compares them, in the order of the table's key. */
function coverage(
  db: Connection,
  details: readonly TableDetail[],
  cursor: StreamCursor | null,
): (table: number, key: readonly SqliteValue[]) => boolean {
  if (cursor === null) return () => true;
  const at: ShardKey | null = cursor.key;
  const bound = at === null ? null : at.map(valueOf);
  const key = details[cursor.table]?.key ?? [];
  const left = key.map(({ collation }) => `? collate ${collation}`).join(", ");
  const compare = `select (${left}) <= (${key.map(() => "?").join(", ")})`;
  return (table, values) => {
    if (table !== cursor.table) return table < cursor.table;
    return bound !== null && db.value(compare, ...values, ...bound) === 1n;
  };
}

function layoutsOf(db: Connection): Map<SqliteValue, Layout> {
  return new Map(
    db.all("select layout, columns, key from _pawl_layouts").map(([layout, columns, key]) => [
      layout ?? null,
      {
        columns: Names.parse(JSON.parse(String(columns))),
        key: Positions.parse(JSON.parse(String(key))),
      },
    ]),
  );
}

function isExact(
  db: Connection,
  id: SqliteValue,
  column: number,
  values: readonly SqliteValue[],
): boolean {
  const bytes = db.value(`select cast(c${column} as blob) from _pawl_changes where id = ?`, id);
  return bytes instanceof Uint8Array && Buffer.from(String(values[column])).equals(bytes);
}
