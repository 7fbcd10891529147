import { describe, expect, test } from "vitest";
import { LedgerWorld, refsOf } from "../../../test/properties/ledger-world.ts";
import type { Selector } from "../../kernel/keyspace/selector.ts";
import type { TaskRef } from "../run/protocol.ts";
import { DEFAULT_RETRY } from "../definition/spec.ts";
import { addPartitionKeys, removePartitionKeys } from "../definition/partition-keys.ts";
import { createBackfill } from "../backfill/create.ts";
import {
  collectStale,
  type CollectedStale,
  type CollectStaleOptions,
  addToSurvey,
  beginStaleSurvey,
  pageOfSurvey,
  type StaleSurvey,
} from "./stale.ts";

const DAYS = { type: "daily", start: "2026-01-01", end: "2026-03-01" };
const MONTHS = { type: "monthly", start: "2026-01-01", end: "2026-03-01" };
const KEYS = { type: "static", keys: ["1", "2", "3", "4"] };
const GRID = {
  type: "multi",
  dimensions: {
    day: { type: "static", keys: ["mon", "tue"] },
    region: { type: "static", keys: ["eu", "us"] },
  },
};

/** Asks for partitions of an asset, or for the asset that has none; answers its tasks, begun. */
function begin(world: LedgerWorld, asset: string, ...keys: string[]): TaskRef[] {
  const selector: Selector =
    keys.length === 0 ? { type: "all" } : { type: "explicit", partition_keys: keys };
  world.submit(
    createBackfill({
      client_request_id: `request-${world.pos}`,
      assets: [asset],
      selector,
      chunk_size: 10_000,
      max_concurrent_runs: 10,
      order: "ascending",
      priority: 0,
      allow_overlap: true,
      continue_on_failure: false,
      retry: { ...DEFAULT_RETRY, max_attempts: 1 },
    }),
  );
  world.settle();
  return refsOf(world.claim([asset]));
}

function end(world: LedgerWorld, tasks: readonly TaskRef[], outcome: "SUCCEEDED" | "FAILED"): void {
  const error = { class: "error", message: "broken" };
  world.report(
    ...tasks.map((task) =>
      outcome === "FAILED" ? { ...task, outcome, error } : { ...task, outcome },
    ),
  );
  world.settle();
}

function make(world: LedgerWorld, asset: string, ...keys: string[]): void {
  end(world, begin(world, asset, ...keys), "SUCCEEDED");
}

function collect(
  world: LedgerWorld,
  assets: readonly string[],
  options: Partial<CollectStaleOptions> = {},
): CollectedStale {
  return world.evaluate((rows, context) => ({
    events: [],
    result: collectStale(rows, assets, context, { budget: 1_000, limit: 1_000, ...options }),
  })).result;
}

/** The stale partitions of an asset by their keys. */
function staleOf(world: LedgerWorld, asset: string): Record<string, string> {
  const { found } = collect(world, [asset]);
  return Object.fromEntries(found.map(({ key, reason }) => [key, String(reason)]));
}

function keysOf({ found }: CollectedStale): string[] {
  return found.map(({ asset_key, key }) => `${asset_key} ${key}`);
}

