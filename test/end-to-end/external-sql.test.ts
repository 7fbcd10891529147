import Database from "better-sqlite3";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pg from "pg";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { AssetOptions } from "../../src/define/asset.ts";
import { daily, multi, staticPartitions } from "../../src/define/partitions.ts";
import { sql, type SqlOptions } from "../../src/external/sql.ts";
import { PawlError } from "../../src/kernel/errors.ts";
import { freshDatabaseUrl } from "../postgres.ts";
import { stopWorkers, work } from "./started-worker.ts";
import { type Work, WorkServer } from "./work-server.ts";

// A real worker and real databases; the other side of the worker protocol is in memory.

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "pawl-sql-"));
});
afterEach(async () => {
  await stopWorkers();
  rmSync(folder, { recursive: true, force: true });
});

const DAYS = daily({ start: "2025-01-01" });
const TASK: Partial<Work> = { tasks: [["2025-01-02"]] };

/** A server whose one task was tried once. */
async function attempted(
  script: string | string[],
  options: SqlOptions,
  more: Partial<AssetOptions> = { partitions: DAYS },
  added = TASK,
): Promise<WorkServer> {
  const server = new WorkServer({ ttlMs: 60_000 });
  server.add({ asset_key: "orders", tasks: [[]], ...added });
  work(server, sql(script, options), more);
  await server.until(() => server.results.length === 1);
  return server;
}

/** The two databases, each with a table of events, and what asks them. */
type Place = { database: string; rows: (query: string) => Promise<unknown[]> };

async function sqlite(): Promise<Place> {
  const database = join(folder, "warehouse.db");
  const rows = async (query: string): Promise<unknown[]> => {
    const db = new Database(database);
    try {
      return db.prepare(query).raw().all();
    } finally {
      db.close();
    }
  };
  const db = new Database(database);
  db.exec("create table events (at text, kind text); create table days (day text, count int)");
  db.exec(EVENTS);
  db.close();
  return { database, rows };
}

async function postgres(): Promise<Place> {
  const database = await freshDatabaseUrl();
  const ask = async (query: string): Promise<unknown[]> => {
    const client = new pg.Client({ connectionString: database });
    await client.connect();
    try {
      const { rows } = await client.query<unknown[]>({ text: query, rowMode: "array" });
      return rows;
    } finally {
      await client.end();
    }
  };
  await ask("create table events (at timestamptz, kind text)");
  await ask("create table days (day text, count int)");
  await ask(EVENTS);
  return { database, rows: ask };
}

const EVENTS = `insert into events values
  ('2025-01-01T23:59:59.999Z', 'a'), ('2025-01-02T00:00:00.000Z', 'a'),
  ('2025-01-02T12:00:00.000Z', 'b'), ('2025-01-03T00:00:00.000Z', 'a')`;

const COUNT = `
  -- Replaces the whole partition: one statement for each; 'not the end
  delete from days where day = :partition;
  insert into days
  select :partition, count(*) from events where at >= :window_start and at < :window_end;`;

