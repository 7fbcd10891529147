import { describe, expect, test } from "vitest";
import { asset, type AssetOptions, pool } from "./asset.ts";
import { definePawl } from "./define-pawl.ts";
import {
  dimension,
  identity,
  offset,
  timeWindow,
  cron,
  daily,
  dynamicPartitions,
  hourly,
  integers,
  monthly,
  multi,
  staticPartitions,
  weekly,
} from "./partitions.ts";

const materialize = async (): Promise<void> => {};
const days = daily({ start: "2025-01-01" });

describe("asset", () => {
  test("says what it requires of its upstream in one word, or with what happens otherwise", () => {
    const of = (requires: AssetOptions["requires"]) =>
      asset("report", { materialize, upstream: ["orders"], ...(requires && { requires }) }).spec
        .requires;
    const week = 7 * 24 * 3_600_000;
    expect(of(undefined)).toBeUndefined();
    expect(of("fresh")).toEqual({ upstream: "fresh", otherwise: "wait", wait_timeout_ms: week });
    expect(of({ upstream: "materialized", waitTimeoutMs: 5 })).toMatchObject({
      upstream: "materialized",
      wait_timeout_ms: 5,
    });
    expect(of({ upstream: "fresh", otherwise: "skip" })?.otherwise).toBe("skip");
  });

  test.each([
    [{ requires: "fresh" }, 'The asset "report" has requires but no upstream'],
    [{ upstream: ["orders"], requires: "there" }, "requires"],
    [
      {
        upstream: ["orders"],
        requires: { upstream: "fresh", otherwise: "skip", waitTimeoutMs: 5 },
      },
      "never waits: otherwise is skip",
    ],
    [{ upstream: ["orders"], requires: { upstream: "fresh", wait: "no" } }, "wait"],
  ])("refuses what it cannot require: %j", (options, fault) => {
    const wrong = { materialize, ...options } as unknown as AssetOptions;
    expect(() => asset("report", wrong)).toThrow(fault);
  });

  test("fills in what is not said", () => {
    expect(asset("sales/orders", { materialize }).spec).toEqual({
      kind: "asset",
      asset_key: "sales/orders",
      partitions: null,
      upstream: [],
      retry: { max_attempts: 3, delay_ms: 1_000, factor: 2, max_delay_ms: 300_000, jitter: 0.2 },
      batch: false,
      bisect: false,
      pool: null,
      timeout_ms: 3_600_000,
      stall_after_ms: null,
      freshness: null,
      code_version: null,
      labels: {},
    });
  });

  test("carries every option over to the spec", () => {
    const { spec } = asset("a", {
      materialize,
      partitions: days,
      retry: { maxAttempts: "unbounded", delayMs: 5 },
      batch: true,
      bisect: true,
      pool: pool("api", { limit: 2 }),
      timeoutMs: 10,
      stallAfterMs: 20,
      freshness: { maximumLagMinutes: 60 },
      codeVersion: "v2",
      description: "Orders.",
      labels: { team: "sales" },
    });

    expect(spec).toMatchObject({
      retry: { max_attempts: null, delay_ms: 5, factor: 2 },
      batch: true,
      bisect: true,
      pool: "api",
      timeout_ms: 10,
      stall_after_ms: 20,
      freshness: { maximum_lag_minutes: 60 },
      code_version: "v2",
      description: "Orders.",
      labels: { team: "sales" },
    });
  });

  test("suggests the option that was probably meant", () => {
    const typo = { materialize, partitons: days } as AssetOptions;
    const snake = { materialize, retry: { max_attempts: 5 } } as AssetOptions;

    expect(() => asset("a", typo)).toThrow(
      'The asset "a" has no option partitons. Did you mean partitions?',
    );
    expect(() => asset("a", snake)).toThrow("Did you mean maxAttempts?");
  });

  test("names the asset, the place and the value that is wrong", () => {
    expect(() => asset("a", { materialize, retry: { maxAttempts: 0 } })).toThrow(
      /The asset "a" is not valid: retry.max_attempts: .* \(it is 0\)\./,
    );
    expect(() => asset("not ok", { materialize })).toThrow('it is "not ok"');
    expect(() => asset("a", {} as AssetOptions)).toThrow("needs a function materialize");
    expect(() => asset("a", { materialize, bisect: true })).toThrow("bisect without batch");
  });
});

