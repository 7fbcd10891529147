import { PawlError } from "../../kernel/errors.ts";
import { openShardPost, type ShardEndpoint, type ShardPost } from "./shard-post.ts";
import { fromWire, parametersToWire, type SqlParameters, type SqlValue } from "./sql-values.ts";
import { type StatementResult, StatementsAnswer } from "./statement-protocol.ts";

/** A statement and its parameters. */
export type ShardStatement = { readonly sql: string; readonly params?: SqlParameters | undefined };

/** What a statement answered. */
export type SqlResult = {
  /** Rows by the names of their columns; integers beyond 2^53 are bigint. */
  readonly rows: readonly Readonly<Record<string, SqlValue>>[];
  readonly changes: number;
  readonly lastInsertRowid: number | bigint;
};

/** What work that reads from a shard over HTTP gets. */
export interface HttpRead {
  /** Runs one query on a snapshot of its own. */
  query(sql: string, params?: SqlParameters): Promise<SqlResult>;
  /** Runs several queries on one snapshot. */
  queryAll(statements: readonly ShardStatement[]): Promise<SqlResult[]>;
}

/**
 * What work that writes to a shard over HTTP gets: a batch, run in one transaction when the work has
 * ended. What a statement answers can be looked at when the write has committed.
 */
export interface HttpWrite {
  mutate(sql: string, params?: SqlParameters): SqlResult;
  query(sql: string, params?: SqlParameters): SqlResult;
}

/** Longer than the shard itself waits for its file. */
const TIMEOUT_MS = 30_000;

/** Sends an application's statements to a shard that `pawl shard serve` serves. */
export class HttpShardClient {
  readonly url: string;
  readonly #post: ShardPost;

  constructor(address: ShardEndpoint) {
    this.#post = openShardPost(address);
    this.url = this.#post.url;
  }

  /** Runs queries on one snapshot in which the tenant's epoch is checked. */
  query(
    tenant: string,
    epoch: number,
    statements: readonly ShardStatement[],
  ): Promise<SqlResult[]> {
    return this.#run("/query", { tenant, epoch, statements }, {});
  }

  /** Runs statements in one transaction in which the epoch is checked; once for a key. */
  mutate(
    tenant: string,
    epoch: number,
    statements: readonly ShardStatement[],
    key: string,
  ): Promise<SqlResult[]> {
    return this.#run("/mutation", { tenant, epoch, statements }, { "idempotency-key": key });
  }

  close(): void {
    this.#post.close();
  }

  async #run(
    path: string,
    request: { tenant: string; epoch: number; statements: readonly ShardStatement[] },
    headers: Record<string, string>,
  ): Promise<SqlResult[]> {
    const statements = request.statements.map(({ sql, params = [] }) => {
      return { sql, params: parametersToWire(params) };
    });
    const text = JSON.stringify({ ...request, statements });
    const answer = await this.#post.send(path, text, {
      timeoutMs: TIMEOUT_MS,
      isRepeatable: true,
      headers,
    });
    return answered(this.url, answer).results.map(resultOf);
  }
}

function answered(url: string, text: string): StatementsAnswer {
  try {
    return StatementsAnswer.parse(JSON.parse(text));
  } catch (cause) {
    throw new PawlError("SHARD_UNREACHABLE", `What answers at ${url} is not a shard of Pawl.`, {
      cause,
      details: { url, sent: true },
    });
  }
}

function resultOf({ columns, rows, changes, last_insert_rowid }: StatementResult): SqlResult {
  const rowid = fromWire(last_insert_rowid);
  return {
    rows: rows.map((row) =>
      Object.fromEntries(columns.map((column, index) => [column, fromWire(row[index] ?? null)])),
    ),
    changes,
    lastInsertRowid: typeof rowid === "bigint" ? rowid : Number(rowid),
  };
}
