import { describe, expect, test } from "vitest";
import { LedgerWorld } from "../../../test/properties/ledger-world.ts";
import type { Selector } from "../../kernel/keyspace/selector.ts";
import { addPartitionKeys } from "../definition/partition-keys.ts";
import { beginSurvey, resolveTargets, uniteSelectors } from "./targets.ts";
import type { DynamicKeys } from "../../kernel/keyspace/keyspace.ts";
import { keyspaceOf } from "../../kernel/keyspace/keyspace-of.ts";
import { PartitionDefinition } from "../../kernel/keyspace/definition.ts";
import { instantOf } from "../../kernel/instant.ts";

/** The selector of the last of the targets. */
function lastSelector(world: LedgerWorld, assets: string[], selector: Selector) {
  const targets = world.read((rows) => resolveTargets(rows, { assets, selector }, world.context()));
  return targets.at(-1)?.selector;
}

describe("resolveTargets", () => {
  const letters = { type: "static", keys: ["a", "b", "c"] };
  const sums = { type: "static", keys: ["1", "2", "3", "4"] };
  const madeFrom = (asset_key: string, map: Record<string, string[]>) => ({
    asset_key,
    mapping: { type: "table", map },
  });

  test("gives a follower what is made from any of its upstreams, not only from the first", () => {
    const world = new LedgerWorld();
    world.publish(
      { asset_key: "one", partitions: letters },
      { asset_key: "other", partitions: letters },
      {
        asset_key: "sum",
        partitions: sums,
        upstream: [
          madeFrom("one", { "1": ["a"], "2": ["b"] }),
          madeFrom("other", { "4": ["a"], "3": ["c"] }),
        ],
      },
    );
    const only = { type: "explicit" as const, partition_keys: ["a"] };
    expect(lastSelector(world, ["one", "other", "sum"], only)).toEqual({
      type: "explicit",
      partition_keys: ["1", "4"],
    });
    const last = { type: "explicit" as const, partition_keys: ["c"] };
    expect(lastSelector(world, ["one", "other", "sum"], last)).toEqual({
      type: "explicit",
      partition_keys: ["3"],
    });
  });

  test("takes a range of days for assets of every grain, and records their keys", () => {
    const world = new LedgerWorld();
    world.publish(
      { asset_key: "clicks", partitions: { type: "hourly", start: "2025-01-01" } },
      { asset_key: "sales", partitions: { type: "daily", start: "2025-01-01" } },
      { asset_key: "taxes", partitions: { type: "monthly", start: "2024-01" } },
    );
    const days = { type: "range" as const, start: "2025-01-02", end: "2025-01-03" };
    const targets = world.read((rows) =>
      resolveTargets(
        rows,
        { assets: ["clicks", "sales", "taxes"], selector: days },
        world.context(),
      ),
    );
    expect(
      targets.map(({ selector, total_partitions }) => ({ selector, total_partitions })),
    ).toEqual([
      {
        selector: { type: "range", start: "2025-01-02T00:00Z", end: "2025-01-03T23:00Z" },
        total_partitions: 48,
      },
      { selector: days, total_partitions: 2 },
      { selector: { type: "range", start: "2025-01", end: "2025-01" }, total_partitions: 1 },
    ]);
  });

  test("looks for what assets selected by lineage mean, and refuses one that came meanwhile", () => {
    const world = new LedgerWorld();
    const raw = { asset_key: "raw", partitions: letters };
    const made = (asset_key: string) => ({
      asset_key,
      partitions: letters,
      upstream: [{ asset_key: "raw", mapping: { type: "identity" } }],
    });
    world.publish(raw, made("sum"));
    const wish = {
      assets: ["sum", "raw+"],
      selector: { type: "all" as const, only: "missing" as const },
    };
    const survey = world.read((rows) => beginSurvey(wish)(rows, world.context()).result);
    expect([...survey.assets.keys()]).toEqual(["sum", "raw"]);
    world.publish(raw, made("sum"), made("later"));
    expect(() => world.read((rows) => resolveTargets(rows, wish, world.context(), survey))).toThrow(
      "The partitions of later changed while it was looked which of them to take. Ask again.",
    );
  });

  test("looks the keys of a table up together, however many were added at run time", () => {
    const world = new LedgerWorld();
    const keys = Array.from({ length: 40 }, (_, index) => `k${index}`);
    const map = Object.fromEntries(keys.map((key, at) => [key, [`u-${keys[39 - at]}`, "u-gone"]]));
    world.publish(
      { asset_key: "one", partitions: { type: "dynamic", name: "above" } },
      {
        asset_key: "sum",
        partitions: { type: "dynamic", name: "below" },
        upstream: [madeFrom("one", map)],
      },
    );
    const above = keys.map((key) => `u-${key}`);
    world.submit(addPartitionKeys({ asset_key: "one", request_id: "one", keys: above }));
    const below = keys.filter((key) => key !== "k7");
    world.submit(addPartitionKeys({ asset_key: "sum", request_id: "sum", keys: below }));
    const some = { type: "explicit" as const, partition_keys: ["u-k1", "u-k32", "u-k30"] };
    const resolve = () =>
      expect(lastSelector(world, ["one", "sum"], some)).toEqual({
        type: "explicit",
        partition_keys: ["k9", "k38"],
      });
    expect(world.lookUpsOf(resolve)).toBeLessThan(10);
  });
});

const NO_KEYS: DynamicKeys = {
  count: () => 0,
  keyAt: () => "",
  indexOf: () => null,
  prefetch: () => undefined,
};

function partitions(shape: object) {
  const definition = PartitionDefinition.parse(shape);
  return { definition, keyspace: keyspaceOf(definition, NO_KEYS, instantOf(0)) };
}

const NUMBERS = partitions({ type: "integers", start: 0, end: 99_999 });

function range(start: number, end: number): Selector {
  return { type: "range", start: String(start), end: String(end) };
}

describe("uniteSelectors", () => {
  test("is the one selector there is, and all when one of them is all", () => {
    expect(uniteSelectors([range(1, 2)], NUMBERS)).toEqual(range(1, 2));
    expect(uniteSelectors([range(1, 2), { type: "all" }], NUMBERS)).toEqual({ type: "all" });
  });

  test("is a range where they touch and a list of keys where they do not", () => {
    expect(uniteSelectors([range(1, 5), range(4, 9)], NUMBERS)).toEqual(range(1, 9));
    expect(uniteSelectors([range(7, 7), range(1, 2)], NUMBERS)).toEqual({
      type: "explicit",
      partition_keys: ["1", "2", "7"],
    });
  });

  test("is the range around them when they are too many to be listed", () => {
    expect(uniteSelectors([range(0, 9_999), range(50_000, 50_000)], NUMBERS)).toEqual(
      range(0, 50_000),
    );
  });

  test("is the ranges around them in several dimensions when they are too many", () => {
    const numbers = { type: "integers", start: 0, end: 999 };
    const pairs = partitions({ type: "multi", dimensions: { x: numbers, y: numbers } });
    const filter = (x: object, y: object) => ({ type: "filter", dimensions: { x, y } }) as Selector;
    const one = filter({ start: "0", end: "199" }, { start: "0", end: "99" });
    const other = filter({ start: "400", end: "400" }, { start: "7", end: "200" });
    expect(uniteSelectors([one, other], pairs)).toEqual(
      filter({ start: "0", end: "400" }, { start: "0", end: "200" }),
    );
  });
});
