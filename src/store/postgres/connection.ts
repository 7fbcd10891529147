import pg from "pg";
import type { KeyPart } from "../../kernel/table.ts";
import type { StoredValue } from "../row-codec.ts";
import type { Dialect } from "../statements.ts";
import { postgresFailure } from "./failures.ts";

/** Everything lives in a schema of its own, so that a database can be shared with an application. */
export const POSTGRES: Dialect = {
  table: (name) => `pawl."${name}"`,
  parameter: (number) => `$${number}`,
  compared: (parameter) => parameter,
  isListed: (cell, kind, parameter) => `${cell} = any(${parameter}::${arrayType(kind)})`,
  isNotListed: (cell, kind, parameter) => `${cell} <> all(${parameter}::${arrayType(kind)})`,
  list: (values) => arrayText(values),
};

/**
 * What every connection is set to. A frozen server must not freeze a workspace, hence the two
 * timeouts; of a transaction that holds one, the second is shorter. All our look-ups go along an index, and joins look up each key there: on a table that
 * has grown since it was last analysed, PostgreSQL would choose to read a whole workspace instead.
 */
const SETTINGS = `
set lock_timeout = '2s';
set idle_in_transaction_session_timeout = '60s';
set enable_seqscan = off;
set enable_hashjoin = off;
set enable_mergejoin = off;
set enable_material = off;
set enable_memoize = off;
set jit = off`;

const CONNECTIONS_MAX = 10;
const CONNECT_TIMEOUT_MS = 5_000;

/** Prepared statements have a price in the server's memory; beyond this they are sent as they are. */
const PREPARED_MAX = 500;

const INT8 = 20;

/** Makes the connections of a store. Queries of one connection are sent without waiting between. */
export function connectionPool(url: string): pg.Pool {
  const pool = new pg.Pool({
    connectionString: url,
    max: CONNECTIONS_MAX,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    keepAlive: true,
    pipeline: true,
    application_name: "pawl",
    types: { getTypeParser: parserOf },
    // oxlint-disable-next-line typescript/no-misused-promises -- the pool waits for the promise
    onConnect: async (client) => {
      // A lost connection fails the query that uses it, and is replaced; nobody else need know.
      client.on("error", () => undefined);
      await client.query(SETTINGS);
    },
  });
  pool.on("error", () => undefined);
  return pool;
}

/** Our integers are within ±(2^53−1), so they are numbers; all else is text. */
function parserOf(oid: number): (value: string) => unknown {
  return oid === INT8 ? Number : String;
}

const preparedNames = new Map<string, string>();

function preparedName(sql: string): string | undefined {
  let name = preparedNames.get(sql);
  if (name === undefined && preparedNames.size < PREPARED_MAX) {
    name = `pawl_${preparedNames.size + 1}`;
    preparedNames.set(sql, name);
  }
  return name;
}

/** One connection while it is ours; failures come out as `PawlError`. */
export class Connection {
  readonly #client: pg.ClientBase;
  #failed = false;
  #answeredMs = performance.now();

  constructor(client: pg.ClientBase) {
    this.#client = client;
  }

  /** Whether a query failed: the connection is then better thrown away. */
  get failed(): boolean {
    return this.#failed;
  }

  /** Milliseconds since the last answer of the server. */
  quietMs(): number {
    return performance.now() - this.#answeredMs;
  }

  /** The rows of a prepared statement, each as an array of values. */
  async rows(sql: string, parameters: readonly unknown[]): Promise<unknown[][]> {
    const name = preparedName(sql);
    const query = { text: sql, values: [...parameters], rowMode: "array" as const };
    return this.#guard(async () => {
      const result = await this.#client.query<unknown[]>(
        name === undefined ? query : { ...query, name },
      );
      return result.rows;
    });
  }

  /** Runs statements without parameters, and answers what the last one was called. */
  async execute(sql: string): Promise<string> {
    return this.#guard(async () => {
      const results: pg.QueryResult | pg.QueryResult[] = await this.#client.query(sql);
      const last = Array.isArray(results) ? results.at(-1) : results;
      return last?.command ?? "";
    });
  }

  async #guard<Result>(body: () => Promise<Result>): Promise<Result> {
    try {
      return await body();
    } catch (error) {
      this.#failed = true;
      throw postgresFailure(error);
    } finally {
      this.#answeredMs = performance.now();
    }
  }
}

/** Lends a connection to `body`; a connection on which something failed does not come back. */
export async function withConnection<Result>(
  pool: pg.Pool,
  body: (connection: Connection) => Promise<Result>,
): Promise<Result> {
  const client = await pool.connect().catch((error: unknown) => {
    throw postgresFailure(error);
  });
  const connection = new Connection(client);
  try {
    return await body(connection);
  } finally {
    client.release(connection.failed);
  }
}

/** The array type that holds a cell's values. */
export function arrayType(kind: "text" | "int" | "json"): string {
  return kind === "int" ? "bigint[]" : "text[]";
}

/** PostgreSQL's text for an array. */
export function arrayText(values: readonly (KeyPart | StoredValue)[]): string {
  let text = "{";
  for (let index = 0; index < values.length; index++) {
    if (index > 0) text += ",";
    const value = values[index];
    if (typeof value === "string") text += quotedElement(value);
    else text += value === null || value === undefined ? "NULL" : value;
  }
  return `${text}}`;
}

const ESCAPED = /["\\]/;
const ESCAPED_ALL = /["\\]/g;

function quotedElement(value: string): string {
  return ESCAPED.test(value) ? `"${value.replace(ESCAPED_ALL, "\\$&")}"` : `"${value}"`;
}
