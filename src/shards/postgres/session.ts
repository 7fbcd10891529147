import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { PawlError } from "../../kernel/errors.ts";
import { shardFailure, sqlState } from "./failures.ts";
import { quoted } from "./sql-text.ts";

/** Where a shard is: a URL, or what `pg` connects with. */
export type PostgresShardOptions = {
  readonly connectionString?: string;
  readonly config?: pg.ClientConfig;
  /** Where tables without a schema in their name are. */
  readonly schema?: string;
  readonly poolMax?: number;
};

/** What connections of this driver are called, so that a later step can end those of an earlier one. */
export const APPLICATION_NAME = "pawl shard";

const UNDEFINED_TABLE = "42P01";
const POOL_MAX = 8;
const CONNECT_TIMEOUT_MS = 5_000;

/**
 * What every connection is set to. Texts of values must be the same on both sides and read back
 * exactly, whatever the server or the role prefers; a policy that hides rows must fail, not hide;
 * nothing waits long for a lock, and a frozen worker does not hold one for long. A commit is told to
 * somebody else, so it must outlive a crash, also where applications do not wait for theirs.
 */
function settings(schema: string): string {
  return `
set datestyle = 'ISO, MDY';
set intervalstyle = 'postgres';
set extra_float_digits = 1;
set bytea_output = 'hex';
set timezone = 'UTC';
set lc_monetary = 'C';
set xmloption = 'content';
set standard_conforming_strings = on;
set default_transaction_isolation = 'read committed';
set row_security = off;
set jit = off;
set max_parallel_workers_per_gather = 0;
set lock_timeout = '5s';
set statement_timeout = 0;
set idle_in_transaction_session_timeout = '15s';
set client_min_messages = 'error';
select set_config('synchronous_commit', 'on', false)
where current_setting('synchronous_commit') <> 'remote_apply';
set search_path = ${quoted(schema)}, public`;
}

/** Makes the connections of a shard. */
export function shardPool(options: PostgresShardOptions, schema: string): pg.Pool {
  const given =
    options.connectionString === undefined ? {} : { connectionString: options.connectionString };
  const pool = new pg.Pool({
    ...options.config,
    ...given,
    max: options.poolMax ?? POOL_MAX,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    keepAlive: true,
    application_name: APPLICATION_NAME,
    // oxlint-disable-next-line typescript/no-misused-promises -- the pool waits for the promise
    onConnect: async (client) => {
      // A lost connection fails the script that uses it, and is replaced; nobody else need know.
      client.on("error", () => undefined);
      await client.query(settings(schema));
    },
  });
  pool.on("error", () => undefined);
  return pool;
}

/** One connection while it is ours; failures come out as `PawlError`. */
export class Session {
  readonly #client: pg.PoolClient;
  #lost = false;
  #failed = false;

  constructor(client: pg.PoolClient) {
    this.#client = client;
  }

