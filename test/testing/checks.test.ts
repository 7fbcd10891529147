import { describe, expect, test } from "vitest";
import { asset, check, daily, definePawl, staticPartitions } from "../../src/index.ts";
import { materialize } from "../../src/testing/index.ts";

const letters = staticPartitions(["a", "b", "c", "d"]);

/** Passes but for one key. */
const notB = ({ partition }: { partition: string }) => partition !== "b";

describe("checks of an asset", () => {
  test("I94: judge each partition that was made, with what its function said of it", async () => {
    const orders = asset("orders", {
      partitions: daily({ start: "2026-01-05", end: "2026-01-06" }),
      materialize: () => ({ metadata: { rows: 3 } }),
      checks: [
        check("counted", async ({ metadata, window, values, partition, config, log }) => {
          log("judged", { partition });
          const { rows } = metadata;
          const facts = { rows, start: window?.start, value: values["partition"], config };
          return { passed: rows === 3, message: "three rows", metadata: facts };
        }),
        check("many", { severity: "warn" }, ({ metadata }) => Number(metadata["rows"]) > 5),
      ],
    });
    const made = await materialize(orders, { partition: "2026-01-05", config: { region: "eu" } });
    expect(made.state).toBe("SUCCEEDED");
    const metadata = {
      rows: 3,
      start: "2026-01-05T00:00:00.000Z",
      value: "2026-01-05",
      config: { region: "eu" },
    };
    const common = { blocking: false, error: null, partition: "2026-01-05" };
    expect(made.calls[0]?.checks).toEqual([
      {
        ...common,
        name: "counted",
        severity: "fail",
        passed: true,
        message: "three rows",
        metadata,
      },
      { ...common, name: "many", severity: "warn", passed: false, message: null, metadata: null },
    ]);
    expect(made.calls[0]?.logs).toEqual([
      { message: "judged", fields: { partition: "2026-01-05" } },
    ]);
    expect(made.partitions).toMatchObject([{ status: "MATERIALIZED", checkStatus: "WARNED" }]);
  });

  test("I94: of a batch judge what it made, and nothing that failed or was skipped", async () => {
    const judged: string[] = [];
    const words = asset("words", {
      partitions: letters,
      batch: true,
      retry: { maxAttempts: 1 },
      materialize(context) {
        context.partitionFailed("c", new Error("c is broken"));
        context.partitionSkipped("d", "d is empty");
      },
      checks: [
        check("not_b", (context) => {
          judged.push(context.partition);
          return notB(context);
        }),
      ],
    });
    const { calls, partitions } = await materialize(words);
    expect(judged).toEqual(["a", "b"]);
    expect(calls[0]?.checks.map(({ partition, passed }) => [partition, passed])).toEqual([
      ["a", true],
      ["b", false],
    ]);
    const shown = partitions.map(({ partition, status, checkStatus }) => {
      return `${partition} ${status} ${checkStatus}`;
    });
    expect(shown.toSorted()).toEqual([
      "a MATERIALIZED PASSED",
      "b MATERIALIZED FAILED",
      "c FAILED null",
      "d NEVER_MATERIALIZED null",
    ]);
  });

  test.each([
    [
      "throws",
      () => {
        throw new Error("no connection");
      },
      /no connection/,
    ],
    ["answers nothing", () => undefined, /A check answers true, false or/],
    ["answers another thing", () => ({ pased: true }), /A check answers true, false or/],
    ["answers a text", () => ({ passed: "yes" }), /A check answers true, false or/],
  ])("I94: a check that %s has not passed, with the reason", async (_name, judge, reason) => {
    const whole = asset("whole", {
      materialize: () => undefined,
      checks: [check("odd", { severity: "warn" }, judge as never)],
    });
    const { state, calls, partitions } = await materialize(whole);
    expect(state).toBe("SUCCEEDED");
    expect(calls[0]?.checks).toMatchObject([{ name: "odd", passed: false, partition: "" }]);
    expect(calls[0]?.checks[0]?.error?.message).toMatch(reason);
    expect(partitions).toMatchObject([{ checkStatus: "WARNED" }]);
  });

  test("I95: that block hold back what is made from the partition in the same run", async () => {
    for (const blocking of [true, false]) {
      const raw = asset("raw", {
        partitions: letters,
        materialize: () => undefined,
        checks: [check("not_b", { blocking }, notB)],
      });
      const clean = asset("clean", {
        partitions: letters,
        upstream: [raw],
        materialize: () => undefined,
      });
      const { calls, state, partitions } = await materialize([raw, clean], {
        partitions: ["a", "b"],
      });
      const made = calls.map(({ asset: key, partition }) => `${key} ${partition}`).toSorted();
      const all = ["clean a", "clean b", "raw a", "raw b"];
      expect(made).toEqual(blocking ? all.filter((each) => each !== "clean b") : all);
      expect(state).toBe(blocking ? "FAILED" : "SUCCEEDED");
      const b = partitions.find(({ asset: key, partition }) => key === "raw" && partition === "b");
      expect(b).toMatchObject({ status: "MATERIALIZED", checkStatus: "FAILED" });
    }
  });

  test("do not run where the function did not succeed, and their last result counts", async () => {
    let isGood = false;
    const whole = asset("whole", {
      retry: { maxAttempts: 2, delayMs: 0 },
      materialize({ attempt }) {
        if (attempt === 1) throw new Error("once more");
      },
      checks: [check("good", () => isGood)],
    });
    const first = await materialize(whole);
    expect(first.calls.map(({ checks }) => checks.length)).toEqual([0, 1]);
    expect(first.partitions).toMatchObject([{ checkStatus: "FAILED" }]);
    isGood = true;
    expect((await materialize(whole)).partitions).toMatchObject([{ checkStatus: "PASSED" }]);
  });

  test("I94: say no more than there is room for; the verdicts are kept", async () => {
    const keys = Array.from({ length: 200 }, (_, n) => `k${n}`);
    const words = asset("words", {
      partitions: staticPartitions(keys),
      batch: true,
      materialize: () => undefined,
      checks: [
        check("long", { severity: "warn" }, ({ partition }) => ({
          passed: partition !== "k199",
          message: partition.repeat(500),
          metadata: { text: "x".repeat(3_000) },
        })),
      ],
    });
    const { calls, partitions } = await materialize(words, { chunkSize: 200 });
    const checks = calls[0]?.checks ?? [];
    expect(checks).toHaveLength(200);
    expect(JSON.stringify(checks[0]?.metadata)).toContain("not_kept");
    expect(checks[0]?.message).toHaveLength(1_000);
    expect(checks[150]?.message).toBeNull();
    expect(calls[0]?.logs.map(({ message }) => message).join()).toContain(
      "only the verdict is kept",
    );
    const warned = partitions.filter(({ checkStatus }) => checkStatus === "WARNED");
    expect(warned.map(({ partition }) => partition)).toEqual(["k199"]);
  });
});