describe("partition builders", () => {
  test("make definitions that only have what was said", () => {
    const zoned = { start: "2025-01-01", timeZone: "Europe/Berlin" };
    const time = { start: "2025-01-01", time_zone: "Europe/Berlin" };

    expect(hourly(zoned)).toEqual({ type: "hourly", ...time });
    expect(weekly({ ...zoned, startsOn: "sunday" })).toEqual({
      type: "weekly",
      starts_on: "sunday",
      ...time,
    });
    expect(cron("0 6 * * *", zoned)).toEqual({ type: "cron", expression: "0 6 * * *", ...time });
    expect(integers({ start: 1 })).toEqual({ type: "integers", start: 1, size: 1 });
    expect(dynamicPartitions("customers")).toEqual({ type: "dynamic", name: "customers" });
    expect(multi({ day: days, region: staticPartitions(["eu"]) })).toEqual({
      type: "multi",
      dimensions: { day: days, region: { type: "static", keys: ["eu"] } },
    });
  });

  test("refuse what is wrong with a sentence", () => {
    expect(() => daily({ start: "yesterday" })).toThrow(
      'start: must be a day such as 2025-01-31 (it is "yesterday").',
    );
    expect(() => daily({ start: "2025-01-01", timezone: "UTC" } as never)).toThrow(
      "daily() has no option timezone. Did you mean timeZone?",
    );
  });
});

describe("definePawl", () => {
  const raw = asset("raw", { materialize, partitions: days });

  test("finds the mapping that is plainly meant and keeps the one that is named", () => {
    const project = definePawl({
      assets: [
        raw,
        asset("clean", { materialize, partitions: days, upstream: [raw] }),
        asset("month", {
          materialize,
          partitions: monthly({ start: "2025-01" }),
          upstream: ["clean"],
        }),
        asset("change", {
          materialize,
          partitions: days,
          upstream: [{ asset: raw, mapping: offset(-1) }, { asset: "clean" }],
        }),
        asset("week", {
          materialize,
          partitions: days,
          upstream: [{ asset: raw, mapping: timeWindow({ startOffset: -6 }) }],
        }),
      ],
    });

    expect(project.specs.flatMap((spec) => (spec.kind === "asset" ? [spec.upstream] : []))).toEqual(
      [
        [],
        [{ asset_key: "raw", mapping: { type: "identity" } }],
        [{ asset_key: "clean", mapping: { type: "time_window", start_offset: 0, end_offset: 0 } }],
        [
          { asset_key: "raw", mapping: { type: "offset", by: -1 } },
          { asset_key: "clean", mapping: { type: "identity" } },
        ],
        [{ asset_key: "raw", mapping: { type: "time_window", start_offset: -6, end_offset: 0 } }],
      ],
    );
    expect([...project.functions.keys()]).toEqual(["raw", "clean", "month", "change", "week"]);
    expect(Object.isFrozen(project)).toBe(true);
  });

  test("refuses names given twice, unknown references and circles", () => {
    const made = (key: string, upstream: AssetOptions["upstream"] = []) =>
      asset(key, { materialize, partitions: days, upstream });

    expect(() => definePawl({ assets: [raw, raw] })).toThrow("The asset raw is defined twice.");
    expect(() => definePawl({ assets: [raw, made("b", ["raws"])] })).toThrow(
      'names the upstream asset "raws", which is not defined (perhaps raw is meant).',
    );
    expect(() => definePawl({ assets: [made("a", ["b"]), made("b", ["a"])] })).toThrow(
      "in a circle: a is made from b is made from a.",
    );
    expect(() =>
      definePawl({
        assets: [asset("a", { materialize, pool: "apis" })],
        pools: [pool("api", { limit: 1 })],
      }),
    ).toThrow('uses the pool "apis", which is not defined (perhaps api is meant).');
  });

  test("I92: takes an asset that is made from its own earlier partitions, and from no others of its own", () => {
    const own = (mapping?: ReturnType<typeof offset>) => {
      const itself = mapping === undefined ? "b" : { asset: "b", mapping };
      const partitions = daily({ start: "2025-01-01" });
      return definePawl({ assets: [asset("b", { materialize, partitions, upstream: [itself] })] });
    };
    for (const mapping of [offset(-1), timeWindow({ startOffset: -7, endOffset: -1 })]) {
      expect(own(mapping).specs).toMatchObject([{ upstream: [{ asset_key: "b", mapping }] }]);
    }
    for (const mapping of [undefined, offset(0), offset(1), timeWindow({ startOffset: -1 })]) {
      expect(() => own(mapping)).toThrow(
        "It can be made from its own earlier partitions only: use offset(-1), or timeWindow() with an",
      );
    }
    const whole = asset("b", { materialize, upstream: [{ asset: "b", mapping: offset(-1) }] });
    expect(() => definePawl({ assets: [whole] })).toThrow("needs partitions on both sides");
  });

  test("refuses mappings that cannot be and asks where none is plainly meant", () => {
    const regions = staticPartitions(["eu"]);
    const named = (mapping: ReturnType<typeof identity>) =>
      definePawl({
        assets: [
          raw,
          asset("b", { materialize, partitions: regions, upstream: [{ asset: raw, mapping }] }),
        ],
      });

    expect(() => named(identity())).toThrow(
      "The asset b cannot be mapped to its upstream asset raw",
    );
    expect(() => named(dimension("day"))).toThrow("needs several dimensions");
    expect(() =>
      definePawl({
        assets: [raw, asset("b", { materialize, partitions: regions, upstream: ["raw"] })],
      }),
    ).toThrow("does not say how its partitions map to those of raw");
  });
});
