import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { runAll, wish } from "../../../test/properties/backfill-world.ts";
import { LedgerWorld, refusalOf } from "../../../test/properties/ledger-world.ts";
import { intervalsOf } from "../../kernel/intervals.ts";
import type { PartitionDefinition } from "../../kernel/keyspace/definition.ts";
import { boundOf, type Keyspace, removedIn } from "../../kernel/keyspace/keyspace.ts";
import { pinnedKeyspace } from "../../kernel/keyspace/keyspace-of.ts";
import {
  sameKeys,
  selectionOfIntervals,
  selectionOfScattered,
  selectionsOverlap,
} from "../../kernel/keyspace/selection.ts";
import { currentAsset, currentKeyspace, dynamicKeysOf } from "../asset/look-up.ts";
import { collectStale } from "../asset/stale.ts";
import { createBackfill, retryBackfill } from "../backfill/create.ts";
import { requestRun } from "../run/request.ts";
import { addPartitionKeys, refuseManyKeys, removePartitionKeys } from "./partition-keys.ts";

const D: PartitionDefinition = { type: "dynamic", name: "d" };
const GRID: PartitionDefinition = {
  type: "multi",
  dimensions: { d: { type: "dynamic", name: "d" }, n: { type: "static", keys: ["1", "2"] } },
};

function worldOf(partitions: PartitionDefinition = D): LedgerWorld {
  const world = new LedgerWorld();
  world.publish({ asset_key: "a", partitions });
  return world;
}

let requests = 0;

function add(world: LedgerWorld, ...keys: string[]) {
  const request_id = `request-${++requests}`;
  return world.submit(addPartitionKeys({ asset_key: "a", request_id, keys }));
}

function remove(world: LedgerWorld, ...keys: string[]) {
  const request_id = `request-${++requests}`;
  return world.submit(removePartitionKeys({ asset_key: "a", request_id, keys }));
}

/** What an asset has now. */
function keyspace(world: LedgerWorld): Keyspace {
  return world.read((rows) => {
    const found = currentKeyspace(rows, currentAsset(rows, "a").spec, world.context());
    if (found === null) throw new Error("It has partitions.");
    return found;
  });
}

const ALL = ["a", "b", "c", "d", "e", "f"];

function keysIn(world: LedgerWorld): string[] {
  const all = keyspace(world);
  return world.read(() => all.slice(0, all.count));
}

type Change = { keys: string[]; isRemoval: boolean };

const changes: fc.Arbitrary<Change[]> = fc.array(
  fc.record({
    keys: fc.subarray(ALL, { minLength: 1 }),
    isRemoval: fc.boolean(),
  }),
  { minLength: 1, maxLength: 12 },
);