describe("check()", () => {
  const judge = () => true;

  test("refuses what is none, with what to write instead", () => {
    expect(() => check("a b", judge)).toThrow("letters, digits");
    expect(() => check("a", { severity: "warn", blocking: true }, judge)).toThrow("can block");
    const misspelt = JSON.parse('{ "sevrity": "warn" }') as object;
    expect(() => check("a", misspelt, judge)).toThrow("Did you mean severity?");
    expect(() => check("a", {}, JSON.parse("null") as typeof judge)).toThrow("needs a function");
  });

  test("is named once in an asset, and published with it", () => {
    const options = { materialize: () => undefined };
    const twice = [check("a", judge), check("a", judge)];
    expect(() => asset("x", { ...options, checks: twice })).toThrow("names that differ");
    const wrong = JSON.parse('[{ "name": "a" }]') as typeof twice;
    expect(() => asset("x", { ...options, checks: wrong })).toThrow("make each with check(");
    const { specs, checks } = definePawl({
      assets: [
        asset("x", { ...options, checks: [check("a", { blocking: true }, judge)] }),
        asset("y", options),
      ],
    });
    expect(specs).toMatchObject([
      { checks: [{ name: "a", severity: "fail", blocking: true }] },
      { asset_key: "y" },
    ]);
    expect(specs[1]).not.toHaveProperty("checks");
    expect([...checks.keys()]).toEqual(["x"]);
  });
});
