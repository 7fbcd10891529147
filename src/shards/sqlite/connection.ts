import { createHash } from "node:crypto";
import { open, realpath } from "node:fs/promises";
import { dirname } from "node:path";
import Database from "better-sqlite3";
import type { Position } from "../shard.ts";
import { isLocked, shardFailure } from "./failures.ts";
import type { SqliteValue } from "./literals.ts";

const STATEMENTS_MAX = 500;

/**
 * A connection to a user's database with its prepared statements. Integers come as `bigint`, reals
 * as `number`, so that nothing is rounded and each goes back in the class it was stored in.
 */
export class ShardDatabase {
  readonly db: Database.Database;
  #statements = new Map<string, Database.Statement>();

  constructor(file: string) {
    // Waiting inside SQLite would stop this process, and with it whoever holds the lock in it.
    this.db = new Database(file, { fileMustExist: true, timeout: 0 });
    try {
      this.#prepareSession();
    } catch (error) {
      this.db.close();
      throw error;
    }
  }

  /** The rows of a statement, as arrays. */
  all(sql: string, ...values: readonly SqliteValue[]): SqliteValue[][] {
    return this.#prepared(sql).all(...values) as SqliteValue[][];
  }

  /** The first row of a statement. */
  get(sql: string, ...values: readonly SqliteValue[]): SqliteValue[] | undefined {
    return this.#prepared(sql).get(...values) as SqliteValue[] | undefined;
  }

  /** The first value of the first row; null when there is no row. */
  value(sql: string, ...values: readonly SqliteValue[]): SqliteValue {
    return this.get(sql, ...values)?.[0] ?? null;
  }

  /** Runs a statement and says how many rows it changed. */
  run(sql: string, ...values: readonly SqliteValue[]): number {
    return this.#prepared(sql).run(...values).changes;
  }

  /** Runs a statement with values in one array, which is faster for many. */
  runWith(sql: string, values: readonly SqliteValue[]): number {
    return this.#prepared(sql).run(values).changes;
  }

  close(): void {
    this.#statements.clear();
    this.db.close();
  }

  #prepareSession(): void {
    // Rows are applied as they are: cascades have been captured at the source already.
    this.db.pragma("foreign_keys = off");
    this.db.pragma("recursive_triggers = off");
    // A commit is told to somebody else, so it must outlive a loss of power. This is a matter of
    // the connection; the journal mode, which is one of the file, stays as the application set it.
    this.db.pragma("synchronous = extra");
    this.db.function("pawl_bucket", { deterministic: true }, bucketOf);
  }

  #prepared(sql: string): Database.Statement {
    const known = this.#statements.get(sql);
    if (known !== undefined) return known;
    if (this.#statements.size >= STATEMENTS_MAX) this.#statements.clear();
    const statement = this.db.prepare(sql).safeIntegers();
    if (statement.reader) statement.raw();
    this.#statements.set(sql, statement);
    return statement;
  }
}

/** The bucket of a tenant's text, as `ScopeTest` says it; null for null. */
function bucketOf(text: unknown, modulus: unknown): number | null {
  if (typeof text !== "string") return null;
  const first = createHash("sha256").update(text, "utf8").digest().readUInt32BE(0);
  return first % Number(modulus);
}

/** Brings a file, or the names in a folder, to the disk; false when there is no such file. */
export type FlushFile = (path: string) => Promise<boolean>;

/**
 * Transactions on one file. A write is never left open while something else of this process runs:
 * whoever waited for the lock within SQLite would wait for itself. Reads have connections of their
 * own and may go on for long.
 */
export class SqliteTransactions {
  readonly #file: string;
  /** What failures call the file; null where its place is nobody's business. */
  readonly #told: string | null;
  readonly #busyTimeoutMs: number;
  #writer: ShardDatabase | null = null;
  readonly #idle: ShardDatabase[] = [];
  readonly #flushFile: FlushFile;
  /** What was flushed last, so that a position that is read again is not flushed again. */
  #flushedTo: Position | null = null;
  #isClosed = false;

