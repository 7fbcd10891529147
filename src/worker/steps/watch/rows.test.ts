import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Database from "better-sqlite3";
import pg from "pg";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { freshDatabaseUrl } from "../../../../test/postgres.ts";
import { WatchSpec } from "../../../work/definition/spec.ts";
import type { RowItem } from "../../../define/sensor.ts";
import { openWatcher } from "./open-watcher.ts";
import { watchRows } from "./rows.ts";

const folder = mkdtempSync(join(tmpdir(), "pawl-rows-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const { signal } = new AbortController();

/** Rows of a table from a cursor that is remembered from look to look. */
function watched(address: string, options: Record<string, unknown>, limit = 1_000) {
  const spec = WatchSpec.parse({ type: "rows", ...options });
  if (spec.type !== "rows") throw new Error("This watch is of rows.");
  const watcher = watchRows(spec, address, limit);
  let cursor: string | null = null;
  return async (): Promise<RowItem[]> => {
    const looked = await watcher.look(cursor, signal);
    cursor = looked.cursor;
    return looked.items as RowItem[];
  };
}

const idsOf = (rows: readonly RowItem[]): unknown[] => rows.map((row) => row["id"]);

type Tried = { name: string; address: () => string; run: (sql: string) => Promise<unknown> };

const sqlitePath = join(folder, "rows.db");
const sqlite = new Database(sqlitePath);
let url = "";
let client: pg.Client;
beforeAll(async () => {
  url = await freshDatabaseUrl();
  client = new pg.Client({ connectionString: url });
  await client.connect();
});
afterAll(async () => {
  await client.end();
  sqlite.close();
});

const databases: Tried[] = [
  { name: "SQLite", address: () => sqlitePath, run: async (sql) => sqlite.exec(sql) },
  { name: "PostgreSQL", address: () => url, run: (sql) => client.query(sql) },
];

describe.each(databases)("watchRows on $name", ({ address, run }) => {
  test("finds rows beyond the watermark, in order and each once", async () => {
    await run("create table orders (id bigint primary key, note text)");
    await run("insert into orders values (2, 'b'), (1, null), (9007199254740993, 'big')");
    const look = watched(address(), { table: "orders", watermark: "id" }, 2);

    expect(await look()).toEqual([
      { id: 1, note: null },
      { id: 2, note: "b" },
    ]);
    expect(idsOf(await look())).toEqual(["9007199254740993"]);
    await run("insert into orders values (9007199254740994, 'bigger'), (3, 'too late')");
    expect(idsOf(await look())).toEqual(["9007199254740994"]);
    expect(await look()).toEqual([]);
  });

  test("tells rows of one watermark apart by the key", async () => {
    await run("create table changes (at text, id text)");
    await run("insert into changes values ('a','3'),('a','1'),('a','2'),('b','1'),(null,'9')");
    const look = watched(address(), { table: "changes", watermark: "at", key: "id" }, 2);

    expect(idsOf(await look())).toEqual(["1", "2"]);
    expect(idsOf(await look())).toEqual(["3", "1"]);
    expect(await look()).toEqual([]);
    await run("insert into changes values ('b', '2')");
    expect(idsOf(await look())).toEqual(["2"]);
    await run("insert into changes values ('c', null)");
    await expect(look()).rejects.toThrow("has no id");
  });

  test("without a key takes rows of one watermark together, or says that it cannot", async () => {
    await run("create table groups (at int, id int)");
    await run("insert into groups values (1,1),(1,2),(2,3),(2,4),(3,5),(3,6),(3,7),(3,8)");
    const look = watched(address(), { table: "groups", watermark: "at" }, 3);

    expect(new Set(idsOf(await look()))).toEqual(new Set([1, 2]));
    expect(new Set(idsOf(await look()))).toEqual(new Set([3, 4]));
    await expect(look()).rejects.toThrow("More than 3 rows of groups have the same at; name a");
  });

  test("takes names for names, whatever is in them", async () => {
    await run('create table "odd ""table""" ("select" int, "a;b" text)');
    await run(`insert into "odd ""table""" values (1, 'x')`);

    expect(await watched(address(), { table: 'odd "table"', watermark: "select" })()).toEqual([
      { select: 1, "a;b": "x" },
    ]);
    const injected = watched(address(), { table: "orders; drop table orders", watermark: "id" });
    await expect(injected()).rejects.toThrow("cannot be read");
    await expect(watched(address(), { table: "orders", watermark: "nope" })()).rejects.toThrow(
      "The rows of orders cannot be read",
    );
  });

  test("refuses a cursor that is not its own", async () => {
    const spec = WatchSpec.parse({ type: "rows", table: "orders", watermark: "id" });
    const watcher = watchRows(spec as never, address(), 10);

    await expect(watcher.look("anything", signal)).rejects.toThrow("reset it");
    await expect(watcher.look('{"watermark":[1]}', signal)).rejects.toThrow("reset it");
  });
});

describe("watchRows", () => {
  test("keeps what SQLite holds exact", async () => {
    sqlite.exec("create table kinds (at, raw blob, part real)");
    sqlite.exec(
      "insert into kinds values (1, x'00ff', 1.5), (1.5, null, 2), ('text', null, 3), (x'01', null, 4)",
    );
    const look = watched(sqlitePath, { table: "kinds", watermark: "at" }, 1);

    expect(await look()).toEqual([{ at: 1, raw: "AP8=", part: 1.5 }]);
    expect((await look())[0]?.["at"]).toBe(1.5);
    expect((await look())[0]?.["at"]).toBe("text");
    expect((await look())[0]?.["at"]).toBe("AQ==");
    expect(await look()).toEqual([]);
  });

  test("keeps what PostgreSQL holds exact, to the microsecond", async () => {
    await client.query("set timezone = 'America/New_York'");
    await client.query("create schema sales");
    await client.query(`create table sales.kinds (
      at timestamptz, local timestamp, day date, amount numeric, raw bytea, doc jsonb, big int8,
      part float8, span interval)`);
    await client.query(`insert into sales.kinds values
      ('2025-01-01 00:00:00.000001+00', '2025-01-01 05:00', '2025-03-30', 1.10, '\\x00ff',
       '{"a":[1]}', 9007199254740993, 'NaN', '1 day'),
      ('2025-01-01 00:00:00.000002+00', null, null, null, null, null, 5, 1.5, null)`);
    const look = watched(url, { table: "sales.kinds", watermark: "at" }, 1);

    expect(await look()).toEqual([
      {
        at: "2025-01-01T00:00:00.000001Z",
        local: "2025-01-01T05:00:00",
        day: "2025-03-30",
        amount: "1.10",
        raw: "AP8=",
        doc: { a: [1] },
        big: "9007199254740993",
        part: "NaN",
        span: "P1D",
      },
    ]);
    expect(await look()).toMatchObject([{ at: "2025-01-01T00:00:00.000002Z", big: 5, part: 1.5 }]);
    expect(await look()).toEqual([]);
  });

  test("cannot write, and says nothing of where the database is", async () => {
    const secret = "postgres://me:secret@127.0.0.1:1/nowhere";
    const failure: unknown = await watched(secret, { table: "orders", watermark: "id" })().catch(
      (error: unknown) => error,
    );

    expect(failure).toMatchObject({ code: "ECONNREFUSED" });
    expect(String(failure)).not.toContain("secret");
    const missing = watched(join(folder, "secret.db"), { table: "orders", watermark: "id" });
    await expect(missing()).rejects.toThrow(/^(?!.*secret)/);
    await client.query(
      "create function writes() returns int language sql as 'insert into orders values (77) returning 1'",
    );
    await client.query("create view written as select writes() as id");
    await expect(watched(url, { table: "written", watermark: "id" })()).rejects.toThrow(
      "read-only transaction",
    );
  });

  test("breaks off a query that takes too long", async () => {
    await client.query("create view slow as select 1 as id from pg_sleep(60)");
    const spec = WatchSpec.parse({ type: "rows", table: "slow", watermark: "id" });
    const controller = new AbortController();
    const looking = watchRows(spec as never, url, 10).look(null, controller.signal);
    for (;;) {
      const active =
        "select 1 from pg_stat_activity where query like '%from \"slow\"%' and state = 'active' and pid <> pg_backend_pid()";
      if ((await client.query(active)).rowCount === 1) break;
    }
    controller.abort();

    await expect(looking).rejects.toMatchObject({ name: "AbortError" });
  });

  test("gets its address from the worker's environment or code, and asks for it", async () => {
    const open = (watch: object, database: string | null, environment = {}) =>
      openWatcher(WatchSpec.parse({ type: "rows", table: "orders", watermark: "id", ...watch }), {
        code: { evaluate: null, list: null, database },
        environment,
        folder: "/",
        listable: ["/"],
        limit: 1,
        now: Date.now,
      });

    const named = { database_env: "SENSOR_ORDERS" };
    expect((await open({}, `file:${sqlitePath}`).look(null, signal)).items).toHaveLength(1);
    expect(
      (await open(named, null, { SENSOR_ORDERS: sqlitePath }).look(null, signal)).items,
    ).toHaveLength(1);
    expect(() => open(named, null)).toThrow("The environment variable SENSOR_ORDERS is not set");
    expect(() => open({}, null)).toThrow("has no database for the sensor");
  });
});

test("watchRows refuses a database of another kind", () => {
  const options = { table: "orders", watermark: "id" };
  expect(() => watched("mysql://ann:secret@host/shop", options)).toThrow(
    "The database that is watched is a mysql:// URL; expected the path of",
  );
});
