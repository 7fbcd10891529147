import Database from "better-sqlite3";
import { PawlError } from "../../core/errors.ts";

const AWAY = /^SQLITE_(?:CANTOPEN|IOERR|NOTADB|CORRUPT|FULL|READONLY|PERM|AUTH|NOMEM|PROTOCOL)/;

/** Whether somebody else holds a lock that may be free in a moment. */
export function isBusy(error: unknown): boolean {
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
  if (isBusy(error)) {
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
