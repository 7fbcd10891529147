import { describe, expect, test } from "vitest";
import { LedgerWorld } from "../../test/properties/ledger-world.ts";
import { addPartitionKeys } from "./add-partition-keys.ts";
import { createBackfill } from "./create-backfill.ts";
import { collectStale } from "./stale-partitions.ts";
import { addToSurvey, beginStaleSurvey, type StaleSurvey } from "./stale-targets.ts";

const TENANTS = { type: "dynamic", name: "tenants" };
const GRID = {
  type: "multi",
  dimensions: { day: { type: "static", keys: ["mon", "tue"] }, tenant: TENANTS },
};

function addKey(world: LedgerWorld, asset_key: string, key: string): void {
  const dimension = asset_key === "grid" ? { dimension: "tenant" } : {};
  world.submit(addPartitionKeys({ asset_key, keys: [key], request_id: key, ...dimension }));
}

function survey(world: LedgerWorld, asset: string): StaleSurvey {
  const begun = world.evaluate(beginStaleSurvey([asset])).result;
  const { result } = world.evaluate((rows, context) => ({
    events: [],
    result: collectStale(rows, [asset], context, { budget: 100, limit: 100 }),
  }));
  addToSurvey(begun, result);
  return begun;
}

function create(world: LedgerWorld, asset: string, stale: StaleSurvey) {
  return world.submit(
    createBackfill(
      {
        client_request_id: "r",
        assets: [asset],
        selector: { type: "stale", limit: 100 },
        chunk_size: 10,
        max_concurrent_runs: 1,
        order: "ascending",
        priority: 0,
        allow_overlap: false,
        continue_on_failure: false,
      },
      stale,
    ),
  );
}

describe("staleTargets", () => {
  test("holds what was found, whatever keys come after it", () => {
    const world = new LedgerWorld();
    world.publish({ asset_key: "list", partitions: TENANTS });
    addKey(world, "list", "x");
    const stale = survey(world, "list");
    addKey(world, "list", "y");
    expect(create(world, "list", stale)).toMatchObject({
      total_partitions: 1,
      selector: { type: "stale", limit: 100, as_of: world.now },
      stale_reasons: { NEVER_MATERIALIZED: 1 },
    });
    expect(world.events.at(-1)).toMatchObject({
      type: "KeysSurveyed",
      data: { parts: [{ from: 0, to: 0 }] },
    });
  });

  test("refuses when keys came among those that were looked at, or the definition is another", () => {
    const world = new LedgerWorld();
    world.publish({ asset_key: "grid", partitions: GRID });
    addKey(world, "grid", "x");
    const stale = survey(world, "grid");
    addKey(world, "grid", "y");
    expect(() => create(world, "grid", stale)).toThrow("The partitions of grid changed");
    const again = survey(world, "grid");
    world.publish({ asset_key: "grid", partitions: { type: "static", keys: ["a"] } });
    expect(() => create(world, "grid", again)).toThrow("The partitions of grid changed");
  });
});
