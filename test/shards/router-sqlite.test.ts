import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Database from "better-sqlite3";
import { afterAll, afterEach, beforeEach, describe, expect, test } from "vitest";
import { createRouter } from "../../src/shards/router/create-router.ts";
import { openSqliteShard } from "../../src/shards/sqlite/open-sqlite-shard.ts";
import { routerCases } from "./router-cases.ts";
import { GUARD, Routing, sqliteStage, TENANT } from "./router-stage.ts";

routerCases("SQLite", sqliteStage);

describe("a router over a Database of better-sqlite3", () => {
  const folder = mkdtempSync(join(tmpdir(), "pawl-router-"));
  let db: Database.Database;
  let other: Database.Database;
  let count = 0;

  beforeEach(() => {
    const file = join(folder, `${++count}.db`);
    db = new Database(file);
    db.pragma("journal_mode = wal");
    db.exec("create table items (id integer primary key, tenant text not null)");
    other = new Database(file, { timeout: 0 });
  });
  afterEach(() => {
    db.close();
    other.close();
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  const start = () => createRouter({ client: new Routing().client(), shards: { a: db } });
  const insert = (id: number) => (on: Database.Database) =>
    on.prepare("insert into items values (?, ?)").run(id, TENANT);
  const ids = (): unknown[] => other.prepare("select id from items").pluck().all();

  test("gives what the work gives", async () => {
    expect(await start().write(TENANT, insert(7))).toEqual({ changes: 1, lastInsertRowid: 7 });
  });

  test("refuses async work before it does anything", async () => {
    const router = start();
    let runs = 0;
    const write = router.write(TENANT, async (on) => {
      runs++;
      insert(1)(on);
    });
    const refused = { code: "INPUT_INVALID", message: expect.stringContaining("not be async") };
    await expect(write).rejects.toMatchObject(refused);
    expect(runs).toBe(0);
    await expect(router.read(TENANT, async () => 1)).rejects.toMatchObject(refused);
  });

  test("rolls back work that turns out to be async", async () => {
    const write = start().write(TENANT, (on) => {
      insert(1)(on);
      return Promise.reject(new Error("nobody waits for this"));
    });
    await expect(write).rejects.toMatchObject({ code: "INPUT_INVALID" });
    expect(db.inTransaction).toBe(false);
    expect(ids()).toEqual([]);
  });

  test("does not get into a transaction that is open already", async () => {
    db.exec("begin");
    await expect(start().write(TENANT, insert(1))).rejects.toMatchObject({ code: "STATE_ILLEGAL" });
    db.exec("rollback");
    expect(ids()).toEqual([]);
  });

  test("says so when the work ends the transaction itself", async () => {
    const write = start().write(TENANT, (on) => {
      insert(1)(on);
      on.exec("rollback");
    });
    await expect(write).rejects.toMatchObject({
      code: "STATE_ILLEGAL",
      message: expect.stringContaining("ended the transaction"),
    });
  });

  test("lets nobody write in a read, and everybody afterwards", async () => {
    const router = start();
    await expect(router.read(TENANT, insert(1))).rejects.toMatchObject({ code: "SQLITE_READONLY" });
    await router.write(TENANT, insert(2));
    expect(ids()).toEqual([2]);
  });

  test("waits for another process that writes, without stopping this one", async () => {
    db.pragma("busy_timeout = 0");
    const router = start();
    other.exec("begin immediate");
    const write = router.write(TENANT, insert(1));
    await new Promise((resolve) => setImmediate(resolve));
    other.exec("insert into items values (2, 'other')");
    other.exec("commit");
    await write;
    expect(ids()).toEqual([1, 2]);
  });

  test("works with a database that gives integers as bigint", async () => {
    db.defaultSafeIntegers();
    const shard = await openSqliteShard({ file: db.name });
    await shard.install();
    await shard.take(GUARD);
    const fence = { tenant: TENANT, epoch: 1, state: "open", shard: null } as const;
    await shard.setFences(GUARD, [fence]);
    const router = start();
    await router.write(TENANT, insert(1));
    expect(await router.read(TENANT, (on) => on.prepare("select id from items").get())).toEqual({
      id: 1n,
    });
    await shard.close();
  });

  test("I53: runs work once more that wrote to a tenant which it had not entered for, then refuses it", async () => {
    const shard = await openSqliteShard({ file: db.name });
    await shard.install();
    await shard.take(GUARD);
    const shapes = await shard.describe([{ table: "items", shard_by: "tenant" }]);
    await shard.armCapture(GUARD, shapes);
    const fence = { tenant: "fenced", epoch: 1, state: "open", shard: null } as const;
    await shard.setFences(GUARD, [fence]);
    await shard.close();
    let runs = 0;
    const router = start();
    const write = router.write(TENANT, (on) => {
      runs++;
      on.prepare("insert into items values (?, 'fenced')").run(runs);
    });
    await expect(write).rejects.toMatchObject({ code: "NOT_ENTERED" });
    expect(runs).toBe(2);
    await router.write("fenced", (on) =>
      on.prepare("insert into items values (9, 'fenced')").run(),
    );
    expect(ids()).toEqual([9]);
  });

  test("refuses what is no shard, and no shards at all", () => {
    const client = new Routing().client();
    expect(() => createRouter({ client, shards: {} })).toThrow("A router needs shards.");
    const odd = { a: { file: "x.db" } as unknown as Database.Database };
    expect(() => createRouter({ client, shards: odd })).toThrow(/nothing that a router knows/);
  });

  test("takes nothing on once it is closed", async () => {
    const router = start();
    await router.write(TENANT, insert(1));
    await router.close();
    await expect(router.write(TENANT, insert(2))).rejects.toMatchObject({ code: "STATE_ILLEGAL" });
  });
});
