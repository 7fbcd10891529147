import Database from "better-sqlite3";
import { AssertionFailure, PawlError } from "../../kernel/errors.ts";

/** What SQLite's complaint means to an operator; anything that is not SQLite's stays as it is. */
export function sqliteFailure(error: unknown, path: string, isOpen: boolean): unknown {
  if (!(error instanceof Database.SqliteError)) return error;
  // Who opens it wants to know which; who only uses a server is not told where its files are.
  const database = isOpen ? "The database" : `The database ${path}`;
  const details = { ...(isOpen ? {} : { path }), sqlite_code: error.code };
  const options = { details, cause: error };
  // Extended codes go on after the primary one: SQLITE_IOERR_WRITE.
  switch (error.code.split("_", 2).join("_")) {
    case "SQLITE_CORRUPT":
    case "SQLITE_NOTADB":
      return new PawlError(
        "STORE_CORRUPT",
        `${database} is damaged or not a database (${error.message}). Keep a copy of it, ` +
          "put back a backup, or name another data directory.",
        options,
      );
    case "SQLITE_BUSY":
    case "SQLITE_LOCKED":
      return new PawlError(
        "STORE_LOCKED",
        `${database} is held by another process. Stop that one, or try again.`,
        options,
      );
    case "SQLITE_CANTOPEN":
    case "SQLITE_READONLY":
    case "SQLITE_PERM":
    case "SQLITE_AUTH":
      return unwritable(database, options);
    case "SQLITE_FULL":
      return new PawlError(
        "STORE_UNAVAILABLE",
        `The disk of the database is full. Make room; nothing was written.`,
        options,
      );
    case "SQLITE_IOERR":
    case "SQLITE_NOMEM":
      return new PawlError(
        "STORE_UNAVAILABLE",
        `Reading or writing the database failed (${error.message}).`,
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
  database: string,
  options: { details: Record<string, unknown>; cause: unknown },
): PawlError {
  return new PawlError(
    "DATA_DIRECTORY_UNWRITABLE",
    `${database} cannot be opened for writing. Make its directory writable, or name ` +
      "another data directory.",
    options,
  );
}
