import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Database from "better-sqlite3";
import { afterAll, afterEach, beforeEach, describe, expect, test } from "vitest";
import { tenantScope } from "../../src/work/shard/spec.ts";
import { enterWrite } from "../../src/shards/sqlite/enter.ts";
import { openSqliteShard } from "../../src/shards/sqlite/open-sqlite-shard.ts";
import { shardConformance } from "./conformance/shard-conformance.ts";
import {
  carryOver,
  changesSince,
  chunkOf,
  createTables,
  enrol,
  GUARD,
  policy,
  shapeOf,
  shapesOf,
  spelled,
} from "./conformance/stage.ts";
import { openSqlitePair, type SqlitePair } from "./sqlite-pair.ts";

shardConformance("SQLite", openSqlitePair);

describe("SQLite shard", () => {
  let pair: SqlitePair;
  beforeEach(async () => {
    pair = await openSqlitePair();
  });
  afterEach(() => pair.close());

  const USERS = `create table users (id integer primary key, tenant text not null,
    mail text collate nocase unique, first text, last text, unique (first, last))`;

  /** Makes a table, captures it, and gives a function that takes changes over and compares. */
  const captured = async (ddl: string, table: string): Promise<() => Promise<string[]>> => {
    await createTables(pair, ddl);
    await enrol(pair.source);
    await enrol(pair.target);
    const shapes = await shapesOf(pair.source, table);
    let position = await pair.source.armCapture(GUARD, shapes);
    return async () => {
      const answer = await carryOver(pair, shapes, position);
      ({ position } = answer);
      expect(await pair.dump("target", table)).toEqual(await pair.dump("source", table));
      return spelled(answer.changes);
    };
  };

  describe("REPLACE", () => {
    test("captures rows that it takes away by any unique value", async () => {
      const equal = await captured(USERS, "users");
      const rows = [
        "(1, 'a', 'x@y', 'A', 'B')",
        "(2, 'a', 'z@y', 'A', 'C')",
        "(3, 'a', null, 'D', 'E')",
      ];
      await pair.sql("source", `insert into users values ${rows.join(", ")}`);
      await equal();
      await pair.sql("source", "insert or replace into users values (9, 'a', 'X@Y', 'A', 'C')");
      expect((await equal()).toSorted()).toEqual([
        "delete users 1",
        "delete users 2",
        "put users 9",
      ]);
      await pair.sql("source", "replace into users (tenant, first, last) values ('a', 'D', 'E')");
      expect(await equal()).toEqual(["delete users 3", "put users 10"]);
      await pair.sql("source", "replace into users values (10, 'a', 'n@y', 'F', 'G')");
      expect(await equal()).toEqual(["put users 10"]);
      await pair.sql("source", "update or replace users set mail = 'n@y' where id = 9");
      expect(await equal()).toEqual(["delete users 10", "put users 9"]);
    });

    test("captures a row that passes to another tenant by it", async () => {
      const equal = await captured(USERS, "users");
      await pair.sql("source", "insert into users (id, tenant) values (1, 'a'), (2, 'a')");
      await equal();
      await pair.sql("source", "replace into users (id, tenant) values (1, 'b')");
      const shapes = await shapesOf(pair.source, "users");
      const { position } = (await pair.target.loadStream("plan-1")) ?? { position: null };
      const answer = await pair.source.read(changesSince(shapes, position ?? "0"));
      expect(spelled(answer.changes)).toEqual(["delete users 1"]);
    });

    test("captures no deletion for an insert that is ignored or becomes an update", async () => {
      const equal = await captured(USERS, "users");
      await pair.sql("source", "insert into users values (1, 'a', 'x@y', 'A', 'B')");
      await pair.sql("source", "insert or ignore into users values (2, 'a', 'x@y', 'C', 'D')");
      await pair.sql(
        "source",
        "insert into users values (3, 'a', 'x@y', 'C', 'D') on conflict do nothing",
      );
      await pair.sql(
        "source",
        "insert into users values (4, 'a', 'x@y', 'C', 'D') on conflict (mail) do update set first = 'E'",
      );
      expect(await equal()).toEqual(["put users 1", "put users 1"]);
      await pair.sql("source", "insert into users (id, tenant) values (5, 'a')");
      expect(await equal()).toEqual(["put users 5"]);
    });

    test("captures what the constraint itself says to replace", async () => {
      const ddl = `create table marks (id integer primary key on conflict replace, tenant text,
        name text unique on conflict replace)`;
      const equal = await captured(ddl, "marks");
      await pair.sql("source", "insert into marks values (1, 'a', 'x'), (2, 'a', 'y')");
      await pair.sql("source", "insert into marks values (1, 'a', 'y')");
      expect(await equal()).toContain("delete marks 2");
    });

    test("I53: refuses to take away a row of a fenced tenant that was not entered", async () => {
      await captured(USERS, "users");
      await pair.sql("source", "insert into users (id, tenant, mail) values (1, 'a', 'x@y')");
      await pair.source.setFences(GUARD, [{ tenant: "a", epoch: 1, state: "open", shard: null }]);
      const replacing = pair.sql(
        "source",
        "replace into users (id, tenant, mail) values (2, 'b', 'x@y')",
      );
      await expect(replacing).rejects.toMatchObject({ code: "NOT_ENTERED" });
      await pair.sql(
        "source",
        "insert or ignore into users (id, tenant, mail) values (2, 'b', 'x@y')",
      );
      expect(await pair.sql("source", "select id from users")).toEqual([[1]]);
    });
  });

  describe("tables that cannot be moved", () => {
    test.each([
      ["create view v as select 1 as id, 'a' as tenant", "v", "view"],
      ["create virtual table f using fts5 (tenant)", "f", "virtual"],
      ["create table r (id integer primary key, tenant real)", "r", "inexact numbers"],
      [
        "create table g (id integer primary key, x, tenant text as (x))",
        "g",
        "computes tenant from other columns",
      ],
    ])("refuses %s", async (ddl, table, reason) => {
      await pair.sql("source", ddl);
      const described = pair.source.describe([policy(table)]);
      await expect(described).rejects.toMatchObject({ code: "TABLE_UNFIT" });
      await expect(described).rejects.toThrow(reason);
    });

    test("refuses a unique index on an expression", async () => {
      await pair.sql("source", "create table e (id integer primary key, tenant text, m text)");
      await pair.sql("source", "create unique index em on e (lower(m))");
      await expect(shapeOf(pair.source, "e")).rejects.toThrow("unique index on an expression");
    });

    test("refuses rows with a NULL in their key, wherever it comes up", async () => {
      await createTables(pair, "create table n (a text, b text, tenant text, primary key (a, b))");
      await enrol(pair.source);
      const table = await shapeOf(pair.source, "n");
      const position = await pair.source.armCapture(GUARD, [table]);
      await pair.sql("source", "insert into n values ('x', null, 'a')");
      const unfit = { code: "TABLE_UNFIT" };
      const { source } = pair;
      await expect(shapeOf(source, "n")).rejects.toMatchObject(unfit);
      await expect(source.read(changesSince([table], position))).rejects.toMatchObject(unfit);
      await expect(source.read(chunkOf(table))).rejects.toMatchObject(unfit);
      await expect(source.digest({ table, scope: [] })).rejects.toThrow("key column b");
    });

    test("refuses text that would not arrive as it is", async () => {
      await createTables(pair, "create table t (id integer primary key, tenant text, x text)");
      await enrol(pair.source);
      const table = await shapeOf(pair.source, "t");
      await pair.sql("source", "insert into t values (1, 'a', cast(X'61FF62' as text))");
      await expect(pair.source.read(chunkOf(table))).rejects.toThrow("no UTF-8");
      await pair.sql("source", "update t set x = 'a' || char(0) || 'b'");
      await expect(pair.source.read(chunkOf(table))).rejects.toThrow("NUL character");
      const position = await pair.source.armCapture(GUARD, [table]);
      await pair.sql("source", "update t set x = cast(X'FF' as text)");
      const reading = pair.source.read(changesSince([table], position));
      await expect(reading).rejects.toMatchObject({ code: "TABLE_UNFIT" });
    });
  });

  test("I55: lets nobody in past a closed fence whose transaction forgot to leave", async () => {
    await captured("create table t (id integer primary key, tenant text)", "t");
    await pair.source.setFences(GUARD, [{ tenant: "a", epoch: 1, state: "open", shard: null }]);
    const app = new Database(pair.files.source);
    app.exec("begin immediate");
    enterWrite(app, "a", 1);
    app.exec("insert into t values (1, 'a'); commit");
    app.close();
    await pair.source.closeFences(GUARD, ["a"], { waitMs: 20_000, holdMs: 60_000 });
    const direct = pair.sql("source", "insert into t values (2, 'a')");
    await expect(direct).rejects.toMatchObject({ code: "NOT_ENTERED" });
    await pair.source.setFences(GUARD, [{ tenant: "a", epoch: 1, state: "open", shard: null }]);
    const later = pair.sql("source", "insert into t values (2, 'a')");
    await expect(later).rejects.toMatchObject({ code: "NOT_ENTERED" });
  });

  test("is entered only within a transaction", async () => {
    const app = new Database(pair.files.source);
    expect(() => enterWrite(app, "a", 1)).toThrow("Begin a transaction");
    app.close();
  });

  test("names the application's triggers, which fire for copied rows too", async () => {
    await createTables(pair, "create table t (id integer primary key, tenant text)");
    await pair.sql("source", "create trigger stamp after insert on t begin select 1; end");
    await enrol(pair.source);
    const shapes = await shapesOf(pair.source, "t");
    await pair.source.armCapture(GUARD, shapes);
    expect(await pair.source.firingTriggers(shapes)).toEqual(["stamp"]);
  });

  test("takes numbers for tenants as texts, and no text for a number that is written otherwise", async () => {
    await createTables(pair, "create table t (id integer primary key, tenant integer)");
    await pair.sql("source", "insert into t values (1, 42), (2, '42'), (3, '042'), (4, 'x')");
    const equal = await shapeOf(pair.source, "t");
    const rowsOf = async (...tenants: string[]): Promise<number> =>
      (await pair.source.digest({ table: equal, scope: tenantScope(tenants) })).rows;
    expect(await rowsOf("42")).toBe(3);
    expect(await rowsOf("042")).toBe(0);
    expect(await rowsOf("x", "42")).toBe(4);
    const between = { is: "between", from: "9", below: "100" } as const;
    const ranged = { table: equal, scope: [{ any: [between], negate: false }] };
    expect(await pair.source.digest(ranged)).toMatchObject({ rows: 3 });
  });

  test("finds a table and its column whatever the case of their names", async () => {
    await createTables(pair, 'create table "Orders" ("Id" integer primary key, "Tenant" text)');
    await enrol(pair.source);
    const [table] = await pair.source.describe([{ table: "orders", shard_by: "tenant" }]);
    if (table === undefined) throw new Error("There is a table.");
    const position = await pair.source.armCapture(GUARD, [table]);
    await pair.sql("source", "insert into orders values (1, 'a')");
    const answer = await pair.source.read(changesSince([table], position));
    expect(spelled(answer.changes)).toEqual(["put orders 1"]);
  });

  test("takes a key that is written otherwise for another one, though the table does not", async () => {
    const ddl = "create table k (k text collate nocase primary key, tenant text)";
    const equal = await captured(ddl, "k");
    await pair.sql("source", "insert into k values ('x', 'a')");
    await pair.sql("source", "update k set k = 'X'");
    expect(await equal()).toEqual(["put k 'x'", "delete k 'x'", "put k 'X'"]);
    await pair.sql("source", "replace into k values ('x', 'a')");
    expect(await equal()).toEqual(["delete k 'X'", "put k 'x'"]);
  });

  test("says when a trigger of the target ignores copied rows", async () => {
    await captured("create table t (id integer primary key, tenant text)", "t");
    await pair.sql(
      "target",
      "create trigger no before insert on t begin select raise(ignore); end",
    );
    await pair.sql("source", "insert into t values (1, 'a')");
    const shapes = await shapesOf(pair.source, "t");
    const carrying = carryOver(pair, shapes, "0");
    await expect(carrying).rejects.toMatchObject({ code: "VERIFICATION_FAILED" });
  });

  test("lets a column of a captured table be dropped through Pawl, and reads past it", async () => {
    await createTables(
      pair,
      "create table t (id integer primary key, tenant text, x text, y text)",
    );
    await enrol(pair.source);
    const before = await shapesOf(pair.source, "t");
    const position = await pair.source.armCapture(GUARD, before);
    await pair.sql("source", "insert into t values (1, 'a', 'x', 'y')");
    await pair.source.runDdl(GUARD, "alter table t drop column x", [policy("t")]);
    await pair.sql("source", "insert into t values (2, 'a', 'y')");
    const [old] = before;
    if (old === undefined) throw new Error("There is a table.");
    const answer = await pair.source.read({ ...chunkOf(old), from: position, changesMax: 10 });
    expect(answer.changes.map(({ op }) => op)).toEqual(["put", "ddl", "put"]);
    expect(answer.changes.map(({ image }) => image)).toEqual([
      { columns: ["id", "tenant", "x", "y"], values: [1n, "a", "x", "y"] },
      null,
      { columns: ["id", "tenant", "y"], values: [2n, "a", "y"] },
    ]);
    expect(answer.chunk).toBeNull();
  });

  test.each(["update t set x = 1", "select 1", "create table a (b); drop table t", "begin"])(
    "runs nothing as a change of the schema that is none: %s",
    async (sql) => {
      await createTables(pair, "create table t (id integer primary key, tenant text, x)");
      await enrol(pair.source);
      const running = pair.source.runDdl(GUARD, sql, [policy("t")]);
      await expect(running).rejects.toMatchObject({ code: "INPUT_INVALID" });
    },
  );

  test("pages through tenants that few rows have, over many windows", async () => {
    await createTables(pair, "create table t (id integer primary key, tenant text)");
    await pair.sql(
      "source",
      `insert into t with recursive n (i) as (select 1 union all select i + 1 from n where i < 35000)
       select i, case when i % 5000 = 0 then 'a' else 'b' end from n`,
    );
    const table = await shapeOf(pair.source, "t");
    const { chunk } = await pair.source.read(chunkOf(table, { limit: 5 }));
    expect(chunk).toMatchObject({ last: ["25000"], ended: false, rows: { count: 5 } });
    const rest = await pair.source.read(chunkOf(table, { limit: 5, after: ["25000"] }));
    expect(rest.chunk).toMatchObject({ last: ["35000"], ended: true, rows: { count: 2 } });
    const survey = await pair.source.survey({ table, scope: tenantScope(["a"]) }, 3, 10);
    expect(survey.bounds).toEqual([
      { upper: ["20000"], rows: 3 },
      { upper: ["35000"], rows: 3 },
      { upper: null, rows: 1 },
    ]);
    await pair.sql("source", "create index t_tenant on t (tenant)");
    const indexed = await pair.source.read(chunkOf(table, { limit: 100 }));
    expect(indexed.chunk).toMatchObject({ last: ["35000"], rows: { count: 7 } });
    await enrol(pair.source);
    const range = { table, scope: tenantScope(["a"]) };
    expect(await pair.source.remove(GUARD, range, { limit: 5, expect: null })).toBe(5);
    await pair.sql("source", "insert into t values (-1, 'a')");
    expect(await pair.source.remove(GUARD, range, { limit: 5, expect: null })).toBe(3);
  });
});

