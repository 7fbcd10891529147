import { describe, expect, test } from "vitest";
import {
  allPartitions,
  asset,
  daily,
  definePawl,
  doNotRetry,
  dynamicPartitions,
  monthly,
  offset,
  pool,
  retryAfter,
  schedule,
  sensor,
  skip,
  staticPartitions,
  sync,
  timeWindow,
} from "../../src/index.ts";
import { materialize } from "../../src/testing/index.ts";

const letters = staticPartitions(["a", "b", "c", "d"]);
const days = daily({ start: "2026-01-30" });

describe("one asset", () => {
  test("is made with its window, its values and its config, and what it says is kept", async () => {
    const orders = asset("orders", {
      partitions: days,
      async materialize(context) {
        const { partition, window, values, config: given } = context;
        context.log("begun", { partition });
        context.progress(1, 2, "half");
        await context.checkpoint({ at: 1 });
        return { metadata: { ...window, ...values, ...given } };
      },
    });
    const config = { region: "eu" };

    const made = await materialize(orders, { partition: "2026-01-31", config });

    const metadata = {
      start: "2026-01-31T00:00:00.000Z",
      end: "2026-02-01T00:00:00.000Z",
      partition: "2026-01-31",
      region: "eu",
    };
    expect(made).toMatchObject({
      state: "SUCCEEDED",
      error: null,
      partitions: [
        { asset: "orders", partition: "2026-01-31", status: "MATERIALIZED", metadata, error: null },
      ],
    });
    expect(made.calls).toMatchObject([
      {
        asset: "orders",
        partition: "2026-01-31",
        partitions: ["2026-01-31"],
        attempt: 1,
        outcome: "SUCCEEDED",
        metadata,
        logs: [{ message: "begun", fields: { partition: "2026-01-31" } }],
        progress: [{ done: 1, total: 2, note: "half" }],
        checkpoints: [{ at: 1 }],
      },
    ]);
  });

  test("has the partitions that there are at the time of the test", async () => {
    const orders = asset("orders", { partitions: days, materialize: () => undefined });

    const { calls } = await materialize(orders, { now: "2026-02-02T12:00:00Z" });

    expect(calls.map(({ partition }) => partition)).toEqual([
      "2026-01-30",
      "2026-01-31",
      "2026-02-01",
    ]);
    const future = { partition: "2026-02-02", now: "2026-02-02T12:00:00Z" };
    await expect(materialize(orders, future)).rejects.toMatchObject({ code: "PARTITION_INVALID" });
  });

  test("refuses a key that it does not have, and more than one way to say which", async () => {
    const words = asset("words", { partitions: letters, materialize: () => undefined });
    await expect(materialize(words, { partition: "z" })).rejects.toMatchObject({
      code: "PARTITION_INVALID",
    });
    const both = { partition: "a", partitions: ["b"] };
    await expect(materialize(words, both)).rejects.toMatchObject({ code: "INPUT_INVALID" });
    const misspelt = JSON.parse('{ "partitons": ["a"] }') as object;
    await expect(materialize(words, misspelt)).rejects.toThrow("Did you mean partitions?");
  });

  test("that is a batch gets a chunk at once, and may fail in some of it", async () => {
    const words = asset("words", {
      partitions: letters,
      batch: true,
      retry: { maxAttempts: 1 },
      materialize(context) {
        const { partitions } = context;
        if (partitions.includes("b")) context.partitionFailed("b", new Error("b is broken"));
        if (partitions.includes("d")) context.partitionSkipped("d", "d is empty");
      },
    });

    const made = await materialize(words, { chunkSize: 2 });

    expect(made.state).toBe("FAILED");
    expect(made.calls.map(({ partitions }) => partitions)).toEqual([
      ["a", "b"],
      ["c", "d"],
    ]);
    expect(made.calls.map(({ exceptions }) => exceptions)).toMatchObject([
      [{ partition: "b", outcome: "FAILED", error: { message: "b is broken" } }],
      [{ partition: "d", outcome: "SKIPPED" }],
    ]);
    const statuses = made.partitions.map(({ partition, status }) => [partition, status]);
    expect(Object.fromEntries(statuses)).toMatchObject({ a: "MATERIALIZED", b: "FAILED" });
  });

  test("I93: adds keys of dynamic partitions where it succeeds, and only there", async () => {
    const customers = asset("customers", {
      partitions: dynamicPartitions("customers"),
      materialize: () => undefined,
    });
    const found = asset("found", {
      partitions: letters,
      retry: { maxAttempts: 2, delayMs: 1_000 },
      materialize({ partition, attempt, addPartitions }) {
        addPartitions(customers, [`${partition}-${attempt}`]);
        addPartitions("customers", ["all"]);
        if (partition === "b") throw new Error("b is broken");
        if (partition === "c") addPartitions("customer", ["misspelt"]);
        if (partition === "d" && attempt === 1) throw skip("d is empty");
      },
    });
    const made = await materialize([found, customers], { assets: found });
    const { calls, partitions } = made;
    expect(calls.map(({ partition, outcome }) => [partition, outcome])).toEqual([
      ["a", "SUCCEEDED"],
      ["b", "FAILED"],
      ["c", "SUCCEEDED"],
      ["d", "SKIPPED"],
      ["b", "FAILED"],
      ["c", "SUCCEEDED"],
    ]);
    expect(calls[0]?.addedPartitions).toEqual([{ definition: "customers", keys: ["a-1", "all"] }]);
    expect(calls[1]?.addedPartitions).toEqual([]);
    const refused = partitions.find(({ partition }) => partition === "c");
    expect(refused).toMatchObject({ status: "FAILED", error: { class: "input" } });
    expect(refused?.error?.message).toContain('"customer" (perhaps customers is meant)');
  });

  test("with partitions that are added at run time has those that the test adds", async () => {
    const customers = asset("customers", {
      partitions: dynamicPartitions("customers"),
      materialize: () => undefined,
    });

    const { calls } = await materialize(customers, {
      partition: "acme",
      prepare: (client) =>
        client.call("addPartitionKeys", {
          params: { asset_key: "customers" },
          body: { keys: ["acme"] },
        }),
    });

    expect(calls.map(({ partition }) => partition)).toEqual(["acme"]);
  });
});

