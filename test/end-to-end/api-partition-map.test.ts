import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Client } from "../../src/client/client.ts";
import type { PartitionMap } from "../../src/work/asset/api.ts";
import type { PartInput } from "../../src/work/operations.ts";
import { type Api, startApi, work } from "./api-server.ts";

let api: Api;
let client: Client;

beforeEach(async () => {
  api = await startApi({ clockAt: "2025-06-30T12:00:00.000Z" });
  ({ client } = api);
});

afterEach(() => api.close());

/** The assets that `work` takes tasks of. */
const ASSET = "sales/orders";
const OTHER = "report";

async function publish(...specs: object[]): Promise<void> {
  const body = { specs: specs.map((spec) => ({ kind: "asset", ...spec })) };
  await client.call("publishDefinitions", { body } as { body: never });
}

async function start(asset: string, partition_keys: string[]): Promise<void> {
  await client.call("requestRun", { body: { assets: [asset], partition_keys } });
}

async function materialize(asset: string, keys: string[], outcome: "SUCCEEDED" | "FAILED") {
  await start(asset, keys);
  await work(client, outcome);
}

/** Lets a worker take what is ready, and never answer. */
async function claim(lease_id: string): Promise<void> {
  await client.call("claim", {
    body: {
      worker_id: "quiet",
      lease_id,
      slots: 500,
      assets: [ASSET],
      code_version: null,
      wait_ms: 1_000,
    },
  });
}

function mapOf(asset_key: string, query: PartInput<"mapPartitions", "query"> = {}) {
  return client.call("mapPartitions", { params: { asset_key }, query });
}

function cellsOf({ statuses, lengths }: PartitionMap): string[] {
  const cells: string[] = [];
  for (let at = 0; at < lengths.length; at += 2) {
    const status = statuses[lengths[at] ?? -1] ?? "?";
    for (let left = lengths[at + 1] ?? 0; left > 0; left--) cells.push(status);
  }
  return cells;
}

async function listed(asset_key: string, from = 0, limit = 1_000_000): Promise<string[]> {
  const query = { limit: Math.min(200, limit), from };
  const cells: string[] = [];
  for await (const { status, last_materialization_at } of client.each("listAssetPartitions", {
    params: { asset_key },
    query,
  })) {
    const isRemade = status === "IN_PROGRESS" && last_materialization_at !== null;
    if (cells.push(isRemade ? "BEING_REMADE" : status) === limit) break;
  }
  return cells;
}

const withoutStale = (cells: string[]): string[] =>
  cells.map((cell) => (cell === "STALE" ? "MATERIALIZED" : cell));

const days = { type: "daily", start: "2025-06-01" } as const;
const regions = { type: "static", keys: ["eu", "us west", "ü"] } as const;
const multi = { type: "multi", dimensions: { day: days, region: regions } } as const;

