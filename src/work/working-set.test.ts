import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { PoolRow } from "./run/rows.ts";
import { compareRows, type Find, fulfils, keyText, type Order } from "../kernel/table.ts";
import { TABLES } from "./tables.ts";
import { RowsMissing, WorkingSet } from "./working-set.ts";

/** A database of pools, and a working set over it that loads what it misses. */
class Pools {
  readonly stored = new Map<string, PoolRow>();
  readonly set = new WorkingSet();
  readonly table = TABLES.pools;
  loads = 0;

  constructor(rows: readonly PoolRow[]) {
    for (const row of rows) this.stored.set(row.pool, row);
  }

  /** Runs pure code until all it reads is in memory. */
  run<Result>(body: () => Result): Result {
    for (;;) {
      try {
        return body();
      } catch (error) {
        if (!(error instanceof RowsMissing)) throw error;
        this.#load(error);
      }
    }
  }

  #load({ keys, find }: RowsMissing): void {
    this.loads += 1;
    for (const { keys: missing } of keys) {
      const rows = missing.flatMap((key) => this.stored.get(keyText(key)) ?? []);
      this.set.loaded(this.table, missing, rows);
    }
    if (find !== null) this.set.found(find, found([...this.stored.values()], find));
  }

  get(pool: string): PoolRow | null {
    return this.run(() => this.set.rows.pools.get(pool));
  }

  put(row: PoolRow): void {
    this.get(row.pool);
    this.set.rows.pools.put(row);
  }

  /** Writes what was changed, as a store does. */
  commit(): void {
    for (const { inserted, updated, deleted } of this.set.changes()) {
      for (const row of inserted as PoolRow[]) {
        expect(this.stored.has(row.pool), `${row.pool} is inserted once`).toBe(false);
        this.stored.set(row.pool, row);
      }
      for (const row of updated as PoolRow[]) this.stored.set(row.pool, row);
      for (const key of deleted) this.stored.delete(keyText(key));
    }
    this.set.committed();
  }
}

function found(rows: readonly PoolRow[], find: Find): PoolRow[] {
  return rows
    .filter((row) => fulfils(row, find))
    .toSorted((a, b) => compareRows(a, b, find.order))
    .slice(0, find.limit);
}

const BY_RUNNING: Order[] = [{ cell: "running" }, { cell: "pool", descending: true }];
const rowOf = (pool: string, running: number): PoolRow => ({ pool, running });

describe("WorkingSet", () => {
  test("has no stored row overtaken by a changed one beyond what was read", () => {
    const pools = new Pools([rowOf("a", 1), rowOf("b", 2), rowOf("c", 3)]);
    pools.put(rowOf("a", 9));

    const first = pools.run(() => pools.set.rows.pools.find([], BY_RUNNING, 2));

    expect(first).toEqual([rowOf("b", 2), rowOf("c", 3)]);
  });

  test("knows nothing of a row whose unseen deletion was refused", () => {
    const pools = new Pools([rowOf("a", 1)]);

    pools.set.rows.pools.delete("a");
    pools.set.refuse();

    expect(pools.get("a")).toEqual(rowOf("a", 1));
  });

  test("writes nothing for a row that came and went in one transaction", () => {
    const pools = new Pools([]);
    pools.set.rows.pools.insert(rowOf("a", 1));
    pools.set.rows.pools.delete("a");
    pools.set.accept();

    expect(pools.set.changes()).toEqual([
      { table: TABLES.pools, inserted: [], updated: [], deleted: [] },
    ]);
  });

  test("reads all rows that are needed with one load", () => {
    const pools = new Pools([rowOf("a", 1), rowOf("b", 2)]);

    pools.run(() => pools.set.rows.pools.need([["a"], ["b"], ["c"]]));

    expect(pools.loads).toBe(1);
    expect(pools.get("c")).toBeNull();
    expect(pools.loads).toBe(1);
  });

  test("I108: answers a look-up that left nothing out from commit to commit, with what was changed", () => {
    const pools = new Pools([rowOf("a", 1), rowOf("b", 2), rowOf("c", 3)]);
    const busy = (limit: number): PoolRow[] =>
      pools.run(() =>
        pools.set.rows.pools.find([{ cell: "running", is: ">", value: 1 }], BY_RUNNING, limit),
      );
    busy(5);
    pools.put(rowOf("a", 4));
    pools.put(rowOf("b", 0));
    pools.set.accept();
    pools.commit();
    const { loads } = pools;
    expect(busy(5)).toEqual([rowOf("c", 3), rowOf("a", 4)]);
    pools.set.rows.pools.delete("c");
    pools.set.accept();
    pools.commit();
    expect(busy(5)).toEqual([rowOf("a", 4)]);
    expect(pools.loads).toBe(loads);
  });

  test("I108: asks again for what left something out, what nobody asked for, and what others may have changed", () => {
    const pools = new Pools([rowOf("a", 1), rowOf("b", 2), rowOf("c", 3)]);
    const all = (limit: number): number => {
      const before = pools.loads;
      pools.run(() => pools.set.rows.pools.find([], BY_RUNNING, limit));
      return pools.loads - before;
    };
    expect([all(2), all(2)]).toEqual([1, 0]);
    pools.commit();
    expect([all(2), all(4)]).toEqual([1, 1]);
    pools.commit();
    expect(all(4)).toBe(0);
    pools.commit();
    pools.commit();
    expect(all(4)).toBe(1);
    pools.set.forget();
    expect(all(4)).toBe(1);
  });

  test("I64: keeps few answers, and none about very many names, from commit to commit", () => {
    const pools = new Pools([]);
    const asked = (names: readonly string[]): number => {
      const before = pools.loads;
      const where = [{ cell: "pool", is: "in", values: names }] as const;
      pools.run(() => pools.set.rows.pools.find(where, BY_RUNNING, 4));
      return pools.loads - before;
    };
    const many = Array.from({ length: 1_000 }, (_, index) => `pool-${index}`);
    asked(many);
    for (let index = 0; index < 100; index++) asked([`${index}`]);
    pools.commit();
    expect(asked(many)).toBe(1);
    const again = Array.from({ length: 100 }, (_, index) => asked([`${index}`]));
    expect(again.reduce((sum, loads) => sum + loads, 0)).toBeGreaterThan(50);
  });

  test("refuses a write of a row that was not read", () => {
    const pools = new Pools([]);
    expect(() => pools.set.rows.pools.put(rowOf("a", 1))).toThrow("is read before it is written");
  });
});