describe.each([
  ["SQLite", sqlite],
  ["PostgreSQL", postgres],
])("sql on %s", (name, open) => {
  test("runs its statements with what the task is about", async () => {
    const { database, rows } = await open();
    const server = await attempted(COUNT, { database });

    expect(server.results).toMatchObject([{ outcome: "SUCCEEDED", metadata: { rows: 1 } }]);
    expect(await rows("select day, count from days")).toEqual([["2025-01-02", 2]]);
    server.tryAgain();
    await server.until(() => server.results.length === 2);
    expect(server.results[1]).toMatchObject({ metadata: { rows: 2 } });
    expect(await rows("select day, count from days")).toEqual([["2025-01-02", 2]]);
  });

  test("never reads a key as SQL", async () => {
    const { database, rows } = await open();
    const key = "x'); drop table days; --";
    const server = await attempted(
      "insert into days values (:partition, :n)",
      { database, parameters: () => ({ n: 7 }) },
      { partitions: staticPartitions([key]) },
      { tasks: [[key]] },
    );

    expect(server.results).toMatchObject([{ outcome: "SUCCEEDED" }]);
    expect(await rows("select day, count from days")).toEqual([[key, 7]]);
  });

  test("keeps nothing of a script of which one statement fails", async () => {
    const { database, rows } = await open();
    const script = "insert into days values ('a', 1); insert into nothing values (1)";
    const server = await attempted(script, { database });

    expect(server.results[0]).toMatchObject({ outcome: "FAILED" });
    expect(server.results[0]?.error?.message).toMatch(/nothing/);
    expect(await rows("select count(*) from days where day = 'a'")).toEqual([
      [name === "SQLite" ? 0 : "0"],
    ]);
  });

  test("has the values of all dimensions, and all keys of a batch", async () => {
    const { database, rows } = await open();
    const keys = ["day=2025-01-02,region=eu", "day=2025-01-02,region=us"];
    const each =
      name === "SQLite"
        ? "select value || :region || :day || :attempt || :asset from json_each(:partitions)"
        : "select k || :region || :day || :attempt || :asset from unnest(:partitions::text[]) as k";
    const server = await attempted(
      `insert into days (day) ${each}`,
      { database },
      { partitions: multi({ day: DAYS, region: staticPartitions(["eu", "us"]) }), batch: true },
      { tasks: [keys], batch: true },
    );

    expect(server.results).toMatchObject([{ outcome: "SUCCEEDED", metadata: { rows: 2 } }]);
    expect(await rows("select day from days order by day")).toEqual(
      keys.map((key) => [`${key}eu2025-01-021orders`]),
    );
  });

  test("counts what is written, and drops what is selected", async () => {
    const { database } = await open();
    const script =
      "select * from events; insert into days select kind, 1 from events returning day";
    const server = await attempted(script, { database });
    expect(server.results).toMatchObject([{ outcome: "SUCCEEDED", metadata: { rows: 4 } }]);
  });

  test("fails for good on a parameter that there is not, and says which there are", async () => {
    const { database } = await open();
    const server = await attempted("select :partitoin", { database });
    expect(server.results[0]).toMatchObject({ outcome: "FAILED", final: true });
    const message = server.results[0]?.error?.message ?? "";
    expect(message).toContain(
      "names :partitoin, which is no parameter (perhaps partition is meant)",
    );
    expect(message).toContain(":asset, :attempt, :checkpoint, :config, :partition, :partitions");
  });

  test("takes the database from the environment of the worker", async () => {
    const { database } = await open();
    const databaseEnv = "PAWL_TEST_WAREHOUSE";
    const without = await attempted(COUNT, { databaseEnv });
    expect(without.results[0]?.error?.message).toContain(`${databaseEnv} is not set`);
    process.env[databaseEnv] = database;
    try {
      const server = await attempted(COUNT, { databaseEnv });
      expect(server.results).toMatchObject([{ outcome: "SUCCEEDED" }]);
    } finally {
      delete process.env[databaseEnv];
    }
  });
});

test("sql on PostgreSQL ends a statement that runs when its task is cancelled", async () => {
  const { database, rows } = await postgres();
  const server = new WorkServer({ ttlMs: 15_000 });
  server.add({ asset_key: "orders", tasks: [[]] });
  work(server, sql("insert into days values ('a', 1); select pg_sleep(600)", { database }));
  const sleeping =
    "select pid from pg_stat_activity where query like '%pg_sleep%' and application_name like 'pawl%'";
  await expect.poll(() => rows(sleeping)).toHaveLength(1);
  server.cancelAll();
  await server.until(() => server.results.length === 1);

  expect(server.results[0]).toMatchObject({ outcome: "CANCELLED" });
  await expect.poll(() => rows(sleeping)).toEqual([]);
  expect(await rows("select * from days")).toEqual([]);
});

test("sql is refused without one database, without a statement and with a transaction", () => {
  const refusal = (script: string | string[], options: SqlOptions): string => {
    try {
      sql(script, options);
    } catch (error) {
      if (error instanceof PawlError && error.code === "DEFINITION_INVALID") return error.message;
      throw error;
    }
    throw new Error("it was defined");
  };
  expect(refusal("select 1", {})).toContain("needs either database");
  expect(refusal("select 1", { database: "a.db", databaseEnv: "A" })).toContain("needs either");
  expect(refusal("", { database: "a.db" })).toContain("needs a statement");
  expect(refusal("select 1", { database: "mysql://a:b@c/d" })).toBe(
    "sql(): database is a mysql:// URL; expected the path of an SQLite file or a postgres:// URL.",
  );
  expect(refusal("begin; select 1", { database: "postgres://a/b" })).toContain('"begin"');
  expect(refusal("select 1", Object({ databse: "a.db" }))).toContain("Did you mean database?");
});
