import type { OperationName } from "../core/api/operations.ts";
import type { AnyRow, Cell, Condition, KeyPart, Table } from "../core/rows/table.ts";
import type { Reader } from "../store/store.ts";
import { type Call, readAt, type Freshness, type Reply } from "./call.ts";
import { cursorOf, keyOfCursor, kindsOf } from "./cursor.ts";
import { readWithin } from "./read-within.ts";

/** A list of rows: which, and along which unique cells. */
export type RowList<Row extends object> = {
  table: Table<Row>;
  where: readonly Condition[];
  /** Unique together, so that each row has one place in the list and keeps it under writes. */
  along: readonly Cell<Row>[];
  descending?: boolean;
};

/** What a page of any list takes. */
export type PageQuery = Freshness & { limit: number; cursor?: string | undefined };

/** Answers a page of rows as documents; where those are long it is short, and has a next. */
export async function listRows<Row extends object>(
  call: Pick<Call<OperationName>, "engine" | "signal" | "whileWaiting"> & { query: PageQuery },
  list: RowList<Row>,
  documentsOf: (rows: Row[], reader: Reader) => Promise<readonly unknown[]> | readonly unknown[],
): Promise<Reply> {
  const { limit, cursor } = call.query;
  const { table, along } = list;
  const from = cursor === undefined ? null : keyOfCursor(cursor, kindsOf(table, along));
  const order = along.map((cell) => ({ cell, descending: list.descending === true }));
  return readAt(call, async (reader) => {
    const read = async (after: AnyRow | null, most: number): Promise<AnyRow[]> => {
      const key = after === null ? from : placeOf(after, along);
      const where = [...list.where];
      if (key !== null) where.push({ cells: along, is: "after", key });
      return reader.find({ table, where, order, limit: most });
    };
    const { items, last } = await readWithin(limit, read, (rows) =>
      documentsOf(rows as Row[], reader),
    );
    const next_cursor = last === null ? null : cursorOf(placeOf(last, along));
    const { pos } = await reader.head();
    return { answer: { items, next_cursor, pos }, pos };
  });
}

function placeOf(row: AnyRow, cells: readonly string[]): KeyPart[] {
  return cells.map((cell) => row[cell] as KeyPart);
}

/** The conditions of a list that is bounded in time along a cell. */
export function withinTime(
  cell: string,
  query: { since?: string | undefined; until?: string | undefined },
): Condition[] {
  const where: Condition[] = [];
  if (query.since !== undefined) where.push({ cell, is: ">=", value: query.since });
  if (query.until !== undefined) where.push({ cell, is: "<", value: query.until });
  return where;
}