describe("opening an SQLite shard", () => {
  const folder = mkdtempSync(join(tmpdir(), "pawl-shard-"));
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  test("refuses a file that is not there, and makes none", async () => {
    const unreachable = { code: "SHARD_UNREACHABLE" };
    const file = join(folder, "absent.db");
    await expect(openSqliteShard({ file })).rejects.toMatchObject(unreachable);
    await expect(openSqliteShard({ file })).rejects.toMatchObject(unreachable);
    const nowhere = join(folder, "no", "where.db");
    await expect(openSqliteShard({ file: nowhere })).rejects.toMatchObject(unreachable);
  });

  test("refuses a file that is no database", async () => {
    const file = join(folder, "text.db");
    writeFileSync(file, "no database at all, but a long text instead of one".repeat(100));
    const opening = openSqliteShard({ file });
    await expect(opening).rejects.toMatchObject({ code: "SHARD_UNREACHABLE" });
  });

  test("leaves the journal mode as it is, and says when the lock cannot be had", async () => {
    const file = join(folder, "rollback.db");
    const db = new Database(file);
    db.pragma("journal_mode = delete");
    const shard = await openSqliteShard({ file, busyTimeoutMs: 20 });
    await shard.install();
    expect(db.pragma("journal_mode", { simple: true })).toBe("delete");
    db.exec("begin immediate");
    await expect(shard.take(GUARD)).rejects.toMatchObject({ code: "SHARD_BUSY", retryable: true });
    db.exec("rollback");
    await shard.take(GUARD);
    await shard.close();
    db.close();
  });
});
