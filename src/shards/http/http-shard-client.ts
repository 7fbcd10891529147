import { openHttpPost } from "../../client/http-post.ts";
import { PawlError } from "../../kernel/errors.ts";
import { hidePassword } from "../../kernel/message-text.ts";
import { problemError } from "../../work/operation.ts";
import {
  fromWire,
  parametersToWire,
  type SqlParameters,
  type SqlValue,
  type StatementResult,
  StatementsAnswer,
} from "./statement-protocol.ts";

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

/** Where a shard is served, and the token it wants. */
export type ShardEndpoint = { url: string; token?: string | undefined };

/** How one request is sent. */
export type SendOptions = {
  timeoutMs: number;
  /** Whether sending it twice does what sending it once does. */
  isRepeatable: boolean;
  headers?: Record<string, string>;
};

/** Sends JSON to a shard over connections that stay open. */
export interface ShardPost {
  readonly url: string;
  /**
   * Posts a text and gives that of the answer. Throws what the shard refused it with, and
   * `SHARD_UNREACHABLE` when no answer came; `details.sent` is false when it never got there.
   */
  send(path: string, text: string, options: SendOptions): Promise<string>;
  close(): void;
}

/** Opens a way to post to a shard; `CONFIG_INVALID` when the address is not a URL. */
export function openShardPost(address: ShardEndpoint): ShardPost {
  const url = hidePassword(address.url);
  const http = openHttpPost(address);
  return {
    url,
    async send(path, text, options) {
      const answer = await http.post(path, text, options).catch((error: unknown) => {
        throw unreachable(url, error);
      });
      if (answer.status >= 200 && answer.status < 300) return answer.text;
      throw refusalIn(url, answer);
    },
    close: () => http.close(),
  };
}

/** What a connection says that was never made: nothing was sent over it. */
const NEVER_SENT = new Set([
  "ECONNREFUSED",
  "ENOTFOUND",
  "EAI_AGAIN",
  "EHOSTUNREACH",
  "ENETUNREACH",
]);

function unreachable(url: string, cause: unknown): PawlError {
  const code = codeOf(cause);
  const message = cause instanceof Error && cause.message !== "" ? cause.message : code;
  const reason = code === "ECONNREFUSED" ? "nothing listens there (ECONNREFUSED)" : message;
  return new PawlError(
    "SHARD_UNREACHABLE",
    `The shard at ${url} cannot be reached: ${reason}. \`pawl shard serve\` serves it.`,
    { cause, details: { url, sent: !NEVER_SENT.has(code) } },
  );
}

function codeOf(error: unknown): string {
  const { code } = error as { code?: unknown };
  return typeof code === "string" ? code : "";
}

function refusalIn(url: string, { status, text }: { status: number; text: string }): PawlError {
  let body: unknown = null;
  try {
    body = JSON.parse(text);
  } catch {
    // The page of a proxy, or of another program on that port.
  }
  return (
    problemError(body) ??
    new PawlError(
      "SHARD_UNREACHABLE",
      `What answers at ${url} is not a shard of Pawl (status ${status}).`,
      { details: { url, status, sent: true } },
    )
  );
}
