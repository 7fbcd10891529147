import { setTimeout as pause } from "node:timers/promises";
import type Database from "better-sqlite3";
import { PawlError } from "../../kernel/errors.ts";
import { asRefusal, enterRead, enterWrite, leave } from "../sqlite/enter.ts";
import { Refusal, type RoutedShard, type Work } from "./routed-shard.ts";

/** What the router needs of a `Database` of better-sqlite3. */
export interface SqliteDatabase {
  readonly inTransaction: boolean;
  exec(source: string): unknown;
  prepare(source: string): {
    get(...parameters: unknown[]): unknown;
    run(...parameters: unknown[]): unknown;
    all(...parameters: unknown[]): unknown[];
  };
  pragma(source: string, options?: { simple?: boolean }): unknown;
}

/** How long another process may keep the file to itself before a write gives up, and how often to look. */
const BUSY_MS_MAX = 5_000;
const BUSY_TURN_MS = 5;

/**
 * Makes a shard of a database: work gets the database itself, inside a transaction. From its begin
 * to its end nothing is awaited, so nobody else can get into it.
 */
export function sqliteRoutedShard(name: string, db: SqliteDatabase): RoutedShard {
  // An interface of our own says which parts of the library are used; it is its database all the same.
  const own = db as unknown as Database.Database;

  async function whenFree(transact: () => unknown): Promise<unknown> {
    const startedAtMs = performance.now();
    for (;;) {
      refuseNesting(name, db);
      try {
        return transact();
      } catch (error) {
        if (!(error instanceof Busy)) throw error;
        if (performance.now() - startedAtMs >= BUSY_MS_MAX) throw busy(name, error.cause);
      }
      await pause(BUSY_TURN_MS);
    }
  }

  return {
    async write({ tenant, epoch }, work) {
      refuseAsync(work);
      return whenFree(() => {
        begin(db, "begin immediate", () => enterWrite(own, tenant, epoch));
        try {
          const result = runSync(work, db);
          refuseEnded(name, db);
          leave(own);
          commit(db);
          return result;
        } catch (error) {
          if (db.inTransaction) db.exec("rollback");
          // What the work throws of its own accord passes; a trigger of the fence speaks otherwise.
          throw error instanceof PawlError ? error : asRefused(error);
        }
      });
    },
    async read({ tenant, epoch }, work) {
      refuseAsync(work);
      return whenFree(() => {
        begin(db, "begin", () => enterRead(own, tenant, epoch));
        const before = db.pragma("query_only", { simple: true });
        try {
          db.pragma("query_only = 1");
          return runSync(work, db);
        } finally {
          db.pragma(`query_only = ${Number(before) === 0 ? 0 : 1}`);
          if (db.inTransaction) db.exec("rollback");
        }
      });
    },
    close: async () => undefined,
  };
}

/** Another process has the file to itself, and nothing has been done yet. */
class Busy extends Error {}

/** Begins and enters. In the old journal mode a reader meets a writer only at its first read. */
function begin(db: SqliteDatabase, statement: string, enter: () => void): void {
  try {
    db.exec(statement);
    enter();
  } catch (error) {
    if (db.inTransaction) db.exec("rollback");
    if (isBusy(error)) throw new Busy("busy", { cause: error });
    throw error instanceof PawlError ? new Refusal(error) : asRefused(error);
  }
}

function asRefused(error: unknown): unknown {
  const refusal = asRefusal(error);
  return refusal === null ? error : new Refusal(refusal);
}

function runSync(work: Work, db: SqliteDatabase): unknown {
  const result = work(db as never);
  if (!isThenable(result)) return result;
  // Nobody is going to wait for it; what it still throws must not end the process.
  result.then(undefined, () => undefined);
  throw asyncWork();
}

function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof (value as { then?: unknown } | null | undefined)?.then === "function";
}

/** Known before it is run, it does no harm: a part of it would run after the rollback. */
function refuseAsync(work: Work): void {
  if (work.constructor.name.startsWith("Async")) throw asyncWork();
}

function asyncWork(): PawlError {
  return new PawlError(
    "INPUT_INVALID",
    "Work on an SQLite shard must not be async: the transaction would stay open while it waits, " +
      "and others would get into it. Do the waiting before, and nothing was written now.",
  );
}

function refuseNesting(name: string, db: SqliteDatabase): void {
  if (!db.inTransaction) return;
  throw new PawlError(
    "STATE_ILLEGAL",
    `The database of shard ${name} is inside a transaction already. Call the router outside of ` +
      "it, or give the router a connection of its own.",
    { details: { shard: name } },
  );
}

/** What was written is committed by now, or gone, and nobody has checked which. */
function refuseEnded(name: string, db: SqliteDatabase): void {
  if (db.inTransaction) return;
  throw new PawlError(
    "STATE_ILLEGAL",
    `The work ended the transaction of shard ${name} itself. Leave begin, commit and rollback to ` +
      "the router.",
    { details: { shard: name } },
  );
}

function commit(db: SqliteDatabase): void {
  try {
    db.exec("commit");
  } catch (error) {
    // Anything but an error of the disk leaves the transaction open, or says that it is rolled back.
    if (!codeOf(error).startsWith("SQLITE_IOERR")) throw error;
    throw new PawlError(
      "COMMIT_UNKNOWN",
      "The disk failed while the write was being committed: it may have happened or not. Look " +
        "before you repeat it.",
      { cause: error },
    );
  }
}

function isBusy(error: unknown): boolean {
  return codeOf(error).startsWith("SQLITE_BUSY");
}

function busy(name: string, cause: unknown): PawlError {
  return new PawlError(
    "SHARD_BUSY",
    `Shard ${name} could not be locked within ${BUSY_MS_MAX} ms: another process is writing to it.`,
    { cause, details: { shard: name } },
  );
}

function codeOf(error: unknown): string {
  const { code } = error as { code?: unknown };
  return typeof code === "string" ? code : "";
}
