import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Client } from "../../src/client/client.ts";
import type { PartitionDocument } from "../../src/work/asset/api.ts";
import { type Api, currentOverview, startApi, work } from "./api-server.ts";

let api: Api;
let client: Client;

beforeEach(async () => {
  api = await startApi();
  ({ client } = api);
});

afterEach(() => api.close());

const partitions = { type: "daily", start: "2025-01-01", end: "2025-01-04" } as const;
const identity = { type: "identity" } as const;
const raw = { kind: "asset", asset_key: "sales/orders", partitions } as const;
const made = {
  kind: "asset",
  asset_key: "report",
  partitions,
  upstream: [{ asset_key: "sales/orders", mapping: identity }],
} as const;

type Specs = Parameters<Client["call"]>[1];

async function publish(...specs: object[]): Promise<void> {
  await client.call("publishDefinitions", { body: { specs } } as Specs as never);
}

async function materialize(asset: string, keys: string[], outcome: "SUCCEEDED" | "FAILED") {
  await client.call("requestRun", { body: { assets: [asset], partition_keys: keys } });
  await work(client, outcome);
}

async function statusOf(asset: string, query = {}): Promise<Record<string, string | null>> {
  const params = { asset_key: asset };
  const all: Record<string, string | null> = {};
  for await (const partition of client.each("listAssetPartitions", { params, query })) {
    all[partition.partition_key] = shown(partition);
  }
  return all;
}

function shown({ status, stale_reason }: PartitionDocument): string {
  return status === "STALE" ? `STALE ${stale_reason}` : status;
}