describe("collectStale", () => {
  test("I46: counts what was never made, and leaves out what a task works on", () => {
    const world = new LedgerWorld();
    world.publish({ asset_key: "a", partitions: KEYS });
    make(world, "a", "2");
    const running = begin(world, "a", "3");
    expect(collect(world, ["a"])).toEqual({
      failed: 0,
      found: [
        { asset_key: "a", ordinal: 0, key: "1", reason: "NEVER_MATERIALIZED" },
        { asset_key: "a", ordinal: 3, key: "4", reason: "NEVER_MATERIALIZED" },
      ],
      reasons: {
        NEVER_MATERIALIZED: 2,
        CODE_CHANGED: 0,
        UPSTREAM_CHANGED: 0,
        FRESHNESS_POLICY: 0,
      },
      next: null,
      looked: 4,
    });
    end(world, running, "FAILED");
    expect(Object.keys(staleOf(world, "a"))).toEqual(["1", "3", "4"]);
    expect(collect(world, ["a"])).toMatchObject({ failed: 1, reasons: { NEVER_MATERIALIZED: 3 } });
  });

  test("goes on where it ended, across assets, and finds each exactly once", () => {
    const world = new LedgerWorld();
    const none = { type: "dynamic", name: "none" };
    world.publish(
      { asset_key: "a", partitions: KEYS },
      { asset_key: "b" },
      { asset_key: "c", partitions: none },
      { asset_key: "d", partitions: KEYS },
    );
    make(world, "a", "2", "4");
    const assets = ["a", "b", "c", "d"];
    const all = ["a 1", "a 3", "b ", "d 1", "d 2", "d 3", "d 4"];
    expect(keysOf(collect(world, assets))).toEqual(all);
    for (const budget of [1, 2, 3, 100]) {
      for (const limit of [1, 2, 100]) {
        const walked: string[] = [];
        let from: CollectedStale["next"] = { asset_index: 0, ordinal: 0 };
        while (from !== null) {
          const page = collect(world, assets, { budget, limit, from });
          expect(page.found.length).toBeLessThanOrEqual(limit);
          expect(page.looked).toBeLessThanOrEqual(budget);
          walked.push(...keysOf(page));
          from = page.next;
        }
        expect(walked).toEqual(all);
      }
    }
  });

  test("counts upstream partitions against the budget, and looks at none in part", () => {
    const world = new LedgerWorld();
    world.publish(
      { asset_key: "days", partitions: DAYS },
      {
        asset_key: "months",
        partitions: MONTHS,
        upstream: [{ asset_key: "days", mapping: { type: "time_window" } }],
      },
    );
    make(world, "months", "2026-01", "2026-02");
    make(world, "days", "2026-02-28");
    const first = collect(world, ["months"], { budget: 40 });
    expect(first).toMatchObject({ found: [], looked: 32, next: { asset_index: 0, ordinal: 1 } });
    const rest = collect(world, ["months"], { budget: 5, from: first.next ?? undefined });
    expect(rest).toMatchObject({ looked: 29, next: null });
    expect(keysOf(rest)).toEqual(["months 2026-02"]);
  });

  test("looks only at what was tried when nothing else can be meant", () => {
    const world = new LedgerWorld();
    const many = { type: "integers", start: 0, end: 1_000_000_000 };
    world.publish({ asset_key: "a", partitions: many, freshness: { maximum_lag_minutes: 1 } });
    make(world, "a", "999999999", "20", "3");
    world.pass(120_000);
    const reasons = ["FRESHNESS_POLICY"] as const;
    const one = collect(world, ["a"], { budget: 50, limit: 1, reasons });
    expect(keysOf(one)).toEqual(["a 3"]);
    expect(one.next).toEqual({ asset_index: 0, ordinal: 20 });
    const rest = collect(world, ["a"], { budget: 50, reasons, from: one.next ?? undefined });
    expect(keysOf(rest)).toEqual(["a 20", "a 999999999"]);
    expect(rest.next).toBeNull();
  });

  test("I46: takes the first reason that applies, and only the reasons asked for", () => {
    const world = new LedgerWorld();
    const freshness = { maximum_lag_minutes: 1 };
    const upstream = [{ asset_key: "raw", mapping: { type: "identity" } }];
    world.publish(
      { asset_key: "raw", partitions: KEYS },
      { asset_key: "a", partitions: KEYS, freshness, upstream },
    );
    make(world, "a", "1", "2");
    make(world, "raw", "2");
    world.pass(60_000);
    expect(staleOf(world, "a")).toMatchObject({ 2: "UPSTREAM_CHANGED" });
    expect(staleOf(world, "a")).not.toHaveProperty("1");
    world.pass(1);
    expect(staleOf(world, "a")).toMatchObject({ 1: "FRESHNESS_POLICY", 2: "UPSTREAM_CHANGED" });
    const { found, reasons } = collect(world, ["a"], { reasons: ["UPSTREAM_CHANGED"] });
    expect(found.map(({ key }) => key)).toEqual(["2"]);
    expect(reasons).toMatchObject({ UPSTREAM_CHANGED: 1, NEVER_MATERIALIZED: 0 });
  });

  test("finds keys that were added at run time", () => {
    const world = new LedgerWorld();
    world.publish({ asset_key: "tenants", partitions: { type: "dynamic", name: "tenants" } });
    expect(keysOf(collect(world, ["tenants"]))).toEqual([]);
    world.submit(addPartitionKeys({ asset_key: "tenants", keys: ["x", "y"], request_id: "r" }));
    make(world, "tenants", "x");
    expect(keysOf(collect(world, ["tenants"]))).toEqual(["tenants y"]);
  });

  test("I46: knows a changed code version only where both are known", () => {
    const world = new LedgerWorld();
    world.publish({ asset_key: "a", partitions: KEYS });
    make(world, "a", "1", "2", "3", "4");
    world.publish({ asset_key: "a", partitions: KEYS, code_version: "2" });
    expect(staleOf(world, "a")).toEqual({});
  });
});

