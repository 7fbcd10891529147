import Database from "better-sqlite3";
import { PawlError } from "../../kernel/errors.ts";
import type { KeyRange } from "../shard.ts";
import type { ShardDatabase } from "./connection.ts";
import {
  boundsCondition,
  canUseIndex,
  keyColumns,
  keyOrder,
  keyTexts,
  rangeCondition,
} from "./scope-sql.ts";
import type { TableDetail } from "./table-detail.ts";

const AWAY = /^SQLITE_(?:CANTOPEN|IOERR|NOTADB|CORRUPT|FULL|READONLY|PERM|AUTH|NOMEM|PROTOCOL)/;

/** Whether somebody else holds a lock that may be free in a moment. */
export function isLocked(error: unknown): boolean {
  return error instanceof Database.SqliteError && /^SQLITE_(?:BUSY|LOCKED)/.test(error.code);
}

/** Whether a row is in the way of one that must be new. */
export function isConflict(error: unknown): boolean {
  return (
    error instanceof Database.SqliteError &&
    /^SQLITE_CONSTRAINT_(?:PRIMARYKEY|UNIQUE|ROWID)$/.test(error.code)
  );
}

/**
 * What a failure of SQLite means to whoever works with the shard; anything else stays as it is. The file
 * is null where the shard is served: who only uses a server is not told where its files are.
 */
export function shardFailure(error: unknown, file: string | null): unknown {
  const shard = file === null ? "The shard" : `The shard ${file}`;
  const where = file === null ? {} : { file };
  const unreachable = (cause: Error, reason: string): PawlError =>
    new PawlError("SHARD_UNREACHABLE", `${shard} cannot be used: ${reason}.`, {
      details: where,
      cause,
    });
  if (error instanceof TypeError && /directory does not exist/.test(error.message)) {
    return unreachable(error, "its directory does not exist");
  }
  if (!(error instanceof Database.SqliteError)) return error;
  const details = { ...where, sqlite_code: error.code };
  if (isLocked(error)) {
    return new PawlError("SHARD_BUSY", `${shard} could not be locked in time.`, {
      details,
      cause: error,
    });
  }
  if (AWAY.test(error.code)) return unreachable(error, error.message);
  return new PawlError(
    "SCHEMA_CHANGED",
    `${shard} refused a statement about its tables: ${error.message}. Make the tables of both shards alike.`,
    { details, cause: error },
  );
}

/** Rows that are looked at in one go: some 10 ms of work. */
export const WINDOW_ROWS = 10_000;

/**
 * Cuts a range into windows of a bounded number of rows, whether they are in scope or not, so that
 * no statement takes long however few of them are.
 */
export function* windowsOf(
  db: ShardDatabase,
  detail: TableDetail,
  range: KeyRange,
  rows: number = WINDOW_ROWS,
): Generator<KeyRange & { readonly upTo: string[] | null }> {
  let rest = range;
  for (;;) {
    const condition = canUseIndex(detail, rest)
      ? rangeCondition(detail, rest)
      : boundsCondition(detail, rest);
    const end = db.get(
      `select ${keyColumns(detail)} from ${detail.sql} where ${condition.sql}
       order by ${keyOrder(detail)} limit 1 offset ?`,
      ...condition.values,
      BigInt(rows - 1),
    );
    const upTo = end === undefined ? null : keyTexts(detail, end);
    yield { ...rest, upTo };
    if (upTo === null) return;
    rest = { ...rest, from: null, after: upTo };
  }
}

/** Lets others of this process have their turn. */
export function takeTurns(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve);
  });
}
