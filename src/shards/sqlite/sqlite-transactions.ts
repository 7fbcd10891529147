import { Connection } from "./connection.ts";
import { isBusy, shardFailure } from "./failures.ts";

/**
 * Transactions on one file. A write is never left open while something else of this process runs:
 * whoever waited for the lock within SQLite would wait for itself. Reads have connections of their
 * own and may go on for long.
 */
export class SqliteTransactions {
  readonly #file: string;
  readonly #busyTimeoutMs: number;
  #writer: Connection | null = null;
  readonly #idle: Connection[] = [];
  #isClosed = false;

  constructor(file: string, busyTimeoutMs: number) {
    this.#file = file;
    this.#busyTimeoutMs = busyTimeoutMs;
  }

  /** Runs a function in a write transaction; it may run again when the commit has to wait. */
  write<T>(act: (db: Connection) => T, waitMs: number = this.#busyTimeoutMs): Promise<T> {
    return this.#whenFree(waitMs, () => {
      this.#writer ??= new Connection(this.#file);
      const db = this.#writer;
      db.db.exec("begin immediate");
      try {
        const result = act(db);
        db.db.exec("commit");
        return result;
      } catch (error) {
        if (db.db.inTransaction) db.db.exec("rollback");
        throw error;
      }
    });
  }

  /** Runs a function in a snapshot. */
  async read<T>(act: (db: Connection) => T | Promise<T>): Promise<T> {
    const db = await this.#whenFree(this.#busyTimeoutMs, () => this.#snapshot());
    try {
      const result = await act(db);
      db.db.exec("commit");
      if (this.#isClosed) db.close();
      else this.#idle.push(db);
      return result;
    } catch (error) {
      db.close();
      throw shardFailure(error, this.#file);
    }
  }

  close(): void {
    this.#isClosed = true;
    this.#writer?.close();
    for (const db of this.#idle.splice(0)) db.close();
  }

  /** A connection whose snapshot is taken: from here on no lock can be in the way. */
  #snapshot(): Connection {
    const db = this.#idle.pop() ?? new Connection(this.#file);
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
        if (!isBusy(error) || performance.now() >= until) throw shardFailure(error, this.#file);
      }
      await new Promise((resolve) => {
        setTimeout(resolve, 1);
      });
    }
  }
}