describe("removed keys", () => {
  test("I90: are not in the keyspace, and a key that comes back has its old place", () => {
    fc.assert(
      fc.property(changes, (all) => {
        const world = worldOf();
        const numbered: string[] = [];
        const removed = new Set<string>();
        for (const { keys, isRemoval } of all) {
          if (isRemoval) {
            const gone = keys.filter((key) => numbered.includes(key) && !removed.has(key));
            expect(remove(world, ...keys)).toMatchObject({
              removed: gone.length,
              absent: keys.length - gone.length,
            });
            for (const key of gone) removed.add(key);
          } else {
            const added = keys.filter((key) => !numbered.includes(key) || removed.has(key));
            expect(add(world, ...keys)).toMatchObject({ added: added.length });
            for (const key of keys) {
              if (!numbered.includes(key)) numbered.push(key);
              removed.delete(key);
            }
          }
          const left = numbered.filter((key) => !removed.has(key));
          expect(keysIn(world)).toEqual(left);
          const now = keyspace(world);
          const found = world.read(() => now.indexesOf(ALL));
          expect(found).toEqual(ALL.map((key) => (left.includes(key) ? left.indexOf(key) : null)));
        }
      }),
      { numRuns: 200 },
    );
  });

  test("I90: are removed and added again once, by events that name them", () => {
    const world = worldOf();
    add(world, "a", "b", "c", "d");
    expect(remove(world, "d", "b", "x", "b")).toEqual({
      definition: "d",
      removed: 2,
      absent: 1,
      count: 2,
    });
    expect(remove(world, "b")).toMatchObject({ removed: 0, absent: 1, count: 2 });
    expect(add(world, "e", "b")).toEqual({ definition: "d", added: 2, existing: 0, count: 4 });
    expect(add(world, "b", "a")).toMatchObject({ added: 0, existing: 2 });
    expect(world.events.slice(1).map(({ type, data }) => [type, data])).toEqual([
      ["PartitionKeysAdded", expect.objectContaining({ keys: ["a", "b", "c", "d"] })],
      [
        "PartitionKeysRemoved",
        expect.objectContaining({
          keys: ["b", "d"],
          numbers: [
            [1, 1],
            [3, 3],
          ],
        }),
      ],
      ["PartitionKeysRestored", expect.objectContaining({ keys: ["b"], numbers: [[1, 1]] })],
      ["PartitionKeysAdded", expect.objectContaining({ keys: ["e"], first_ordinal: 4 })],
    ]);
    expect(keysIn(world)).toEqual(["a", "b", "c", "e"]);
  });

  test("are refused where they are selected, with the keys that are left", () => {
    const world = worldOf();
    add(world, "a", "b", "c");
    remove(world, "c");
    const run = requestRun({ request_id: "1", assets: ["a"], partition_keys: ["c"] });
    const { code, message } = refusalOf(() => world.submit(run));
    expect(code).toBe("PARTITION_INVALID");
    expect(message).toContain('no partition "c": the 2 keys go from a to b');
    expect(message).toContain("pawl partitions add");
    const none = worldOf({ type: "static", keys: ["a"] });
    expect(refusalOf(() => remove(none, "a")).message).toContain(
      "has no dynamic partitions, so no key can be added or removed.",
    );
  });

  test("I90: are never stale, and what was made of them stays known", () => {
    const world = worldOf();
    add(world, "a", "b", "c");
    world.submit(createBackfill(wish({ client_request_id: "all" })));
    runAll(world);
    remove(world, "b");
    // Everything that is there is stale now.
    world.publish({ asset_key: "a", partitions: D, code_version: "1" });
    world.submit(createBackfill(wish({ client_request_id: "again" })));
    runAll(world);
    world.publish({ asset_key: "a", partitions: D, code_version: "2" });
    const { found } = world.evaluate((rows, context) => ({
      events: [],
      result: collectStale(rows, ["a"], context, { budget: 100, limit: 100 }),
    })).result;
    expect(found.map(({ key }) => key)).toEqual(["a", "c"]);
    const made = world.runs().flatMap(({ partition_keys }) => partition_keys ?? []);
    expect(made.toSorted()).toEqual(["a", "a", "b", "c", "c"]);
  });
});