describe("the map of partitions", () => {
  test("shows what the list shows, whatever was materialized, failed, runs or is stale", async () => {
    const mapping = { type: "identity" };
    await publish(
      { asset_key: OTHER, partitions: multi },
      { asset_key: ASSET, partitions: multi, upstream: [{ asset_key: OTHER, mapping }] },
    );
    const query = { limit: 1_000 };
    const params = { asset_key: ASSET };
    const keys = (await client.call("listPartitionValues", { params, query })).items;
    expect(keys).toHaveLength(87);
    const keyAt = (ordinal: number): string => keys[ordinal]?.value ?? "";
    const step = fc.record({
      asset: fc.constantFrom(ASSET, ASSET, OTHER),
      outcome: fc.constantFrom("SUCCEEDED" as const, "SUCCEEDED" as const, "FAILED" as const),
      picked: fc.uniqueArray(fc.nat({ max: 86 }), { minLength: 1, maxLength: 30 }),
    });
    const steps = fc.sample(step, { numRuns: 12, seed: 20_250_630 });
    for (const { asset, outcome, picked } of steps) {
      await materialize(asset, picked.map(keyAt), outcome);
    }
    await materialize(ASSET, [0, 1, 2].map(keyAt), "SUCCEEDED");
    await materialize(ASSET, [0].map(keyAt), "FAILED");
    await materialize(OTHER, [1].map(keyAt), "SUCCEEDED");
    await start(ASSET, ["day=2025-06-03,region=ü", "day=2025-06-29,region=us%20west"]);
    await claim("held");
    const expected = await listed(ASSET);
    expect(new Set(expected).size).toBe(6);
    const map = await mapOf(ASSET, { stale: "true" });
    expect(map).toMatchObject({ total: 87, from: 0, through: 87 });
    expect(cellsOf(map)).toEqual(expected);
    expect(cellsOf(await mapOf(ASSET))).toEqual(withoutStale(expected));
    const part = await mapOf(ASSET, { from: 10, limit: 20, stale: "" });
    expect(part).toMatchObject({ from: 10, through: 30 });
    expect(cellsOf(part)).toEqual(expected.slice(10, 30));
    expect(map.dimensions).toEqual([
      { name: "day", count: 29, stride: 3 },
      { name: "region", count: 3, stride: 1 },
    ]);
  });

  test("stays right as a large asset changes, without reading it all again", async () => {
    const partitions = { type: "integers", start: 0, end: 300_000, size: 10 };
    await publish({ asset_key: ASSET, partitions });
    const keyAt = (ordinal: number): string => `${ordinal * 10}-${ordinal * 10 + 9}`;
    const expected = Array<string>(30_000).fill("NEVER_MATERIALIZED");
    const expectMap = async (): Promise<void> => {
      expect(cellsOf(await mapOf(ASSET))).toEqual(expected);
    };
    const set = (ordinals: number[], status: string): void => {
      for (const ordinal of ordinals) expected[ordinal] = status;
    };
    await expectMap();
    await materialize(ASSET, [0, 1, 17, 29_999].map(keyAt), "SUCCEEDED");
    set([0, 1, 17, 29_999], "MATERIALIZED");
    await expectMap();
    await materialize(ASSET, [1, 2].map(keyAt), "FAILED");
    set([1], "MATERIALIZED_LAST_ATTEMPT_FAILED");
    set([2], "FAILED");
    await Promise.all([expectMap(), expectMap()]);
    await start(ASSET, [17, 25_000].map(keyAt));
    await claim("lost");
    set([17], "BEING_REMADE");
    set([25_000], "IN_PROGRESS");
    await expectMap();
    expect(await listed(ASSET, 24_990, 20)).toEqual(expected.slice(24_990, 25_010));
    const window = await mapOf(ASSET, { from: 5, limit: 25_000 });
    expect(cellsOf(window)).toEqual(expected.slice(5, 25_005));
    await expectMap();
    const before = (await mapOf(ASSET)).pos;
    api.jump(600_000);
    await client.call("tick", {});
    expect((await mapOf(ASSET)).pos).toBeGreaterThan(before);
    expect((await listed(ASSET, 17, 1))[0]).toBe("MATERIALIZED_LAST_ATTEMPT_FAILED");
    set([17], "MATERIALIZED_LAST_ATTEMPT_FAILED");
    set([25_000], "FAILED");
    await expectMap();
  });

  test("waits for a position without keeping others from theirs", async () => {
    await publish({ asset_key: ASSET, partitions: days });
    const { pos } = await mapOf(ASSET);
    const later = mapOf(ASSET, { min_pos: pos + 1, timeout_ms: 10_000 });
    const params = { asset_key: ASSET };
    const query = { min_pos: pos + 1, timeout_ms: 10_000 };
    const counted = client.call("summarizePartitions", { params, query });
    expect((await mapOf(ASSET)).pos).toBe(pos);
    await publish({ asset_key: OTHER, partitions: days });
    expect((await later).pos).toBe(pos + 1);
    expect((await counted).pos).toBe(pos + 1);
  });

  test("follows keys that are added and days that pass", async () => {
    const tenants = { type: "dynamic", name: "tenants" };
    await publish(
      { asset_key: ASSET, partitions: tenants },
      { asset_key: OTHER, partitions: { type: "hourly", start: "2020-01-01" } },
      { asset_key: "tenants", partitions: { type: "multi", dimensions: { day: days, tenants } } },
    );
    // Not in the order of the ordinals.
    const nameOf = (ordinal: number): string => `tenant-${(ordinal * 7_919) % 22_003}`;
    const add = async (from: number, to: number): Promise<void> => {
      for (let at = from; at < to; at += 10_000) {
        const length = Math.min(10_000, to - at);
        const keys = Array.from({ length }, (_, index) => nameOf(at + index));
        const params = { asset_key: ASSET };
        await client.call("addPartitionKeys", { params, body: { keys, request_id: `from ${at}` } });
      }
    };
    await add(0, 22_000);
    await materialize(ASSET, [0, 5, 21_999].map(nameOf), "SUCCEEDED");
    const both = [0, 21_999].map((at) => `day=2025-06-02,tenants=${nameOf(at)}`);
    await materialize("tenants", both, "SUCCEEDED");
    await materialize(OTHER, ["2020-01-01T05:00Z", "2025-06-30T11:00Z"], "SUCCEEDED");
    const made = async (asset: string, query = {}): Promise<number[]> =>
      cellsOf(await mapOf(asset, query)).flatMap((cell, at) => (cell === "MATERIALIZED" ? at : []));
    expect(await made(ASSET)).toEqual([0, 5, 21_999]);
    expect(await made("tenants")).toEqual([22_000, 43_999]);
    expect(await made("tenants", { from: 22_000, limit: 22_001 })).toEqual([0, 21_999]);
    const hours = (await mapOf(OTHER)).total;
    expect(await made(OTHER)).toEqual([5, hours - 1]);
    expect(await made(OTHER, { from: 5, limit: 40_000 })).toEqual([0]);
    await add(22_000, 22_002);
    await materialize(ASSET, [22_001].map(nameOf), "SUCCEEDED");
    expect(await made(ASSET)).toEqual([0, 5, 21_999, 22_001]);
    expect(await made("tenants")).toEqual([22_002, 44_001]);
    api.jump(3_600_000);
    await materialize(OTHER, ["2025-06-30T12:00Z"], "SUCCEEDED");
    expect(await made(OTHER)).toEqual([5, hours - 1, hours]);
  });

  test("is of one cell for an asset without partitions, and of none past the end", async () => {
    await publish({ asset_key: OTHER, partitions: null }, { asset_key: ASSET, partitions: days });
    expect(await mapOf(OTHER)).toMatchObject({ total: 1, through: 1, dimensions: [] });
    await client.call("requestRun", { body: { assets: [OTHER] } });
    await work(client, "SUCCEEDED");
    expect(cellsOf(await mapOf(OTHER))).toEqual(["MATERIALIZED"]);
    const past = await mapOf(ASSET, { from: 100 });
    expect(past).toMatchObject({ total: 29, from: 29, through: 29, lengths: [] });
    await expect(mapOf("nothing")).rejects.toMatchObject({ code: "ASSET_NOT_FOUND" });
  });
});

