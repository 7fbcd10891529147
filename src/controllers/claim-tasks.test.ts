import { describe, expect, test } from "vitest";
import { LedgerWorld, refsOf } from "../../test/properties/ledger-world.ts";
import type { ClaimedGroup } from "../core/protocol.ts";
import { createBackfill } from "./create-backfill.ts";
import { requestRun } from "./request-run.ts";

const KEYS = Array.from({ length: 12 }, (_, index) => `k${index}`);
const partitions = { type: "static", keys: KEYS };

function backfill(world: LedgerWorld, asset: string, extra: object = {}): void {
  world.submit(
    createBackfill({
      client_request_id: `request-${world.pos}`,
      assets: [asset],
      selector: { type: "all" },
      chunk_size: 12,
      max_concurrent_runs: 2,
      order: "ascending",
      priority: 0,
      allow_overlap: true,
      continue_on_failure: false,
      ...extra,
    }),
  );
  world.settle();
}

function request(world: LedgerWorld, asset: string, keys: readonly string[], id: string): void {
  world.submit(requestRun({ request_id: id, assets: [asset], partition_keys: keys }));
}

function taken(groups: readonly ClaimedGroup[], asset: string): number {
  return groups
    .filter(({ asset_key }) => asset_key === asset)
    .reduce((sum, { tasks }) => sum + tasks.length, 0);
}

describe("claimTasks", () => {
  test("gives an eighth to backfills while more urgent work waits", () => {
    const world = new LedgerWorld();
    world.publish({ asset_key: "old", partitions }, { asset_key: "new", partitions });
    backfill(world, "old");
    request(world, "new", KEYS, "now");

    const groups = world.claim(["old", "new"], 8);

    expect(taken(groups, "old")).toBe(1);
    expect(taken(groups, "new")).toBe(7);
  });

  test("serves backfills also by claims that are too small to be shared", () => {
    const world = new LedgerWorld();
    world.publish({ asset_key: "old", partitions }, { asset_key: "new", partitions });
    backfill(world, "old");
    for (let run = 0; run < 4; run++) {
      request(world, "new", KEYS.slice(3 * run, 3 * run + 3), `r${run}`);
    }

    const claims = Array.from({ length: 12 }, () => world.claim(["old", "new"], 1));

    expect(claims.some((groups) => taken(groups, "old") === 1)).toBe(true);
    expect(claims.filter((groups) => taken(groups, "new") === 1).length).toBeGreaterThan(8);
  });

  test("leaves no slot empty when there is only one kind of work", () => {
    const world = new LedgerWorld();
    world.publish({ asset_key: "old", partitions });
    backfill(world, "old");

    expect(taken(world.claim(["old"], 8), "old")).toBe(8);
  });

  test("takes the higher priority first, then the older run", () => {
    const world = new LedgerWorld();
    world.publish({ asset_key: "a", partitions }, { asset_key: "b", partitions });
    backfill(world, "a", { priority: 0 });
    backfill(world, "b", { priority: 5 });

    expect(taken(world.claim(["a", "b"], 3), "b")).toBe(3);
  });

  test("I43: never takes more of a pool than its limit leaves", () => {
    const world = new LedgerWorld();
    world.publish(
      { kind: "pool", pool: "narrow", limit: 3 },
      { asset_key: "a", partitions, pool: "narrow" },
      { asset_key: "b", partitions, pool: "narrow" },
    );
    backfill(world, "a");
    backfill(world, "b");

    const first = world.claim(["a", "b"], 2);
    const second = world.claim(["a", "b"], 9);

    expect(refsOf(first)).toHaveLength(2);
    expect(refsOf(second)).toHaveLength(1);
    expect(refsOf(world.claim(["a", "b"], 9))).toEqual([]);
    const [done] = refsOf(first);
    if (done !== undefined) world.report({ ...done, outcome: "FAILED", final: true });
    expect(refsOf(world.claim(["a", "b"], 9))).toHaveLength(1);
  });

  test("gives no partition to two tasks at once, in one claim or in two", () => {
    const world = new LedgerWorld();
    world.publish({ asset_key: "a", partitions });
    request(world, "a", ["k1", "k2"], "one");
    request(world, "a", ["k2", "k3"], "other");

    const groups = world.claim(["a"], 9);
    const keys = groups.flatMap(({ tasks }) =>
      tasks.flatMap(({ partition_keys }) => partition_keys),
    );

    expect(keys.toSorted()).toEqual(["k1", "k2", "k3"]);
    expect(world.claim(["a"], 9)).toEqual([]);
  });

  test("takes nothing of an asset that the worker does not have", () => {
    const world = new LedgerWorld();
    world.publish({ asset_key: "a", partitions });
    request(world, "a", ["k1"], "one");

    expect(world.claim(["b"])).toEqual([]);
  });

  test("takes a failed task again only when its time has come, and hands it what is left", () => {
    const world = new LedgerWorld();
    const retry = { delay_ms: 1_000, jitter: 0 };
    world.publish({ asset_key: "a", partitions, batch: true, retry });
    request(world, "a", ["k1", "k2", "k3"], "one");
    const [ref] = refsOf(world.claim(["a"]));
    if (ref === undefined) throw new Error("Nothing was claimed.");
    const exceptions = [{ index: 1, outcome: "FAILED" as const, error: null }];
    world.report({ ...ref, outcome: "SUCCEEDED", exceptions });

    world.pass(999);
    expect(world.claim(["a"])).toEqual([]);
    world.pass(1);
    expect(world.claim(["a"])[0]?.tasks).toEqual([
      { task_key: 0, attempt: 2, partition_keys: ["k2"], checkpoint: null },
    ]);
  });
});
