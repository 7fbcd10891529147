import process from "node:process";
import type pg from "pg";
import type { Materialize, TaskContext } from "../define/automation-context.ts";
import { doNotRetry } from "../define/errors.ts";
import { refuseUnknownOptions } from "../define/parse-definition.ts";
import { type DatabaseAddress, databaseAddress } from "../kernel/database-address.ts";
import { PawlError } from "../kernel/errors.ts";
import { suggestion } from "../kernel/message-text.ts";
import { type SqlStatement, sqlStatements } from "./sql-script.ts";

/** A value that a parameter can have; a list is an array in PostgreSQL, and JSON in SQLite. */
export type SqlParameter = string | number | bigint | boolean | null | readonly string[];

/** Where statements run, and what they are told besides what the task is about. */
export type SqlOptions = {
  /** The path of an SQLite file, or a postgres:// URL. */
  database?: string;
  /** The environment variable of the worker that holds it. */
  databaseEnv?: string;
  /** More parameters, by name. */
  parameters?: (context: TaskContext) => Readonly<Record<string, SqlParameter>>;
};

/** How long to wait for another writer of an SQLite file. */
const BUSY_MS = 5_000;
const CONNECT_MS = 10_000;

/** A worker that is frozen in the middle must not keep its locks for ever. */
const BEGIN = "begin; set local idle_in_transaction_session_timeout = '60s'";

/**
 * Makes partitions by statements of SQL, all in one transaction. `:partition`, `:partitions`,
 * `:window_start`, `:window_end`, the name of a dimension and the like are parameters; how many rows
 * were written is kept as the metadata `rows`.
 */
export function sql(script: string | readonly string[], options: SqlOptions): Materialize {
  refuseUnknownOptions("sql()", options, ["database", "databaseEnv", "parameters"]);
  const { database, databaseEnv } = options;
  if ((database === undefined) === (databaseEnv === undefined)) {
    throw new PawlError(
      "DEFINITION_INVALID",
      "sql() needs either database, the path of an SQLite file or a postgres:// URL, or " +
        "databaseEnv, the environment variable of the worker that holds it.",
    );
  }
  // What is wrong with the script is said when it is defined, where its dialect is known.
  const code = "DEFINITION_INVALID";
  const defined =
    database === undefined ? null : databaseAddress(database, { subject: "sql(): database", code });
  if (defined !== null) sqlStatements(script, defined.type);
  return async (context) => {
    const address = defined ?? addressIn(databaseEnv ?? "");
    const dialect = address.type;
    const known = { ...parametersOf(context), ...options.parameters?.(context) };
    const bound = sqlStatements(script, dialect).map(({ text, names }) => ({
      text,
      values: names.map((name) => valueOf(name, known)),
    }));
    const rows =
      address.type === "postgres"
        ? await runPostgres(address.url, bound, context)
        : await runSqlite(address.file, bound, context);
    return { metadata: { rows } };
  };
}

type BoundStatement = { text: SqlStatement["text"]; values: readonly SqlParameter[] };

function addressIn(variable: string): DatabaseAddress {
  const address = process.env[variable];
  if (address !== undefined && address !== "") {
    return databaseAddress(address, { subject: `The environment variable ${variable}` });
  }
  throw new PawlError(
    "CONFIG_INVALID",
    `The environment variable ${variable} is not set where this worker runs; set it to the path of ` +
      "an SQLite file or a postgres:// URL.",
  );
}

function parametersOf(context: TaskContext): Record<string, SqlParameter> {
  const { window, lastCheckpoint } = context;
  return {
    ...context.values,
    asset: context.asset,
    attempt: context.attempt,
    checkpoint: lastCheckpoint === null ? null : JSON.stringify(lastCheckpoint),
    config: JSON.stringify(context.config),
    partition: context.partition,
    partitions: context.partitions,
    run_id: context.runId,
    window_end: window?.end ?? null,
    window_start: window?.start ?? null,
  };
}

