import { describe, expect, test } from "vitest";
import { asset, daily, dynamicPartitions, multi, staticPartitions } from "../../src/index.ts";
import { testContext } from "../../src/testing/index.ts";

const days = daily({ start: "2026-01-01", timeZone: "Europe/Berlin" });
const orders = asset("orders", { partitions: days, materialize: () => undefined });
const words = asset("words", {
  partitions: staticPartitions(["a", "b"]),
  batch: true,
  materialize: () => undefined,
});
const whole = asset("whole", { materialize: () => undefined });

describe("testContext", () => {
  test("has what a worker's context has", () => {
    const { context } = testContext(orders, {
      partition: "2026-07-01",
      config: { region: "eu" },
      attempt: 2,
      lastCheckpoint: { at: 7 },
    });

    expect(context).toMatchObject({
      asset: "orders",
      partition: "2026-07-01",
      partitions: ["2026-07-01"],
      values: { partition: "2026-07-01" },
      window: { start: "2026-06-30T22:00:00.000Z", end: "2026-07-01T22:00:00.000Z" },
      config: { region: "eu" },
      attempt: 2,
      lastCheckpoint: { at: 7 },
    });
    expect(testContext(whole).context).toMatchObject({
      partition: "",
      partitions: [],
      window: null,
    });
  });

  test("gives the value in each dimension", () => {
    const sales = asset("sales", {
      partitions: multi({ day: days, region: staticPartitions(["eu", "us"]) }),
      materialize: () => undefined,
    });
    const { context } = testContext(sales, { partition: "day=2026-07-01,region=eu" });
    expect(context.values).toEqual({ day: "2026-07-01", region: "eu" });
  });

  test("keeps what the function says, as it would be kept", async () => {
    const { context, logs, progress, checkpoints } = testContext(whole);
    const saved = { rows: 1 };
    context.log("begun", { at: "start" });
    context.progress(1.4, 10, "rows");
    await context.checkpoint(saved);
    saved.rows = 2;
    await context.checkpoint(saved);

    expect(logs).toEqual([{ message: "begun", fields: { at: "start" } }]);
    expect(progress).toEqual([{ done: 1, total: 10, note: "rows" }]);
    expect(checkpoints).toEqual([{ rows: 1 }, { rows: 2 }]);
    expect(() => context.progress(-1, 10)).toThrow("progress() needs done");
    await expect(context.checkpoint(JSON.parse("1e400"))).rejects.toThrow("is not kept");
  });

  test("keeps what a batch says of single partitions, and refuses others", () => {
    const { context, exceptions } = testContext(words, { partitions: ["a", "b"] });
    context.partitionFailed("b", new Error("b is broken"));
    expect(exceptions()).toEqual([
      { partition: "b", outcome: "FAILED", error: { class: "user", message: "b is broken" } },
    ]);
    expect(() => context.partitionSkipped("z", "why")).toThrow("is not one of this task's");
    const { context: single } = testContext(orders, { partition: "2026-01-01" });
    expect(() => single.partitionFailed("2026-01-01", "why")).toThrow("Only a batch");
  });

  test("I91: gives the upstream partitions that the test says", async () => {
    const report = asset("report", { upstream: [orders], materialize: () => undefined });
    const said = [{ partition: "2026-01-01", metadata: { rows: 3 }, codeVersion: "v1" }];
    const { context } = testContext(report, { upstream: { orders: said } });
    const [first, ...more] = await context.upstream(orders);
    expect([first, more]).toEqual([
      {
        asset: "orders",
        partition: "2026-01-01",
        status: "MATERIALIZED",
        materializedAt: null,
        runId: null,
        codeVersion: "v1",
        metadata: { rows: 3 },
      },
      [],
    ]);
    const keys: string[] = [];
    for await (const { partition } of context.eachUpstream("orders")) keys.push(partition);
    expect(keys).toEqual(["2026-01-01"]);
    const { context: untold } = testContext(report);
    await expect(untold.upstream("orders")).rejects.toThrow("does not say what is upstream");
    await expect(context.upstream("words")).rejects.toThrow("is not an upstream asset of report");
  });

  test("keeps keys that are added to dynamic partitions, and refuses what none takes", () => {
    const tenants = asset("tenants", {
      partitions: dynamicPartitions("tenants"),
      materialize: () => undefined,
    });
    const { context, addedPartitions } = testContext(whole);
    const { addPartitions } = context;
    addPartitions(tenants, ["acme", "acme"]);
    addPartitions("tenants", ["globex"]);
    addPartitions(dynamicPartitions("files"), []);
    expect(addedPartitions()).toEqual([{ definition: "tenants", keys: ["acme", "globex"] }]);
    expect(() => addPartitions(orders, ["x"])).toThrow("which has no dynamic partitions");
    expect(() => addPartitions(days, ["x"])).toThrow("needs dynamic partitions");
    expect(() => addPartitions("tenants", ["a\u0001"])).toThrow("addPartitions()");
    const many = Array.from({ length: 10_001 }, (_, n) => `k${n}`);
    expect(() => addPartitions("tenants", many)).toThrow("10000");
  });

  test("aborts its signal as when the task is cancelled", () => {
    const { context, cancel } = testContext(whole);
    expect(context.signal.aborted).toBe(false);
    cancel();
    expect(context.signal).toMatchObject({ aborted: true, reason: { name: "AbortError" } });
  });

  test("refuses partitions that the function would not get", () => {
    const refused = (make: () => unknown): string => {
      try {
        make();
      } catch (error) {
        return (error as { code: string }).code;
      }
      return "nothing";
    };
    expect(refused(() => testContext(orders, { partition: "2026-13-01" }))).toBe(
      "PARTITION_INVALID",
    );
    expect(refused(() => testContext(orders))).toBe("INPUT_INVALID");
    expect(refused(() => testContext(whole, { partition: "a" }))).toBe("INPUT_INVALID");
    expect(refused(() => testContext(orders, { partitions: ["2026-01-01", "2026-01-02"] }))).toBe(
      "INPUT_INVALID",
    );
    expect(refused(() => testContext(whole, { attempt: 0 }))).toBe("INPUT_INVALID");
    expect(() => testContext(words, { partition: "z" })).toThrow(
      'The asset words has no partition "z"',
    );
  });
});