type Step =
  | { do: "put" | "delete" | "unseen"; pool: string; running: number }
  | { do: "find"; least: number; limit: number }
  | { do: "accept" | "refuse" | "commit" | "forget" };

const pool = fc.constantFrom("a", "b", "c", "d", "e", "f", "g");
const running = fc.nat(6);
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 4, arbitrary: fc.record({ do: fc.constant("put" as const), pool, running }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("delete" as const), pool, running }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("unseen" as const), pool, running }) },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant("find" as const),
      least: running,
      limit: fc.integer({ min: 1, max: 9 }),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({ do: fc.constantFrom("accept", "refuse", "commit", "forget") }),
  } as { weight: number; arbitrary: fc.Arbitrary<Step> },
);

// Goal: a working set is the database with the changes on top, whatever was asked before.
// Method: the same steps on a plain map; a refusal goes back to the last accepted copy of it.
test("I76: runs with long configurations stay in memory in smaller numbers", () => {
  const kept = (length: number): boolean => {
    const set = new WorkingSet();
    const rows = Array.from({ length: 100 }, (_, run_pos) => {
      return { run_pos, partition_keys: [], config: { text: "x".repeat(length) } };
    });
    const keys = rows.map(({ run_pos }) => [run_pos]);
    set.loaded(TABLES.runs, keys, rows);
    set.committed();
    return set.has(TABLES.runs, [0]);
  };
  expect([kept(900_000), kept(1_100_000)]).toEqual([true, false]);
});

test("I6: shows the stored rows with every accepted change, and nothing of a refused decision", () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(pool, running)), fc.array(step), (rows, steps) => {
      const pools = new Pools(rows.map(([name, count]) => rowOf(name, count)));
      let model = new Map(pools.stored);
      let accepted = new Map(model);
      for (const each of steps) {
        switch (each.do) {
          case "put":
            pools.put(rowOf(each.pool, each.running));
            model.set(each.pool, rowOf(each.pool, each.running));
            break;
          case "delete":
            pools.get(each.pool);
            pools.set.rows.pools.delete(each.pool);
            model.delete(each.pool);
            break;
          case "unseen":
            pools.set.rows.pools.delete(each.pool);
            model.delete(each.pool);
            break;
          case "find": {
            const where = [{ cell: "running", is: ">=", value: each.least }] as const;
            const find: Find = { table: TABLES.pools, where, order: BY_RUNNING, limit: each.limit };
            const got = pools.run(() => pools.set.rows.pools.find(where, BY_RUNNING, each.limit));
            expect(got).toEqual(found([...model.values()], find));
            break;
          }
          case "refuse":
            pools.set.refuse();
            model = new Map(accepted);
            break;
          case "forget":
            // Somebody else wrote: only between transactions, when all is committed.
            pools.set.accept();
            pools.commit();
            pools.set.forget();
            accepted = new Map(model);
            break;
          default:
            pools.set.accept();
            if (each.do === "commit") pools.commit();
            accepted = new Map(model);
        }
        for (const name of model.keys()) expect(pools.get(name)).toEqual(model.get(name));
      }
      pools.set.accept();
      pools.commit();
      expect(new Map(pools.stored)).toEqual(model);
    }),
    { numRuns: 300 },
  );
});

test("keeps rows apart whose keys are numbers, however large these are", () => {
  const table = TABLES.taskBlocks;
  const part = fc.oneof(fc.nat(5_000), fc.maxSafeNat());
  const key = fc.tuple(part, part);
  fc.assert(
    fc.property(key, key, ([run, block], other) => {
      const set = new WorkingSet();
      set.loaded(table, [[run, block]], []);
      expect(set.has(table, [run, block])).toBe(true);
      expect(set.has(table, other)).toBe(run === other[0] && block === other[1]);
      // Where the parts of one would run into those of the next.
      if (run > 0) expect(set.has(table, [run - 1, block + 1_024])).toBe(false);
      if (block >= 1_024) expect(set.has(table, [run + 1, block - 1_024])).toBe(false);
    }),
  );
});
