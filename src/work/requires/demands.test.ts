import { describe, expect, test } from "vitest";
import { LedgerWorld, refsOf } from "../../../test/properties/ledger-world.ts";
import { reportPartitions } from "../asset/report.ts";
import { createBackfill } from "../backfill/create.ts";
import { cancelRun } from "../run/cancel.ts";
import type { ClaimRequest } from "../run/protocol.ts";
import { claimTasks } from "../run/claim.ts";
import { requestRun } from "../run/request.ts";
import { isDeferred, taskOf } from "../run/task-blocks.ts";

const DAYS = { type: "static", keys: ["1", "2", "3"] };
const IDENTITY = { type: "identity" };
const WEEK_MS = 7 * 24 * 3_600_000;

type Requires = { upstream?: string; otherwise?: string; wait_timeout_ms?: number };

/** A world with `orders` and `report`, which is made from it. */
function worldWith(requires: Requires | null, more: object = {}, partitions: object = DAYS) {
  const world = new LedgerWorld();
  const spec = requires === null ? {} : { requires: { upstream: "materialized", ...requires } };
  world.publish(
    { asset_key: "orders", partitions },
    {
      asset_key: "report",
      partitions,
      upstream: [{ asset_key: "orders", mapping: IDENTITY }],
      ...spec,
      ...more,
    },
  );
  return world;
}

let requests = 0;

function request(world: LedgerWorld, asset: string, ...partition_keys: string[]): void {
  const keys = partition_keys.length === 0 ? {} : { partition_keys };
  world.submit(requestRun({ request_id: `r${++requests}`, assets: [asset], ...keys }));
}

/** The keys that are given out of an asset. */
function claimed(world: LedgerWorld, asset: string): string[] {
  return world.claim([asset]).flatMap(({ tasks }) => tasks.flatMap((task) => task.partition_keys));
}

function make(world: LedgerWorld, asset: string, ...keys: string[]): void {
  request(world, asset, ...keys);
  const refs = refsOf(world.claim([asset]));
  expect(refs.length).toBeGreaterThan(0);
  world.report(...refs.map((ref) => ({ ...ref, outcome: "SUCCEEDED" as const })));
  world.settle();
}

function reported(world: LedgerWorld, asset_key: string, ...partition_keys: string[]): void {
  const items = [{ selector: { type: "explicit" as const, partition_keys } }];
  world.submit(reportPartitions({ asset_key, request_id: `s${++requests}`, items }));
  world.settle();
}

function typesAfter(world: LedgerWorld, pos: number): string[] {
  return world.events.slice(pos).map(({ type }) => type);
}

/** The last run's first task. */
function taskIn(world: LedgerWorld) {
  const run = world.runs().at(-1);
  return world.read((rows) => taskOf(rows, run?.run_pos ?? 0, 0));
}

