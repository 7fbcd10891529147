import { PawlError } from "../../kernel/errors.ts";
import type { ApplyRequest } from "../shard.ts";
import type { ShardDatabase } from "./connection.ts";
import { isConflict } from "./failures.ts";
import { whileApplying, checkGuard, loadStream, sameState, saveStream } from "./plans.ts";
import { literal, quoted, type SqliteValue } from "./literals.ts";
import { compareKey, scopeOfRows } from "./scope-sql.ts";
import { digestOfKeys } from "./ranges.ts";
import type { SqliteImage, SqliteRows } from "./read.ts";
import { changeShardSchema } from "./capture.ts";
import { sameName, type TableDetail, tableDetail } from "./table-detail.ts";

/** Parameters of a statement that writes many rows: more make it no faster. */
const PARAMETERS_MAX = 250;

/** Writes changes, a change of the schema or a chunk, and the state of the stream with them. */
export function apply(db: ShardDatabase, request: ApplyRequest): void {
  checkGuard(db, request.guard);
  const now = loadStream(db, request.stream);
  if (!sameState(now, request.before)) throw moved(request);
  const changes = request.changes.map(({ table, rows }) => ({
    detail: detailOf(db, request, table),
    rows,
  }));
  whileApplying(db, () => {
    // All of them first, so that values that changed places do not meet.
    for (const { detail, rows } of changes) deleteKeys(db, detail, rows, request);
    for (const { detail, rows } of changes) insertImages(db, detail, rows);
    const { ddl, chunk } = request;
    if (ddl !== null) changeShardSchema(db, ddl, request.tables);
    if (chunk !== null) {
      const { columns, rows } = chunk.rows.body as SqliteRows;
      insertRows(db, detailOf(db, request, chunk.table), columns, rows);
    }
  });
  verify(db, request, changes);
  saveStream(db, request.guard.plan, request.stream, request.after);
}

type Changes = { detail: TableDetail; rows: ApplyRequest["changes"][number]["rows"] }[];

function deleteKeys(
  db: ShardDatabase,
  detail: TableDetail,
  rows: Changes[number]["rows"],
  { scope }: ApplyRequest,
): void {
  const inScope = scopeOfRows(detail, scope, false);
  for (const { key } of rows) {
    const { sql, values } = compareKey(detail, "=", key);
    db.run(`delete from ${detail.sql} where ${sql} and ${inScope}`, ...values);
  }
}

function insertImages(db: ShardDatabase, detail: TableDetail, rows: Changes[number]["rows"]): void {
  const layouts = new Map<readonly string[], (readonly SqliteValue[])[]>();
  for (const { image } of rows) {
    if (image === null) continue;
    const { columns, values } = image as SqliteImage;
    const group = layouts.get(columns) ?? [];
    group.push(values);
    layouts.set(columns, group);
  }
  for (const [columns, values] of layouts) insertRows(db, detail, columns, values);
}

/** `or abort` outdoes what a constraint says about conflicts, which may be to replace rows. */
function insertRows(
  db: ShardDatabase,
  detail: TableDetail,
  columns: readonly string[],
  rows: readonly (readonly SqliteValue[])[],
): void {
  const into = `insert or abort into ${detail.sql} (${columns.map(quoted).join(", ")}) values `;
  const one = `(${columns.map(() => "?").join(", ")})`;
  const size = Math.max(1, Math.floor(PARAMETERS_MAX / columns.length));
  const many = into + Array<string>(size).fill(one).join(", ");
  const values = Array<SqliteValue>(size * columns.length).fill(null);
  for (let start = 0; start < rows.length; start += size) {
    const batch = rows.slice(start, start + size);
    let written = 0;
    try {
      if (batch.length === size) written = db.runWith(many, flattened(batch, values));
      else for (const row of batch) written += db.runWith(into + one, row);
    } catch (error) {
      if (!isConflict(error)) throw error;
      throw conflict(detail, columns, findConflict(db, into + one, batch), error);
    }
    if (written !== batch.length) throw ignored(detail);
  }
}

/** Puts the values of rows into one list, the same again and again: this is where copies are hot. */
function flattened(
  rows: readonly (readonly SqliteValue[])[],
  values: SqliteValue[],
): readonly SqliteValue[] {
  let position = 0;
  for (const row of rows) {
    for (let column = 0; column < row.length; column += 1) {
      values[position] = row[column] ?? null;
      position += 1;
    }
  }
  return values;
}

/** The first row that cannot be inserted alone. The transaction is lost anyway. */
function findConflict(
  db: ShardDatabase,
  insert: string,
  rows: readonly (readonly SqliteValue[])[],
): readonly SqliteValue[] {
  return (
    rows.find((row) => {
      try {
        db.runWith(insert, row);
        return false;
      } catch {
        return true;
      }
    }) ?? []
  );
}

function verify(db: ShardDatabase, request: ApplyRequest, changes: Changes): void {
  if (request.changed === null) return;
  const tables = changes.map(({ detail, rows }) => ({ detail, keys: rows.map(({ key }) => key) }));
  const found = digestOfKeys(db, tables, request.scope);
  if (found.rows === request.changed.rows && found.digest === request.changed.digest) return;
  const names = tables.map(({ detail }) => detail.shape.table).join(", ");
  throw new PawlError(
    "VERIFICATION_FAILED",
    `The changed rows of ${names} are not on the target as they are on the source: ${found.rows} rows there, ${request.changed.rows} here. Look for whoever writes to the target.`,
    { details: { stream: request.stream, expected: request.changed, found } },
  );
}

function detailOf(db: ShardDatabase, { tables }: ApplyRequest, table: string): TableDetail {
  const shape = tables.find((candidate) => sameName(candidate.table, table));
  if (shape === undefined) throw new Error(`${table} is not among the tables of the request.`);
  return tableDetail(db, { table: shape.table, shard_by: shape.shard_by });
}

function moved({ stream, before }: ApplyRequest): PawlError {
  const was = before === null ? "that it is new" : `its position ${before.position ?? "none"}`;
  return new PawlError(
    "STREAM_MOVED",
    `The stream ${stream} is not where this step read it: it took for granted ${was}.`,
    { details: { stream } },
  );
}

function ignored({ shape }: TableDetail): PawlError {
  return new PawlError(
    "VERIFICATION_FAILED",
    `Rows of ${shape.table} were not taken by the target: a trigger there ignores them. Drop it for the time of the copy.`,
    { details: { table: shape.table } },
  );
}

function conflict(
  detail: TableDetail,
  columns: readonly string[],
  row: readonly SqliteValue[],
  cause: unknown,
): PawlError {
  const key = detail.key.map(({ name }) =>
    literal(row[columns.findIndex((column) => sameName(column, name))] ?? null),
  );
  const { table } = detail.shape;
  return new PawlError(
    "ROWS_CONFLICT",
    `The row of ${table} with the key ${key.join(", ")} cannot be copied: the target has a row of its own with this key, or with another value that must be unique.`,
    { details: { table, key }, cause },
  );
}