function valueOf(name: string, known: Readonly<Record<string, SqlParameter>>): SqlParameter {
  const value = Object.hasOwn(known, name) ? known[name] : undefined;
  if (value !== undefined) return value;
  const names = Object.keys(known).toSorted();
  throw doNotRetry(
    `The SQL names :${name}, which is no parameter${suggestion(name, names)}. There are ` +
      `${names.map((each) => `:${each}`).join(", ")}.`,
  );
}

/** Runs at once: nothing else of this process can want the file in between. */
async function runSqlite(
  file: string,
  statements: readonly BoundStatement[],
  { signal }: TaskContext,
): Promise<number> {
  const { default: Database } = await import("better-sqlite3");
  signal.throwIfAborted();
  const db = new Database(file, { timeout: BUSY_MS });
  try {
    db.exec("begin immediate");
    let rows = 0;
    for (const { text, values } of statements) {
      const statement = db.prepare(text);
      const bound = values.map(sqliteValue);
      if (!statement.reader) {
        rows += statement.run(...bound).changes;
        continue;
      }
      // What it answers is not wanted, however much it is.
      for (const _row of statement.iterate(...bound)) if (!statement.readonly) rows++;
    }
    db.exec("commit");
    return rows;
  } finally {
    // Closing rolls back what is not committed.
    db.close();
  }
}

function sqliteValue(value: SqlParameter): unknown {
  if (typeof value === "boolean") return value ? 1n : 0n;
  // The library binds numbers as reals: 1 would be stored as 1.0 where the column has no type.
  if (typeof value === "number" && Number.isSafeInteger(value)) return BigInt(value);
  return typeof value === "object" && value !== null ? JSON.stringify(value) : value;
}

async function runPostgres(
  address: string,
  statements: readonly BoundStatement[],
  { signal, asset }: TaskContext,
): Promise<number> {
  const { default: library } = await import("pg");
  signal.throwIfAborted();
  const connect = (): pg.Client =>
    new library.Client({
      connectionString: address,
      application_name: `pawl ${asset}`.slice(0, 60),
      connectionTimeoutMillis: CONNECT_MS,
      keepAlive: true,
    }).on("error", () => undefined);
  const client = connect();
  let stop = (): void => undefined;
  try {
    await client.connect();
    const answer = await client.query<{ pid: number }>("select pg_backend_pid() as pid");
    stop = () => void cancelStatement(connect(), answer.rows[0]?.pid ?? 0);
    signal.addEventListener("abort", stop, { once: true });
    await client.query(BEGIN);
    let rows = 0;
    for (const statement of statements) {
      signal.throwIfAborted();
      rows += await execute(client, library.Query, statement);
    }
    signal.throwIfAborted();
    await client.query("commit");
    return rows;
  } catch (error) {
    signal.throwIfAborted();
    throw error;
  } finally {
    signal.removeEventListener("abort", stop);
    // The end of a connection rolls back what is not committed.
    await client.end().catch(() => undefined);
  }
}

/** The rows that a statement wrote. What it answers is not wanted, however much it is. */
function execute(
  client: pg.Client,
  Query: typeof pg.Query,
  { text, values }: BoundStatement,
): Promise<number> {
  return new Promise((resolve, reject) => {
    // Extended, or a text without parameters could be several statements.
    const config = { text, values: [...values], queryMode: "extended" };
    const query = client.query(new Query(config));
    query.on("row", () => undefined);
    query.on("error", reject);
    query.on("end", ({ command, rowCount }) => resolve(command === "SELECT" ? 0 : (rowCount ?? 0)));
  });
}

/** Ends what a connection is doing, over another one. */
async function cancelStatement(other: pg.Client, pid: number): Promise<void> {
  try {
    await other.connect();
    await other.query("select pg_cancel_backend($1)", [pid]);
  } catch {
    // Then the statement ends when it ends; nothing of it is committed.
  } finally {
    await other.end().catch(() => undefined);
  }
}
