import pg from "pg";
import { AssertionFailure, type ErrorCode, PawlError } from "../../kernel/errors.ts";
import type { KeyPart } from "../../kernel/table.ts";
import type { StoredValue } from "../row-reader.ts";
import type { Dialect } from "../statements.ts";
import type { AppendListeners } from "../store-lists.ts";

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

/** What stands between texts that are joined, and for one that is null: characters that JSON never has. */
const BETWEEN = "\u001f";
const NOTHING = "\u001e";

/**
 * Texts as one, which `joinedArray` takes apart: neither side has to quote or read quotes. Null when one
 * of them has a separator or is no text, or the one there is has nothing.
 */
export function joinedText(values: readonly StoredValue[]): string | null {
  let text = "";
  for (let index = 0; index < values.length; index++) {
    if (index > 0) text += BETWEEN;
    const value = values[index];
    if (value === null) text += NOTHING;
    else if (typeof value !== "string" || value.includes(BETWEEN) || value.includes(NOTHING))
      return null;
    else text += value;
  }
  return text === "" ? null : text;
}

/** The array of the texts that a parameter has joined. */
export function joinedArray(parameter: string): string {
  return `string_to_array(${parameter}, E'\\x1f', E'\\x1e')`;
}

const ESCAPED = /["\\]/;
const ESCAPED_ALL = /["\\]/g;

function quotedElement(value: string): string {
  return ESCAPED.test(value) ? `"${value.replace(ESCAPED_ALL, "\\$&")}"` : `"${value}"`;
}

/** What PostgreSQL's complaint means to an operator, by SQLSTATE or the class it begins with. */
const MEANINGS: Readonly<Record<string, { code: ErrorCode; sentence: string }>> = {
  "55P03": {
    code: "STORE_LOCKED",
    sentence: "Another process holds the workspace. Try again.",
  },
  "08": { code: "STORE_UNAVAILABLE", sentence: "The connection to PostgreSQL was lost." },
  "22": { code: "INPUT_INVALID", sentence: "PostgreSQL cannot keep one of the values." },
  "25006": {
    code: "STORE_UNAVAILABLE",
    sentence: "PostgreSQL is read-only, perhaps a standby. Connect to the primary.",
  },
  "25P03": {
    code: "STORE_UNAVAILABLE",
    sentence: "The transaction took too long and PostgreSQL ended it.",
  },
  "40": { code: "STORE_UNAVAILABLE", sentence: "PostgreSQL ended the transaction. Try again." },
  "53": { code: "STORE_UNAVAILABLE", sentence: "PostgreSQL lacks disk, memory or connections." },
  "57": { code: "STORE_UNAVAILABLE", sentence: "PostgreSQL is stopping or starting." },
  "58": { code: "STORE_UNAVAILABLE", sentence: "PostgreSQL cannot reach its files." },
  XX: {
    code: "STORE_CORRUPT",
    sentence: "PostgreSQL found damage. Read its log, and put back a backup if it says so.",
  },
  "28": { code: "CONFIG_INVALID", sentence: "PostgreSQL refused the user. Check DATABASE_URL." },
  "3D": { code: "CONFIG_INVALID", sentence: "There is no such database. Check DATABASE_URL." },
  "42501": {
    code: "CONFIG_INVALID",
    sentence: "The database user lacks a right. It must own the schema `pawl` or may create it.",
  },
};

/** The failure of a query, named; what PostgreSQL says about our own statements stays as it is. */
export function postgresFailure(error: unknown): unknown {
  if (!(error instanceof Error) || error instanceof PawlError) return error;
  if (!(error instanceof pg.DatabaseError)) {
    return new PawlError("STORE_UNAVAILABLE", `PostgreSQL cannot be reached (${error.message}).`, {
      cause: error,
    });
  }
  const state = error.code ?? "";
  if (state.startsWith("23")) {
    return new AssertionFailure(`the ledger and its rows take the write: ${error.message}`, {
      cause: error,
    });
  }
  const meaning = MEANINGS[state] ?? MEANINGS[state.slice(0, 2)];
  if (meaning === undefined) return error;
  // Callers are told what PostgreSQL says of their values and of who connects, not of its files.
  const isTold = meaning.code === "INPUT_INVALID" || meaning.code === "CONFIG_INVALID";
  const message = isTold ? `${meaning.sentence} (${error.message})` : meaning.sentence;
  return new PawlError(meaning.code, message, {
    details: { sqlstate: state },
    cause: error,
  });
}

const RECONNECT_MS = 1_000;
const HEADS = "select ws, pos from pawl.heads where pos > 0";

/**
 * Hears of appends by other processes over a connection of its own. After a lost connection it
 * reads all heads, so that what was missed is heard late, but heard.
 */
export class AppendListener {
  readonly #url: string;
  readonly #listeners: AppendListeners;
  #client: pg.Client | null = null;
  #retryTimer: NodeJS.Timeout | null = null;
  #closed = false;

  constructor(url: string, listeners: AppendListeners) {
    this.#url = url;
    this.#listeners = listeners;
  }

  /** Begins to listen, unless it does already. */
  start(): void {
    if (this.#client === null && this.#retryTimer === null && !this.#closed) void this.#connect();
  }

  async close(): Promise<void> {
    this.#closed = true;
    if (this.#retryTimer !== null) clearTimeout(this.#retryTimer);
    await this.#client?.end().catch(() => undefined);
  }

  async #connect(): Promise<void> {
    const client = new pg.Client({
      connectionString: this.#url,
      keepAlive: true,
      application_name: "pawl listener",
    });
    this.#client = client;
    client.on("error", () => undefined);
    client.on("end", () => this.#retry(client));
    client.on("notification", ({ payload }) => {
      const [ws, pos] = (payload ?? "").split(" ").map(Number);
      if (ws !== undefined && pos !== undefined) this.#listeners.appended(ws, pos);
    });
    try {
      await client.connect();
      await client.query("listen pawl_appended");
      const heads = await client.query<[string, string]>({ text: HEADS, rowMode: "array" });
      for (const [ws, pos] of heads.rows) this.#listeners.appended(Number(ws), Number(pos));
    } catch {
      await client.end().catch(() => undefined);
      this.#retry(client);
    }
  }

  #retry(client: pg.Client): void {
    if (this.#closed || this.#client !== client) return;
    this.#client = null;
    this.#retryTimer = setTimeout(() => {
      this.#retryTimer = null;
      this.start();
    }, RECONNECT_MS).unref();
  }
}