describe("what a function throws", () => {
  test("is what it is for a worker: skipped, final, or tried again when it asked for it", async () => {
    const words = asset("words", {
      partitions: letters,
      materialize({ partition, attempt }) {
        if (partition === "a") throw skip("There is nothing under a.");
        if (partition === "b") throw doNotRetry("The input of b is broken.");
        if (partition === "c" && attempt === 1) throw retryAfter(600_000, "The source is busy.");
      },
    });

    const made = await materialize(words, { now: "2026-01-01T00:00:00Z" });

    expect(made.state).toBe("FAILED");
    expect(made.error).toEqual({ class: "user", message: "The input of b is broken." });
    const told = made.calls.map(({ partition, attempt, outcome, isFinal, retryAfterMs }) => {
      return [partition, attempt, outcome, isFinal, retryAfterMs];
    });
    expect(told).toEqual([
      ["a", 1, "SKIPPED", false, null],
      ["b", 1, "FAILED", true, null],
      ["c", 1, "FAILED", false, 600_000],
      ["d", 1, "SUCCEEDED", false, null],
      ["c", 2, "SUCCEEDED", false, null],
    ]);
  });

  test("is tried again by the asset's policy, after its delays, which are not waited for", async () => {
    const flaky = asset("flaky", {
      retry: { maxAttempts: 3, delayMs: 60_000, factor: 10, maxDelayMs: 3_600_000, jitter: 0.5 },
      async materialize(context) {
        const { attempt, lastCheckpoint } = context;
        await context.checkpoint({ seen: attempt });
        throw new Error(`attempt ${attempt} after ${JSON.stringify(lastCheckpoint)}`);
      },
    });

    const made = await materialize(flaky, { now: "2026-01-01T00:00:00Z" });

    expect(made.calls.map(({ error }) => error?.message)).toEqual([
      "attempt 1 after null",
      'attempt 2 after {"seen":1}',
      'attempt 3 after {"seen":2}',
    ]);
    const [first = 0, second = 0, third = 0] = made.calls.map(({ at }) => Date.parse(at));
    expect(second - first).toBeGreaterThanOrEqual(60_000);
    expect(third - second).toBeGreaterThanOrEqual(600_000);
    expect(made).toMatchObject({ state: "FAILED", partitions: [{ status: "FAILED" }] });
  });

  test("is waited for no longer than the test allows", async () => {
    const flaky = asset("flaky", {
      materialize() {
        throw retryAfter(3_600_000, "Later.");
      },
    });
    const made = materialize(flaky, { limitMs: 1_800_000 });
    await expect(made).rejects.toMatchObject({
      code: "NOT_YET",
      message: expect.stringContaining("flaky has not ended after 1800000 ms"),
    });
  });

  test("is a timeout when it takes longer than the asset allows, and its signal says so", async () => {
    const reasons: unknown[] = [];
    const slow = asset("slow", {
      timeoutMs: 50,
      retry: { maxAttempts: 2, delayMs: 60_000 },
      async materialize({ signal }) {
        await new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve()));
        reasons.push(signal.reason);
      },
    });

    const made = await materialize(slow);

    expect(made.calls.map(({ error }) => error?.class)).toEqual(["timeout", "timeout"]);
    expect(reasons).toMatchObject([{ name: "TimeoutError" }, { name: "TimeoutError" }]);
  });
});