describe("the status of partitions", () => {
  test("I44: goes from never to in progress to materialized, and a failure does not hide data", async () => {
    await publish(raw);
    const never = "NEVER_MATERIALIZED";
    expect(await statusOf("sales/orders")).toEqual({
      "2025-01-01": never,
      "2025-01-02": never,
      "2025-01-03": never,
    });
    await materialize("sales/orders", ["2025-01-01", "2025-01-02"], "SUCCEEDED");
    await materialize("sales/orders", ["2025-01-02"], "FAILED");
    const body = { assets: ["sales/orders"], partition_keys: ["2025-01-03"] };
    await client.call("requestRun", { body });
    const assets = ["sales/orders"];
    const claim = {
      worker_id: "w",
      lease_id: "l",
      slots: 1,
      assets,
      code_version: null,
      wait_ms: 0,
    };
    await client.call("claim", { body: { ...claim, wait_ms: 1_000 } });
    expect(await statusOf("sales/orders")).toEqual({
      "2025-01-01": "MATERIALIZED",
      "2025-01-02": "MATERIALIZED_LAST_ATTEMPT_FAILED",
      "2025-01-03": "IN_PROGRESS",
    });
    const params = { asset_key: "sales/orders" };
    expect(await client.call("summarizePartitions", { params })).toMatchObject({
      total: 3,
      in_progress: 1,
      never_materialized: 0,
      materialized_last_attempt_failed: 1,
      materialized: 1,
      being_remade: 0,
    });
    const failed = { status: "MATERIALIZED_LAST_ATTEMPT_FAILED", limit: 1 };
    expect(Object.keys(await statusOf("sales/orders", failed))).toEqual(["2025-01-02"]);
  });

  test("I44: is materialized while it is remade, in the summary of many and of millions", async () => {
    for (const end of [1_000_000, 20_000_000]) {
      await publish({ ...raw, partitions: { type: "integers", start: 0, end, size: 10 } });
      const keys = ["0-9", "10-19", "20-29", "30-39"];
      await materialize("sales/orders", keys.slice(0, 3), "SUCCEEDED");
      await materialize("sales/orders", keys.slice(1, 2), "FAILED");
      await client.call("requestRun", {
        body: { assets: ["sales/orders"], partition_keys: keys.slice(1) },
      });
      const lease = { worker_id: "w", lease_id: `${end}`, slots: 9, code_version: null };
      await client.call("claim", { body: { ...lease, assets: ["sales/orders"], wait_ms: 1_000 } });
      const summary = await client.call("summarizePartitions", {
        params: { asset_key: "sales/orders" },
      });
      expect(summary).toMatchObject({
        total: end / 10,
        in_progress: 3,
        never_materialized: end / 10 - 4,
        materialized_last_attempt_failed: 0,
        materialized: 3,
        being_remade: 2,
      });
      api.jump(600_000);
      await client.call("tick", {});
    }
  });

  test("I44: is failed where the first attempt failed, with its message and its task, in all views", async () => {
    await publish(raw);
    await materialize("sales/orders", ["2025-01-02", "2025-01-03"], "FAILED");
    expect(await statusOf("sales/orders")).toEqual({
      "2025-01-01": "NEVER_MATERIALIZED",
      "2025-01-02": "FAILED",
      "2025-01-03": "FAILED",
    });
    const params = { asset_key: "sales/orders" };
    expect(await client.call("summarizePartitions", { params })).toMatchObject({
      total: 3,
      never_materialized: 1,
      failed: 2,
      stale_reasons: { NEVER_MATERIALIZED: 3 },
    });
    const query = { status: "FAILED" };
    for (const { items } of [
      await client.call("listAssetPartitions", { params, query }),
      await client.call("listPartitions", { query }),
      await client.call("listStalePartitions", { query: { asset: "sales/orders" } }),
    ]) {
      const failed = items.filter(({ status }) => status === "FAILED");
      expect(failed.map((item) => item.last_attempt_error)).toEqual([
        { task_key: 0, class: "user", message: "no" },
        { task_key: 1, class: "user", message: "no" },
      ]);
    }
    for (const stale of ["", "true"] as const) {
      const map = await client.call("mapPartitions", { params, query: { stale } });
      expect(map).toMatchObject({
        lengths: [map.statuses.indexOf("NEVER_MATERIALIZED"), 1, map.statuses.indexOf("FAILED"), 2],
      });
    }
    const { attention } = await currentOverview(client);
    const stale = attention.find(({ what, id }) => what === "stale" && id === "sales/orders");
    expect(stale?.text).toBe("3 partitions are stale: 1 never materialized, 2 failed.");
    await materialize("sales/orders", ["2025-01-01"], "FAILED");
    const { attention: later } = await currentOverview(client);
    expect(later.find(({ what }) => what === "stale")?.text).toBe(
      "3 partitions are stale: 3 failed.",
    );
    await materialize("sales/orders", ["2025-01-02"], "SUCCEEDED");
    const retried = await client.call("listAssetPartitions", {
      params,
      query: { from: 1, limit: 1 },
    });
    expect(retried.items[0]).toMatchObject({ status: "MATERIALIZED", last_attempt_error: null });
  });

  test("I46: is stale after a new code version or its time, by the clock of the question", async () => {
    await publish({ ...raw, code_version: "1", freshness: { maximum_lag_minutes: 60 } });
    await client.call("requestRun", {
      body: { assets: ["sales/orders"], partition_keys: ["2025-01-01"] },
    });
    await work(client, "SUCCEEDED", "1");
    const query = { limit: 1 };
    const first = async () => (await statusOf("sales/orders", query))["2025-01-01"];
    expect(await first()).toBe("MATERIALIZED");
    api.jump(3_660_000);
    expect(await first()).toBe("STALE FRESHNESS_POLICY");
    await publish({ ...raw, code_version: "2", freshness: { maximum_lag_minutes: 60 } });
    expect(await first()).toBe("STALE CODE_CHANGED");
  });

  test("I46: is stale when what it was made from was made again", async () => {
    await publish(raw, made);
    const keys = ["2025-01-01", "2025-01-02"];
    await materialize("sales/orders", keys, "SUCCEEDED");
    await materialize("report", keys, "SUCCEEDED");
    expect(await statusOf("report", { limit: 2 })).toMatchObject({
      "2025-01-01": "MATERIALIZED",
      "2025-01-02": "MATERIALIZED",
    });
    await materialize("sales/orders", ["2025-01-02"], "SUCCEEDED");
    expect(await statusOf("report")).toEqual({
      "2025-01-01": "MATERIALIZED",
      "2025-01-02": "STALE UPSTREAM_CHANGED",
      "2025-01-03": "NEVER_MATERIALIZED",
    });
    const { items } = await client.call("listPartitions", { query: { status: "STALE" } });
    expect(items.map(({ asset_key, partition_key }) => [asset_key, partition_key])).toEqual([
      ["report", "2025-01-02"],
    ]);
  });

  test("I46: is stale when everything upstream counts and any of it was made again", async () => {
    await publish(raw, {
      ...made,
      partitions: null,
      upstream: [{ asset_key: "sales/orders", mapping: { type: "all" } }],
    });
    await materialize("sales/orders", ["2025-01-01"], "SUCCEEDED");
    await client.call("requestRun", { body: { assets: ["report"] } });
    await work(client, "SUCCEEDED");
    expect(await statusOf("report")).toEqual({ "": "MATERIALIZED" });
    await materialize("sales/orders", ["2025-01-03"], "SUCCEEDED");
    expect(await statusOf("report")).toEqual({ "": "STALE UPSTREAM_CHANGED" });
  });

  test("I46: is stale by any of thousands of partitions upstream, never fresh by a part of them", async () => {
    const hours = { type: "integers", start: 0, end: 3_000 };
    const day = { type: "static", keys: ["all", "none"] };
    const map = { all: Array.from({ length: 3_000 }, (_, at) => String(at)), none: [] };
    await publish(
      { ...raw, partitions: hours },
      {
        ...made,
        partitions: day,
        upstream: [{ asset_key: "sales/orders", mapping: { type: "table", map } }],
      },
    );
    await materialize("report", ["all", "none"], "SUCCEEDED");
    expect(await statusOf("report")).toEqual({ all: "MATERIALIZED", none: "MATERIALIZED" });
    await materialize("sales/orders", ["2999"], "SUCCEEDED");
    expect(await statusOf("report")).toEqual({
      all: "STALE UPSTREAM_CHANGED",
      none: "MATERIALIZED",
    });
  });

  test("is bounded in time by the last attempt", async () => {
    await publish(raw);
    await materialize("sales/orders", ["2025-01-01"], "SUCCEEDED");
    api.jump(86_400_000);
    await materialize("sales/orders", ["2025-01-02"], "SUCCEEDED");
    const since = new Date(Date.now() + 3_600_000).toISOString();
    expect(Object.keys(await statusOf("sales/orders", { since }))).toEqual(["2025-01-02"]);
    const { items } = await client.call("listPartitions", { query: { until: since } });
    expect(items.map(({ partition_key }) => partition_key)).toEqual(["2025-01-01"]);
  });

  test("lists a billion partitions a page at a time", async () => {
    const many = { type: "integers", start: 0, end: 1_000_000_000 };
    await publish({ kind: "asset", asset_key: "blocks", partitions: many });
    const params = { asset_key: "blocks" };
    const page = await client.call("listAssetPartitions", { params, query: { limit: 2 } });
    expect(page.items.map(({ ordinal }) => ordinal)).toEqual([0, 1]);
    expect(page.next_cursor).not.toBeNull();
    const asset = await client.call("getAsset", { params });
    expect(asset.partition_count).toBe(1_000_000_000);
    const none = await client.call("listAssetPartitions", {
      params,
      query: { status: "MATERIALIZED" },
    });
    expect(none).toMatchObject({ items: [] });
    expect(none.next_cursor).not.toBeNull();
  });
});

