import { makePrivateDirectory, makePrivateFile } from "../store/make-directory.ts";
import { join } from "node:path";
import Database from "better-sqlite3";
import { PawlError } from "../core/errors.ts";
import { readServerFile } from "./server-file.ts";

/**
 * Makes this process the one server of an embedded store, until it lets go or ends in whatever way:
 * the lock is the operating system's, on a file of its own. Throws STORE_LOCKED.
 */
export function holdServerLock(
  dataDirectory: string,
  warn?: (sentence: string) => void,
): { release(): void } {
  const database = openLockFile(dataDirectory, warn);
  try {
    database.exec("begin exclusive");
  } catch (cause) {
    database.close();
    if (!isBusy(cause)) throw unwritable(dataDirectory, cause);
    const server = readServerFile(dataDirectory);
    const who = server === null ? "" : ` at ${server.url} (pid ${server.pid})`;
    throw new PawlError(
      "STORE_LOCKED",
      `Another Pawl server${who} already works on ${dataDirectory}. Use that one, or stop it first.`,
      { cause, details: { data_dir: dataDirectory, url: server?.url, pid: server?.pid } },
    );
  }
  return { release: () => database.close() };
}

function openLockFile(
  dataDirectory: string,
  warn: ((sentence: string) => void) | undefined,
): Database.Database {
  try {
    makePrivateDirectory(dataDirectory, warn);
    const path = join(dataDirectory, "server.lock");
    makePrivateFile(path);
    return new Database(path, { timeout: 0 });
  } catch (cause) {
    throw unwritable(dataDirectory, cause);
  }
}

function isBusy(error: unknown): boolean {
  return error instanceof Database.SqliteError && error.code.startsWith("SQLITE_BUSY");
}

function unwritable(dataDirectory: string, cause: unknown): PawlError {
  return new PawlError(
    "DATA_DIRECTORY_UNWRITABLE",
    `The data directory ${dataDirectory} cannot be made or written. ` +
      "Make it writable, or name another one with PAWL_DATA_DIR.",
    { cause, details: { data_dir: dataDirectory } },
  );
}
