import Database from "better-sqlite3";
import { AssertionFailure } from "../../core/assert.ts";
import { PawlError } from "../../core/errors.ts";

/** What SQLite's complaint means to an operator; anything that is not SQLite's stays as it is. */
export function sqliteFailure(error: unknown, path: string): unknown {
  if (!(error instanceof Database.SqliteError)) return error;
  const options = { details: { path, sqlite_code: error.code }, cause: error };
  // Extended codes go on after the primary one: SQLITE_IOERR_WRITE.
  switch (error.code.split("_", 2).join("_")) {
    case "SQLITE_CORRUPT":
    case "SQLITE_NOTADB":
      return new PawlError(
        "STORE_CORRUPT",
        `The database ${path} is damaged or not a database (${error.message}). Keep a copy of it, ` +
          "put back a backup, or name another data directory.",
        options,
      );
    case "SQLITE_BUSY":
    case "SQLITE_LOCKED":
      return new PawlError(
        "STORE_LOCKED",
        `The database ${path} is held by another process. Stop that one, or try again.`,
        options,
      );
    case "SQLITE_CANTOPEN":
    case "SQLITE_READONLY":
    case "SQLITE_PERM":
    case "SQLITE_AUTH":
      return unwritable(path, options);
    case "SQLITE_FULL":
      return new PawlError(
        "STORE_UNAVAILABLE",
        `The disk that holds ${path} is full. Make room; nothing was written.`,
        options,
      );
    case "SQLITE_IOERR":
    case "SQLITE_NOMEM":
      return new PawlError(
        "STORE_UNAVAILABLE",
        `Reading or writing ${path} failed (${error.message}).`,
        options,
      );
    case "SQLITE_CONSTRAINT":
      return new AssertionFailure(`the ledger and its rows take the write: ${error.message}`, {
        cause: error,
      });
    default:
      return error;
  }
}

/** The failure of a place where the database cannot be made or written. */
export function unwritable(
  path: string,
  options: { details: Record<string, unknown>; cause: unknown },
): PawlError {
  return new PawlError(
    "DATA_DIRECTORY_UNWRITABLE",
    `The database ${path} cannot be opened for writing. Make its directory writable, or name ` +
      "another data directory.",
    options,
  );
}
