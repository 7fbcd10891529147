import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { tenantScope } from "../../src/work/shard/spec.ts";
import { openPostgresShard } from "../../src/shards/postgres/open-postgres-shard.ts";
import type { TableShape } from "../../src/shards/shard.ts";
import {
  applying,
  armed,
  carryOver,
  chunkOf,
  createTables,
  enrol,
  GUARD,
  insertItems,
  lastImages,
  policy,
  shapeOf,
  state,
  TABLES,
} from "./conformance/stage.ts";
import { connect, POSTGRES_DIALECT, postgresPair } from "./postgres-pair.ts";

/** What is special to PostgreSQL about tables, fences and roles. */
describe("PostgreSQL tables", () => {
  let pair: Awaited<ReturnType<typeof postgresPair>>;
  beforeEach(async () => {
    pair = await postgresPair(POSTGRES_DIALECT);
  });
  afterEach(() => pair.close());

  /** Copies what is there, then carries over what a change adds, and compares. */
  async function copyAndCarry(table: TableShape, change: string): Promise<void> {
    await enrol(pair.source);
    await enrol(pair.target);
    const position = await pair.source.armCapture(GUARD, [table]);
    const { chunk } = await pair.source.read(chunkOf(table));
    if (chunk === null) throw new Error("A chunk was asked for.");
    await pair.target.apply(
      applying([table], { after: state(), chunk: { table: table.table, rows: chunk.rows } }),
    );
    await pair.sql("source", change);
    await carryOver(pair, [table], position);
    const range = { table, scope: tenantScope(["a"]) };
    const { position: _there, ...copied } = await pair.target.digest(range);
    expect(await pair.source.digest(range)).toMatchObject(copied);
    expect(copied.rows).toBeGreaterThan(1);
  }

  test("takes names as the catalogue has them, in any schema", async () => {
    await createTables(
      pair,
      'create schema "Sales"',
      `create table "Sales"."Order ""Lines""" ("Id" integer primary key, "The Tenant" text, "select" text, t text, x text)`,
    );
    const [table] = await pair.source.describe([
      { table: 'Sales.Order "Lines"', shard_by: "The Tenant" },
    ]);
    if (table === undefined) throw new Error("There is a table.");
    const insert = (id: number): string =>
      `insert into "Sales"."Order ""Lines""" values (${id}, 'a', 'it''s', '\\', null)`;
    await pair.sql("source", insert(1));
    await copyAndCarry(table, insert(2));
    const other = await openPostgresShard({
      connectionString: pair.url("source"),
      schema: "Sales",
    });
    const policies = [{ table: 'Order "Lines"', shard_by: "The Tenant" }];
    expect((await other.describe(policies))[0]?.fingerprint).toBe(table.fingerprint);
    await other.close();
  });

  test("copies types that each database numbers in its own way", async () => {
    await pair.sql("target", "create type unrelated as (a integer)");
    await createTables(
      pair,
      "create type mood as enum ('sad', 'so so', 'happy')",
      "create domain age as integer check (value >= 0)",
      "create type place as (street text, number integer)",
      "create type moods as range (subtype = text)",
      `create table people (
        gone integer, id integer generated always as identity primary key, tenant text not null,
        feels mood, moods mood[], old age, lives place, homes place[], spans moods,
        twice integer generated always as (old * 2) stored, also_gone text, doc json)`,
      "alter table people drop column gone",
      "alter table people drop column also_gone",
      "alter table people add column more text default 'm'",
    );
    const table = await shapeOf(pair.source, "people");
    expect(table.columns.map(({ name }) => name)).not.toContain("twice");
    const insert = (id: number): string =>
      `insert into people (id, tenant, feels, moods, old, lives, homes, spans, doc) overriding system value
      values (${id}, 'a', 'so so', '{sad,NULL,"so so"}', 7, '("Main, ""St""",3)', array[row('x', 1)::place, null],
        '[a,b)', '{ "b":1,"a" : 2 }')`;
    await pair.sql("source", insert(1));
    await copyAndCarry(
      table,
      `${insert(2)}; update people set old = 8, doc = '[1,  2]' where id = 1`,
    );
    expect(await pair.dump("target", "people")).toEqual(await pair.dump("source", "people"));
    expect((await shapeOf(pair.target, "people")).fingerprint).toBe(table.fingerprint);
  });

  test("refuses tables that it cannot capture, and says why", async () => {
    await createTables(
      pair,
      "create table parted (id integer primary key, tenant text) partition by range (id)",
      "create table part partition of parted for values from (0) to (10)",
      "create table parent (id integer primary key, tenant text)",
      "create table child (primary key (id)) inherits (parent)",
      "create view seen as select 1 as id, 'a' as tenant",
      "create table deferred (id integer primary key deferrable, tenant text)",
      "create table made (id integer primary key, n integer, tenant text generated always as (n::text) stored)",
    );
    const reasons = {
      parted: /partitioned/,
      part: /part or a parent/,
      parent: /part or a parent/,
      child: /part or a parent/,
      seen: /ordinary table/,
      deferred: /deferrable/,
      made: /generated/,
      "no.such": /not in the shard/,
    };
    for (const [table, reason] of Object.entries(reasons)) {
      const refused = { code: "TABLE_UNFIT", message: expect.stringMatching(reason) };
      await expect(pair.source.describe([policy(table)]), table).rejects.toMatchObject(refused);
    }
  });

  test("tells collations and locales of keys apart", async () => {
    await createTables(pair, "create table words (word text primary key, tenant text)");
    const before = await shapeOf(pair.source, "words");
    await pair.sql("source", 'alter table words alter word type text collate "C"');
    const after = await shapeOf(pair.source, "words");
    expect(after.fingerprint).not.toBe(before.fingerprint);
    for (const word of ["b", "B", "a"]) {
      await pair.sql("source", `insert into words values ('${word}', 'a')`);
    }
    const { bounds } = await pair.source.survey({ table: after, scope: [] }, 1, 10);
    expect(bounds.map(({ upper }) => upper?.[0])).toEqual(["a", "b", undefined]);
  });

  test("I55: has a transaction with an older snapshot begin again at a fence", async () => {
    await armed(pair, "items");
    for (const entered of [true, false]) {
      const client = await connect(pair.url("source"));
      await client.query("begin isolation level repeatable read");
      await client.query("select count(*) from items");
      await pair.source.setFences(GUARD, [{ tenant: "a", epoch: 1, state: "open", shard: null }]);
      await pair.source.closeFences(GUARD, ["a"], { waitMs: 5_000, holdMs: 60_000 });
      const acting = entered
        ? client.query("select _pawl.enter('a', 1)")
        : client.query(insertItems("a", 1));
      await expect(acting).rejects.toMatchObject({ code: "40001" });
      await client.query("rollback");
      await client.end();
      await pair.source.dropFences(GUARD, ["a"]);
    }
  });

  test("I55: waits for writes from before the fence before it counts on it", async () => {
    await armed(pair, "items");
    const early = await pair.begin("source", null);
    await early.sql(insertItems("a", 1));
    let isSet = false;
    const setting = pair.source
      .setFences(GUARD, [{ tenant: "a", epoch: 1, state: "open", shard: null }])
      .then(() => {
        isSet = true;
      });
    await expect.poll(() => pair.source.fences(["a"])).toHaveLength(1);
    expect(isSet).toBe(false);
    await early.commit();
    await setting;
    const unrelated = await pair.begin("source", null);
    await unrelated.sql(insertItems("b", 2));
    await pair.source.closeFences(GUARD, ["a"], { waitMs: 5_000, holdMs: 60_000 });
    await unrelated.commit();
  });

  test("keeps a fence entered through savepoints, and only for what was not given up", async () => {
    await armed(pair, "items");
    await pair.source.setFences(GUARD, [
      { tenant: "a", epoch: 1, state: "open", shard: null },
      { tenant: "b", epoch: 1, state: "open", shard: null },
    ]);
    const writing = await pair.begin("source", { tenant: "a", epoch: 1 });
    await writing.sql("savepoint one");
    await writing.sql("select _pawl.enter('b', 1)");
    await writing.sql(insertItems("b", 1));
    await writing.sql("rollback to one");
    await writing.sql(insertItems("a", 2));
    await expect(writing.sql(insertItems("b", 3))).rejects.toMatchObject({ code: "NOT_ENTERED" });
    await writing.rollback();
  });

  describe("with roles that may do little", () => {
    const owner = `pawl_owner_${process.pid}`;
    const application = `pawl_application_${process.pid}`;
    const as = (side: "source" | "target", role: string): string => {
      const url = new URL(pair.url(side));
      url.username = role;
      return url.href;
    };

    beforeEach(async () => {
      for (const role of [owner, application]) {
        await pair.sql("source", `drop role if exists ${role}`).catch(() => undefined);
        await pair.sql("source", `create role ${role} login`).catch(() => undefined);
      }
      for (const side of ["source", "target"] as const) {
        const name = new URL(pair.url(side)).pathname.slice(1);
        await pair.sql(side, `grant create on database "${name}" to ${owner}`);
        await pair.sql(side, `grant create on schema public to ${owner}`);
      }
    });
    afterEach(async () => {
      for (const side of ["source", "target"] as const) {
        for (const role of [owner, application]) {
          await pair.sql(side, `drop owned by ${role} cascade`);
        }
      }
      for (const role of [owner, application]) await pair.sql("source", `drop role ${role}`);
    });

    test("captures, copies and applies for an owner who is no superuser", async () => {
      for (const side of ["source", "target"] as const) {
        const client = await connect(as(side, owner));
        await client.query(TABLES.parents);
        await client.query(TABLES.children);
        await client.query(
          "create function noop() returns trigger language plpgsql as $$ begin return null; end $$",
        );
        await client.query(
          "create trigger audit after insert on children for each row execute function noop()",
        );
        await client.query(`grant all on parents, children to ${application}`);
        await client.end();
      }
      const source = await openPostgresShard({ connectionString: as("source", owner) });
      const target = await openPostgresShard({ connectionString: as("target", owner) });
      const weak = { ...pair, source, target };
      await enrol(source);
      await enrol(target);
      const shapes = await source.describe([policy("parents"), policy("children")]);
      expect(await target.firingTriggers(shapes)).toEqual(["children: audit"]);
      const position = await source.armCapture(GUARD, shapes);

      const writer = await connect(as("source", application));
      await writer.query("insert into parents values (1, 'a'), (2, 'a')");
      await writer.query("insert into children values (1, 'a', 1), (2, 'a', 2)");
      const { position: middle } = await carryOver(weak, shapes, position);
      await source.setFences(GUARD, [{ tenant: "a", epoch: 1, state: "open", shard: null }]);
      await expect(writer.query("delete from children")).rejects.toMatchObject({ code: "PW005" });
      await writer.query("begin");
      await writer.query("select _pawl.enter('a', 1)");
      await writer.query("update parents set tenant = 'a' where id = 1");
      await writer.query("delete from children where id = 2");
      await writer.query("delete from parents where id = 2");
      await writer.query("commit");
      await carryOver(weak, shapes, middle);
      for (const table of ["parents", "children"]) {
        expect(await pair.dump("target", table)).toEqual(await pair.dump("source", table));
      }

      await pair.sql("target", "insert into parents values (9, 'b')");
      await writer.query("begin");
      await writer.query("select _pawl.enter('a', 1)");
      await writer.query("insert into parents values (9, 'a')");
      await writer.query("commit");
      const answer = await source.read({
        tables: shapes,
        scope: tenantScope(["a"]),
        from: middle,
        cursor: null,
        changesMax: 100,
        chunk: null,
      });
      const before = await target.loadStream("plan-1");
      const conflict = target.apply(applying(shapes, { before, changes: lastImages(answer) }));
      await expect(conflict).rejects.toMatchObject({ code: "ROWS_CONFLICT" });
      await writer.end();
      await source.close();
      await target.close();
    });

    test("removes no rows for such an owner that would take rows of other tables with them", async () => {
      const client = await connect(as("source", owner));
      await client.query(TABLES.parents);
      await client.query(TABLES.heirs);
      await client.query("insert into parents values (1, 'a'), (2, 'a')");
      await client.query("insert into heirs values (1, 'a', 2)");
      const source = await openPostgresShard({ connectionString: as("source", owner) });
      await enrol(source);
      const [table] = await source.describe([policy("parents")]);
      if (table === undefined) throw new Error("There are no parents.");
      const range = { table, scope: tenantScope(["a"]) };
      const { rows, digest } = await source.digest(range);
      const refused = { code: "ROWS_CONFLICT", details: { naming: "public.heirs" } };
      for (const expected of [null, { rows, digest }]) {
        const removal = source.remove(GUARD, range, { limit: 2, expect: expected });
        await expect(removal).rejects.toMatchObject(refused);
      }
      expect(await source.remove(GUARD, range, { limit: 1, expect: null })).toBe(1);
      expect(await pair.dump("source", "heirs")).toEqual(["(1,a,2)"]);
      await client.query("delete from heirs");
      expect(await source.remove(GUARD, range, { limit: 2, expect: null })).toBe(1);
      await client.end();
      await source.close();
    });
  });
});
