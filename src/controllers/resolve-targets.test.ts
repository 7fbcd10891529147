import { describe, expect, test } from "vitest";
import { LedgerWorld } from "../../test/properties/ledger-world.ts";
import type { Selector } from "../core/partitions/selector.ts";
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
});
