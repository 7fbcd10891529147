import Database from "better-sqlite3";
import { z } from "zod";
import { PawlError } from "../../kernel/errors.ts";
import type { ShardKey } from "../../work/shard/step-protocol.ts";
import {
  type Digest,
  type KeyRange,
  type ReadAnswer,
  type ReadRequest,
  type RowBatch,
  type RowChange,
  type StreamCursor,
  type TableShape,
  wentBack,
} from "../shard.ts";
import { position as presentPosition } from "./capture.ts";
import { refuseUncaptured } from "./capture-triggers.ts";
import type { ShardDatabase } from "./connection.ts";
import { takeTurns, WINDOW_ROWS, windowsOf } from "./failures.ts";
import { literal, quoted, type SqliteValue, valueOf } from "./literals.ts";
import { digestOfKeys } from "./ranges.ts";
import {
  canUseIndex,
  compareKey,
  keyOrder,
  keyTexts,
  rangeCondition,
  scopeSql,
} from "./scope-sql.ts";
import { commonFingerprint, lookUp, sameName, type TableDetail } from "./table-detail.ts";

/** A row after a change, with the columns that its table had then. */
export type SqliteImage = {
  readonly columns: readonly string[];
  readonly values: readonly SqliteValue[];
};

/** Changes of a part of the log. */
export type ReadChanges = { changes: RowChange[]; through: bigint | null; complete: boolean };

type Layout = { readonly columns: readonly string[]; readonly key: readonly number[] };

const THROUGH = `
  select max(id) from (
    select id from _pawl_changes where id > ? and id <= ? order by id limit ?)`;
const MORE = "select 1 from _pawl_changes where id > ? and id <= ? limit 1";

const Names = z.array(z.string());
const Positions = z.array(z.int());

/** Reads changes with ids above one and up to another, and says how far it looked. */
export function readChanges(
  db: ShardDatabase,
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
  db: ShardDatabase,
  row: readonly SqliteValue[],
  details: readonly TableDetail[],
  layouts: ReadonlyMap<SqliteValue, Layout>,
  covers: (table: number, key: readonly SqliteValue[]) => boolean,
): RowChange {
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
  db: ShardDatabase,
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

function layoutsOf(db: ShardDatabase): Map<SqliteValue, Layout> {
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
  db: ShardDatabase,
  id: SqliteValue,
  column: number,
  values: readonly SqliteValue[],
): boolean {
  const bytes = db.value(`select cast(c${column} as blob) from _pawl_changes where id = ?`, id);
  return bytes instanceof Uint8Array && Buffer.from(String(values[column])).equals(bytes);
}

/** Rows as they are: what stands in a `RowBatch` of SQLite. */
export type SqliteRows = {
  readonly columns: readonly string[];
  readonly rows: readonly (readonly SqliteValue[])[];
};

type Chunk = { rows: RowBatch; last: ShardKey | null; ended: boolean };

/** The next rows of a range, in the order of its key. */
export async function readChunk(
  db: ShardDatabase,
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
    bytes += measure(shape.table, found, (row, column) =>
      isExactInRow(db, detail, shape, row, column),
    );
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
  db: ShardDatabase,
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
function isExactInRow(
  db: ShardDatabase,
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

/** Reads changes and a chunk in the snapshot that the connection has. */
export async function readSnapshot(db: ShardDatabase, request: ReadRequest): Promise<ReadAnswer> {
  const details = request.tables.map((table) => lookUp(db, table));
  if (request.from !== null) refuseUncaptured(db, request.tables);
  const present = presentPosition(db);
  const end = request.to ?? present;
  if (BigInt(request.from ?? 0) > BigInt(present)) throw wentBack(request.from, present);
  const read = changesOf(db, details, request, BigInt(end));
  return {
    position: end,
    changes: read.changes,
    through_id: read.through === null ? null : String(read.through),
    complete: read.complete,
    chunk: await chunkOf(db, request, read.changes),
    fingerprint: commonFingerprint(details),
    changed: changedOf(db, details, request, read),
  };
}

function changesOf(
  db: ShardDatabase,
  details: readonly TableDetail[],
  request: ReadRequest,
  upTo: bigint,
): ReadChanges {
  if (request.from === null) return { changes: [], through: null, complete: true };
  const from = BigInt(request.from);
  const afterId = BigInt(request.after_id ?? 0);
  const above = from > afterId ? from : afterId;
  if (above >= upTo) return { changes: [], through: null, complete: true };
  return readChanges(db, details, request, { above, upTo });
}

async function chunkOf(
  db: ShardDatabase,
  { chunk }: ReadRequest,
  changes: readonly RowChange[],
): Promise<ReadAnswer["chunk"]> {
  if (chunk === null) return null;
  try {
    return await readChunk(db, lookUp(db, chunk.table), chunk, chunk.limit);
  } catch (error) {
    // The request still has the old columns; the change of the schema among the changes says why.
    const isExplained = changes.some(({ op }) => op === "ddl");
    if (isExplained && error instanceof Database.SqliteError) return null;
    throw error;
  }
}

function changedOf(
  db: ShardDatabase,
  details: readonly TableDetail[],
  request: ReadRequest,
  { changes, complete }: ReadChanges,
): Digest | null {
  const isPart = (request.to ?? null) !== null || changes.some(({ op }) => op === "ddl");
  if (!complete || isPart) return null;
  const covered = changes.filter((change) => change.covered);
  return digestOfKeys(
    db,
    details.map((detail) => ({
      detail,
      keys: covered.filter(({ table }) => table === detail.shape.table).map(({ key }) => key),
    })),
    request.scope,
  );
}

const REPLACEMENT = "\uFFFD";

/**
 * Says how many bytes rows have, about, and refuses texts that do not survive: those that are not
 * UTF-8, which would arrive as other bytes, and those with a NUL, which SQLite itself cuts off.
 */
export function measure(
  table: string,
  rows: readonly (readonly SqliteValue[])[],
  survives: (row: readonly SqliteValue[], column: number) => boolean,
): number {
  let bytes = 0;
  for (const row of rows) {
    for (let column = 0; column < row.length; column += 1) {
      const value = row[column];
      if (typeof value === "string") {
        bytes += value.length;
        // Of a text in Latin-1, as V8 keeps most, this needs not look at the characters.
        if (value.includes(REPLACEMENT) && !survives(row, column)) throw inexact(table, "UTF-8");
        if (value.includes("\0")) throw inexact(table, "text: it has a NUL character");
      } else if (value instanceof Uint8Array) bytes += value.length;
      else bytes += 8;
    }
  }
  return bytes;
}

function inexact(table: string, what: string): PawlError {
  return new PawlError(
    "TABLE_UNFIT",
    `The table ${table} cannot be moved: a value in it is marked as text but is no ${what}. Store it as a blob, or correct it.`,
    { details: { table } },
  );
}