describe("backfills of dynamic keys", () => {
  const one = { chunk_size: 1, max_concurrent_runs: 10, allow_overlap: true };
  const plannedBy = (world: LedgerWorld, id: string): (readonly string[])[] =>
    world
      .runs()
      .filter(({ backfill_id }) => backfill_id === id)
      .map(({ partition_keys }) => partition_keys ?? []);

  test("I28: cover what they selected, whatever is removed and added while they go on", () => {
    fc.assert(
      fc.property(changes, changes, fc.boolean(), (before, after, isGrid) => {
        const world = worldOf(isGrid ? GRID : D);
        const change = ({ keys, isRemoval }: Change): void => {
          if (isRemoval) remove(world, ...keys);
          else add(world, ...keys);
        };
        add(world, "b", "z");
        for (const each of before) change(each);
        add(world, "q");
        const selected = keysIn(world);
        const input = { ...wish({ client_request_id: "1" }), ...one, max_concurrent_runs: 1 };
        const { backfill_id, total_partitions } = world.submit(createBackfill(input));
        expect(total_partitions).toBe(selected.length);
        for (const each of after) {
          change(each);
          runAll(world);
        }
        runAll(world);
        expect(plannedBy(world, backfill_id).flat()).toEqual(selected);

        const now = keysIn(world);
        if (now.length === 0) return;
        const later = createBackfill({ ...wish({ client_request_id: "2" }), ...one });
        const { backfill_id: second } = world.submit(later);
        runAll(world);
        expect(plannedBy(world, second).flat()).toEqual(now);
      }),
      { numRuns: 60 },
    );
  });

  test("I28: a retry is of the keys that failed, also of those that were removed since", () => {
    const world = worldOf();
    add(world, "a", "b", "c", "d");
    remove(world, "a");
    const { backfill_id } = world.submit(createBackfill({ ...wish({}), ...one }));
    runAll(world, "c");
    remove(world, "b", "c");
    const retry = retryBackfill({ backfill_id, retry_request_id: "r", missing: false });
    const { backfill_id: second } = world.submit(retry);
    runAll(world);
    expect(plannedBy(world, second)).toEqual([["c"]]);
  });

  test("have another plan where a key of the selection is another by now", () => {
    const world = worldOf();
    add(world, "a", "b", "c", "d");
    remove(world, "b");
    const selection = { type: "range", start: "a", end: "d" } as const;
    const before = keysIn(world);
    const pinned = world.submit(createBackfill({ ...wish({ selector: selection }), ...one }));
    remove(world, "c");
    add(world, "b");
    expect(before).toEqual(["a", "c", "d"]);
    expect(keysIn(world)).toEqual(["a", "b", "d"]);
    runAll(world);
    expect(plannedBy(world, pinned.backfill_id)).toEqual([["a"], ["c"], ["d"]]);
  });

  test("I28: overlap exactly where they have a key in common, however they number it", () => {
    const drawn = fc.tuple(changes, changes, fc.boolean(), fc.boolean(), fc.func(fc.boolean()));
    fc.assert(
      fc.property(drawn, ([first, second, isGrid, isScattered, picks]) => {
        const definition = isGrid ? GRID : D;
        const world = worldOf(definition);
        const sideAfter = (all: readonly Change[], name: string) => {
          for (const { keys, isRemoval } of all) {
            if (isRemoval) remove(world, ...keys);
            else add(world, ...keys);
          }
          const now = keyspace(world);
          const pinned = { bound: boundOf(now), removed: removedIn(now) };
          const keys = keysIn(world);
          const ordinals = keys.flatMap((key, at) => (picks(`${name} ${key}`) ? [at] : []));
          return { ...pinned, keys, ordinals, intervals: intervalsOf(ordinals) };
        };
        const sides = [sideAfter(first, "first"), sideAfter(second, "second")] as const;
        world.read((rows) => {
          const [one_, other] = sides.map(({ bound, removed, intervals }) => {
            const own = pinnedKeyspace(definition, dynamicKeysOf(rows), bound, removed);
            const selection =
              isGrid || isScattered
                ? selectionOfScattered(intervals)
                : selectionOfIntervals(intervals);
            return { definition, keyspace: own, selection, intervals };
          });
          if (one_ === undefined || other === undefined) throw new Error("There are two.");
          const taken = sides.map(({ keys, ordinals }) => ordinals.map((at) => keys[at]));
          const shared = taken[0]?.filter((key) => taken[1]?.includes(key)) ?? [];
          expect(selectionsOverlap(one_, other)).toBe(shared.length > 0);
          const moved = sameKeys(one_, other, one_.intervals).flatMap(([from, to]) =>
            other.keyspace.slice(from, to - from + 1),
          );
          const there = taken[0]?.filter((key) => sides[1].keys.includes(key ?? "")) ?? [];
          expect(new Set(moved)).toEqual(new Set(there));
          expect(moved).toHaveLength(there.length);
        });
      }),
      { numRuns: 300 },
    );
  });
});

test("I76: no more keys are added at once than one commit takes, of however many definitions", () => {
  const told = (): void => refuseManyKeys("d", 10_000, 20_001);
  expect(told).toThrow("20001 keys are to be added at once; at most 20000 may be.");
  expect(() => refuseManyKeys("d", 10_000, 20_000)).not.toThrow();
  expect(() => refuseManyKeys("d", 10_001)).toThrow("10001 keys are to be added to d at once");
});
