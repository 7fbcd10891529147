import { createHash } from "node:crypto";
import Database from "better-sqlite3";
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
