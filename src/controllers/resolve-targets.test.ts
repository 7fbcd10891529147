import { describe, expect, test } from "vitest";
import { LedgerWorld } from "../../test/properties/ledger-world.ts";
import type { Selector } from "../core/partitions/selector.ts";
import { addPartitionKeys } from "./add-partition-keys.ts";
import { resolveTargets } from "./resolve-targets.ts";

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
