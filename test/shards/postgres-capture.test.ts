import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type pg from "pg";
import {
  applying,
  armed,
  carryOver,
  changesSince,
  chunkOf,
  countOf,
  createTables,
  enrol,
  GUARD,
  insertItems,
  shapeOf,
  shapesOf,
  spelled,
  TABLES,
} from "./conformance/stage.ts";
import { openPostgresShard } from "../../src/shards/postgres/open-postgres-shard.ts";
import type { Shard } from "../../src/shards/shard.ts";
import { connect, POSTGRES_DIALECT, postgresPair } from "./postgres-pair.ts";

/** What is special to PostgreSQL about capturing and copying. */
describe("PostgreSQL capture", () => {
  let pair: Awaited<ReturnType<typeof postgresPair>>;
  let clients: pg.Client[];
  const client = async (): Promise<pg.Client> => {
    const made = await connect(pair.url("source"));
    clients.push(made);
    return made;
  };
  beforeEach(async () => {
    pair = await postgresPair(POSTGRES_DIALECT);
    clients = [];
  });
  afterEach(async () => {
    await Promise.all(clients.map((each) => each.end()));
    await pair.close();
  });

  test("I54: reads a change that commits late, after others with greater ids", async () => {
    const { shapes, position } = await armed(pair, "items");
    const late = await pair.begin("source", null);
    await late.sql(insertItems("a", 1));
    await pair.sql("source", insertItems("a", 2));
    const first = await pair.source.read(changesSince(shapes, position));
    expect(spelled(first.changes)).toEqual(["put items 2"]);
    await pair.sql("source", insertItems("a", 3));
    await late.commit();
    const second = await pair.source.read(changesSince(shapes, first.position));
    expect(spelled(second.changes)).toEqual(["put items 1", "put items 3"]);
    expect(Number(second.changes[0]?.id)).toBeLessThan(Number(first.changes[0]?.id));
    const again = await pair.source.read(changesSince(shapes, position, { to: first.position }));
    expect(spelled(again.changes)).toEqual(["put items 2"]);
    expect(await pair.source.release(GUARD, first.position)).toBe(1);
    expect((await pair.source.lag(first.position)).events).toBe(2);
  });

  test("I54: gives up changes without waiting for another plan that is deleting them", async () => {
    const { shapes, position } = await armed(pair, "items");
    await pair.sql("source", insertItems("a", 1, 2));
    const { position: present } = await pair.source.read(changesSince(shapes, position));
    const deleting = await pair.begin("source", null);
    await deleting.sql("delete from _pawl.changes where key = '{1}'");
    expect(await pair.source.release(GUARD, present)).toBe(1);
    await deleting.rollback();
    expect(await pair.source.release(GUARD, present)).toBe(1);
  });

  test("I54: finds what it deletes once, also in a table that was empty when it was last analysed", async () => {
    const { shapes, position } = await armed(pair, "items");
    const insert = (first: number): string =>
      `insert into items select i, 'a', i from generate_series(${first}, ${first + 2_999}) i`;
    await pair.sql("source", insert(1));
    await pair.sql("source", "delete from items");
    await pair.sql("source", "delete from _pawl.changes");
    for (const table of ["items", "_pawl.changes"]) {
      await pair.sql("source", `alter table ${table} set (autovacuum_enabled = off)`);
      await pair.sql("source", `analyze ${table}`);
    }
    await pair.sql("source", insert(4_000));
    await pair.sql("source", "select pg_stat_force_next_flush()");
    const { position: present } = await pair.source.read(changesSince(shapes, position));
    const reader = await client();
    const counts = async (table: string): Promise<[deleted: number, read: number]> => {
      const { rows } = await reader.query<{ deleted: string; read: string }>(
        `select pg_stat_get_tuples_deleted($1::regclass) as deleted,
          sum(pg_stat_get_tuples_returned(indexrelid)) + pg_stat_get_tuples_returned($1::regclass) as read
        from pg_index where indrelid = $1::regclass`,
        [table],
      );
      return [Number(rows[0]?.deleted), Number(rows[0]?.read)];
    };
    // Sessions say what they read when they end.
    const readFor = async (table: string, deletion: (shard: Shard) => Promise<number | null>) => {
      const [deletedBefore, readBefore] = await counts(table);
      const shard = await openPostgresShard({ connectionString: pair.url("source") });
      const said = await deletion(shard);
      await shard.close();
      const counted = async (): Promise<number> => (await counts(table))[0] - deletedBefore;
      await expect.poll(counted).toBeGreaterThanOrEqual(said ?? 0);
      return { deleted: said, read: (await counts(table))[1] - readBefore };
    };
    const range = { table: await shapeOf(pair.source, "items"), scope: [] };
    const options = { limit: 3_000, expect: null };
    const changes = await readFor("_pawl.changes", (shard) => shard.release(GUARD, present));
    const rows = await readFor("items", (shard) => shard.remove(GUARD, range, options));
    expect(rows.deleted).toBe(3_000);
    for (const { deleted, read } of [changes, rows])
      expect(read).toBeLessThan(10 * Number(deleted));
  });

  test("captures what a savepoint keeps, and nothing of what it gives up", async () => {
    const { shapes, position } = await armed(pair, "items");
    const writing = await pair.begin("source", null);
    await writing.sql(insertItems("a", 1));
    await writing.sql("savepoint one");
    await writing.sql(insertItems("a", 2));
    await writing.sql("rollback to one");
    await writing.sql("savepoint two");
    await writing.sql(insertItems("a", 3));
    await writing.sql("release two");
    await writing.commit();
    const answer = await pair.source.read(changesSince(shapes, position));
    expect(spelled(answer.changes)).toEqual(["put items 1", "put items 3"]);
  });

  test("arms behind a long transaction without keeping others from writing", async () => {
    await createTables(pair, TABLES.items);
    await enrol(pair.source);
    const shapes = await shapesOf(pair.source, "items");
    const long = await pair.begin("source", null);
    await long.sql(insertItems("a", 1));
    const arming = pair.source.armCapture(GUARD, shapes);
    for (let id = 2; id <= 6; id += 1) await pair.sql("source", insertItems("a", id));
    expect(await pair.source.firingTriggers(shapes)).toEqual([]);
    await long.commit();
    const position = await arming;
    expect(await pair.source.lag(position)).toMatchObject({ events: 0 });
    await pair.sql("source", insertItems("a", 7));
    expect((await pair.source.read(changesSince(shapes, position))).changes).toHaveLength(1);
    expect(
      (await pair.source.digest({ table: await shapeOf(pair.source, "items"), scope: [] })).rows,
    ).toBe(7);
  });

  test("captures statements that the application prepared before", async () => {
    await createTables(pair, TABLES.items);
    const application = await client();
    const insert = (id: number): Promise<unknown> =>
      application.query({
        name: "put",
        text: "insert into items (id, tenant, n) values ($1, 'a', 0)",
        values: [id],
      });
    for (let id = 1; id <= 8; id += 1) await insert(id);
    await enrol(pair.source);
    const shapes = await shapesOf(pair.source, "items");
    const position = await pair.source.armCapture(GUARD, shapes);
    await insert(9);
    const answer = await pair.source.read(changesSince(shapes, position));
    expect(spelled(answer.changes)).toEqual(["put items 9"]);
  });

  test("I54: has the last state of a row that triggers and cascades change again", async () => {
    await createTables(
      pair,
      `create table nodes (id integer primary key, tenant text, n integer default 0,
        parent integer references nodes (id) on delete cascade on update cascade)`,
    );
    await pair.sql(
      "source",
      `create function again() returns trigger language plpgsql as $$
      begin
        if pg_trigger_depth() < 2 then
          update nodes set n = n + 10 where id <> new.id and n < 100;
          update nodes set n = n + 1, tenant = case when id = 3 then 'b' else tenant end where id = new.id;
        end if;
        return null;
      end $$`,
    );
    await pair.sql(
      "source",
      'create trigger "AAA" after insert or update on nodes for each row execute function again()',
    );
    await enrol(pair.source);
    await enrol(pair.target);
    const shapes = await shapesOf(pair.source, "nodes");
    let position = await pair.source.armCapture(GUARD, shapes);
    const steps = [
      "insert into nodes (id, tenant, parent) values (1, 'a', null), (2, 'a', 1), (3, 'a', 2), (4, 'a', 1)",
      "update nodes set n = n + 1",
      "update nodes set id = 101, n = 0 where id = 1",
      "update nodes set tenant = case tenant when 'a' then 'b' else 'a' end",
      "delete from nodes where id = 2",
    ];
    for (const sql of steps) {
      await pair.sql("source", sql);
      ({ position } = await carryOver(pair, shapes, position));
      const mine = (await pair.dump("source", "nodes")).filter((row) => row.includes(",a,"));
      expect(await pair.dump("target", "nodes"), sql).toEqual(mine);
    }
  });

  test("writes images that do not depend on the settings of the writer", async () => {
    await createTables(
      pair,
      "create table odd (id integer primary key, tenant text, day date, at timestamptz, span interval, g double precision, b bytea)",
    );
    await enrol(pair.source);
    await enrol(pair.target);
    const shapes = await shapesOf(pair.source, "odd");
    const position = await pair.source.armCapture(GUARD, shapes);
    const writer = await client();
    await writer.query(
      "set datestyle = 'SQL, DMY'; set intervalstyle = 'sql_standard'; set extra_float_digits = -10; set bytea_output = 'escape'; set timezone = 'Asia/Kolkata'; set search_path = pg_temp",
    );
    await writer.query(
      "insert into public.odd values (1, 'a', '2024-02-01', '2024-02-01 10:00+00', '-1 year 2 days 3:00', 0.1::float8 + 0.2, '\\x00ff')",
    );
    await carryOver(pair, shapes, position);
    expect(await pair.dump("target", "odd")).toEqual(await pair.dump("source", "odd"));
  });

  test("I54: takes a key for the same one, whatever settings it is written with", async () => {
    await createTables(
      pair,
      "create table moments (tenant text, at timestamptz, b bytea, n integer, primary key (at, b))",
    );
    await enrol(pair.source);
    await enrol(pair.target);
    const shapes = await shapesOf(pair.source, "moments");
    const position = await pair.source.armCapture(GUARD, shapes);
    const writer = await client();
    await writer.query("insert into moments values ('a', '2024-02-01 10:00+00', '\\x00ff', 1)");
    await writer.query("set timezone = 'Asia/Kolkata'; set bytea_output = 'escape'");
    await writer.query("update moments set n = 2");
    await carryOver(pair, shapes, position);
    expect(await pair.dump("target", "moments")).toEqual(await pair.dump("source", "moments"));
  });

  test("refuses to truncate a table whose changes are captured", async () => {
    const { shapes } = await armed(pair, "parents", "children");
    const refused = { code: "STATE_ILLEGAL" };
    await expect(pair.sql("source", "truncate children")).rejects.toMatchObject(refused);
    await expect(pair.sql("source", "truncate parents cascade")).rejects.toMatchObject(refused);
    await pair.source.disarmCapture(GUARD);
    await pair.sql("source", "truncate parents cascade");
    expect(await pair.source.firingTriggers(shapes)).toEqual([]);
  });

  test("stops reading when a trigger was disabled or dropped", async () => {
    const { shapes, position } = await armed(pair, "items");
    const changed = { code: "SCHEMA_CHANGED" };
    await pair.sql("source", "alter table items disable trigger all");
    const reading = (): Promise<unknown> => pair.source.read(changesSince(shapes, position));
    await expect(reading()).rejects.toMatchObject(changed);
    await expect(pair.source.armCapture(GUARD, shapes)).rejects.toMatchObject(changed);
    await pair.sql("source", "alter table items enable trigger all");
    await expect(reading()).rejects.toMatchObject(changed);
  });

  test("I54: pages through more changes than are sorted at once, from a position far back", async () => {
    const { shapes } = await armed(pair, "items");
    await pair.sql(
      "source",
      "insert into items select i, case when i % 2 = 0 then 'a' else 'b' end, i from generate_series(1, 4000) i",
    );
    const held = await pair.begin("source", null);
    await held.sql(insertItems("a", 5_000));
    const seen: string[] = [];
    let afterId: string | null = null;
    const first = await pair.source.read(changesSince(shapes, "3:3:", { changesMax: 300 }));
    await pair.sql("source", insertItems("a", 6_000));
    for (let complete = false; !complete; ) {
      const paged = { changesMax: 300, to: first.position, after_id: afterId };
      const page = await pair.source.read(changesSince(shapes, "3:3:", paged));
      seen.push(...page.changes.map(({ key }) => key.join()));
      ({ complete } = page);
      afterId = page.through_id ?? afterId;
    }
    expect(seen).toEqual(Array.from({ length: 2_000 }, (_, index) => `${(index + 1) * 2}`));
    await held.commit();
    const rest = await pair.source.read(changesSince(shapes, first.position));
    expect(spelled(rest.changes).toSorted()).toEqual(["put items 5000", "put items 6000"]);
    const { position } = await pair.source.read(changesSince(shapes, rest.position));
    const none = await pair.source.read(changesSince(shapes, position));
    expect(none).toMatchObject({ changes: [], complete: true });
  });

  test("copies a chunk that is larger than what a connection reads at once", async () => {
    await createTables(pair, TABLES.items);
    await enrol(pair.target);
    await pair.sql(
      "source",
      "insert into items select i, 'a', i, repeat('x', i % 300) || E'\\n\\t' from generate_series(1, 20000) i",
    );
    const table = await shapeOf(pair.source, "items");
    const { chunk } = await pair.source.read(chunkOf(table, { limit: 100_000 }));
    if (chunk === null) throw new Error("A chunk was asked for.");
    await pair.target.apply(applying([table], { chunk: { table: "items", rows: chunk.rows } }));
    const { position: _source, ...source } = await pair.source.digest({ table, scope: [] });
    expect(source.rows).toBe(20_000);
    expect(await pair.target.digest({ table, scope: [] })).toMatchObject(source);
  });

  test("I81: refuses a change of the schema that is more than one statement, or of another kind", async () => {
    const { position } = await armed(pair, "items");
    const policies = [{ table: "items", shard_by: "tenant" }];
    await pair.sql("source", "create table payroll (id integer primary key, salary integer)");
    await pair.sql("source", "insert into payroll values (1, 100)");
    for (const sql of [
      "commit; begin",
      "select 1; update payroll set salary = 0",
      "copy payroll to program 'touch /tmp/never'",
      "alter table items add x integer; update payroll set salary = 0",
      "alter table items add x integer default pg_backend_pid()",
      "alter table payroll add x integer",
      "do $$ begin update payroll set salary = 0; end $$",
    ]) {
      const running = pair.source.runDdl(GUARD, sql, policies);
      await expect(running, sql).rejects.toMatchObject({ code: "INPUT_INVALID" });
    }
    expect(await pair.sql("source", "select * from payroll")).toEqual([[1, 100]]);
    expect(await pair.source.lag(position)).toMatchObject({ events: 0 });
  });

  test("goes on capturing after a column of the key got another name", async () => {
    const { position } = await armed(pair, "items");
    const policies = [{ table: "items", shard_by: "tenant" }];
    await pair.source.runDdl(GUARD, "alter table items rename id to number", policies);
    await pair.sql("source", "insert into items (number, tenant, n) values (1, 'a', 1)");
    const shapes = await pair.source.describe(policies);
    const { changes } = await pair.source.read(changesSince(shapes, position));
    expect(changes.map(({ op }) => op)).toEqual(["ddl", "put"]);
  });

  test("I57: reads the present row for an image of a type that was put back since", async () => {
    const { shapes, position } = await armed(pair, "items");
    await pair.sql("source", insertItems("a", 1, 2));
    await pair.sql("source", "alter table items alter n type text");
    await pair.sql("source", "update items set n = 'many' where id = 1");
    await pair.sql("source", "update items set n = '7' where id = 1");
    await pair.sql("source", "alter table items alter n type integer using n::integer");
    await pair.sql("source", insertItems("a", 3));
    const images = async (changesMax: number): Promise<unknown[]> => {
      const { changes } = await pair.source.read(changesSince(shapes, position, { changesMax }));
      return changes.map(({ image }) => image);
    };
    const [one, two, three] = [1, 2, 3].map((id) => `(${id},a,${id === 1 ? 7 : id},"note ${id}")`);
    // The last word on the row may be in a later page than one that nobody can read.
    expect(await images(3)).toEqual([one, two, one]);
    expect(await images(1_000)).toEqual([one, two, one, one, three]);
  });

  test("ends the connection of a step that holds on to its plan", async () => {
    await enrol(pair.target);
    const frozen = await connect(`${pair.url("target")}?application_name=pawl%20shard`);
    await frozen.query("begin; select _pawl.guard('plan-1', 1)");
    await pair.target.take({ plan: "plan-1", token: 2 });
    await expect(frozen.query("select 1")).rejects.toThrow(/terminat|connection|not queryable/i);
    await expect(pair.target.apply(applying([]))).rejects.toMatchObject({
      code: "COORDINATOR_STALE",
    });
    expect(await countOf(pair, "target", "_pawl.plans")).toBe(1);
  });
});