  constructor(
    file: string,
    busyTimeoutMs: number,
    { flush = flushFile, isServed = false }: { flush?: FlushFile; isServed?: boolean } = {},
  ) {
    this.#file = file;
    this.#told = isServed ? null : file;
    this.#busyTimeoutMs = busyTimeoutMs;
    this.#flushFile = flush;
  }

  /** Runs a function in a write transaction; it may run again when the commit has to wait. */
  write<T>(act: (db: ShardDatabase) => T, waitMs: number = this.#busyTimeoutMs): Promise<T> {
    return this.#writing(act, waitMs, "commit");
  }

  /** Runs a function in a write transaction of which nothing stays. */
  tryOut<T>(act: (db: ShardDatabase) => T): Promise<T> {
    return this.#writing(act, this.#busyTimeoutMs, "rollback");
  }

  #writing<T>(
    act: (db: ShardDatabase) => T,
    waitMs: number,
    end: "commit" | "rollback",
  ): Promise<T> {
    return this.#whenFree(waitMs, () => {
      this.#writer ??= new ShardDatabase(this.#file);
      const db = this.#writer;
      db.db.exec("begin immediate");
      try {
        const result = act(db);
        db.db.exec(end);
        return result;
      } catch (error) {
        if (db.db.inTransaction) db.db.exec("rollback");
        throw error;
      }
    });
  }

  /** Runs a function in a snapshot. */
  async read<T>(act: (db: ShardDatabase) => T | Promise<T>): Promise<T> {
    const db = await this.#whenFree(this.#busyTimeoutMs, () => this.#snapshot());
    try {
      const result = await act(db);
      db.db.exec("commit");
      if (this.#isClosed) db.close();
      else this.#idle.push(db);
      return result;
    } catch (error) {
      db.close();
      throw shardFailure(error, this.#told);
    }
  }

  /**
   * Runs a function in a snapshot and gives its answer once all that its position covers is flushed:
   * an application may not wait for its commits, and ids of those that a loss of power takes away
   * are given out again.
   */
  async readPosition<T extends { readonly position: Position }>(
    act: (db: ShardDatabase) => T | Promise<T>,
  ): Promise<T> {
    const answer = await this.read(act);
    if (answer.position !== this.#flushedTo) await this.#flush();
    this.#flushedTo = answer.position;
    return answer;
  }

  close(): void {
    this.#isClosed = true;
    this.#writer?.close();
    for (const db of this.#idle.splice(0)) db.close();
  }

  /**
   * Commits are in the WAL until they are in the file, which SQLite brings to the disk in order. The
   * file itself must not be opened here: to close it would give up the locks that SQLite has on it.
   */
  async #flush(): Promise<void> {
    try {
      const path = await realpath(this.#file);
      const hasWal = await this.#flushFile(`${path}-wal`);
      if (hasWal && this.#flushedTo !== null) return;
      // Without a WAL, a commit is the end of a journal, which may be that its name is gone.
      if (!hasWal) await this.#flushFile(`${path}-journal`);
      await this.#flushFile(dirname(path));
    } catch (error) {
      throw shardFailure(error, this.#told);
    }
  }

  /** A connection whose snapshot is taken: from here on no lock can be in the way. */
  #snapshot(): ShardDatabase {
    const db = this.#idle.pop() ?? new ShardDatabase(this.#file);
    try {
      db.db.exec("begin");
      db.value("select count(*) from sqlite_schema");
      return db;
    } catch (error) {
      db.close();
      throw error;
    }
  }

  /** Tries again without blocking until a lock is free. */
  async #whenFree<T>(waitMs: number, attempt: () => T): Promise<T> {
    const until = performance.now() + waitMs;
    for (;;) {
      try {
        return attempt();
      } catch (error) {
        if (!isLocked(error) || performance.now() >= until) throw shardFailure(error, this.#told);
      }
      await new Promise((resolve) => {
        setTimeout(resolve, 1);
      });
    }
  }
}

async function flushFile(path: string): Promise<boolean> {
  const file = await open(path, "r").catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return null;
    throw error;
  });
  if (file === null) return false;
  try {
    await file.sync();
    return true;
  } finally {
    await file.close();
  }
}
