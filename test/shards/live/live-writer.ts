import { setTimeout as sleep } from "node:timers/promises";
import Database from "better-sqlite3";
import pg from "pg";
import type { Client } from "../../../src/client/client.ts";
import { createRouter, type WriteOptions } from "../../../src/shards/router/create-router.ts";
import type { LiveAddress, LiveShards } from "./project/live-settings.ts";

/** How a write is made. */
export type WriteKind = { isRepeatableRead: boolean; isRolledBack: boolean; openMs: number };

/** A write that was taken back as it was meant to be. */
export class RolledBack extends Error {}

/** What the load does to a tenant, each in one transaction through the router. */
export interface LiveWriter {
  addShared(tenant: string, kind: WriteKind): Promise<void>;
  add(
    tenant: string,
    account: number,
    number: number,
    note: string | null,
    kind: WriteKind,
  ): Promise<void>;
  note(
    tenant: string,
    account: number,
    number: number,
    note: string | null,
    kind: WriteKind,
  ): Promise<void>;
  forget(tenant: string, account: number, number: number, kind: WriteKind): Promise<void>;
  renumber(tenant: string, account: number, number: number, kind: WriteKind): Promise<void>;
  look(tenant: string, account: number): Promise<{ n: number; entries: number }>;
  close(): Promise<void>;
}

type RouterPart = { client: Client; waitMs: number };

type Value = string | number | null;
type Statement = [sql: string, ...values: Value[]];

/** Writes for whichever engine: it runs statements, of which each changes exactly one row. */
interface Runner {
  write(tenant: string, statements: readonly Statement[], kind: WriteKind): Promise<void>;
  look(tenant: string, sql: string, values: readonly Value[]): Promise<[unknown, unknown]>;
  close(): Promise<void>;
}

const COUNT_UP = "update accounts set n = n + 1 where tenant = $1 and account = $2";
const ADD = "insert into entries values ($1, $2, $3, $4)";
const NOTE = "update entries set note = $4 where tenant = $1 and account = $2 and number = $3";
const FORGET = "delete from entries where tenant = $1 and account = $2 and number = $3";
const RENUMBER =
  "update entries set number = -number where tenant = $1 and account = $2 and number = $3";
const LOOK = `
  select n, (select count(*) from entries e where e.tenant = a.tenant and e.account = a.account)
  from accounts a
  where tenant = $1 and account = $2
`;

/** Opens what writes to the shards of a live test. */
export function openLiveWriter(shards: LiveShards, router: RouterPart): LiveWriter {
  const runner = openRunner(shards, router);
  return {
    addShared: (tenant, kind) => runner.write(tenant, [[COUNT_UP, tenant, 0]], kind),
    add: (tenant, account, number, note, kind) =>
      runner.write(
        tenant,
        [
          [COUNT_UP, tenant, account],
          [ADD, tenant, account, number, note],
        ],
        kind,
      ),
    note: (tenant, account, number, note, kind) =>
      runner.write(tenant, [[NOTE, tenant, account, number, note]], kind),
    forget: (tenant, account, number, kind) =>
      runner.write(tenant, [[FORGET, tenant, account, number]], kind),
    renumber: (tenant, account, number, kind) =>
      runner.write(tenant, [[RENUMBER, tenant, account, number]], kind),
    async look(tenant, account) {
      const [n, entries] = await runner.look(tenant, LOOK, [tenant, account]);
      return { n: Number(n), entries: Number(entries) };
    },
    close: () => runner.close(),
  };
}

function openRunner({ east, west }: LiveShards, router: RouterPart): Runner {
  if (east.type === "sqlite" && west.type === "sqlite") {
    return sqliteRunner({ east: openFile(east.file), west: openFile(west.file) }, router);
  }
  return postgresRunner({ east: openPool(east), west: openPool(west) }, router);
}

function openFile(file: string): Database.Database {
  const db = new Database(file, { timeout: 0 });
  db.pragma("synchronous = off");
  db.pragma("foreign_keys = on");
  return db;
}

function openPool(address: LiveAddress): pg.Pool {
  const connectionString = address.type === "postgres" ? address.connectionString : "";
  // What a crash of the database would lose is not what is tested here.
  const options = "-c synchronous_commit=off";
  return new pg.Pool({ connectionString, max: 16, options });
}

function sqliteRunner(
  shards: Record<"east" | "west", Database.Database>,
  part: RouterPart,
): Runner {
  const router = createRouter({ ...part, shards });
  return {
    write: (tenant, statements, kind) =>
      router.write(tenant, (db) => {
        for (const [sql, ...values] of statements) {
          requireOne(db.prepare(anonymous(sql)).run(...bound(sql, values)).changes, sql);
        }
        if (kind.isRolledBack) throw new RolledBack();
      }),
    look: (tenant, sql, values) =>
      router.read(
        tenant,
        (db) =>
          db
            .prepare(anonymous(sql))
            .raw()
            .get(...values) as [unknown, unknown],
      ),
    async close() {
      await router.close();
      for (const db of Object.values(shards)) db.close();
    },
  };
}

/** SQLite's numbered parameters. */
function anonymous(sql: string): string {
  return sql.replaceAll(/\$\d/g, "?");
}

/** The values in the order in which the statement has their places. */
function bound(sql: string, values: readonly Value[]): Value[] {
  return [...sql.matchAll(/\$(\d)/g)].map(([, at]) => values[Number(at) - 1] ?? null);
}

function postgresRunner(shards: Record<"east" | "west", pg.Pool>, part: RouterPart): Runner {
  const router = createRouter({ ...part, shards });
  return {
    write: (tenant, statements, kind) => {
      const options: WriteOptions = kind.isRepeatableRead ? { isolation: "repeatable read" } : {};
      return router.write(
        tenant,
        async (client) => {
          for (const [sql, ...values] of statements) {
            const { rowCount } = await client.query({ name: sql.slice(0, 60), text: sql, values });
            requireOne(rowCount ?? 0, sql);
          }
          if (kind.openMs > 0) await sleep(kind.openMs);
          if (kind.isRolledBack) throw new RolledBack();
        },
        options,
      );
    },
    look: (tenant, sql, values) =>
      router.read(tenant, async (client) => {
        const { rows } = await client.query({ text: sql, values: [...values], rowMode: "array" });
        return rows[0] as [unknown, unknown];
      }),
    async close() {
      await router.close();
      for (const pool of Object.values(shards)) await pool.end();
    },
  };
}

function requireOne(changed: number, sql: string): void {
  if (changed !== 1) throw new Error(`${changed} rows were changed, not one, by ${sql}`);
}
