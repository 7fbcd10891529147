import { PawlError } from "../../kernel/errors.ts";
import type { AnyRow, AnyTable, Cell, Condition, Key, KeyPart, Table } from "../../kernel/table.ts";
import type { Reader } from "../../store/store.ts";
import type { OperationName } from "../../work/operations.ts";
import { type Call, type Freshness, type Reply, readAt } from "./call.ts";

/** Most characters of the documents on a page: a few milliseconds of everybody's time. */
export const PAGE_LENGTH_MAX = 4_000_000;

/** What is read first, when nobody knows how long it is, and at once from then on. */
const FIRST_READ = 10;
const NEXT_READ = 50;

/** Rows of a list as documents, and the last row if more may follow. */
export type Within<Row, Document> = { items: Document[]; last: Row | null };

/**
 * Reads rows of a list until there are so many, or their documents are so long together; at least
 * one. A row may have megabytes of somebody's own, so a page of many is read in parts.
 */
export async function readWithin<Row, Document>(
  limit: number,
  read: (after: Row | null, limit: number) => Promise<readonly Row[]>,
  documentsOf: (rows: Row[]) => Promise<readonly Document[]> | readonly Document[],
): Promise<Within<Row, Document>> {
  const items: Document[] = [];
  let last: Row | null = null;
  let seen = 0;
  let length = 0;
  let most = FIRST_READ;
  for (;;) {
    const wanted = Math.min(most, limit + 1 - seen);
    const found = await read(last, wanted);
    const rows = found.slice(0, limit - seen);
    const documents = rows.length === 0 ? [] : await documentsOf(rows);
    // A list may leave some out; which row a document is of is known only where it does not.
    const isEach = documents.length === rows.length;
    for (const [index, document] of documents.entries()) {
      length += JSON.stringify(document).length;
      if (isEach && items.length > 0 && length > PAGE_LENGTH_MAX) return { items, last };
      items.push(document);
      if (isEach) last = rows[index] ?? last;
    }
    last = rows.at(-1) ?? last;
    seen += rows.length;
    if (found.length > rows.length) return { items, last };
    if (found.length < wanted) return { items, last: null };
    if (length > PAGE_LENGTH_MAX) return { items, last };
    // As many more as would have room if they are like those before.
    const each = Math.max(1, Math.ceil(length / seen));
    most = Math.min(NEXT_READ, Math.max(1, Math.floor((PAGE_LENGTH_MAX - length) / each)));
  }
}

/** A list of rows: which, and along which unique cells. */
export type RowList<Row extends AnyRow> = {
  table: Table<Row>;
  where: readonly Condition[];
  /** Unique together, so that each row has one place in the list and keeps it under writes. */
  along: readonly Cell<Row>[];
  descending?: boolean;
};

/** What a page of any list takes. */
export type PageQuery = Freshness & { limit: number; cursor?: string | undefined };

/** Answers a page of rows as documents; where those are long it is short, and has a next. */
export async function listRows<Row extends AnyRow>(
  call: Pick<Call<OperationName>, "engine" | "signal" | "whileWaiting"> & { query: PageQuery },
  list: RowList<Row>,
  documentsOf: (rows: Row[], reader: Reader) => Promise<readonly unknown[]> | readonly unknown[],
): Promise<Reply> {
  const { limit, cursor } = call.query;
  const { table, along } = list;
  const from = cursor === undefined ? null : keyOfCursor(cursor, kindsOf(table, along));
  const order = along.map((cell) => ({ cell, descending: list.descending === true }));
  return readAt(call, async (reader) => {
    const read = async (after: Row | null, most: number): Promise<Row[]> => {
      const key = after === null ? from : placeOf(after, along);
      const where = [...list.where];
      if (key !== null) where.push({ cells: along, is: "after", key });
      return reader.find({ table, where, order, limit: most });
    };
    const { items, last } = await readWithin(limit, read, (rows) => documentsOf(rows, reader));
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

/** The fields of a row that are shown as they are. */
export function pickFields<Row extends object, Field extends keyof Row>(
  row: Row,
  fields: readonly Field[],
): Pick<Row, Field> {
  return Object.fromEntries(fields.map((field) => [field, row[field]])) as Pick<Row, Field>;
}

/** The text that stands for the place after a key. */
export function cursorOf(key: Key): string {
  return Buffer.from(JSON.stringify(key)).toString("base64url");
}

/** The key that a cursor stands for, with parts of these kinds; `INPUT_INVALID` for another text. */
export function keyOfCursor(cursor: string, kinds: readonly ("int" | "text")[]): Key {
  try {
    const key: unknown = JSON.parse(Buffer.from(cursor, "base64url").toString());
    if (isKey(key, kinds)) return key;
  } catch {
    // Whatever the text is, it is no cursor; the one answer below says so.
  }
  throw new PawlError(
    "INPUT_INVALID",
    `The cursor ${JSON.stringify(cursor.slice(0, 80))} is not one that a page of this list ended ` +
      "with. Start again without a cursor.",
    { details: { cursor } },
  );
}

/** The kinds of a table's cells, where they are part of a place in a list. */
export function kindsOf(table: AnyTable, cells: readonly string[]): ("int" | "text")[] {
  return cells.map((cell) => (table.cells[cell] === "int" ? "int" : "text"));
}

function isKey(key: unknown, kinds: readonly ("int" | "text")[]): key is KeyPart[] {
  return (
    Array.isArray(key) &&
    key.length === kinds.length &&
    key.every((part, index) =>
      kinds[index] === "int"
        ? Number.isSafeInteger(part)
        : typeof part === "string" && part.isWellFormed() && !part.includes("\u0000"),
    )
  );
}

/** Refuses a range of blocks that ends before it begins. */
export function checkRange(from: number | undefined, to: number | undefined): void {
  if (from === undefined || to === undefined || from <= to) return;
  throw new PawlError(
    "INPUT_INVALID",
    `The range begins at block ${from} and ends before that, at ${to}. Both ends belong to it.`,
    { details: { from_block: from, to_block: to } },
  );
}