describe("what is upstream", () => {
  type Case = {
    name: string;
    upstream: object | null;
    downstream: object | null;
    mapping: object;
    again: string;
    stale: string[];
  };
  const cases: Case[] = [
    {
      name: "the same key",
      upstream: KEYS,
      downstream: KEYS,
      mapping: { type: "identity" },
      again: "2",
      stale: ["2"],
    },
    {
      name: "the days of a month",
      upstream: DAYS,
      downstream: MONTHS,
      mapping: { type: "time_window" },
      again: "2026-02-01",
      stale: ["2026-02"],
    },
    {
      name: "the month of a day",
      upstream: MONTHS,
      downstream: { ...DAYS, start: "2026-01-31", end: "2026-02-03" },
      mapping: { type: "time_window" },
      again: "2026-02",
      stale: ["2026-02-01", "2026-02-02"],
    },
    {
      name: "the day before",
      upstream: DAYS,
      downstream: DAYS,
      mapping: { type: "offset", by: -1 },
      again: "2026-01-31",
      stale: ["2026-02-01"],
    },
    {
      name: "every partition",
      upstream: KEYS,
      downstream: { type: "static", keys: ["x", "y"] },
      mapping: { type: "all" },
      again: "4",
      stale: ["x", "y"],
    },
    {
      name: "one dimension of several upstream",
      upstream: GRID,
      downstream: { type: "static", keys: ["eu", "us"] },
      mapping: { type: "dimension", dimension: "region" },
      again: "day=tue,region=us",
      stale: ["us"],
    },
    {
      name: "one dimension of several downstream",
      upstream: { type: "static", keys: ["eu", "us"] },
      downstream: GRID,
      mapping: { type: "dimension", dimension: "region" },
      again: "eu",
      stale: ["day=mon,region=eu", "day=tue,region=eu"],
    },
    {
      name: "the keys of a table",
      upstream: KEYS,
      downstream: { type: "static", keys: ["x", "y"] },
      mapping: { type: "table", map: { x: ["1", "2"], y: ["3"] } },
      again: "2",
      stale: ["x"],
    },
    {
      name: "an asset without partitions",
      upstream: null,
      downstream: KEYS,
      mapping: { type: "all" },
      again: "",
      stale: ["1", "2", "3", "4"],
    },
    {
      name: "every partition, of an asset without any",
      upstream: KEYS,
      downstream: null,
      mapping: { type: "all" },
      again: "3",
      stale: [""],
    },
    {
      name: "an asset without partitions, of another",
      upstream: null,
      downstream: null,
      mapping: { type: "identity" },
      again: "",
      stale: [""],
    },
  ];

  test.each(cases)("I46: makes stale what is made from $name", (each) => {
    const world = new LedgerWorld();
    const upstream = [{ asset_key: "up", mapping: each.mapping }];
    world.publish(
      { asset_key: "up", partitions: each.upstream },
      { asset_key: "down", partitions: each.downstream, upstream },
    );
    make(world, "up");
    make(world, "down");
    expect(staleOf(world, "down")).toEqual({});
    end(world, begin(world, "up", ...(each.again === "" ? [] : [each.again])), "FAILED");
    expect(staleOf(world, "down")).toEqual({});
    make(world, "up", ...(each.again === "" ? [] : [each.again]));
    const expected = each.stale.map((key) => [key, "UPSTREAM_CHANGED"]);
    expect(staleOf(world, "down")).toEqual(Object.fromEntries(expected));
    make(world, "down");
    expect(staleOf(world, "down")).toEqual({});
  });

  test.each(["identity", "all"])(
    "I45: counts by %s when it began before and ended after",
    (type) => {
      const world = new LedgerWorld();
      const upstream = [{ asset_key: "up", mapping: { type } }];
      world.publish(
        { asset_key: "up", partitions: KEYS },
        { asset_key: "down", partitions: KEYS, upstream },
      );
      make(world, "up");
      make(world, "down", "2", "3", "4");
      const slow = begin(world, "up", "1");
      make(world, "down", "1");
      end(world, slow, "SUCCEEDED");
      expect(staleOf(world, "down")).toMatchObject({ 1: "UPSTREAM_CHANGED" });
      world.pass(1);
      end(world, begin(world, "up", "2"), "FAILED");
      expect(staleOf(world, "down")).toMatchObject({ 1: "UPSTREAM_CHANGED" });
    },
  );
});

