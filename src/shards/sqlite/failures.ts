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

/** What a failure of SQLite means to whoever works with the shard; anything else stays as it is. */
export function shardFailure(error: unknown, file: string): unknown {
  if (error instanceof TypeError && /directory does not exist/.test(error.message)) {
    return unreachable(error, file, "its directory does not exist");
  }
  if (!(error instanceof Database.SqliteError)) return error;
  if (isBusy(error)) {
    return new PawlError("SHARD_BUSY", `The shard ${file} could not be locked in time.`, {
      details: { file, sqlite_code: error.code },
      cause: error,
    });
  }
  if (AWAY.test(error.code)) return unreachable(error, file, error.message);
  return new PawlError(
    "SCHEMA_CHANGED",
    `The shard ${file} refused a statement about its tables: ${error.message}. Make the tables of both shards alike.`,
    { details: { file, sqlite_code: error.code }, cause: error },
  );
}

function unreachable(cause: Error, file: string, reason: string): PawlError {
  return new PawlError("SHARD_UNREACHABLE", `The shard ${file} cannot be used: ${reason}.`, {
    details: { file },
    cause,
  });
}
