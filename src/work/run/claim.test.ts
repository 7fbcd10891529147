import { describe, expect, test } from "vitest";
import { LedgerWorld, refsOf } from "../../../test/properties/ledger-world.ts";
import type { ClaimedGroup, ClaimRequest } from "./protocol.ts";
import { claimTasks } from "./claim.ts";
import { createBackfill } from "../backfill/create.ts";
import { expireUncovered } from "./expire-leases.ts";
import { requestRun } from "./request.ts";

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

function claimRequest(assets: string[], slots: number): ClaimRequest {
  return { worker_id: "w", lease_id: "l", slots, assets, code_version: null, wait_ms: 0 };
}

function taken(groups: readonly ClaimedGroup[], asset: string): number {
  return groups
    .filter(({ asset_key }) => asset_key === asset)
    .reduce((sum, { tasks }) => sum + tasks.length, 0);
}

describe("claimTasks", () => {
  test("I76: takes no more partitions or configuration than one decision has room for, but one task", () => {
    const world = new LedgerWorld();
    const assets = ["a", "b", "c", "d"];
    world.publish(...assets.map((asset_key) => ({ asset_key, batch: true, partitions })));
    for (const asset of assets) request(world, asset, KEYS, asset);
    const claimed = (): number => world.claim(assets).length;
    world.room = { rows: 7, bytes: 1 };
    expect(claimed()).toBe(2);
    world.room = { rows: 1, bytes: 1 };
    expect([claimed(), claimed(), claimed()]).toEqual([1, 1, 0]);
    world.publish({ asset_key: "x" }, { asset_key: "y" });
    world.submit(requestRun({ request_id: "r", assets: ["x", "y"], config: "x".repeat(9) }));
    world.room = { rows: 9, bytes: 20 };
    expect([world.claim(["x", "y"]).length, world.claim(["x", "y"]).length]).toEqual([1, 1]);
  });

  test("I76: looks up no more often for many assets than for a few", () => {
    const world = new LedgerWorld();
    const assets = Array.from({ length: 60 }, (_, index) => `a${index}`);
    const pools = assets.map((name) => ({ kind: "pool", pool: name, limit: 9 }));
    world.publish(
      ...pools,
      ...assets.map((asset_key) => ({ asset_key, partitions, pool: asset_key })),
    );
    const cost = (): number => world.lookUpsOf(() => world.claim(assets));
    const costs = ["first", "second"].map((id) => {
      for (const asset of assets) request(world, asset, ["k1", "k2"], `${id}-${asset}`);
      return cost();
    });
    expect(taken(world.claim(assets), "a1")).toBe(0);
    expect(Math.max(...costs)).toBeLessThan(20);
  });

  test("I76: reads the tasks of no more runs than one decision has room for", () => {
    const world = new LedgerWorld();
    world.publish({ asset_key: "a", partitions });
    for (const [at, key] of KEYS.entries()) request(world, "a", [key], `r${at}`);
    world.room = { rows: 2, bytes: 1 };
    const counts = Array.from({ length: 13 }, () => world.claim(["a"]).length);
    expect(Math.max(...counts)).toBeLessThanOrEqual(10);
    expect(counts.reduce((sum, count) => sum + count, 0)).toBe(12);
  });

  test("gives an eighth to backfills while more urgent work waits", () => {
    const world = new LedgerWorld();
    world.publish({ asset_key: "old", partitions }, { asset_key: "new", partitions });
    backfill(world, "old");
    request(world, "new", KEYS, "now");

    const groups = world.claim(["old", "new"], 8);

    expect(taken(groups, "old")).toBe(1);
    expect(taken(groups, "new")).toBe(7);
  });

  test("serves backfills with one in eight of the claims that are too small to be shared", () => {
    const world = new LedgerWorld();
    world.publish({ asset_key: "old", partitions }, { asset_key: "new", partitions });
    backfill(world, "old");
    request(world, "new", KEYS, "now");

    const claimed = [0.124, 0.125, 0.9].map((random) =>
      world
        .evaluate((rows, context) =>
          claimTasks(claimRequest(["old", "new"], 1))(rows, { ...context, random: () => random }),
        )
        .result.groups.map(({ asset_key }) => asset_key),
    );

    expect(claimed).toEqual([["old"], ["new"], ["new"]]);
  });

  test("finds what is free behind any number of runs whose pool is full", () => {
    const world = new LedgerWorld();
    const numbers = { type: "integers", start: 0 };
    world.publish(
      { kind: "pool", pool: "narrow", limit: 1 },
      { asset_key: "a", partitions: numbers, pool: "narrow" },
      { asset_key: "b" },
    );
    for (let run = 0; run < 450; run++) request(world, "a", [String(run)], `a${run}`);
    world.submit(requestRun({ request_id: "b", assets: ["b"] }));

    const groups = world.claim(["a", "b"], 8);

    expect(groups.map(({ asset_key }) => asset_key)).toEqual(["a", "b"]);
  });

  test("finds what is free behind any number of runs whose partition is held", () => {
    const world = new LedgerWorld();
    world.publish({ asset_key: "a", partitions }, { asset_key: "b" });
    for (let run = 0; run < 450; run++) request(world, "a", ["k1"], `a${run}`);
    world.submit(requestRun({ request_id: "b", assets: ["b"] }));

    const groups = world.claim(["a", "b"], 8);

    expect(groups.map(({ asset_key }) => asset_key)).toEqual(["a", "b"]);
  });

  test("tries again what is its own, behind tasks of assets that it lacks or whose pool is full", () => {
    const world = new LedgerWorld();
    const numbers = { type: "integers", start: 0 };
    const retry = { delay_ms: 0, jitter: 0, max_attempts: null };
    const pool = (limit: number): object => ({ kind: "pool", pool: "narrow", limit });
    world.publish(
      pool(500),
      { asset_key: "gone", partitions: numbers, retry },
      { asset_key: "full", partitions: numbers, retry, pool: "narrow" },
      { asset_key: "b", retry },
    );
    const keys = Array.from({ length: 250 }, (_, index) => String(index));
    request(world, "gone", keys, "gone");
    request(world, "full", keys, "full");
    const failed = refsOf(world.claim(["gone", "full"], 500));
    world.report(...failed.map((ref) => ({ ...ref, outcome: "FAILED" as const })));
    world.pass(1);
    request(world, "full", ["1000"], "running");
    world.publish(pool(1));
    expect(refsOf(world.claim(["full"], 1))).toHaveLength(1);
    world.submit(requestRun({ request_id: "b", assets: ["b"] }));
    const [ref] = refsOf(world.claim(["b"]));
    if (ref === undefined) throw new Error("Nothing was claimed.");
    world.report({ ...ref, outcome: "FAILED" });

    const groups = world.claim(["full", "b"], 8);

    expect(groups.map(({ asset_key, tasks }) => [asset_key, tasks[0]?.attempt])).toEqual([
      ["b", 2],
    ]);
  });

  test("takes what is more urgent before what is only to be tried again", () => {
    const world = new LedgerWorld();
    const retry = { delay_ms: 0, jitter: 0, max_attempts: null };
    world.publish({ asset_key: "old", partitions, retry }, { asset_key: "new", partitions, retry });
    backfill(world, "old");
    const old = refsOf(world.claim(["old"], 4));
    world.report(...old.map((ref) => ({ ...ref, outcome: "FAILED" as const })));
    request(world, "new", ["k1", "k2"], "now");
    const [first] = refsOf(world.claim(["new"], 1));
    if (first === undefined) throw new Error("Nothing was claimed.");
    world.report({ ...first, outcome: "FAILED" });

    const groups = world.claim(["old", "new"], 4);

    expect(groups.map(({ asset_key, tasks }) => [asset_key, tasks.length])).toEqual([
      ["new", 2],
      ["old", 2],
    ]);
    expect(groups[1]?.tasks.map(({ attempt }) => attempt)).toEqual([2, 2]);
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

describe("a task whose lease ran out", () => {
  /** A world with a task whose lease ran out, and where the ledger ended before that. */
  function lostTask(): { world: LedgerWorld; before: number } {
    const world = new LedgerWorld();
    world.publish({ asset_key: "a", partitions });
    request(world, "a", ["k0"], "lost");
    world.claim(["a"]);
    const before = world.pos;
    world.submit((rows, context) => ({
      events: expireUncovered(rows, [], null, context).events,
      result: null,
    }));
    world.pass(60_000);
    return { world, before };
  }

  test("I78: is for nobody who was heard of before that only, and says so", () => {
    const { world, before } = lostTask();
    const claim = (heardPos: number) => world.submit(claimTasks(claimRequest(["a"], 5), heardPos));

    const nothing = { groups: [], tasks: [], isMore: false };
    expect(claim(before)).toEqual({ ...nothing, isUnheard: true });
    expect(claim(before + 1)).toMatchObject({ tasks: [{ attempt: 2 }], isUnheard: false });
  });

  test("I78: keeps no other task from whoever waits", () => {
    const { world, before } = lostTask();
    request(world, "a", ["k1"], "fresh");
    const { tasks } = world.submit(claimTasks(claimRequest(["a"], 5), before));
    expect(tasks).toMatchObject([{ attempt: 1 }]);
  });

  test("I78: is for anybody again once it has been held and failed", () => {
    const { world, before } = lostTask();
    const [ref] = refsOf(world.claim(["a"]));
    if (ref !== undefined) world.report({ ...ref, outcome: "FAILED" });
    world.pass(60_000);
    const { tasks } = world.submit(claimTasks(claimRequest(["a"], 5), before));
    expect(tasks).toMatchObject([{ attempt: 3 }]);
  });
});

describe("a task that is suspected of taking processes down", () => {
  const crash = { class: "crash", message: "it ended with the exit code 3." };

  /** A world with a task of a process that crashed, and one that is ready. */
  function suspected(...results: object[]): LedgerWorld {
    const world = new LedgerWorld();
    world.publish({ asset_key: "a", partitions, retry: { jitter: 0, delay_ms: 1_000 } });
    request(world, "a", ["k0"], "suspect");
    for (const result of results) {
      const [ref] = refsOf(world.claim(["a"]));
      if (ref !== undefined) world.report({ ...ref, outcome: "FAILED", ...result });
      world.pass(600_000);
    }
    request(world, "a", ["k1", "k2"], "fresh");
    return world;
  }

  const ask = (world: LedgerWorld, alone?: boolean, drained: number | null = 0) =>
    world.submit(
      claimTasks(
        { ...claimRequest(["a"], 5), ...(alone === undefined ? {} : { alone }) },
        Number.MAX_SAFE_INTEGER,
        () => drained,
      ),
    );

  test.each([
    ["shared a process that crashed", [{ error: crash, crashed: true }]],
    ["was alone in one that crashed", [{ error: crash }]],
    ["was given back since", [{ error: crash, crashed: true }, { released: true }]],
    ["was lost twice in a row", [{ crashed: true }, { crashed: true }]],
  ])("I78: runs alone when it %s", (_, results) => {
    const world = suspected(...results);
    const attempt = results.length + 1;

    expect(ask(world, false, null)).toMatchObject({ tasks: [{ attempt: 1 }, { attempt: 1 }] });
    expect(ask(world, false, 0)).toMatchObject({ tasks: [], suspects_wait: true });
    expect(ask(world, true)).toMatchObject({ tasks: [{ attempt }], alone_ms: expect.any(Number) });
    expect(ask(world, true).tasks).toEqual([]);
  });

  test("I78: goes first to who is alone, and to nobody beside it", () => {
    const world = suspected({ error: crash, crashed: true });
    expect(ask(world, true)).toMatchObject({ tasks: [{ attempt: 2 }], alone_ms: 60_000 });
    expect(ask(world, true).tasks).toHaveLength(2);
  });

  test("I78: waits no longer for a worker that is never alone than for what runs there", () => {
    const world = suspected({ error: crash, crashed: true });
    expect(ask(world, false, 29_999).tasks).toEqual([]);
    expect(ask(world, false, 30_000)).toMatchObject({ tasks: [{ attempt: 2 }], alone_ms: 60_000 });
  });

  test("I78: is like any other for workers that know nothing of it", () => {
    const { tasks, alone_ms } = ask(suspected({ error: crash, crashed: true }));
    expect(tasks).toHaveLength(3);
    expect(alone_ms).toBeUndefined();
  });

  test("I78: is like any other once it has ended by itself", () => {
    const world = suspected({ error: crash }, { error: { class: "user", message: "no" } });
    expect(ask(world, false)).toMatchObject({ tasks: [{}, {}, {}] });
  });

  test("I78: keeps nobody waiting while it cannot run itself", () => {
    const world = suspected({ error: crash, crashed: true });
    request(world, "a", ["k0"], "holder");
    expect(ask(world, false, null).tasks).toHaveLength(3);
    expect(ask(world, false)).toMatchObject({ tasks: [] });
    expect(ask(world, false).suspects_wait).toBeUndefined();
    expect(ask(world, true)).toMatchObject({ tasks: [] });
  });

  test("I78: is alone for longer after each crash, within a bound", () => {
    const aloneMs = (crashes: number): number | undefined =>
      ask(
        suspected(...Array.from({ length: crashes }, () => ({ error: crash, crashed: true }))),
        true,
      ).alone_ms;
    expect([1, 2, 3, 9].map(aloneMs)).toEqual([60_000, 120_000, 240_000, 3_600_000]);
  });
});
