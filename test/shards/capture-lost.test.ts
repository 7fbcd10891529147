import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { armed, changesSince, enrol, GUARD, insertItems, policy } from "./conformance/stage.ts";
import { POSTGRES_DIALECT, postgresPair } from "./postgres-pair.ts";
import { openSqlitePair } from "./sqlite-pair.ts";

const OTHER = { plan: "plan-2", token: 1 };

/** Makes a table anew, as changes of constraints are made in SQLite. */
const MADE_ANEW = [
  "create table made (id integer primary key, tenant text not null, n integer not null, note text)",
  "insert into made select * from items",
  "drop table items",
  "alter table made rename to items",
];

describe("SQLite capture that was taken away", () => {
  let pair: Awaited<ReturnType<typeof openSqlitePair>>;
  beforeEach(async () => {
    pair = await openSqlitePair();
  });
  afterEach(() => pair.close());

  test("I54: is found out when changes are read, and not made good by another plan", async () => {
    const { source } = pair;
    const { shapes, position } = await armed(pair, "items");
    await pair.sql("source", insertItems("a", 1));
    for (const sql of MADE_ANEW) await pair.sql("source", sql);
    await pair.sql("source", insertItems("a", 2));
    const refused = { code: "SCHEMA_CHANGED" };
    await expect(source.read(changesSince(shapes, position))).rejects.toMatchObject(refused);
    await enrol(source, OTHER);
    await expect(source.armCapture(OTHER, shapes)).rejects.toMatchObject(refused);
    await expect(source.armCapture(GUARD, shapes)).rejects.toMatchObject(refused);
    const ddl = source.runDdl(GUARD, "create index found on items (n)", [policy("items")]);
    await expect(ddl).rejects.toMatchObject(refused);

    await source.disarmCapture(GUARD);
    const anew = await source.armCapture(OTHER, shapes);
    await pair.sql("source", insertItems("a", 3));
    const { changes } = await source.read(changesSince(shapes, anew));
    expect(changes.map(({ key }) => key)).toEqual([["3"]]);
  });
});

describe("A shard that was restored from a backup", () => {
  test.each([
    ["SQLite", openSqlitePair, "1000"],
    ["PostgreSQL", () => postgresPair(POSTGRES_DIALECT), "4000000000:4000000000:"],
  ] as const)("I54: is found out when it is behind a position: %s", async (_, open, later) => {
    const pair = await open();
    try {
      const { shapes, position } = await armed(pair, "items");
      await pair.sql("source", insertItems("a", 1));
      expect((await pair.source.read(changesSince(shapes, position))).changes).toHaveLength(1);
      const refused = { code: "VERIFICATION_FAILED" };
      await expect(pair.source.read(changesSince(shapes, later))).rejects.toMatchObject(refused);
    } finally {
      await pair.close();
    }
  });
});

describe("PostgreSQL capture", () => {
  let pair: Awaited<ReturnType<typeof postgresPair>>;
  beforeEach(async () => {
    pair = await postgresPair(POSTGRES_DIALECT);
  });
  afterEach(() => pair.close());

  test("I54: that was taken away is not made good by another plan", async () => {
    const { source } = pair;
    const { shapes } = await armed(pair, "items");
    await pair.sql("source", "drop trigger _pawl_update on items");
    await enrol(source, OTHER);
    const refused = { code: "SCHEMA_CHANGED" };
    await expect(source.armCapture(OTHER, shapes)).rejects.toMatchObject(refused);
    await source.disarmCapture(GUARD);
    await source.armCapture(OTHER, shapes);
  });

  test("ends when the last two plans end at once", async () => {
    const { source } = pair;
    const { shapes } = await armed(pair, "items");
    await enrol(source, OTHER);
    await source.armCapture(OTHER, shapes);
    const holder = await pair.begin("source", null);
    await holder.sql("select from _pawl.captures for update");
    const ending = Promise.all([source.disarmCapture(GUARD), source.disarmCapture(OTHER)]);
    // Each has looked at what the other has, as far as it can.
    const waiting = "select count(*) from pg_locks where not granted";
    await expect.poll(() => pair.sql("source", waiting), { interval: 5 }).toEqual([[2]]);
    await holder.rollback();
    await ending;
    const left = "select tgname from pg_trigger where not tgisinternal";
    expect(await pair.sql("source", left)).toEqual([]);
  });
});