describe("an asset that requires its upstream", () => {
  test("I105: waits for the partition that is missing, and says for which", () => {
    const world = worldWith({});
    request(world, "report", "1");
    expect(claimed(world, "report")).toEqual([]);
    expect(taskIn(world)).toMatchObject({
      state: "WAITING",
      attempt: 0,
      waits: { asset_key: "orders", partition_key: "1", reason: "NEVER_MATERIALIZED", others: 0 },
    });
    expect(world.runs().at(-1)).toMatchObject({ state: "PENDING", tasks_waiting: 1 });
    make(world, "orders", "2");
    expect(claimed(world, "report")).toEqual([]);
    make(world, "orders", "1");
    expect(claimed(world, "report")).toEqual(["1"]);
  });

  test("I105: starts at once where everything is there", () => {
    const world = worldWith({});
    make(world, "orders", "1", "2");
    request(world, "report", "1", "2", "3");
    expect(claimed(world, "report")).toEqual(["1", "2"]);
  });

  test.each([
    ["skip", "SKIPPED", "SUCCEEDED", { skipped: 1, failed: 0 }],
    ["fail", "FAILED", "FAILED", { skipped: 0, failed: 1 }],
  ])("I105: ends as it says where it does not wait: %s", (otherwise, state, outcome, counts) => {
    const world = worldWith({ otherwise });
    request(world, "report", "1");
    expect(claimed(world, "report")).toEqual([]);
    const message = "it requires orders 1, which is missing";
    expect(taskIn(world)).toMatchObject({ state, error: { class: "requires", message } });
    world.settle();
    expect(world.runs().at(-1)?.state).toBe(outcome);
    expect(world.events.at(-1)?.data).toMatchObject({ outcome, counts });
    expect(world.read((rows) => rows.partitionBlocks.find([], [], 10))).toEqual([]);
  });

  test("I105: fails with it what waits for it in its run, and lets it run behind a skip", () => {
    for (const [otherwise, runs] of [
      ["fail", []],
      ["skip", ["1"]],
    ] as const) {
      const world = worldWith({ otherwise });
      world.publish({
        asset_key: "letter",
        partitions: DAYS,
        upstream: [{ asset_key: "report", mapping: IDENTITY }],
      });
      const assets = ["report", "letter"];
      world.submit(requestRun({ request_id: "r", assets, partition_keys: ["1"] }));
      expect(claimed(world, "report")).toEqual([]);
      expect(claimed(world, "letter")).toEqual(runs);
    }
  });

  test("I105: goes by what is stale too where it requires what is fresh", () => {
    const world = worldWith({ upstream: "fresh" });
    const upstream = [{ asset_key: "source", mapping: IDENTITY }];
    world.publish(
      { asset_key: "source", partitions: DAYS },
      { asset_key: "orders", partitions: DAYS, upstream },
    );
    make(world, "orders", "1");
    make(world, "source", "1");
    request(world, "report", "1");
    expect(claimed(world, "report")).toEqual([]);
    expect(taskIn(world)?.waits?.reason).toBe("UPSTREAM_CHANGED");
    make(world, "orders", "1");
    expect(claimed(world, "report")).toEqual(["1"]);
  });

  test("I105: takes what did not pass a blocking check for not there", () => {
    const world = worldWith({});
    request(world, "orders", "1");
    const [ref] = refsOf(world.claim(["orders"]));
    if (ref === undefined) throw new Error("Nothing was claimed.");
    const checks = [
      { name: "rows", severity: "fail" as const, blocking: true as const, passed: false },
    ];
    world.report({ ...ref, outcome: "SUCCEEDED", checks });
    request(world, "report", "1");
    expect(claimed(world, "report")).toEqual([]);
    expect(taskIn(world)?.waits?.reason).toBe("CHECK_FAILED");
    make(world, "orders", "1");
    expect(claimed(world, "report")).toEqual(["1"]);
  });

  test("I105: requires all that the partitions of a batch are made from, but not what it makes itself", () => {
    const world = worldWith(
      {},
      {
        batch: true,
        upstream: [
          { asset_key: "orders", mapping: IDENTITY },
          { asset_key: "report", mapping: { type: "offset", by: -1 } },
        ],
      },
    );
    make(world, "orders", "2");
    request(world, "report", "2", "3");
    expect(claimed(world, "report")).toEqual([]);
    expect(taskIn(world)?.waits).toMatchObject({
      asset_key: "report",
      partition_key: "1",
      others: 1,
    });
    make(world, "orders", "3");
    reported(world, "report", "1");
    expect(claimed(world, "report")).toEqual(["2", "3"]);
  });

  test("I105: requires all partitions where it is made from everything", () => {
    const world = worldWith(
      {},
      {
        partitions: null,
        upstream: [{ asset_key: "orders", mapping: { type: "all" } }],
      },
    );
    make(world, "orders", "1", "3");
    request(world, "report");
    expect(world.claim(["report"])).toEqual([]);
    make(world, "orders", "2");
    expect(refsOf(world.claim(["report"]))).toHaveLength(1);
  });

  test("I105: fails where it requires more than can be looked at", () => {
    const keys = Array.from({ length: 10_001 }, (_, index) => `k${index}`);
    const world = worldWith(
      {},
      {
        partitions: null,
        upstream: [{ asset_key: "orders", mapping: { type: "all" } }],
      },
      { type: "static", keys },
    );
    request(world, "report");
    expect(claimed(world, "report")).toEqual([]);
    expect(taskIn(world)?.error?.message).toContain(
      "10001 upstream partitions, most of them of orders",
    );
  });
});