describe("assets that follow each other", () => {
  const order: string[] = [];
  const made = ({ asset: key, partition }: { asset: string; partition: string }): void =>
    void order.push(`${key} ${partition}`);
  const orders = asset("orders", { partitions: days, materialize: made });
  const perMonth = asset("per-month", {
    partitions: monthly({ start: "2026-01" }),
    upstream: [{ asset: orders, mapping: timeWindow() }],
    materialize: made,
  });
  const report = asset("report", {
    upstream: [{ asset: perMonth, mapping: allPartitions() }],
    pool: pool("api", { limit: 1 }),
    materialize: made,
  });

  test("are made upstream first, with the partitions that are made from the chosen ones", async () => {
    order.length = 0;

    const { state } = await materialize([report, perMonth, orders], {
      partitions: ["2026-01-31", "2026-02-01"],
      now: "2026-03-02T00:00:00Z",
    });

    expect(state).toBe("SUCCEEDED");
    expect(order).toEqual([
      "orders 2026-01-31",
      "orders 2026-02-01",
      "per-month 2026-01",
      "per-month 2026-02",
      "report ",
    ]);
  });

  test("can be tested one by one: what is upstream is taken to be there", async () => {
    order.length = 0;
    await materialize(perMonth, { partition: "2026-02", now: "2026-03-02T00:00:00Z" });
    expect(order).toEqual(["per-month 2026-02"]);
  });

  test("are not made when what they are made from failed", async () => {
    const broken = asset("orders", {
      partitions: days,
      materialize() {
        throw doNotRetry("No orders.");
      },
    });
    order.length = 0;
    const options = { partition: "2026-01-31", now: "2026-03-02T00:00:00Z" };

    const { state, partitions } = await materialize([broken, perMonth], options);

    expect(state).toBe("FAILED");
    expect(order).toEqual([]);
    expect(partitions.map(({ asset: key, status }) => [key, status])).toEqual([
      ["orders", "FAILED"],
    ]);
  });

  test("are those of a project that are chosen", async () => {
    order.length = 0;
    const project = definePawl({
      assets: [orders, perMonth, report],
      pools: [pool("api", { limit: 1 })],
    });
    const options = { assets: orders, partition: "2026-01-31", now: "2026-03-02T00:00:00Z" };
    await materialize(project, options);
    expect(order).toEqual(["orders 2026-01-31"]);
    await expect(materialize(project, { assets: "nothing" })).rejects.toMatchObject({
      code: "ASSET_NOT_FOUND",
    });
  });
});

test("several tasks run at once when the test wants that", async () => {
  const seen = { running: 0, most: 0 };
  const words = asset("words", {
    partitions: letters,
    async materialize() {
      seen.running++;
      seen.most = Math.max(seen.most, seen.running);
      while (seen.most < 3) await new Promise((resolve) => setImmediate(resolve));
      seen.running--;
    },
  });

  const { state } = await materialize(words, { concurrency: 3 });

  expect(state).toBe("SUCCEEDED");
  expect(seen.most).toBe(3);
});

test("all else of a project stands still", async () => {
  const others: string[] = [];
  const words = asset("words", {
    retry: { delayMs: 600_000 },
    materialize({ attempt }) {
      if (attempt < 3) throw new Error("Not yet.");
    },
  });
  const project = definePawl({
    assets: [words],
    schedules: [schedule("each-minute", { cron: "* * * * *", assets: words })],
    sensors: [sensor("looks", { minIntervalMs: 1_000, evaluate: () => void others.push("looks") })],
    syncs: [
      sync("copies", {
        targets: [{ of: "one" }],
        from: 1,
        to: 10,
        fetch: async () => void others.push("copies"),
      }),
    ],
  });

  const { state, calls } = await materialize(project);

  expect(state).toBe("SUCCEEDED");
  expect(calls.map(({ attempt }) => attempt)).toEqual([1, 2, 3]);
  expect(others).toEqual([]);
});

