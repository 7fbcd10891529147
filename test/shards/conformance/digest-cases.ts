import { expect, test } from "vitest";
import { tenantScope } from "../../../src/work/shard/spec.ts";
import type { TableShape } from "../../../src/shards/shard.ts";
import { armed, createTables, enrol, GUARD, insertItems, shapeOf, TABLES } from "./stage.ts";
import type { ShardPair } from "./shard-conformance.ts";

const SCOPE = tenantScope(["a"]);

/** Counting, comparing, cutting and removing ranges. */
export function digestCases(pair: () => ShardPair): void {
  const items = async (...ids: number[]): Promise<TableShape> => {
    await createTables(pair(), TABLES.items);
    await enrol(pair().source);
    if (ids.length > 0) await pair().sql("source", insertItems("a", ...ids));
    return shapeOf(pair().source, "items");
  };

  test("gives the same digest for the same rows in any order", async () => {
    const table = await items(1, 2, 3);
    await pair().sql("target", insertItems("a", 3, 1, 2));
    await enrol(pair().target);
    const { rows, digest } = await pair().source.digest({ table, scope: SCOPE });
    expect(rows).toBe(3);
    expect(await pair().target.digest({ table, scope: SCOPE })).toMatchObject({ rows, digest });
  });

  test("gives another digest for every changed cell", async () => {
    await createTables(pair(), pair().dialect.kinds.ddl);
    const { source } = pair();
    await enrol(source);
    const { values } = pair().dialect.kinds;
    for (const [index, value] of values.entries()) {
      await pair().sql("source", `insert into kinds values (${index + 1}, 'a', ${value})`);
    }
    const table = await shapeOf(source, "kinds");
    const digests = new Map<string, string>();
    const look = async (): Promise<void> => {
      const rows = (await pair().dump("source", "kinds")).join("\n");
      digests.set(rows, (await source.digest({ table, scope: SCOPE })).digest);
    };
    await look();
    for (const { name } of table.columns) {
      if (name === "id" || name === "tenant") continue;
      const column = `"${name.replaceAll('"', '""')}"`;
      for (const value of [`(select ${column} from kinds where id = 2)`, "null"]) {
        await pair().sql("source", `update kinds set ${column} = ${value} where id = 1`);
        await look();
      }
    }
    await pair().sql("source", "update kinds set id = 1000 where id = 1");
    await look();
    expect(digests.size).toBeGreaterThan(table.columns.length);
    expect(new Set(digests.values()).size).toBe(digests.size);
  });

  test("takes values that change places for other rows", async () => {
    const table = await items(1, 2);
    const { source } = pair();
    const before = await source.digest({ table, scope: SCOPE });
    await pair().sql("source", "update items set n = 3 - n");
    const swapped = await source.digest({ table, scope: SCOPE });
    expect(swapped.digest).not.toBe(before.digest);
    await pair().sql("source", "update items set n = 3 - n");
    expect((await source.digest({ table, scope: SCOPE })).digest).toBe(before.digest);
  });

  test("digests parts of a range so that each row counts once", async () => {
    const table = await items(1, 2, 3, 4, 5);
    const { source } = pair();
    const rowsOf = async (bounds: object): Promise<number> =>
      (await source.digest({ table, scope: SCOPE, ...bounds })).rows;
    expect(await rowsOf({})).toBe(5);
    expect(await rowsOf({ below: ["3"] })).toBe(2);
    expect(await rowsOf({ from: ["3"] })).toBe(3);
    expect(await rowsOf({ after: ["3"] })).toBe(2);
    expect(await rowsOf({ from: ["9"] })).toBe(0);
  });

  test("says the position of the snapshot that it digests", async () => {
    const { shapes } = await armed(pair(), "items");
    await pair().sql("source", insertItems("a", 1));
    const [table] = shapes;
    if (table === undefined) throw new Error("There is a table.");
    const digest = await pair().source.digest({ table, scope: SCOPE });
    expect(await pair().source.lag(digest.position)).toMatchObject({ events: 0 });
  });

  test("digests a shard that Pawl's tables are not in", async () => {
    await createTables(pair(), TABLES.items);
    await pair().sql("source", insertItems("a", 1));
    const table = await shapeOf(pair().source, "items");
    expect(await pair().source.digest({ table, scope: SCOPE })).toMatchObject({ rows: 1 });
  });

  test("I47: cuts a range into pieces that tile it exactly", async () => {
    const ids = Array.from({ length: 25 }, (_, index) => index * 3);
    const table = await items(...ids);
    await pair().sql("source", insertItems("b", 1, 4, 7));
    const { source } = pair();
    const all = await source.survey({ table, scope: SCOPE }, 10, 100);
    expect(all).toEqual({
      bounds: [
        { upper: ["30"], rows: 10 },
        { upper: ["60"], rows: 10 },
        { upper: null, rows: 5 },
      ],
      sealed: true,
    });
    let total = 0;
    let from: string[] | null = null;
    for (const { upper, rows } of all.bounds) {
      const digest = await source.digest({ table, scope: SCOPE, from, below: upper });
      expect(digest.rows).toBe(rows);
      total += digest.rows;
      from = upper;
    }
    expect(total).toBe(25);
  });

  test("counts the rows of each tenant that is in scope", async () => {
    const table = await items(1, 2, 3);
    await pair().sql("source", insertItems("b", 4, 5));
    const { source } = pair();
    expect(await source.tenantRows({ table, scope: [] })).toEqual({ a: 3, b: 2 });
    expect(await source.tenantRows({ table, scope: SCOPE, from: ["2"] })).toEqual({ a: 2 });
  });

  test("I47: goes on with a survey from its last bound", async () => {
    const table = await items(...Array.from({ length: 25 }, (_, index) => index));
    const { source } = pair();
    const first = await source.survey({ table, scope: SCOPE }, 10, 1);
    expect(first).toEqual({ bounds: [{ upper: ["10"], rows: 10 }], sealed: false });
    const rest = await source.survey({ table, scope: SCOPE, from: ["10"] }, 10, 5);
    expect(rest.bounds.map(({ rows }) => rows)).toEqual([10, 5]);
    expect(rest.sealed).toBe(true);
    const even = await source.survey({ table, scope: SCOPE, below: ["20"] }, 10, 5);
    expect(even.bounds.map(({ rows }) => rows)).toEqual([10, 10]);
    expect(even.bounds.at(-1)?.upper).toBeNull();
    expect(even.sealed).toBe(true);
    const none = await source.survey({ table, scope: SCOPE, from: ["99"] }, 10, 5);
    expect(none).toEqual({ bounds: [{ upper: null, rows: 0 }], sealed: true });
  });

  test("says the least and the greatest key", async () => {
    const table = await items(40, -7, 9);
    await pair().sql("source", insertItems("b", -100, 100));
    const { source } = pair();
    expect(await source.keyBounds({ table, scope: SCOPE })).toEqual({
      least: "-7",
      greatest: "40",
    });
    expect(await source.keyBounds({ table, scope: tenantScope(["none"]) })).toBeNull();
  });

  test("removes rows of a range, so many at a time", async () => {
    const table = await items(1, 2, 3, 4, 5);
    await pair().sql("source", insertItems("b", 6));
    const { source } = pair();
    const range = { table, scope: SCOPE, below: ["5"] };
    expect(await source.remove(GUARD, range, { limit: 3, expect: null })).toBe(3);
    expect(await source.remove(GUARD, range, { limit: 3, expect: null })).toBe(1);
    expect(await source.remove(GUARD, range, { limit: 3, expect: null })).toBe(0);
    expect(await pair().sql("source", "select id from items order by id")).toEqual([[5], [6]]);
  });

  test("removes a whole range only if it has the digest that was verified", async () => {
    const table = await items(1, 2, 3);
    const { source } = pair();
    const range = { table, scope: SCOPE };
    const { rows, digest } = await source.digest(range);
    const verified = { rows, digest };
    await pair().sql("source", "update items set n = 9 where id = 2");
    expect(await source.remove(GUARD, range, { limit: 100, expect: verified })).toBeNull();
    await pair().sql("source", "update items set n = 2 where id = 2");
    await pair().sql("source", insertItems("a", 4));
    expect(await source.remove(GUARD, range, { limit: 100, expect: verified })).toBeNull();
    await pair().sql("source", "delete from items where id = 4");
    expect(await source.remove(GUARD, range, { limit: 1, expect: verified })).toBe(3);
    expect(await pair().sql("source", "select id from items")).toEqual([]);
  });

  test("removes rows without capture, fence or cascade", async () => {
    const { shapes, position } = await armed(pair(), "parents", "heirs");
    await pair().sql("source", "insert into parents (id, tenant) values (1, 'a')");
    await pair().sql("source", "insert into heirs (id, tenant, parent) values (1, 'a', 1)");
    const { source } = pair();
    await source.setFences(GUARD, [{ tenant: "a", epoch: 2, state: "moved", shard: "b" }]);
    const behind = (await source.lag(position)).events;
    for (const table of shapes.toReversed()) {
      const removed = await source.remove(
        GUARD,
        { table, scope: SCOPE },
        {
          limit: 10,
          expect: null,
        },
      );
      expect(removed).toBe(1);
    }
    expect(await source.lag(position)).toMatchObject({ events: behind });
  });

  test("I56: removes rows only while the fences of their tenants stand as they have to", async () => {
    const table = await items(1, 2, 3);
    const { source } = pair();
    const range = { table, scope: SCOPE };
    const { rows, digest } = await source.digest(range);
    const fences = [{ tenant: "a", epoch: 2, state: "moved" as const }];
    const removals = [null, { rows, digest }].map((expected) => ({
      limit: 2,
      expect: expected,
      fences,
    }));
    const others = [
      [],
      [{ tenant: "a", epoch: 3, state: "moved", shard: "c" }],
      [{ tenant: "a", epoch: 2, state: "incoming", shard: "b" }],
    ] as const;
    for (const other of others) {
      await source.setFences(GUARD, other);
      for (const options of removals) {
        const refused = { code: "STATE_ILLEGAL" };
        await expect(source.remove(GUARD, range, options)).rejects.toMatchObject(refused);
      }
    }
    expect(await source.digest(range)).toMatchObject({ rows: 3 });
    await source.setFences(GUARD, [{ tenant: "a", epoch: 2, state: "moved", shard: "b" }]);
    const [some] = removals;
    expect(await source.remove(GUARD, range, some ?? { limit: 0, expect: null })).toBe(2);
  });
}