describe("a task that waits for its upstream", () => {
  test("I106: goes on when somebody says that the partition was made elsewhere", () => {
    const world = worldWith({});
    request(world, "report", "1");
    expect(claimed(world, "report")).toEqual([]);
    reported(world, "orders", "1");
    expect(claimed(world, "report")).toEqual(["1"]);
  });

  test("I106: fails at the end of its wait, however often it was judged until then", () => {
    const world = worldWith({ wait_timeout_ms: 60_000 });
    make(world, "orders", "1", "2");
    request(world, "report", "3");
    expect(claimed(world, "report")).toEqual([]);
    world.pass(30_000);
    world.publish({ asset_key: "orders", partitions: DAYS, description: "orders" });
    world.settle();
    expect(claimed(world, "report")).toEqual([]);
    world.pass(30_000);
    expect(claimed(world, "report")).toEqual([]);
    const message = "it waited since 2026-03-10T00:00:00.000Z for orders 3, which is missing";
    expect(taskIn(world)).toMatchObject({ state: "FAILED", error: { class: "requires", message } });
  });

  test("I106: waits a week where its asset says nothing else", () => {
    const world = worldWith({});
    request(world, "report", "1");
    expect(claimed(world, "report")).toEqual([]);
    world.pass(WEEK_MS - 1);
    expect(claimed(world, "report")).toEqual([]);
    expect(taskIn(world)?.state).toBe("WAITING");
    world.pass(1);
    expect(claimed(world, "report")).toEqual([]);
    expect(taskIn(world)?.state).toBe("FAILED");
  });

  test("I106: goes on when its asset requires nothing any more", () => {
    const world = worldWith({});
    request(world, "report", "1");
    expect(claimed(world, "report")).toEqual([]);
    const upstream = [{ asset_key: "orders", mapping: IDENTITY }];
    world.publish({ asset_key: "report", partitions: DAYS, upstream });
    world.settle();
    expect(claimed(world, "report")).toEqual(["1"]);
  });

  test("I106: is one of many that go on some at a time, each once", () => {
    const world = worldWith(
      {},
      {
        partitions: {
          type: "static",
          keys: Array.from({ length: 3_000 }, (_, index) => `k${index}`),
        },
        upstream: [{ asset_key: "orders", mapping: { type: "all" } }],
      },
      { type: "static", keys: ["1"] },
    );
    for (let run = 0; run < 3; run++) {
      const keys = Array.from({ length: 300 }, (_, index) => `k${run * 300 + index}`);
      request(world, "report", ...keys);
    }
    while (world.evaluate(claimTasks(claimOf("report"))).events.length > 0)
      claimed(world, "report");
    expect(world.read((rows) => rows.waitingTasks.find([], [], 10_000)).length).toBe(900);
    const before = world.pos;
    make(world, "orders", "1");
    const told = world.events
      .slice(before)
      .flatMap((event) => (event.type === "TasksRequeued" ? [event.data.tasks.length] : []));
    expect(Math.max(...told)).toBeLessThanOrEqual(200);
    expect(told.reduce((sum, each) => sum + each, 0)).toBe(900);
    const given = Array.from({ length: 9 }, () => claimed(world, "report").length);
    expect(given.reduce((sum, each) => sum + each, 0)).toBe(900);
    expect(world.read((rows) => rows.awaitedAssets.find([], [], 10))).toEqual([
      // Of the asset itself nothing is waited for; the row goes with the next time it is published.
      expect.objectContaining({ asset_key: "report", awaited: [], arrived: null }),
    ]);
  });

  test("I106: is judged again before another attempt, and keeps the number of the last", () => {
    const world = worldWith({ upstream: "fresh" }, { retry: { delay_ms: 0, jitter: 0 } });
    const upstream = [{ asset_key: "source", mapping: IDENTITY }];
    world.publish(
      { asset_key: "source", partitions: DAYS },
      { asset_key: "orders", partitions: DAYS, upstream },
    );
    make(world, "orders", "1");
    request(world, "report", "1");
    const [ref] = refsOf(world.claim(["report"]));
    if (ref === undefined) throw new Error("Nothing was claimed.");
    make(world, "source", "1");
    const report = world.runs().find(({ asset_selection }) => asset_selection[0] === "report");
    const own = () => world.read((rows) => taskOf(rows, report?.run_pos ?? 0, 0));
    world.report({ ...ref, outcome: "FAILED", error: { class: "user", message: "no" } });
    expect(claimed(world, "report")).toEqual([]);
    expect(own()).toMatchObject({ state: "WAITING", attempt: 1 });
    make(world, "orders", "1");
    expect(own()).toMatchObject({ state: "RETRY_WAIT", attempt: 1 });
    expect(claimed(world, "report")).toEqual(["1"]);
    expect(own()).toMatchObject({ state: "RUNNING", attempt: 2, waits: null });
  });

  test("I107: is closed at once when its run is cancelled, and leaves nothing behind", () => {
    const world = worldWith({});
    request(world, "report", "1", "2");
    expect(claimed(world, "report")).toEqual([]);
    const run_id = world.runs().at(-1)?.run_id ?? "";
    world.submit(cancelRun({ run_id }));
    world.settle();
    expect(world.runs().at(-1)?.state).toBe("CANCELLED");
    for (const table of ["waitingTasks", "taskRetries"] as const) {
      expect(world.read((rows) => rows[table].find([], [], 10))).toEqual([]);
    }
    make(world, "orders", "1", "2");
    expect(world.read((rows) => rows.awaitedAssets.get("orders"))).toBeNull();
  });

  test("I105: is put aside once, also where a claim looks for backfills first and then for all", () => {
    const world = worldWith({ otherwise: "fail" });
    world.submit(
      createBackfill({
        client_request_id: "b",
        assets: ["report"],
        selector: { type: "all" },
        chunk_size: 3,
        max_concurrent_runs: 1,
        order: "ascending",
        priority: 0,
        allow_overlap: true,
        continue_on_failure: false,
      }),
    );
    world.settle();
    request(world, "orders", "1");
    world.claim(["report", "orders"], 16);
    world.settle();
    expect(world.backfills()[0]).toMatchObject({ state: "FAILED", partitions_failed: 3 });
  });

  test("I107: gives way to what is behind it, and takes nobody's place", () => {
    const world = worldWith({});
    const upstream = [{ asset_key: "orders", mapping: IDENTITY }];
    const requires = { upstream: "materialized" };
    world.publish(
      { kind: "pool", pool: "one", limit: 1 },
      { asset_key: "other", pool: "one" },
      { asset_key: "report", partitions: DAYS, upstream, requires, pool: "one" },
    );
    request(world, "report", "1");
    request(world, "other");
    const groups = world.claim(["report", "other"], 1);
    expect(groups.map(({ asset_key }) => asset_key)).toEqual(["other"]);
  });

  test("I107: is neither written nor looked at while other partitions are made", () => {
    const world = worldWith({});
    request(world, "report", "1");
    expect(claimed(world, "report")).toEqual([]);
    const before = world.pos;
    make(world, "orders", "2");
    expect(claimed(world, "report")).toEqual([]);
    const about = ["TasksDeferred", "TasksRequeued", "AwaitedPartitionsMade"];
    expect(typesAfter(world, before).filter((type) => about.includes(type))).toEqual([]);
  });
});