describe("the list of stale partitions", () => {
  async function stale(query = {}): Promise<[string, string, string | null, string | null][]> {
    const all: [string, string, string | null, string | null][] = [];
    for await (const each of client.each("listStalePartitions", { query })) {
      all.push([each.asset_key, each.partition_key, each.stale_reason, each.stale_since]);
    }
    return all;
  }

  test("I46: has the first reason that applies to each, and since when", async () => {
    const lag = { freshness: { maximum_lag_minutes: 60 } };
    await publish({ ...raw, ...lag, code_version: "1" }, made);
    const keys = ["2025-01-01", "2025-01-02"];
    await client.call("requestRun", { body: { assets: ["sales/orders"], partition_keys: keys } });
    await work(client, "SUCCEEDED", "1");
    await materialize("report", keys, "SUCCEEDED");
    expect(await stale()).toEqual([
      ["report", "2025-01-03", "NEVER_MATERIALIZED", null],
      ["sales/orders", "2025-01-03", "NEVER_MATERIALIZED", null],
    ]);

    const params = { asset_key: "sales/orders" };
    const [first] = (await client.call("listAssetPartitions", { params })).items;
    const deadline = Date.parse(first?.last_materialization_at ?? "") + 3_600_000;
    api.jump(7_200_000);
    expect(await stale({ reason: "FRESHNESS_POLICY", limit: 1 })).toEqual(
      keys.map((key) => ["sales/orders", key, "FRESHNESS_POLICY", expect.any(String)]),
    );
    expect((await stale({ reason: "FRESHNESS_POLICY" }))[0]?.[3]).toBe(
      new Date(deadline).toISOString(),
    );

    await client.call("requestRun", {
      body: { assets: ["sales/orders"], partition_keys: ["2025-01-02"] },
    });
    await work(client, "SUCCEEDED", "1");
    const again = (await client.call("listAssetPartitions", { params })).items[1];
    expect(await stale({ asset: "report", limit: 1 })).toEqual([
      ["report", "2025-01-02", "UPSTREAM_CHANGED", again?.last_materialization_at],
      ["report", "2025-01-03", "NEVER_MATERIALIZED", null],
    ]);

    await publish({ ...raw, ...lag, code_version: "2" }, made);
    const { code_version_at } = await client.call("getAsset", { params });
    expect(await stale({ asset: "sales/orders", reason: "CODE_CHANGED" })).toEqual(
      keys.map((key) => ["sales/orders", key, "CODE_CHANGED", code_version_at]),
    );
  });

  test("goes on with a cursor where a page is empty, and refuses an unknown asset", async () => {
    const many = { type: "integers", start: 0, end: 1_000_000_000 };
    await publish(raw, { kind: "asset", asset_key: "tenants", partitions: many });
    await materialize("tenants", ["0", "1"], "SUCCEEDED");
    const page = await client.call("listStalePartitions", {
      query: { asset: "tenants", limit: 1 },
    });
    expect(page.items.map(({ partition_key }) => partition_key)).toEqual(["2"]);
    const reason = "CODE_CHANGED,UPSTREAM_CHANGED";
    expect(await stale({ reason })).toEqual([]);
    const query = { asset: "nothing" };
    const refused = client.call("listStalePartitions", { query });
    await expect(refused).rejects.toMatchObject({ code: "ASSET_NOT_FOUND" });
  });
});

