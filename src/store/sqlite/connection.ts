import Database from "better-sqlite3";
import { AssertionFailure, assert, PawlError } from "../../kernel/errors.ts";
import type { Dialect } from "../statements.ts";

/** How long SQLite waits for another process. It blocks this one, so it is short. */
const BUSY_TIMEOUT_MS = 2_000;

/**
 * FULL syncs the log at every commit; NORMAL lost commits in every simulated power failure.
 * Checkpoints run apart, so the automatic one is a safety net, far out (64 MB). On macOS only a
 * full fsync reaches the disk.
 */
const WRITER_PRAGMAS = [
  // Before the first page is written. Twice the default page: some percent more partitions a second.
  "page_size = 8192",
  "journal_mode = wal",
  "synchronous = full",
  "fullfsync = on",
  "checkpoint_fullfsync = on",
  "wal_autocheckpoint = 8000",
  // With 64 MB a thousand plans took the server past 400 MB, and partitions were made no faster.
  "cache_size = -40960",
  "temp_store = memory",
];

const READER_PRAGMAS = ["cache_size = -16384", "temp_store = memory"];

/** More distinct statements than our own code can make by itself. */
const STATEMENTS_MAX = 1_000;

/** Lists are JSON, so that a statement is the same for every length. */
export const SQLITE: Dialect = {
  table: (name) => `"${name}"`,
  parameter: () => "?",
  // A bare parameter is held against the conditions of partial indexes, and then SQLite prepares the
  // statement anew each time it runs: five times as slow as to run it.
  compared: (parameter) => `+${parameter}`,
  isListed: (cell, _kind, parameter) => `${cell} in (select value from json_each(${parameter}))`,
  isNotListed: (cell, _kind, parameter) =>
    `${cell} not in (select value from json_each(${parameter}))`,
  list: (values) => JSON.stringify(values),
};

/** A prepared statement that takes its parameters as one array. */
export type Prepared = Database.Statement;

/** One connection to the database with its prepared statements; failures come out as `PawlError`. */
export class Connection {
  readonly #database: Database.Database;
  readonly #path: string;
  readonly #statements = new Map<string, Prepared>();
  /** Whether the store is open, so that what fails is told to those who use it. */
  isOpen = false;

  constructor(path: string, options: { readonly: boolean }) {
    this.#path = path;
    this.isOpen = options.readonly;
    this.#database = this.guard(
      () => new Database(path, { readonly: options.readonly, timeout: BUSY_TIMEOUT_MS }),
    );
    this.guard(() => {
      for (const pragma of options.readonly ? READER_PRAGMAS : WRITER_PRAGMAS) {
        this.#database.pragma(pragma);
      }
    });
  }

  get inTransaction(): boolean {
    return this.#database.inTransaction;
  }

  /** Runs `body` and names SQLite's complaint, if there is one. */
  guard<Result>(body: () => Result): Result {
    try {
      return body();
    } catch (error) {
      throw sqliteFailure(error, this.#path, this.isOpen);
    }
  }

  /** The statement, prepared once. */
  prepared(sql: string): Prepared {
    let statement = this.#statements.get(sql);
    if (statement === undefined) {
      if (this.#statements.size >= STATEMENTS_MAX) this.#statements.clear();
      statement = this.guard(() => this.#database.prepare(sql));
      if (statement.reader) statement.raw(true);
      this.#statements.set(sql, statement);
    }
    return statement;
  }

  /** Runs several statements without parameters. */
  execute(sql: string): void {
    this.guard(() => this.#database.exec(sql));
  }

  /** Runs a statement and answers how many rows it changed. */
  run(sql: string, parameters: readonly unknown[] = []): number {
    const statement = this.prepared(sql);
    return this.guard(() => statement.run(parameters).changes);
  }

  /** All rows of a look-up, each as an array of values. */
  rows(sql: string, parameters: readonly unknown[] = []): unknown[][] {
    const statement = this.prepared(sql);
    return this.guard(() => statement.all(parameters)) as unknown[][];
  }

  /** The first row of a look-up, or null. */
  row(sql: string, parameters: readonly unknown[] = []): unknown[] | null {
    const statement = this.prepared(sql);
    return (this.guard(() => statement.get(parameters)) as unknown[] | undefined) ?? null;
  }

  begin(): void {
    this.run("begin immediate");
  }

  commit(): void {
    this.run("commit");
  }

  /** Ends an open transaction without a trace; SQLite itself may have ended it already. */
  rollback(): void {
    if (this.#database.inTransaction) this.run("rollback");
  }

  /** Pages in the write-ahead log that no checkpoint has moved to the database yet. */
  pagesToCheckpoint(): number {
    const [, logged, moved] = this.row("pragma wal_checkpoint(noop)") ?? [];
    assert(typeof logged === "number" && typeof moved === "number", "the log is countable");
    return logged - moved;
  }

  close(): void {
    this.#statements.clear();
    this.guard(() => this.#database.close());
  }
}

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
