import Database from "better-sqlite3";
import pg from "pg";
import { PawlError } from "../../../src/kernel/errors.ts";
import * as postgres from "../../../src/shards/postgres/enter.ts";
import * as sqlite from "../../../src/shards/sqlite/enter.ts";
import type { LiveAddress } from "./project/live-settings.ts";

/** A connection to a shard of somebody who has a route and keeps it, however old it gets. */
export interface Outsider {
  /** Adds to the shared account of a tenant under an epoch; answers how that was refused, if it was. */
  add(tenant: string, epoch: number): Promise<PawlError | null>;
  /** What the shared account of a tenant has, or how the question was refused. */
  look(tenant: string, epoch: number): Promise<number | PawlError>;
  /** Begins a write that changes nothing, and commits only when told. */
  hold(tenant: string, epoch: number): Promise<() => Promise<void>>;
  close(): Promise<void>;
}

const ADD = "update accounts set n = n + 1 where tenant = $1 and account = 0";
const TOUCH = "update accounts set n = n where tenant = $1 and account = 0";
const LOOK = "select n from accounts where tenant = $1 and account = 0";

/** Opens a connection to a shard. */
export function openOutsider(address: LiveAddress): Promise<Outsider> {
  return address.type === "sqlite"
    ? Promise.resolve(inSqlite(address.file))
    : inPostgres(address.connectionString);
}

function inSqlite(file: string): Outsider {
  const db = new Database(file, { timeout: 10_000 });
  const write = (sql: string, tenant: string, epoch: number): void => {
    db.exec("begin immediate");
    sqlite.enterWrite(db, tenant, epoch);
    db.prepare(sql.replace("$1", "?")).run(tenant);
    sqlite.leave(db);
  };
  const attempt = <Result>(work: () => Result): Result | PawlError => {
    try {
      return work();
    } catch (error) {
      const refusal = error instanceof PawlError ? error : sqlite.asRefusal(error);
      if (refusal === null) throw error;
      return refusal;
    } finally {
      if (db.inTransaction) db.exec("rollback");
    }
  };
  return {
    async add(tenant, epoch) {
      return attempt(() => {
        write(ADD, tenant, epoch);
        db.exec("commit");
        return null;
      });
    },
    async look(tenant, epoch) {
      return attempt(() => {
        db.exec("begin");
        sqlite.enterRead(db, tenant, epoch);
        const row = db.prepare(LOOK.replace("$1", "?")).get(tenant) as { n: number };
        return row.n;
      });
    },
    async hold(tenant, epoch) {
      write(TOUCH, tenant, epoch);
      return async () => {
        db.exec("commit");
      };
    },
    async close() {
      db.close();
    },
  };
}

async function inPostgres(connectionString: string): Promise<Outsider> {
  const client = new pg.Client({ connectionString });
  await client.connect();
  const write = async (sql: string, tenant: string, epoch: number): Promise<void> => {
    await client.query("begin");
    await postgres.enterWrite(client, tenant, epoch);
    await client.query(sql, [tenant]);
  };
  const attempt = async <Result>(work: () => Promise<Result>): Promise<Result | PawlError> => {
    try {
      return await work();
    } catch (error) {
      const refusal = postgres.asRefusal(error);
      if (refusal === null) throw error;
      return refusal;
    } finally {
      await client.query("rollback");
    }
  };
  return {
    add: (tenant, epoch) =>
      attempt(async () => {
        await write(ADD, tenant, epoch);
        await client.query("commit");
        return null;
      }),
    look: (tenant, epoch) =>
      attempt(async () => {
        await client.query("begin isolation level repeatable read read only");
        await postgres.enterRead(client, tenant, epoch);
        const { rows } = await client.query<{ n: string }>(LOOK, [tenant]);
        return Number(rows[0]?.n);
      }),
    async hold(tenant, epoch) {
      await write(TOUCH, tenant, epoch);
      return async () => {
        await client.query("commit");
      };
    },
    close: () => client.end(),
  };
}