describe("what is upstream", () => {
  const months = monthly({ start: "2026-01", end: "2026-03" });
  const orders = asset("orders", {
    partitions: daily({ start: "2026-01-01", end: "2026-03-01" }),
    materialize: ({ partition }) => ({ metadata: { rows: Number(partition.slice(-2)) } }),
  });
  const report = asset("report", {
    partitions: months,
    upstream: [{ asset: orders, mapping: timeWindow() }],
    async materialize({ upstream }) {
      const made = (await upstream(orders)).filter(({ status }) => status === "MATERIALIZED");
      const rows = made.reduce((sum, { metadata }) => sum + Number(Object(metadata).rows), 0);
      return { metadata: { days: made.map(({ partition }) => partition), rows } };
    },
  });

  test("I91: is what was made of it in the same test", async () => {
    const { partitions } = await materialize([orders, report], {
      now: "2026-03-02T00:00:00Z",
      selector: { type: "range", start: "2026-01-30", end: "2026-02-02" },
      assets: [orders, report],
    });
    const reports = partitions.filter((each) => each.asset === "report");
    expect(reports.map(({ metadata }) => metadata)).toEqual([
      { days: ["2026-01-30", "2026-01-31"], rows: 61 },
      { days: ["2026-02-01", "2026-02-02"], rows: 3 },
    ]);
  });

  test("I91: is what the test says where it is not made in it", async () => {
    const upstream = {
      orders: (month: string) => [
        { partition: `${month}-01`, metadata: { rows: 5 } },
        { partition: `${month}-02`, status: "FAILED" as const },
      ],
    };
    const { state, calls } = await materialize(report, { partition: "2026-02", upstream });
    expect(state).toBe("SUCCEEDED");
    expect(calls[0]?.metadata).toEqual({ days: ["2026-02-01"], rows: 5 });
  });

  test("is refused where the test does not say it, and where nothing is made from it", async () => {
    const { error } = await materialize(report, { partition: "2026-02" });
    expect(error?.message).toContain('upstream: { "orders": [{ partition: "…" }] }');
    const upstream = { order: [] };
    await expect(materialize(report, { partition: "2026-02", upstream })).rejects.toThrow(
      "perhaps orders is meant",
    );
  });
});

test("I92: an asset that is made from its own earlier partitions is made oldest first", async () => {
  const balance = asset("balance", {
    partitions: letters,
    upstream: [{ asset: "balance", mapping: offset(-1) }],
    async materialize({ upstream }) {
      const [before] = await upstream("balance");
      return { metadata: { after: before?.partition ?? "nothing" } };
    },
  });

  const { calls } = await materialize(balance, { chunkSize: 2, concurrency: 3 });

  expect(calls.map(({ partition, metadata }) => [partition, metadata])).toEqual([
    ["a", { after: "nothing" }],
    ["b", { after: "a" }],
    ["c", { after: "b" }],
    ["d", { after: "c" }],
  ]);
});

test("I105: what an asset requires has to be there, unless the test speaks for it", async () => {
  const orders = asset("orders", { partitions: days, materialize: () => {} });
  const report = asset("report", {
    partitions: days,
    upstream: [orders],
    requires: "materialized",
    materialize: () => {},
  });
  const partition = "2026-01-31";
  const project = definePawl({ assets: [orders, report] });
  const alone = await materialize(project, { assets: "report", partition });
  expect([alone.state, alone.calls, alone.error]).toEqual([
    "FAILED",
    [],
    {
      class: "requires",
      message: expect.stringMatching(
        /^it waited since .* for orders 2026-01-31, which is missing$/,
      ),
    },
  ]);
  const upstream = { orders: [{ partition }] };
  const states = [
    await materialize(project, { assets: "report", partition, upstream }),
    await materialize(project, { partition }),
    await materialize(report, { partition }),
  ].map(({ state }) => state);
  expect(states).toEqual(["SUCCEEDED", "SUCCEEDED", "SUCCEEDED"]);
});