describe("what a partition is made from", () => {
  const params = { asset_key: "report" };
  const query = { partition: "2025-01-02" };

  test("is listed with its status, whether the partition was made or not", async () => {
    await publish(raw, made);
    await materialize("sales/orders", ["2025-01-02"], "FAILED");
    const failed = await client.call("listUpstreamPartitions", { params, query });
    expect(failed.total).toBe(1);
    expect(failed.items).toMatchObject([
      { asset_key: "sales/orders", partition_key: "2025-01-02", status: "FAILED" },
    ]);
    expect(failed.items[0]?.last_attempt_error?.message).toEqual(expect.any(String));
    await materialize("sales/orders", ["2025-01-02"], "SUCCEEDED");
    await materialize("report", ["2025-01-02"], "SUCCEEDED");
    const after = await client.call("listUpstreamPartitions", { params, query });
    expect(after.items).toMatchObject([{ status: "MATERIALIZED" }]);
  });

  test("goes over pages, asset by asset, with everything of what it is made from as a whole", async () => {
    const whole = { ...made, upstream: [{ asset_key: "sales/orders", mapping: { type: "all" } }] };
    await publish(raw, whole);
    const keys: string[] = [];
    const limited = { ...query, limit: 2 };
    for await (const each of client.each("listUpstreamPartitions", { params, query: limited })) {
      keys.push(each.partition_key);
    }
    expect(keys).toEqual(["2025-01-01", "2025-01-02", "2025-01-03"]);
  });

  test("needs a partition that there is", async () => {
    await publish(raw, made);
    const refused = client.call("listUpstreamPartitions", { params, query: { partition: "2024" } });
    await expect(refused).rejects.toMatchObject({ code: "PARTITION_INVALID" });
    await expect(client.call("listUpstreamPartitions", { params })).rejects.toThrow(
      "report has partitions: say which one is meant, such as 2025-01-01.",
    );
    const none = { params: { asset_key: "sales/orders" }, query };
    expect(await client.call("listUpstreamPartitions", none)).toMatchObject({
      items: [],
      total: 0,
    });
  });
});

describe("a name that there is not", () => {
  test("is answered with the one that was probably meant", async () => {
    await publish(raw, made);
    await expect(client.call("getAsset", { params: { asset_key: "reprot" } })).rejects.toThrow(
      'There is no asset "reprot". Did you mean report? `pawl asset list`',
    );
    const body = { assets: ["sales/order"], selector: { type: "all" as const } };
    await expect(client.call("createBackfill", { body })).rejects.toMatchObject({
      code: "ASSET_NOT_FOUND",
      details: { meant: "sales/orders" },
    });
    const unlike = client.call("getAsset", { params: { asset_key: "customers" } });
    await expect(unlike).rejects.not.toThrow("Did you mean");
  });
});
