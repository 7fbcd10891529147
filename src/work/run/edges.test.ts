import { describe, expect, test } from "vitest";
import { LedgerWorld, refsOf } from "../../../test/properties/ledger-world.ts";
import { PawlError } from "../../kernel/errors.ts";
import { addPartitionKeys } from "../definition/partition-keys.ts";
import { requestRun } from "./request.ts";
import { claimTasks } from "./claim.ts";

const ENDLESS = { type: "integers", start: 0 };

/** A world with the assets a and b, of which b is made from a. */
function worldOf(partitions: object, mapping: object, extra: object = {}): LedgerWorld {
  const ledger = new LedgerWorld();
  ledger.publish(
    { asset_key: "a", partitions, ...extra },
    { asset_key: "b", partitions, upstream: [{ asset_key: "a", mapping }], ...extra },
  );
  return ledger;
}

function requestKeys(ledger: LedgerWorld, keys: readonly string[]): void {
  ledger.submit(requestRun({ request_id: "r", assets: ["a", "b"], partition_keys: keys }));
}

function edgesOf(ledger: LedgerWorld): unknown {
  const event = ledger.events.at(-1);
  if (event?.type !== "RunRequested") throw new Error("No run was requested.");
  return event.data.tasks[1]?.upstream[0]?.edges;
}

function numbers(count: number): string[] {
  return Array.from({ length: count }, (_, index) => String(index));
}

describe("edgesOfRun", () => {
  test("joins everything, without a walk, where all of an endless upstream is needed", () => {
    const ledger = worldOf(ENDLESS, { type: "all" });
    requestKeys(ledger, ["5", "7"]);
    expect(edgesOf(ledger)).toBe("all");
  });

  test("joins only partitions of the run", () => {
    const ledger = worldOf(ENDLESS, { type: "offset", by: -1 });
    requestKeys(ledger, ["3", "5", "6", "7"]);
    expect(edgesOf(ledger)).toEqual([
      [1, 2],
      [2, 3],
    ]);
  });

  test("joins many keys that were added at run time with few look-ups", () => {
    const dimensions = {
      where: { type: "static", keys: ["eu", "us"] },
      who: { type: "dynamic", name: "d" },
    };
    const ledger = worldOf({ type: "multi", dimensions }, { type: "dimension", dimension: "who" });
    const keys = numbers(40).map((key) => `k,${key}`);
    const added = { asset_key: "a", dimension: "who", request_id: "keys", keys };
    ledger.submit(addPartitionKeys(added));
    const asked = numbers(40).map((key) => `where=eu,who=k%2C${key}`);
    const look = () => requestKeys(ledger, [...asked, "where=us,who=k%2C7"]);
    expect(ledger.lookUpsOf(look)).toBeLessThan(10);
    const same = numbers(40).map((key) => [Number(key), Number(key)]);
    same.splice(8, 0, [40, 7]);
    expect(edgesOf(ledger)).toEqual([...same, [7, 40], [40, 40]]);
  });

  test("joins a long window with what the run has of it", () => {
    const partitions = { type: "daily", start: "2020-01-01" };
    const mapping = { type: "time_window", start_offset: -1_000_000, end_offset: 0 };
    const ledger = worldOf(partitions, mapping);
    requestKeys(ledger, ["2021-01-01", "2022-01-01"]);
    expect(edgesOf(ledger)).toEqual([
      [0, 0],
      [0, 1],
      [1, 1],
    ]);
  });

  test.each([{ type: "all" }, { type: "time_window", start_offset: -2_000, end_offset: 0 }])(
    "refuses more edges than a run may have: %j",
    (mapping) => {
      const isTime = mapping.type === "time_window";
      const partitions = isTime ? { type: "hourly", start: "2025-01-01T00:00" } : ENDLESS;
      const ledger = worldOf(partitions, mapping);
      const keys = isTime
        ? Array.from({ length: 700 }, (_, hour) =>
            new Date(Date.UTC(2025, 0, 1, hour)).toISOString().replace(":00.000", ""),
          )
        : numbers(450);
      expect(() => requestKeys(ledger, keys)).toThrow(PawlError);
      expect(() => requestKeys(ledger, keys)).toThrow(/200000 edges/);
      expect(ledger.runs()).toEqual([]);
    },
  );

  test("joins each partition with its own where the mapping says so in other words", () => {
    const ledger = worldOf(ENDLESS, { type: "offset", by: 0 });
    requestKeys(ledger, ["5", "7"]);
    expect(edgesOf(ledger)).toBe("same");
  });

  test("counts a batch as one task", () => {
    const ledger = worldOf(ENDLESS, { type: "all" }, { batch: true });
    requestKeys(ledger, numbers(5_000));
    expect(edgesOf(ledger)).toBe("all");
  });
});

test("I76: holders are looked up no more often for many suspected tasks than for a few", () => {
  const world = new LedgerWorld();
  const assets = Array.from({ length: 60 }, (_, index) => `a${index}`);
  const retry = { jitter: 0, delay_ms: 1_000 };
  world.publish(...assets.map((asset_key) => ({ asset_key, retry })));
  const request = (id: string): void => {
    for (const asset of assets) {
      world.submit(requestRun({ request_id: `${id}-${asset}`, assets: [asset] }));
    }
  };
  const claim = (alone: boolean) => {
    const worker = { worker_id: "w", lease_id: "l", code_version: null, wait_ms: 0 };
    const asked = { ...worker, slots: 100, assets, alone };
    return world.submit(claimTasks(asked, undefined, () => null));
  };

  request("suspect");
  const error = { class: "crash", message: "it ended with the exit code 3." };
  for (const ref of refsOf(claim(false).groups)) {
    world.report({ ...ref, outcome: "FAILED", error, crashed: true });
  }
  request("holder");
  expect(claim(false).tasks).toHaveLength(60);
  world.pass(600_000);
  expect(world.lookUpsOf(() => expect(claim(true).tasks).toEqual([]))).toBeLessThan(20);
});
