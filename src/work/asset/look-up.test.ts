import { describe, expect, test } from "vitest";
import { LedgerWorld } from "../../../test/properties/ledger-world.ts";
import type { Rows } from "../rows.ts";
import { RowsMissing } from "../working-set.ts";
import { addPartitionKeys } from "../definition/partition-keys.ts";
import { requestRun } from "../run/request.ts";

const KEYS = Array.from({ length: 1_200 }, (_, index) => `k${index}`);

/** How often pure code asks for rows that are not in memory. */
function loadsOf(world: LedgerWorld, body: (rows: Rows) => void): number {
  let loads = 0;
  world.read((rows) => {
    try {
      body(rows);
    } catch (error) {
      if (error instanceof RowsMissing) loads += 1;
      throw error;
    }
  });
  return loads;
}

describe("dynamicKeysOf", () => {
  const add = addPartitionKeys({ asset_key: "a", request_id: "1", keys: KEYS });

  test("looks up many keys at once", () => {
    const world = new LedgerWorld();
    world.publish({ asset_key: "a", partitions: { type: "dynamic", name: "d" } });

    expect(loadsOf(world, (rows) => add(rows, world.context()))).toBeLessThan(5);
    expect(world.submit(add)).toMatchObject({ added: 1_200, count: 1_200 });
    const run = requestRun({ request_id: "1", assets: ["a"], partition_keys: KEYS });
    expect(loadsOf(world, (rows) => run(rows, world.context()))).toBeLessThan(5);
  });

  test("finds keys in one of several dimensions", () => {
    const world = new LedgerWorld();
    const dimensions = {
      d: { type: "dynamic", name: "d" },
      n: { type: "integers", start: 0, end: 3 },
    };
    world.publish({ asset_key: "a", partitions: { type: "multi", dimensions } });
    world.submit(add);

    const partition_keys = ["d=k7,n=2", "d=k3,n=0", "d=k3,n=1"];
    world.submit(requestRun({ request_id: "1", assets: ["a"], partition_keys }));

    expect(world.runs()[0]?.partition_keys).toEqual(["d=k3,n=0", "d=k3,n=1", "d=k7,n=2"]);
    const unknown = requestRun({ request_id: "2", assets: ["a"], partition_keys: ["d=no,n=2"] });
    expect(() => world.submit(unknown)).toThrow("d=no");
  });
});
