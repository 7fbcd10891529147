import { createHash } from "node:crypto";
import { expect, test } from "vitest";
import { type Scope, type ScopeTest, tenantScope } from "../../../src/work/shard/spec.ts";
import { armed, changesSince, chunkOf, insertItems, shapeOf, spelled } from "./stage.ts";
import type { ShardPair } from "./shard-conformance.ts";

/** What one snapshot of a source gives. */
export function readCases(pair: () => ShardPair): void {
  test("gives chunk after chunk in the order of the key until it ends", async () => {
    await armed(pair(), "items");
    await pair().sql("source", insertItems("a", 5, 1, 3, 40, 21));
    await pair().sql("source", insertItems("b", 2, 4));
    const table = await shapeOf(pair().source, "items");
    const first = (await pair().source.read(chunkOf(table, { limit: 3 }))).chunk;
    expect(first).toMatchObject({ last: ["5"], ended: false, rows: { count: 3 } });
    const next = chunkOf(table, { limit: 3, after: first?.last ?? null });
    const second = (await pair().source.read(next)).chunk;
    expect(second).toMatchObject({ last: ["40"], ended: true, rows: { count: 2 } });
    const end = (await pair().source.read(chunkOf(table, { after: ["40"] }))).chunk;
    expect(end).toMatchObject({ last: null, ended: true, rows: { count: 0 } });
  });

  test("keeps to the bounds of a range", async () => {
    await armed(pair(), "items");
    await pair().sql("source", insertItems("a", 1, 2, 3, 4, 5, 6));
    const table = await shapeOf(pair().source, "items");
    const request = chunkOf(table);
    const within = async (bounds: object): Promise<unknown> => {
      const range = { table, scope: request.scope, limit: 100, ...bounds };
      const { chunk } = await pair().source.read({ ...request, chunk: range });
      return [chunk?.rows.count, chunk?.last];
    };
    expect(await within({ from: ["2"], below: ["5"] })).toEqual([3, ["4"]]);
    expect(await within({ after: ["2"], below: ["5"] })).toEqual([2, ["4"]]);
    expect(await within({ from: ["2"], after: ["3"] })).toEqual([3, ["6"]]);
    expect(await within({ from: ["4"], after: ["1"] })).toEqual([3, ["6"]]);
    expect(await within({ below: ["1"] })).toEqual([0, null]);
  });

  test("reads chunk, changes and position in one snapshot while a writer goes on", async () => {
    const { shapes, position } = await armed(pair(), "items");
    const { source } = pair();
    const stop = new AbortController();
    const writer = (async (): Promise<void> => {
      for (let id = 1; !stop.signal.aborted && id <= 2_000; id += 1) {
        await pair().sql("source", insertItems("a", id));
        await new Promise(setImmediate);
      }
    })();
    const [table] = shapes;
    if (table === undefined) throw new Error("There is a table.");
    try {
      for (let round = 0; round < 25; round += 1) {
        const request = { ...chunkOf(table, { limit: 5_000 }), from: position, changesMax: 5_000 };
        const answer = await source.read(request);
        // Ids are given out without a gap, so each change is one row of the same snapshot.
        expect(answer.chunk?.rows.count).toBe(answer.changes.length);
        expect(answer.changed?.rows).toBe(answer.changes.length);
        const again = await source.read(changesSince(shapes, position, { to: answer.position }));
        expect(again.changes.length).toBe(Math.min(1_000, answer.changes.length));
        await new Promise(setImmediate);
      }
    } finally {
      stop.abort();
      await writer;
    }
  });

  test("judges by the cursor which keys it has passed, across tables", async () => {
    const { shapes, position } = await armed(pair(), "items", "lines", "handles");
    await pair().sql("source", insertItems("a", 1));
    const lines = ["('a', 'b', 1)", "('a', 'b', 10)", "('a', 'b', 9)", "('a', 'c', 0)"];
    await pair().sql("source", `insert into lines (tenant, sku, line) values ${lines.join(", ")}`);
    await pair().sql("source", "insert into handles (id, tenant) values (1, 'a')");
    const covered = async (cursor: { table: number; key: string[] | null }): Promise<boolean[]> => {
      const request = changesSince(shapes, position, { cursor });
      return (await pair().source.read(request)).changes.map((change) => change.covered);
    };
    const [nine] = (await pair().source.read(changesSince(shapes, position))).changes
      .filter(({ table, key }) => table === "lines" && key[1] === "9")
      .map(({ key }) => [...key]);
    expect(await covered({ table: 0, key: null })).toEqual(Array(6).fill(false));
    expect(await covered({ table: 1, key: null })).toEqual([
      true,
      ...Array<boolean>(5).fill(false),
    ]);
    expect(await covered({ table: 1, key: nine ?? null })).toEqual([
      true,
      true,
      false,
      true,
      false,
      false,
    ]);
    expect(await covered({ table: 2, key: null })).toEqual([true, true, true, true, true, false]);
    expect(await covered({ table: 3, key: null })).toEqual(Array(6).fill(true));
  });

  test("gives the digest of the changed keys that are covered and still in scope", async () => {
    const { shapes, position } = await armed(pair(), "items");
    const { source } = pair();
    await pair().sql("source", insertItems("a", 1, 2, 3, 4));
    await pair().sql("source", "update items set tenant = 'b' where id = 1");
    await pair().sql("source", "delete from items where id = 2");
    const all = await source.read(changesSince(shapes, position));
    expect(all.changed?.rows).toBe(2);
    const cursor = { table: 0, key: ["3"] };
    const some = await source.read(changesSince(shapes, position, { cursor }));
    expect(some.changed?.rows).toBe(1);
    expect(some.changed?.digest).not.toBe(all.changed?.digest);
  });

  test("gives to whom writes wait for just what it gives to others", async () => {
    const { shapes, position } = await armed(pair(), "items", "lines", "handles");
    const { source } = pair();
    const asked = [
      changesSince(shapes, position),
      changesSince(shapes, position, { changesMax: 3 }),
      changesSince(shapes, position, { cursor: { table: 1, key: null } }),
      changesSince(shapes, position, { cursor: { table: 0, key: ["2"] } }),
      changesSince(shapes, position, { scope: tenantScope(["it's"]) }),
      changesSince(shapes, position, { scope: [] }),
    ];
    const compare = async (): Promise<void> => {
      for (const request of asked) {
        const { position: _, ...plain } = await source.read(request);
        expect(await source.read({ ...request, isAwaited: true })).toMatchObject(plain);
      }
    };
    await compare();
    await pair().sql("source", insertItems("a", 1, 2, 3, 4));
    await pair().sql("source", insertItems("it''s", 5, 6));
    await pair().sql("source", "insert into lines (tenant, sku, line) values ('a', 'é,\"', 1)");
    await compare();
    await pair().sql("source", "update items set tenant = 'b' where id = 1");
    await pair().sql("source", "update lines set line = 2");
    await pair().sql("source", "delete from items where id in (2, 5)");
    await pair().sql("source", insertItems("a", 2));
    await compare();
    const all = await source.read({ ...changesSince(shapes, position), isAwaited: true });
    expect(all).toMatchObject({ complete: true, changed: { rows: 4 } });
  });

  test("pages through changes one by one up to a position that stays", async () => {
    const { shapes, position } = await armed(pair(), "items");
    const { source } = pair();
    await pair().sql("source", insertItems("a", 1, 2));
    await pair().sql("source", insertItems("b", 3));
    await pair().sql("source", insertItems("a", 4));
    const first = await source.read(changesSince(shapes, position, { changesMax: 1 }));
    expect(first).toMatchObject({ complete: false, changed: null });
    const seen = spelled(first.changes);
    let afterId = first.through_id;
    await pair().sql("source", insertItems("a", 5));
    for (let complete = false; !complete; ) {
      const paged = { changesMax: 1, to: first.position, after_id: afterId };
      const page = await source.read(changesSince(shapes, position, paged));
      expect(page).toMatchObject({ position: first.position, changed: null });
      seen.push(...spelled(page.changes));
      ({ complete } = page);
      afterId = page.through_id ?? afterId;
    }
    expect(seen).toEqual(["put items 1", "put items 2", "put items 4"]);
    const rest = await source.read(changesSince(shapes, first.position));
    expect(spelled(rest.changes)).toEqual(["put items 5"]);
  });

  test("reads no changes when it is asked for none", async () => {
    const { shapes } = await armed(pair(), "items");
    await pair().sql("source", insertItems("a", 1));
    const [table] = shapes;
    if (table === undefined) throw new Error("There is a table.");
    const answer = await pair().source.read(chunkOf(table));
    expect(answer).toMatchObject({ changes: [], complete: true, through_id: null });
    expect(answer.chunk?.rows.count).toBe(1);
  });

  test("keeps to the scope: tenants, ranges, hashes, and what is none of these", async () => {
    await armed(pair(), "items");
    const { source } = pair();
    const tenants = ["a", "b", "c", "it's", "é", "x y"];
    for (const [index, tenant] of tenants.entries()) {
      await pair().sql("source", insertItems(tenant.replaceAll("'", "''"), index));
    }
    const table = await shapeOf(source, "items");
    const inScope = async (scope: Scope): Promise<number> =>
      (await source.digest({ table, scope })).rows;
    const bucket = (value: string): number =>
      createHash("sha256").update(value, "utf8").digest().readUInt32BE(0) % 3;
    const inOne = tenants.filter((tenant) => bucket(tenant) === 1).length;
    const hashed: ScopeTest = { is: "hash", modulus: 3, buckets: [1] };

    expect(await inScope([])).toBe(6);
    expect(await inScope(tenantScope(["it's", "é", "none"]))).toBe(2);
    expect(await inScope(tenantScope([]))).toBe(0);
    expect(await inScope([{ any: [{ is: "in", values: ["a", "b"] }], negate: true }])).toBe(4);
    expect(await inScope([{ any: [hashed], negate: false }])).toBe(inOne);
    expect(await inScope([{ any: [hashed], negate: true }])).toBe(6 - inOne);
    const between = { is: "between", from: "b", below: "d" } as const;
    expect(await inScope([{ any: [between], negate: false }])).toBe(2);
    expect(await inScope([{ any: [{ ...between, from: null }], negate: false }])).toBe(3);
    const both = [
      { any: [between], negate: false },
      { any: [{ is: "in" as const, values: ["c", "a"] }], negate: false },
    ];
    expect(await inScope(both)).toBe(1);
  });
}