describe("an asset that requires nothing", () => {
  test("I107: costs no look-up and has no rows of it", () => {
    const cost = (requires: Requires | null): number => {
      const world = worldWith(requires);
      request(world, "report", "1", "2", "3");
      return world.lookUpsOf(() => world.claim(["report"]));
    };
    const free = worldWith(null);
    make(free, "orders", "1");
    make(free, "report", "1", "2");
    expect(free.read((rows) => rows.awaitedAssets.find([], [], 10))).toEqual([]);
    expect(free.read((rows) => rows.waitingTasks.find([], [], 10))).toEqual([]);
    expect(cost(null)).toBeLessThan(cost({}));
  });
});

function claimOf(asset: string): ClaimRequest {
  const worker = { worker_id: "w", lease_id: "l", code_version: null };
  return { ...worker, slots: 100, wait_ms: 0, assets: [asset] };
}

test("I105: what waits is told apart from what waits for tasks of its run", () => {
  const world = worldWith({});
  world.submit(
    requestRun({ request_id: "r", assets: ["orders", "report"], partition_keys: ["1"] }),
  );
  const run = world.runs().at(-1);
  const second = world.read((rows) => taskOf(rows, run?.run_pos ?? 0, 1));
  expect(second?.state).toBe("WAITING");
  expect(second === null || isDeferred(second)).toBe(false);
});