  /** Runs statements in one round trip. */
  async run(statements: readonly string[], input?: Buffer): Promise<ScriptResult> {
    try {
      return await runScript(this.#client, statements, input);
    } catch (error) {
      this.#failed = true;
      if (!(error instanceof pg.DatabaseError)) this.#lost = true;
      throw shardFailure(error);
    }
  }

  /** Runs statements in one round trip and gives the rows of the last that has any. */
  async rows(...statements: readonly string[]): Promise<ResultRows> {
    const { results } = await this.run(statements);
    return results.at(-1) ?? [];
  }

  /** The rows of a statement on Pawl's own tables; none where they are not. */
  async rowsIfInstalled(statement: string): Promise<ResultRows> {
    try {
      return await this.rows(statement);
    } catch (error) {
      if (sqlState(error) === UNDEFINED_TABLE) return [];
      throw error;
    }
  }

  /** Ends a transaction that failed, so that the connection can be used again. */
  async recover(): Promise<void> {
    if (this.#lost || !this.#failed) return;
    this.#failed = false;
    await this.run(["rollback"]).catch(() => {
      this.#lost = true;
    });
  }

  release(): void {
    this.#client.release(this.#lost);
  }
}

/** Lends a connection to `body`; a transaction that failed on it is rolled back. */
export async function withSession<Result>(
  pool: pg.Pool,
  body: (session: Session) => Promise<Result>,
): Promise<Result> {
  const client = await pool.connect().catch((error: unknown) => {
    throw shardFailure(error);
  });
  const session = new Session(client);
  try {
    return await body(session);
  } finally {
    await session.recover();
    session.release();
  }
}

/** Like `withSession`, for a body that throws on its own within a transaction. */
export async function withTransaction<Result>(
  pool: pg.Pool,
  body: (session: Session) => Promise<Result>,
): Promise<Result> {
  return withSession(pool, async (session) => {
    try {
      return await body(session);
    } catch (error) {
      await session.run(["rollback"]).catch(() => undefined);
      throw error;
    }
  });
}

/** The only value of the only row of a statement, which is not NULL. */
export function onlyValue(rows: ResultRows | undefined): string {
  const value = rows?.[0]?.[0];
  if (value === undefined || value === null) {
    throw new PawlError("INTERNAL", "The shard gave no value where one was asked for.");
  }
  return value;
}

/** How long one turn waits for a lock: everybody who comes after waits behind it for as long. */
export const TURN_MS = 200;
const PAUSE_MS = 300;
const PATIENCE_MS = 20_000;

/** The lock of a table was not to be had, or two waited for each other. */
const BUSY = new Set(["55P03", "40P01"]);

/**
 * Does what needs a strong lock in short turns with pauses between: while a long transaction has
 * the table, others can go on. Throws SHARD_BUSY when it takes too long.
 */
export async function inTurns<Result>(
  what: string,
  turn: () => Promise<Result>,
  patienceMs: number = PATIENCE_MS,
): Promise<Result> {
  const deadline = performance.now() + patienceMs;
  for (;;) {
    try {
      return await turn();
    } catch (error) {
      if (!BUSY.has(sqlState(error))) throw error;
      if (performance.now() > deadline) {
        throw new PawlError(
          "SHARD_BUSY",
          `The shard could not be locked for ${patienceMs} ms to ${what}. Look for a long transaction.`,
          { details: { what }, cause: error },
        );
      }
    }
    await sleep(PAUSE_MS);
  }
}

/** The rows of one statement of a script, each value as PostgreSQL's text. */
export type ResultRows = readonly (readonly (string | null)[])[];

/** What a script gave. */
export type ScriptResult = {
  /** Of each statement that gives rows, in order. */
  readonly results: readonly ResultRows[];
  /** The command tag of each statement, in order. */
  readonly tags: readonly string[];
  /** What `copy … to stdout` gave. */
  readonly copied: Buffer;
};

/** The messages of pg's connection that a script needs. */
type ScriptConnection = {
  query(text: string): void;
  sendCopyFromChunk(chunk: Buffer): void;
  endCopyFrom(): void;
};

/** Pieces in which rows are sent: each is one message, copied once. */
const PIECE_BYTES = 1 << 20;
const FIRST_BYTES = 1 << 16;

/**
 * Several statements in one message, one round trip; among them at most one `copy … to stdout` and
 * one `copy … from stdin`, whose rows go through as they are. pg calls the methods in the order of
 * the server's answers. Not for connections that pipeline.
 */
class Script {
  readonly #text: string;
  readonly #input: Buffer;
  readonly #resolve: (result: ScriptResult) => void;
  readonly #reject: (error: unknown) => void;
  readonly #results: (string | null)[][][] = [];
  readonly #tags: string[] = [];
  #copied = Buffer.alloc(0);
  #length = 0;

  constructor(
    text: string,
    input: Buffer,
    resolve: (result: ScriptResult) => void,
    reject: (error: unknown) => void,
  ) {
    this.#text = text;
    this.#input = input;
    this.#resolve = resolve;
    this.#reject = reject;
  }

  submit(connection: ScriptConnection): null {
    connection.query(this.#text);
    return null;
  }

  handleRowDescription(): void {
    this.#results.push([]);
  }

  handleDataRow(message: { fields: (string | null)[] }): void {
    this.#results.at(-1)?.push(message.fields);
  }

  handleCommandComplete(message: { text: string }): void {
    this.#tags.push(message.text);
  }

  handleCopyData(message: { chunk: Buffer }): void {
    // Copied at once: pg reads the next bytes into the buffer that this is a part of.
    const { chunk } = message;
    const needed = this.#length + chunk.length;
    if (needed > this.#copied.length) {
      const larger = Buffer.allocUnsafe(Math.max(2 * needed, FIRST_BYTES));
      this.#copied.copy(larger, 0, 0, this.#length);
      this.#copied = larger;
    }
    this.#length += chunk.copy(this.#copied, this.#length);
  }

  handleCopyInResponse(connection: ScriptConnection): void {
    for (let start = 0; start < this.#input.length; start += PIECE_BYTES) {
      connection.sendCopyFromChunk(this.#input.subarray(start, start + PIECE_BYTES));
    }
    connection.endCopyFrom();
  }

  handleEmptyQuery(): void {
    this.#tags.push("");
  }

  handlePortalSuspended(): void {
    // Only portals with a limit are suspended, and a script has none.
  }

  handleError(error: unknown): void {
    this.#reject(error);
  }

  handleReadyForQuery(): void {
    this.#resolve({
      results: this.#results,
      tags: this.#tags,
      copied: this.#copied.subarray(0, this.#length),
    });
  }
}

/** Runs statements without parameters as one message. */
export function runScript(
  client: pg.ClientBase,
  statements: readonly string[],
  input: Buffer = Buffer.alloc(0),
): Promise<ScriptResult> {
  return new Promise((resolve, reject) => {
    const script = new Script(statements.join(";\n"), input, resolve, reject);
    // pg takes whatever has `submit`; its types know of fewer messages than it sends.
    client.query(script as unknown as pg.Submittable);
  });
}
