import { describe, expect, test } from "vitest";
import { definePawl } from "./define-pawl.ts";
import { byHash, byRange, byTenant, move } from "./move.ts";
import { httpShard, postgresShard, shards, sqliteShard } from "./shards.ts";

const two = {
  shards: { a: sqliteShard("a.db"), b: httpShard("http://b:7000", { token: "t" }) },
  tables: { accounts: "tenant_id", entries: "tenant_id" },
};

describe("shards", () => {
  test("publishes names and tables, and keeps addresses to itself", () => {
    const { spec, addresses } = shards(two);

    expect(spec).toEqual({
      kind: "shards",
      name: "shards",
      shards: [
        { shard: "a", engine: "sqlite" },
        { shard: "b", engine: "sqlite" },
      ],
      tables: [
        { table: "accounts", shard_by: "tenant_id" },
        { table: "entries", shard_by: "tenant_id" },
      ],
      retry: { max_attempts: null, delay_ms: 500, factor: 2, max_delay_ms: 30_000, jitter: 0.2 },
      timeout_ms: 2_592_000_000,
      stall_after_ms: 300_000,
      code_version: null,
    });
    expect(JSON.stringify(spec)).not.toContain("http://b");
    expect(addresses.get("b")).toEqual({ type: "http", url: "http://b:7000", token: "t" });
    expect(definePawl({ shards: shards(two) }).shards.size).toBe(2);
  });

  test.each([
    [{ ...two, shards: { a: "a.db" } }, /shard a needs an address/],
    [{ ...two, shards: { "a b": sqliteShard("x") } }, /must be 1 to 100 letters.*"a b"/],
    [{ ...two, tables: [] }, /needs tables by name/],
    [{ ...two, tables: {} }, /tables/],
    [{ ...two, shard: {} }, /no option shard\. Did you mean shards\?/],
  ])("refuses %j in a sentence", (options, sentence) => {
    expect(() => shards(options as never)).toThrow(sentence);
  });

  test("I81: allows changes of the schema only to who says so", () => {
    expect(shards(two).allowsDdl).toBe(false);
    expect(definePawl({ shards: shards(two) }).allowsDdl).toBe(false);
    expect(definePawl({}).allowsDdl).toBe(false);
    expect(definePawl({ shards: shards({ ...two, allowDdl: true }) }).allowsDdl).toBe(true);
  });

  test("refuses an address that is not set", () => {
    expect(() => postgresShard(undefined as never)).toThrow(/needs an address such as .* nothing/);
    expect(() => sqliteShard("")).toThrow(/needs the path of a file, not ""/);
    expect(() => sqliteShard("mysql://b/c")).toThrow("sqliteShard() is a mysql:// URL");
    expect(() => sqliteShard("postgres://b/c")).toThrow("use postgresShard()");
  });
});

describe("move", () => {
  const plan = { from: byTenant({}, "a"), to: byHash(["a", "b"]) };

  test("carries every option over to the spec", () => {
    const { spec } = move("rebalance", {
      ...plan,
      tables: ["accounts"],
      strategy: { type: "adaptive", rows: 10, targetMs: 500 },
      segmentConcurrency: 2,
      rowsPerSecond: 1_000,
      replicationLagMs: 50,
      segmentAttempts: 3,
      retryBudget: 9,
      keepSource: true,
      description: "even out",
    });

    expect(spec).toEqual({
      kind: "move",
      name: "rebalance",
      description: "even out",
      from: { by: "tenant", tenants: {}, default: "a" },
      to: { by: "hash", buckets: ["a", "b"] },
      tables: ["accounts"],
      strategy: { type: "adaptive", rows: 10, target_ms: 500 },
      segment_concurrency: 2,
      rows_per_second: 1_000,
      replication_lag_ms: 50,
      segment_attempts: 3,
      retry_budget: 9,
      keep_source: true,
    });
  });

  test.each([
    [
      { from: byTenant(Object.fromEntries([["__proto__", "b"]]), "a"), to: byHash(["a", "b"]) },
      /from\.tenants\.__proto__ cannot be kept; give it another name/,
    ],
    [{ from: byTenant({}, "a"), to: byTenant({ x: "c" }, "a") }, /shard "c" .*not defined/],
    [{ ...plan, tables: ["account"] }, /table "account".*perhaps accounts is meant/],
    [{ ...plan, to: byRange([{ below: "m", shard: "b" }]) }, /last range ends somewhere/],
    [
      { ...plan, to: byRange([{ shard: "a" }, { below: "m", shard: "b" }]) },
      /never ends at place 0/,
    ],
  ])("is held against the shards there are: %j", (options, sentence) => {
    const defined = () => definePawl({ shards: shards(two), moves: [move("m", options)] });
    expect(defined).toThrow(sentence);
  });

  test("needs shards", () => {
    expect(() => definePawl({ moves: [move("m", plan)] })).toThrow(/workspace has none/);
  });
});
