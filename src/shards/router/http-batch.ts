import { PawlError } from "../../kernel/errors.ts";
import type { HttpWrite, SqlResult, ShardStatement } from "../http/http-shard-client.ts";
import type { SqlParameters } from "../http/sql-values.ts";

/** Statements that wait to be run together. */
export class HttpBatch implements HttpWrite {
  readonly statements: ShardStatement[] = [];
  readonly #results: PendingResult[] = [];
  #isSealed = false;

  mutate(sql: string, params: SqlParameters = []): SqlResult {
    return this.#add(sql, params);
  }

  query(sql: string, params: SqlParameters = []): SqlResult {
    return this.#add(sql, params);
  }

  /** Takes no more statements: what was added after would silently not be run. */
  seal(): void {
    this.#isSealed = true;
  }

  /** Lets everybody look at the results. */
  settle(results: readonly SqlResult[]): void {
    this.#results.forEach((pending, index) => pending.settle(results[index] ?? null));
  }

  #add(sql: string, params: SqlParameters): SqlResult {
    if (this.#isSealed) {
      throw new PawlError(
        "STATE_ILLEGAL",
        "The write has ended, so it takes no more statements. Add them before the work returns.",
        { details: { sql } },
      );
    }
    const pending = new PendingResult(sql);
    this.statements.push({ sql, params });
    this.#results.push(pending);
    return pending;
  }
}

/** The result of a statement that has not been run yet. */
class PendingResult implements SqlResult {
  readonly #sql: string;
  #result: SqlResult | null = null;

  constructor(sql: string) {
    this.#sql = sql;
  }

  settle(result: SqlResult | null): void {
    this.#result = result;
  }

  get rows(): SqlResult["rows"] {
    return this.#known().rows;
  }

  get changes(): number {
    return this.#known().changes;
  }

  get lastInsertRowid(): number | bigint {
    return this.#known().lastInsertRowid;
  }

  #known(): SqlResult {
    if (this.#result !== null) return this.#result;
    throw new PawlError(
      "STATE_ILLEGAL",
      "A shard over HTTP runs the statements of a write together when the work has ended, so " +
        "nothing is known of them before. Return the result from the work and look at it then.",
      { details: { sql: this.#sql } },
    );
  }
}
