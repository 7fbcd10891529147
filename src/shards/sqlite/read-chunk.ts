import type { ShardKey } from "../../core/step-protocol.ts";
import type { KeyRange, RowBatch, TableShape } from "../shard.ts";
import type { Connection } from "./connection.ts";
import { measure } from "./exact-values.ts";
import { quoted, type SqliteValue } from "./literals.ts";
import { canUseIndex, compareKey, keyOrder, keyTexts, rangeCondition } from "./range-sql.ts";
import { sameName, type TableDetail } from "./table-detail.ts";
import { takeTurns, WINDOW_ROWS, windowsOf } from "./windows.ts";

/** Rows as they are: what stands in a `RowBatch` of SQLite. */
export type SqliteRows = {
  readonly columns: readonly string[];
  readonly rows: readonly (readonly SqliteValue[])[];
};

type Chunk = { rows: RowBatch; last: ShardKey | null; ended: boolean };

/** The next rows of a range, in the order of its key. */
export async function readChunk(
  db: Connection,
  detail: TableDetail,
  range: KeyRange,
  limit: number,
): Promise<Chunk> {
  const shape = range.table;
  const columns = shape.columns.map(({ name }) => name);
  const rows: SqliteValue[][] = [];
  let bytes = 0;
  for (const part of partsOf(db, detail, range, limit, () => keyAt(detail, shape, rows.at(-1)))) {
    const condition = rangeCondition(detail, part, part.upTo);
    const found = db.all(
      `select ${columns.map(quoted).join(", ")} from ${detail.sql} where ${condition.sql}
       order by ${keyOrder(detail)} limit ?`,
      ...condition.values,
      BigInt(Math.min(part.limit, limit - rows.length)),
    );
    bytes += measure(shape.table, found, (row, column) => isExact(db, detail, shape, row, column));
    for (const row of found) rows.push(row);
    if (rows.length >= limit || (part.isDirect && found.length < part.limit)) break;
    await takeTurns();
  }
  const body: SqliteRows = { columns, rows };
  return {
    rows: { count: rows.length, bytes, body },
    last: keyAt(detail, shape, rows.at(-1)),
    ended: rows.length < limit,
  };
}

type Part = KeyRange & { upTo: ShardKey | null; limit: number; isDirect: boolean };

/** Where every row is in scope, or an index leads to those that are, the limit bounds the work. */
function* partsOf(
  db: Connection,
  detail: TableDetail,
  range: KeyRange,
  limit: number,
  last: () => ShardKey | null,
): Generator<Part> {
  if (range.scope.length === 0 || canUseIndex(detail, range)) {
    for (;;) {
      const after = last();
      const rest = after === null ? range : { ...range, from: null, after };
      yield { ...rest, upTo: null, limit: WINDOW_ROWS, isDirect: true };
    }
  }
  for (const window of windowsOf(db, detail, range)) yield { ...window, limit, isDirect: false };
}

/** The key of a row that has the columns of a shape. */
function keyAt(
  detail: TableDetail,
  shape: TableShape,
  row: readonly SqliteValue[] | undefined,
): ShardKey | null {
  if (row === undefined) return null;
  const values = detail.key.map(({ name }) => {
    const position = shape.columns.findIndex((column) => sameName(column.name, name));
    return row[position] ?? null;
  });
  return keyTexts(detail, values);
}

/** Whether a text with a replacement character has it in the database too. */
function isExact(
  db: Connection,
  detail: TableDetail,
  shape: TableShape,
  row: readonly SqliteValue[],
  column: number,
): boolean {
  const { sql, values } = compareKey(detail, "=", keyAt(detail, shape, row));
  const name = quoted(shape.columns[column]?.name ?? "");
  const bytes = db.value(`select cast(${name} as blob) from ${detail.sql} where ${sql}`, ...values);
  return bytes instanceof Uint8Array && Buffer.from(String(row[column])).equals(bytes);
}
