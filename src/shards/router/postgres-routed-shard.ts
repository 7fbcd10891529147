import type pg from "pg";
import { PawlError } from "../../kernel/errors.ts";
import { asRefusal, enterRead, enterText, enterWrite, isInstalled } from "../postgres/enter.ts";
import { type Entry, Refusal, type RoutedShard, type Work } from "./routed-shard.ts";

/** What the router needs of a client of `pg` that a pool has lent. */
export interface PostgresClient {
  query(
    text: string,
    values?: unknown[],
  ): Promise<{ rows: Record<string, unknown>[]; command?: string }>;
  escapeLiteral(text: string): string;
  release(destroy?: boolean): void;
  on?(event: "error", listener: (error: Error) => void): unknown;
  removeListener?(event: "error", listener: (error: Error) => void): unknown;
}

/** What the router needs of a `Pool` of `pg`. */
export interface PostgresPool {
  connect(): Promise<PostgresClient>;
}

type Access = "write" | "read";

const BEGIN_READ = "begin isolation level repeatable read read only";

/** Makes a shard of a pool: work gets a client that is inside a transaction. */
export function postgresRoutedShard(name: string, pool: PostgresPool): RoutedShard {
  // A yes stays true; a no is asked again by every transaction, as reads are safe in no other way.
  let hasFences = false;

  async function enter(client: PostgresClient, begin: string, access: Access, entry: Entry) {
    const { tenant, epoch } = entry;
    if (hasFences) {
      const text = enterText(access, tenant, epoch, (given) => client.escapeLiteral(given));
      await client.query(`${begin}; ${text}`);
      return;
    }
    await client.query(begin);
    // An interface of our own says which parts of a client of pg are used; it is one all the same.
    const own = client as unknown as pg.ClientBase;
    hasFences = await isInstalled(own);
    if (!hasFences) return;
    await (access === "write" ? enterWrite(own, tenant, epoch) : enterRead(own, tenant, epoch));
  }

  async function transact(
    begin: string,
    access: Access,
    entry: Entry,
    work: Work,
  ): Promise<unknown> {
    const client = await connect(name, pool);
    // A connection that breaks says so twice: by what is asked of it, and by an event that would
    // end the process if nobody listened.
    const ignore = (): void => undefined;
    client.on?.("error", ignore);
    let isFit = false;
    try {
      const result = await inside(client, () => enter(client, begin, access, entry), work);
      isFit = true;
      return result;
    } catch (error) {
      isFit = !isCommitUnknown(error) && (await rollBack(client));
      throw error;
    } finally {
      client.removeListener?.("error", ignore);
      client.release(!isFit);
    }
  }

  return {
    write(entry, work) {
      const { isolation } = entry;
      const begin = isolation === null ? "begin" : `begin isolation level ${isolation}`;
      return transact(begin, "write", entry, work);
    },
    read: (entry, work) => transact(BEGIN_READ, "read", entry, work),
    close: async () => undefined,
  };
}

async function inside(
  client: PostgresClient,
  enter: () => Promise<void>,
  work: Work,
): Promise<unknown> {
  try {
    await enter();
  } catch (error) {
    throw isOutrun(error) ? new Refusal(outrun(error)) : refusalOf(error);
  }
  try {
    const result = await work(client as never);
    await commit(client);
    return result;
  } catch (error) {
    // What the work throws of its own accord is not for the router to judge, also when it comes
    // from another router; what a trigger of the fence says comes as an error of the database.
    throw error instanceof PawlError ? error : refusalOf(error);
  }
}

async function connect(name: string, pool: PostgresPool): Promise<PostgresClient> {
  let client: PostgresClient | undefined;
  try {
    client = await pool.connect();
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message || cause.name : String(cause);
    throw new PawlError("SHARD_UNREACHABLE", `Shard ${name} gives no connection: ${reason}.`, {
      cause,
      details: { shard: name },
    });
  }
  if (typeof client?.query === "function" && typeof client.release === "function") return client;
  throw new PawlError(
    "CONFIG_INVALID",
    `Shard ${name} is a single connection. Give the router a Pool of pg: it runs transactions ` +
      "side by side.",
    { details: { shard: name } },
  );
}

function refusalOf(error: unknown): unknown {
  const refusal = asRefusal(error);
  return refusal === null ? error : new Refusal(refusal);
}

/** A snapshot that is older than the last change of the fences is told to begin again. */
function isOutrun(error: unknown): boolean {
  return (error as { code?: unknown }).code === "40001";
}

function outrun(cause: unknown): PawlError {
  return new PawlError(
    "SHARD_BUSY",
    "The fences of the shard changed each time the transaction began. Repeat it.",
    { cause },
  );
}

/** Commits. Where the server says that it rolled back instead, so does this. */
async function commit(client: PostgresClient): Promise<void> {
  const { command } = await client.query("commit").catch((error: unknown) => {
    if (isRolledBack(error)) throw error;
    throw new PawlError(
      "COMMIT_UNKNOWN",
      "The connection to the shard was lost while the write was being committed: it may have " +
        "happened or not. Look before you repeat it.",
      { cause: error },
    );
  });
  if (command !== "ROLLBACK") return;
  throw new PawlError(
    "WORK_FAILED",
    "Nothing was written: a statement of the transaction had failed, and its error was caught. " +
      "Let it through, or use a savepoint.",
  );
}

/**
 * Whether an answer to `commit` says that the transaction is rolled back. A server that is shut down
 * (FATAL) may have committed before; 08007 and 40003 say themselves that they do not know.
 */
function isRolledBack(error: unknown): boolean {
  const { code, severity } = error as { code?: unknown; severity?: unknown };
  return severity === "ERROR" && code !== "08007" && code !== "40003";
}

function isCommitUnknown(error: unknown): boolean {
  return error instanceof PawlError && error.code === "COMMIT_UNKNOWN";
}

/** Whether the connection is as good as new. */
async function rollBack(client: PostgresClient): Promise<boolean> {
  try {
    await client.query("rollback");
    return true;
  } catch {
    return false;
  }
}
