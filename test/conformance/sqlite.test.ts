import {
  chmodSync,
  closeSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  rmSync,
  statSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import Database from "better-sqlite3";
import { afterAll, describe, expect, test } from "vitest";
import { sqliteFailure } from "../../src/store/sqlite/connection.ts";
import { openSqliteStore } from "../../src/store/sqlite/store.ts";
import { GENESIS_HASH } from "../../src/work/envelope.ts";
import { NOON, append, commit, eventsAfter } from "./builders.ts";
import { type Place, storeConformance } from "./store-conformance.ts";

const folder = mkdtempSync(join(tmpdir(), "pawl-sqlite-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const PROBE = { probe_id: "p1", kind: "poll", subject: "s1", due_at: NOON, value: null } as const;

let files = 0;
const freshPath = (): string => join(folder, `${(files += 1)}`, "pawl.db");

function sqlitePlace(path: string): Place {
  return {
    open: () => openSqliteStore({ path, clock: Date.now }),
    sql: async (text) => {
      const database = new Database(path);
      try {
        const statement = database.prepare(text.replaceAll("pawl.", ""));
        if (statement.reader) return statement.raw().all() as unknown[][];
        statement.run();
        return [];
      } finally {
        database.close();
      }
    },
    stillMsMax: null,
    address: ["sqlite", path],
  };
}

storeConformance("SQLite file", true, async () => sqlitePlace(freshPath()));
storeConformance("SQLite in-memory", false, async () => sqlitePlace(":memory:"));

describe("SQLite file", () => {
  const open = (path: string) => openSqliteStore({ path, clock: Date.now });

  test("says what it is and that it is safe", async () => {
    const path = freshPath();
    const store = await open(path);
    expect(store.description).toMatch(/^SQLite 3\.\d+/);
    expect(store.description).toContain(path);
    expect(store.unsafe).toBeNull();
    await store.close();
  });

  test("I52: a schema step that is cut short leaves no trace, and is applied the next time", async () => {
    const path = freshPath();
    mkdirSync(dirname(path));
    const { sql } = sqlitePlace(path);
    // Stands in the way of the step's last table.
    await sql("create table tenant_secrets (x)");
    await expect(open(path)).rejects.toThrow("already exists");
    expect(await sql("select name from sqlite_schema")).toEqual([["tenant_secrets"]]);
    await sql("drop table tenant_secrets");
    const store = await open(path);
    expect(await store.workspaces()).toEqual([]);
    await store.close();
  });

  test("keeps long bodies of events compressed, and a damaged one is not what was hashed", async () => {
    const path = freshPath();
    const { sql } = sqlitePlace(path);
    const store = await open(path);
    const { ws } = await store.workspace("default", "default");
    const data = JSON.stringify(Array.from({ length: 1_000 }, (_, at) => `customer=c${at},hour=7`));
    const events = eventsAfter({ pos: 0, hash: GENESIS_HASH }, 1, { data });
    await commit(store, ws, { events });
    const [[kept] = []] = await sql("select data from events");
    expect(String(kept).length).toBeLessThan(data.length / 4);
    await sql("drop trigger events_refuse_update");
    const middle = Math.floor(String(kept).length / 2);
    await sql(
      `update events set data = substr(data, 1, ${middle}) || 'AAAA' || substr(data, ${middle + 5})`,
    );
    const [damaged] = await store.read(ws, (reader) => reader.events({ after: 0, limit: 1 }));
    expect(damaged?.data === data).toBe(false);
    await store.close();
  });

  test("refuses a file that is no database, and names it", async () => {
    const path = join(folder, "text.db");
    writeFileSync(path, "this is not a database, but quite a long text instead of one".repeat(20));
    await expect(open(path)).rejects.toMatchObject({ code: "STORE_CORRUPT", details: { path } });
  });

  test("names a database that was damaged", async () => {
    const path = freshPath();
    const store = await open(path);
    const { ws } = await store.workspace("acme", "main");
    await append(store, ws, 200);
    await store.close();
    const pages = Buffer.alloc(200_000, 0x5a);
    const database = new Database(path);
    const size = Number(database.pragma("page_size", { simple: true }));
    database.close();
    const file = openSync(path, "r+");
    writeSync(file, pages, 0, pages.length, size);
    closeSync(file);
    const reading = open(path).then((damaged) => damaged.workspaces());
    await expect(reading).rejects.toMatchObject({ code: "STORE_CORRUPT" });
  });

  test("refuses a place where nothing can be written", async () => {
    const file = join(folder, "a-file");
    writeFileSync(file, "");
    chmodSync(file, 0o400);
    const path = join(file, "pawl.db");
    const refusal = { code: "DATA_DIRECTORY_UNWRITABLE", details: { path } };
    await expect(open(path)).rejects.toMatchObject(refusal);
    await expect(open(folder)).rejects.toMatchObject({ code: "DATA_DIRECTORY_UNWRITABLE" });
  });

  test("says when another process holds the database, and goes on afterwards", async () => {
    const path = freshPath();
    const store = await open(path);
    const { ws } = await store.workspace("acme", "main");
    const other = new Database(path);
    other.exec("begin immediate");
    const held = append(store, ws, 1);
    await expect(held).rejects.toMatchObject({ code: "STORE_LOCKED", retryable: true });
    other.exec("rollback");
    other.close();
    expect(await append(store, ws, 1)).toBe(1);
    await store.close();
  });

  test("looks for due probes without writing, while another process holds the database", async () => {
    const path = freshPath();
    const store = await open(path);
    const { ws } = await store.workspace("acme", "main");
    await store.addProbes(ws, [{ ...PROBE, due_at: "2999-01-01T00:00:00.000Z" }]);
    const other = new Database(path);
    other.exec("begin immediate");
    const claim = { kinds: ["poll" as const], limit: 1, ttlMs: 1_000, holder: null };
    expect(await store.leaseProbes(ws, { ...claim, subjects: null })).toEqual([]);
    expect(await store.leaseProbes(ws, { ...claim, subjects: ["s1"] })).toEqual([]);
    other.exec("rollback");
    other.close();
    await store.close();
  });

  test("writes no probe that is due at that time already, or that another has settled", async () => {
    const path = freshPath();
    const store = await open(path);
    const { ws } = await store.workspace("acme", "main");
    await store.addProbes(ws, [PROBE]);
    const logged = statSync(`${path}-wal`).size;
    await store.addProbes(ws, [PROBE]);
    await store.rescheduleProbes(ws, [PROBE]);
    await store.settleProbes(ws, [{ ...PROBE, attempt: 1 }]);
    await store.removeProbes(ws, ["message"], "s1");
    expect(statSync(`${path}-wal`).size).toBe(logged);
    await store.close();
  });

  test.each([
    ["SQLITE_FULL", "STORE_UNAVAILABLE"],
    ["SQLITE_IOERR_WRITE", "STORE_UNAVAILABLE"],
    ["SQLITE_BUSY_SNAPSHOT", "STORE_LOCKED"],
    ["SQLITE_READONLY_DBMOVED", "DATA_DIRECTORY_UNWRITABLE"],
    ["SQLITE_CORRUPT_INDEX", "STORE_CORRUPT"],
  ])("I61: calls %s a case of %s, and names the file only to who opens it", (sqliteCode, code) => {
    const error = new Database.SqliteError("for some reason", sqliteCode);
    const opening = sqliteFailure(error, "p.db", false);
    expect(opening).toMatchObject({ code, details: { path: "p.db", sqlite_code: sqliteCode } });
    const using = sqliteFailure(error, "p.db", true);
    expect(using).toMatchObject({ code, details: { sqlite_code: sqliteCode } });
    expect(JSON.stringify([String(using), using])).not.toContain("p.db");
  });
});