const TENANTS = { type: "dynamic", name: "tenants" };
const DAYS_GRID = {
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
    world.publish({ asset_key: "grid", partitions: DAYS_GRID });
    addKey(world, "grid", "x");
    const stale = survey(world, "grid");
    addKey(world, "grid", "y");
    expect(() => create(world, "grid", stale)).toThrow("The partitions of grid changed");
    const again = survey(world, "grid");
    world.publish({ asset_key: "grid", partitions: { type: "static", keys: ["a"] } });
    expect(() => create(world, "grid", again)).toThrow("The partitions of grid changed");
  });

  test("I86: refuses when keys were removed while it was looked, also when they are back by now", () => {
    const world = new LedgerWorld();
    world.publish({ asset_key: "list", partitions: TENANTS });
    for (const key of ["w", "x", "y", "z"]) addKey(world, "list", key);
    const begun = world.evaluate(beginStaleSurvey(["list"])).result;
    const look = (from: number) =>
      world.evaluate((rows) => ({
        events: [],
        result: pageOfSurvey(rows, begun, {
          budget: 2,
          limit: 100,
          from: { asset_index: 0, ordinal: from },
        }),
      })).result;
    const first = look(0);
    addToSurvey(begun, first);
    expect(first.found.map(({ key }) => key)).toEqual(["w", "x"]);
    world.submit(removePartitionKeys({ asset_key: "list", keys: ["w"], request_id: "gone" }));
    const refused = "The partitions of list changed";
    expect(() => {
      // What stands in third place is the fourth key while the first one is away.
      addToSurvey(begun, look(2));
      world.submit(addPartitionKeys({ asset_key: "list", keys: ["w"], request_id: "back" }));
      create(world, "list", begun);
    }).toThrow(refused);
    const parts = world.events.flatMap(({ type, data }) =>
      type === "KeysSurveyed" ? data.parts : [],
    );
    expect(parts).toEqual([]);
  });
});
