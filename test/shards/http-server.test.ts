import { randomUUID } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Database from "better-sqlite3";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { serveShard } from "../../src/cli/base/serve-shard.ts";
import type { PawlError } from "../../src/kernel/errors.ts";
import { ADMIN_CALLS } from "../../src/shards/http/admin-calls.ts";
import { openHttpShard } from "../../src/shards/http/open-http-shard.ts";
import type { RunningServer } from "../../src/server/start-server.ts";

const TOKEN = "a-token-of-the-tests";

describe("a served shard", () => {
  const folder = mkdtempSync(join(tmpdir(), "pawl-shard-"));
  const file = join(folder, "a.db");
  let server: RunningServer;
  let db: Database.Database;

  beforeAll(async () => {
    server = await serveShard({ file, token: TOKEN, host: "127.0.0.1", port: 0 });
    db = new Database(file);
    db.exec("create table items (id integer primary key, tenant text not null)");
  });
  afterAll(async () => {
    db.close();
    await server.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  type Sent = { headers?: Record<string, string>; method?: string };

  async function send(path: string, body: unknown, { headers, method = "POST" }: Sent = {}) {
    const response = await fetch(`${server.url}${path}`, {
      method,
      headers: {
        authorization: `Bearer ${TOKEN}`,
        "content-type": "application/json",
        ...headers,
      },
      ...(method === "GET" ? {} : { body: typeof body === "string" ? body : JSON.stringify(body) }),
    });
    const text = await response.text();
    return { status: response.status, headers: response.headers, body: JSON.parse(text) };
  }

  const mutation = (sql: string, key: string, given: object = {}) =>
    send(
      "/mutation",
      { tenant: "acme", epoch: 1, statements: [{ sql }], ...given },
      { headers: { "idempotency-key": key } },
    );
  const query = (...statements: string[]) =>
    send("/query", {
      tenant: "acme",
      epoch: 1,
      statements: statements.map((sql) => ({ sql })),
    });
  const ids = (): unknown[] => db.prepare("select id from items order by id").pluck().all();

  test("says that it is well to anybody", async () => {
    const response = await fetch(`${server.url}/health`);
    expect(await response.json()).toEqual({ status: "ok", engine: "sqlite" });
  });

  test.each(["", "Bearer", "Bearer wrong", `Basic ${TOKEN}`, `Bearer ${TOKEN}x`])(
    "lets nobody in with %j",
    async (authorization) => {
      for (const path of ["/query", "/mutation", "/ddl", "/admin/export?call=position", "/none"]) {
        const { status, body, headers } = await send(path, {}, { headers: { authorization } });
        expect({ status, code: body.code }).toEqual({ status: 401, code: "UNAUTHORIZED" });
        expect(headers.get("content-type")).toBe("application/problem+json");
        expect(headers.get("www-authenticate")).toBe("Bearer");
      }
    },
  );

  test("I54: does a mutation once for a key, and gives the first answer again", async () => {
    const sql = "insert into items (tenant) values ('acme') returning id";
    const first = await mutation(sql, "key-1");
    const again = await mutation(sql, '"key-1"', { epoch: 2 });
    expect(first.body.results).toEqual([
      { columns: ["id"], rows: [[1]], changes: 1, last_insert_rowid: 1 },
    ]);
    expect(again.body).toEqual(first.body);
    expect(first.headers.get("idempotent-replayed")).toBeNull();
    expect(again.headers.get("idempotent-replayed")).toBe("true");
    expect(ids()).toEqual([1]);
    const other = await mutation("delete from items", "key-1");
    expect(other).toMatchObject({ status: 422, body: { code: "IDEMPOTENCY_KEY_REUSED" } });
    expect(ids()).toEqual([1]);
  });

  test("I54: says that a mutation was done also to who has moved since", async () => {
    const sql = "insert into items (id, tenant) values (50, 'gone')";
    const done = await mutation(sql, "key-2", { tenant: "gone" });
    const shard = await openHttpShard({ url: server.url, token: TOKEN });
    await shard.install();
    const guard = { plan: "plan-1", token: 1 };
    await shard.take(guard);
    await shard.setFences(guard, [{ tenant: "gone", epoch: 2, state: "moved", shard: "b" }]);
    const again = await mutation(sql, "key-2", { tenant: "gone" });
    expect(again).toMatchObject({ status: 200, body: done.body });
    const another = await mutation("delete from items where id = 50", "key-3", { tenant: "gone" });
    expect(another).toMatchObject({
      status: 409,
      body: { code: "EPOCH_STALE", details: { tenant: "gone", epoch: 2, shard: "b" } },
    });
    await shard.close();
  });

  test("remembers nothing of a mutation that failed", async () => {
    const bad = await mutation("insert into items values (1, 2, 3)", "key-4");
    expect(bad.status).toBe(400);
    const good = await mutation("insert into items values (60, 'acme')", "key-4");
    expect(good.status).toBe(200);
  });

  test("takes no body that is not UTF-8", async () => {
    const body = Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d]);
    const headers = { authorization: `Bearer ${TOKEN}`, "content-type": "application/json" };
    const response = await fetch(`${server.url}/query`, { method: "POST", body, headers });
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({ code: "INPUT_INVALID" });
  });

  test("wants a key for a mutation", async () => {
    const body = { tenant: "acme", epoch: 1, statements: [{ sql: "delete from items" }] };
    for (const headers of [{}, { "idempotency-key": "" }, { "idempotency-key": "a b" }]) {
      const answer = await send("/mutation", body, { headers });
      expect(answer).toMatchObject({ status: 400, body: { code: "IDEMPOTENCY_KEY_MISSING" } });
    }
  });

  test.each([
    ["no tenant", { epoch: 1, statements: [{ sql: "select 1" }] }, "body.tenant"],
    ["no epoch", { tenant: "a", statements: [{ sql: "select 1" }] }, "body.epoch"],
    ["no statements", { tenant: "a", epoch: 1, statements: [] }, "body.statements"],
    [
      "an odd value",
      { tenant: "a", epoch: 1, statements: [{ sql: "select ?", params: [true] }] },
      "body.statements.0.params",
    ],
    [
      "more than there is",
      { tenant: "a", epoch: 1, statements: [{ sql: "select 1" }], also: 1 },
      "body",
    ],
    ["no object", [], "body"],
  ])("refuses a request with %s, and names the field", async (_name, body, field) => {
    for (const path of ["/query", "/mutation"]) {
      const answer = await send(path, body, { headers: { "idempotency-key": "key" } });
      expect(answer).toMatchObject({ status: 400, body: { code: "INPUT_INVALID" } });
      expect(answer.body.errors[0].field).toContain(field);
    }
  });

  test.each([
    ["selec 1", "begins with one of"],
    ["select * from missing", "no such table: missing"],
    ["select 1; select 2", "more than one statement"],
    ["select ?", "Too few parameter values"],
    ["select abs('9223372036854775808' + -9223372036854775807 - 1)", ""],
    ["select 1 +", "incomplete input"],
    ["select json('{')", "malformed JSON"],
    ["commit", "begins with one of"],
    ["select * from _pawl_requests", "Pawl's own"],
    ["\u0000", ""],
  ])("answers bad SQL with a sentence and never with 5xx: %s", async (sql, sentence) => {
    for (const answer of [await query(sql), await mutation(sql, randomUUID())]) {
      expect(answer.status).toBeLessThan(500);
      if (answer.status < 300) continue;
      expect(answer.body.detail).toContain(sentence);
      expect(JSON.stringify(answer.body)).not.toMatch(/\bat .*\.[jt]s:/);
    }
  });

  test.each([
    "select * from '_pawl_requests'",
    "select * from main . '_PAWL_requests' as a",
    "select * from /* ' */ '_pawl_requests' /* ' */",
    "with a as (select key from '_pawl_requests') select * from a",
    "select (select count(*) from '_pawl_requests')",
    "select * from items where exists (select 1 from '_pawl_fences')",
    "select * from spied",
  ])("I53: keeps a query out of what is Pawl's, however it names it: %s", async (sql) => {
    db.exec("create view if not exists spied as select * from _pawl_requests");
    for (const answer of [await query(sql), await mutation(sql, randomUUID())]) {
      expect(answer).toMatchObject({ status: 403, body: { code: "FORBIDDEN" } });
    }
  });

  test.each([
    "delete from '_pawl_requests'",
    "delete from '_pawl_fences' where 1",
    "update '_pawl_fences' set epoch = 0",
    "insert into '_pawl_requests' values ('a', 'b', 'c', 1)",
    "replace into main.'_pawl_requests' select 'a', 'b', 'c', 1",
    "with a as (select 1) delete from '_pawl_fences'",
  ])("I53: keeps a mutation out of what is Pawl's, however it names it: %s", async (sql) => {
    expect(await mutation(sql, randomUUID())).toMatchObject({ status: 403 });
    for (const own of [
      "insert into items values (77, '_pawl_')",
      "delete from items where id = 77",
    ]) {
      expect((await mutation(own, randomUUID())).status).toBe(200);
    }
  });

  describe("numbers that SQLite has given out", () => {
    const numbers = (): unknown[] => db.prepare("select * from sqlite_sequence order by 1").all();

    beforeAll(() => {
      db.exec(`
        create table counted (id integer primary key autoincrement, tenant text);
        create view counts as select * from counted;
        create trigger counting instead of insert on counts begin
          insert into counted (tenant) values (new.tenant);
        end;
      `);
    });

    test.each([
      "insert into counted (tenant) values ('acme')",
      "insert into counted (tenant) select tenant from counted",
      "replace into counted values (7, 'acme')",
      "insert into counted values (7, 'acme') on conflict do update set tenant = 'b' returning id",
      "insert into counts (tenant) values ('acme')",
      "delete from counted where id = (select seq from sqlite_sequence where name = 'counted')",
    ])("go on with rows of the application: %s", async (sql) => {
      expect(await mutation(sql, randomUUID())).toMatchObject({ status: 200 });
    });

    test.each([
      "update sqlite_sequence set seq = 0 where name like '%changes'",
      "update main.'SQLite_Sequence' set seq = (select max(seq) from sqlite_sequence)",
      "update sqlite_sequence set seq = id from counted where name = 'counted'",
      "insert into sqlite_sequence values ('_pawl_changes', 9)",
      "insert into sqlite_sequence (rowid, name, seq) values (1, 'counted', 9)",
      "insert into sqlite_sequence (rowid, name, seq) select id, id, id from counted",
      "replace into \"sqlite_sequence\" (rowid, name, seq) values (1, 'counted', 9)",
      "delete from sqlite_sequence",
      "with a as (select 1) delete from [sqlite_sequence] where seq > 0",
    ])("I53: are not an application's to set, as Pawl's places are among them: %s", async (sql) => {
      const before = numbers();
      expect(await mutation(sql, randomUUID())).toMatchObject({
        status: 403,
        body: { code: "FORBIDDEN", detail: expect.stringContaining("sqlite_sequence") },
      });
      expect(numbers()).toEqual(before);
    });
  });

  test("lets triggers write to what is Pawl's, as those that capture changes do", async () => {
    db.exec(`
      create trigger kept after insert on items begin
        insert into _pawl_requests values ('kept', 'a', 'b', 1);
        delete from _pawl_requests where key = 'kept';
      end
    `);
    const answer = await mutation("insert into items values (78, 'acme')", randomUUID());
    db.exec("drop trigger kept; delete from items where id = 78");
    expect(answer.status).toBe(200);
  });

  test("I64: refuses a body of more values than it goes through", async () => {
    const params = `[${"[],".repeat(600_000)}[]]`;
    const statements = `[{"sql":"select 1","params":${params}}]`;
    const answer = await send("/query", `{"tenant":"acme","epoch":1,"statements":${statements}}`);
    expect(answer).toMatchObject({ status: 413, body: { code: "INPUT_INVALID" } });
  });

  test("answers SQL that is nested too deep with a sentence", async () => {
    const answer = await query(`select ${"(".repeat(5_000)}1${")".repeat(5_000)}`);
    expect(answer).toMatchObject({ status: 400, body: { code: "INPUT_INVALID" } });
  });

  test("lets a query write nothing, in whatever disguise", async () => {
    const before = ids();
    for (const sql of [
      "insert into items values (99, 'acme')",
      "with a as (select 99 as id) insert into items select id, 'acme' from a",
      "with a as (select 1) delete from items",
      "explain insert into items values (99, 'acme')",
    ]) {
      await query(sql);
    }
    expect(ids()).toEqual(before);
  });

  test("runs statements in one transaction: all of them or none", async () => {
    const before = ids();
    const statements = [{ sql: "delete from items" }, { sql: "insert into items values (1)" }];
    const answer = await mutation("", "key-5", { statements });
    expect(answer).toMatchObject({ status: 400, body: { details: { statement: 1 } } });
    expect(ids()).toEqual(before);
  });

  test("bounds what one answer has", async () => {
    const sql = `with recursive a(n) as (select 1 union all select n + 1 from a) select n from a`;
    expect(await query(sql)).toMatchObject({
      status: 400,
      body: { detail: expect.stringContaining("at most 100000 rows") },
    });
  });

  test("takes JSON only, of a bounded size, on paths that it has", async () => {
    const plain = await send("/query", "{}", { headers: { "content-type": "text/plain" } });
    expect(plain).toMatchObject({ status: 415, body: { code: "INPUT_INVALID" } });
    const broken = await send("/query", "{");
    expect(broken).toMatchObject({ status: 400, body: { code: "INPUT_INVALID" } });
    const large = await send("/query", JSON.stringify("x".repeat(17_000_000)));
    expect(large).toMatchObject({ status: 413, body: { code: "INPUT_INVALID" } });
    const missing = await send("/nothing", {});
    expect(missing).toMatchObject({ status: 404, body: { code: "ROUTE_NOT_FOUND" } });
    const looked = await send("/query", {}, { method: "GET" });
    expect(looked).toMatchObject({ status: 405, body: { code: "METHOD_NOT_ALLOWED" } });
  });

  test("refuses admin calls that are unknown, elsewhere, or given something else", async () => {
    const refused = { status: 400, body: { code: "INPUT_INVALID" } };
    expect(await send("/admin/export?call=close", [])).toMatchObject(refused);
    expect(await send("/admin/export?call=constructor", [])).toMatchObject(refused);
    expect(await send("/admin/export?call=apply", {})).toMatchObject(refused);
    for (const [call, { path }] of Object.entries(ADMIN_CALLS)) {
      for (const body of [{}, [1, 2, 3, 4], [{ plan: 1 }], null]) {
        expect(await send(`${path}?call=${call}`, body), call).toMatchObject(refused);
      }
    }
  });

  test("I81: changes no schema unless it was started so", async () => {
    const guard = { plan: "p", token: 1 };
    const tables = [{ table: "items", shard_by: "tenant" }];
    const refused = { status: 403, body: { code: "DDL_NOT_ALLOWED" } };
    const ddl = "alter table items add column x integer";
    expect(await send("/ddl?call=runDdl", [guard, ddl, tables])).toMatchObject(refused);
    const state = {
      position: null,
      reaching: null,
      cursor: { table: 0, key: null },
      phase: "tail",
      rows: [0],
      fingerprint: "",
      verified: null,
    };
    const nothing = { layouts: [], scope: [], changes: [], chunk: null, changed: null };
    const stream = { guard, stream: "s", before: null, after: state, tables: [] };
    const applied = await send("/admin/import?call=apply", { ...nothing, ...stream, ddl });
    expect(applied).toMatchObject(refused);
  });

  test("goes on answering while another process keeps the file, and writes when it is free", async () => {
    db.exec("begin immediate");
    const waiting = mutation("insert into items values (70, 'acme')", "key-6");
    await query("select 1");
    db.exec("commit");
    expect((await waiting).status).toBe(200);
    expect(ids()).toContain(70);
  });

  test("I61: tells nobody where its file is when that fails", async () => {
    const shard = await openHttpShard({ url: server.url, token: TOKEN });
    db.exec("begin immediate");
    const failure: unknown = await shard.take({ plan: "p", token: 1 }).catch((error) => error);
    db.exec("commit");
    await shard.close();

    expect(failure).toMatchObject({ code: "SHARD_BUSY" });
    const { message, details } = failure as PawlError;
    expect(message + JSON.stringify(details)).not.toContain(folder);
  });

  test("refuses a file that is no database", async () => {
    const text = join(folder, "text.db");
    writeFileSync(text, "this is no database, however long it is".repeat(100));
    const served = serveShard({ file: text, token: TOKEN, host: "127.0.0.1", port: 0 });
    await expect(served).rejects.toMatchObject({ code: "SHARD_UNREACHABLE" });
  });
});