describe("the list of an asset's partitions", () => {
  test("begins at an ordinal, or where a page ended, not both", async () => {
    await publish({ asset_key: ASSET, partitions: multi });
    const params = { asset_key: ASSET };
    const page = await client.call("listAssetPartitions", {
      params,
      query: { from: 40, limit: 2 },
    });
    expect(page.items.map(({ ordinal }) => ordinal)).toEqual([40, 41]);
    const cursor = page.next_cursor ?? "";
    const next = await client.call("listAssetPartitions", { params, query: { cursor, limit: 1 } });
    expect(next.items[0]?.ordinal).toBe(42);
    const both = client.call("listAssetPartitions", { params, query: { cursor, from: 3 } });
    await expect(both).rejects.toMatchObject({ code: "INPUT_INVALID" });
  });
});

describe("the values of a dimension", () => {
  test("are listed in order from an ordinal or a value on", async () => {
    await publish({ asset_key: ASSET, partitions: multi }, { asset_key: OTHER, partitions: days });
    const list = (asset_key: string, query: PartInput<"listPartitionValues", "query">) =>
      client.call("listPartitionValues", { params: { asset_key }, query });
    expect(await list(ASSET, { dimension: "region" })).toMatchObject({
      items: [
        { ordinal: 0, value: "eu" },
        { ordinal: 1, value: "us west" },
        { ordinal: 2, value: "ü" },
      ],
      total: 3,
    });
    const around = { dimension: "day", around: "2025-06-20", limit: 2 };
    expect((await list(ASSET, around)).items).toEqual([
      { ordinal: 19, value: "2025-06-20" },
      { ordinal: 20, value: "2025-06-21" },
    ]);
    expect((await list(ASSET, { from: 4, limit: 1 })).items).toEqual([
      { ordinal: 4, value: "day=2025-06-02,region=us%20west" },
    ]);
    expect((await list(OTHER, { around: "2025-06-29" })).items).toHaveLength(1);
    expect((await list(OTHER, { from: 99 })).items).toEqual([]);
    await expect(list(ASSET, { dimension: "regio" })).rejects.toThrow("perhaps region is meant");
    await expect(list(OTHER, { dimension: "day" })).rejects.toThrow("have one only");
    await expect(list(OTHER, { around: "2025-07-09" })).rejects.toThrow(
      "the 29 keys go from 2025-06-01 to 2025-06-29",
    );
  });
});
