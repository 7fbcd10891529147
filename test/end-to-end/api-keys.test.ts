import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Client } from "../../src/client/client.ts";
import { instantOf } from "../../src/kernel/instant.ts";
import { type Api, publish, startApi, work } from "./api-server.ts";

const params = { asset_key: "tenants" };

let api: Api;
let client: Client;

beforeEach(async () => {
  api = await startApi();
  ({ client } = api);
  await publish(client);
  await client.call("addPartitionKeys", { params, body: { keys: ["a", "b", "c", "d"] } });
});

afterEach(() => api.close());

function remove(...keys: string[]) {
  return client.call("removePartitionKeys", { params, body: { keys } });
}

/** Makes everything, until nothing is left. */
async function workAll(): Promise<void> {
  while ((await work(client, "SUCCEEDED", null, 1_000)) > 0);
}

async function shownKeys(query: object = {}): Promise<string[]> {
  const { items } = await client.call("listAssetPartitions", { params, query });
  return items.map(({ partition_key }) => partition_key);
}

async function backfill(keys?: string[]) {
  const selector =
    keys === undefined
      ? ({ type: "all" } as const)
      : ({ type: "explicit", partition_keys: keys } as const);
  const body = { assets: ["tenants"], selector, chunk_size: 1, max_concurrent_runs: 1 };
  return client.call("createBackfill", { body });
}

describe("keys of dynamic partitions", () => {
  test("I90: that are removed are never stale, however old what was made of them is", async () => {
    await backfill();
    await workAll();
    await remove("b");
    const { spec } = await client.call("getAsset", { params });
    const aging = { ...spec, freshness: { maximum_lag_minutes: 1 } };
    await client.call("publishDefinitions", { body: { specs: [aging] } });
    api.jump(120_000);
    const { items } = await client.call("listPartitions", { query: { asset: "tenants" } });
    const reasons = items.map(({ partition_key, stale_reason }) => [partition_key, stale_reason]);
    const old = "FRESHNESS_POLICY";
    expect(Object.fromEntries(reasons)).toEqual({ a: old, b: null, c: old, d: old });
  });

  test("I90: that are removed are selected by nothing, and what was made of them is shown", async () => {
    await backfill();
    await workAll();
    expect(await client.call("summarizePartitions", { params })).toMatchObject({
      total: 4,
      materialized: 4,
    });
    const removed = await remove("b", "x");
    expect(removed).toMatchObject({ definition: "tenants", removed: 1, absent: 1, count: 3 });
    expect(await remove("b")).toMatchObject({ removed: 0, absent: 1, accepted_event_id: null });

    expect(await shownKeys()).toEqual(["a", "c", "d"]);
    expect(await client.call("getAsset", { params })).toMatchObject({ partition_count: 3 });
    expect(await client.call("summarizePartitions", { params })).toMatchObject({
      total: 3,
      materialized: 3,
      never_materialized: 0,
    });
    const map = await client.call("mapPartitions", { params, query: {} });
    expect(map).toMatchObject({ total: 3, through: 3 });
    expect(map.lengths).toHaveLength(2);
    const values = await client.call("listPartitionValues", { params, query: {} });
    expect(values.items.map(({ value }) => value)).toEqual(["a", "c", "d"]);
    const { items } = await client.call("listPartitions", { query: { asset: "tenants" } });
    const ordinals = items.map(({ partition_key, ordinal }) => [partition_key, ordinal]);
    expect(Object.fromEntries(ordinals)).toEqual({ a: 0, b: null, c: 1, d: 2 });
    await expect(backfill(["b"])).rejects.toMatchObject({ code: "PARTITION_INVALID" });

    const [event] = (await client.call("listEvents", { query: { type: "PartitionKeysRemoved" } }))
      .items;
    expect(event).toMatchObject({ data: { keys: ["b"], numbers: [[1, 1]] } });
    expect(event?.actor.principal).toEqual(expect.any(String));
    await client.call("addPartitionKeys", { params, body: { keys: ["e", "b"] } });
    expect(await shownKeys()).toEqual(["a", "b", "c", "d", "e"]);
    expect(await client.call("summarizePartitions", { params })).toMatchObject({
      total: 5,
      materialized: 4,
    });
  });

  test("I28: that are removed while a backfill goes on are made all the same, and not by the next", async () => {
    const { backfill_id } = await backfill();
    await remove("d", "b");
    await workAll();
    const params_ = { backfill_id };
    expect(await client.call("getBackfill", { params: params_ })).toMatchObject({
      state: "SUCCEEDED",
      total_partitions: 4,
    });
    const { items } = await client.call("listChunks", { params: params_, query: {} });
    expect(items.map(({ partition_keys }) => partition_keys)).toEqual([["a"], ["b"], ["c"], ["d"]]);
    const body = { assets: ["tenants"], selector: { type: "all" } as const };
    expect(await client.call("previewBackfill", { body })).toMatchObject({ total_partitions: 2 });
  });

  test("I5: may be removed again by a request that is named like one of long ago", async () => {
    const body = { request_id: "nightly", keys: ["b"] };
    for (let time = 0; time < 2; time++) {
      const first = await client.call("removePartitionKeys", { params, body });
      expect(first).toMatchObject({ removed: 1, count: 3 });
      expect(await client.call("removePartitionKeys", { params, body })).toEqual(first);
      const added = await client.call("addPartitionKeys", { params, body });
      expect(added).toMatchObject({ added: 1, count: 4 });
      // As the server does when they are eight days old.
      await api.store.pruneAnswers(api.engines[0].workspace.ws, instantOf(Date.now() + 1_000));
    }
  });

  test("I5: may be added by a request that is named like one of long ago", async () => {
    for (const [at, keys] of [["x"], ["y", "z"], ["z", "w"]].entries()) {
      const body = { request_id: "nightly", keys };
      const first = await client.call("addPartitionKeys", { params, body });
      expect(first).toMatchObject({ added: at === 1 ? 2 : 1 });
      expect(await client.call("addPartitionKeys", { params, body })).toEqual(first);
      // As the server does when they are eight days old.
      await api.store.pruneAnswers(api.engines[0].workspace.ws, instantOf(Date.now() + 1_000));
    }
  });

  test("I63: that are removed between two pages pass none of the others by", async () => {
    const first = await client.call("listAssetPartitions", { params, query: { limit: 2 } });
    await remove("a");
    const { next_cursor } = first;
    const rest = await shownKeys({ limit: 2, cursor: next_cursor ?? "" });
    expect(rest).toEqual(["c", "d"]);
    const stale = await client.call("listStalePartitions", {
      query: { asset: "tenants", limit: 1 },
    });
    expect(stale.items.map(({ partition_key }) => partition_key)).toEqual(["b"]);
    await remove("b");
    const cursor = stale.next_cursor ?? "";
    const query = { asset: "tenants", limit: 5, cursor };
    const { items } = await client.call("listStalePartitions", { query });
    expect(items.map(({ partition_key }) => partition_key)).toEqual(["c", "d"]);
  });

  test("I63: that are removed between two pages of what something is made from pass no other by", async () => {
    const upstream = [{ asset_key: "tenants", mapping: { type: "all" as const } }];
    const sum = { kind: "asset" as const, asset_key: "sum", partitions: null, upstream };
    await client.call("publishDefinitions", { body: { specs: [sum] } });
    const page = (query: object) =>
      client.call("listUpstreamPartitions", { params: { asset_key: "sum" }, query });
    const first = await page({ limit: 2 });
    expect(first.items.map(({ partition_key }) => partition_key)).toEqual(["a", "b"]);
    await remove("a");
    const second = await page({ limit: 2, cursor: first.next_cursor });
    expect(second.items.map(({ partition_key }) => partition_key)).toEqual(["c", "d"]);
    expect(second).toMatchObject({ total: 3, next_cursor: null });
  });

  test("I63: of one of several dimensions may come and go between two pages of its partitions", async () => {
    const n = { type: "static" as const, keys: ["1", "2"] };
    const tenant = { type: "dynamic" as const, name: "tenants" };
    const partitions = { type: "multi" as const, dimensions: { n, tenant } };
    const specs = [{ kind: "asset" as const, asset_key: "grid", partitions }];
    await client.call("publishDefinitions", { body: { specs } });
    const keys = ["a", "b", "c", "d"];
    const all = ["1", "2"].flatMap((each) => keys.map((key) => `n=${each},tenant=${key}`));
    const pages = {
      asset: (query: object) =>
        client.call("listAssetPartitions", { params: { asset_key: "grid" }, query }),
      stale: (query: object) =>
        client.call("listStalePartitions", { query: { asset: "grid", ...query } }),
    };
    const add = (key: string) => client.call("addPartitionKeys", { params, body: { keys: [key] } });
    for (const [page, change, undo] of [
      [pages.asset, remove, add],
      [pages.stale, remove, add],
      [pages.asset, add, remove],
    ] as const) {
      for (const key of keys) {
        await undo(key);
        const shown: string[] = [];
        const show = async (query: object) => {
          const { items, next_cursor } = await page({ limit: 3, ...query });
          shown.push(...items.map(({ partition_key }) => partition_key));
          return next_cursor;
        };
        let cursor = await show({});
        await change(key);
        while (cursor !== null) cursor = await show({ cursor });
        await add(key);
        const throughout = all.filter((each) => !each.endsWith(`=${key}`));
        expect(shown.filter((each) => throughout.includes(each))).toEqual(throughout);
      }
    }
  });

  test("I93: that a task adds are there with its success, and its report may come twice", async () => {
    const run = (key: string) =>
      client.call("requestRun", { body: { assets: ["tenants"], partition_keys: [key] } });
    const report = async (keys: string[], definition = "tenants") => {
      const claim = { worker_id: "w", lease_id: crypto.randomUUID(), slots: 1, wait_ms: 0 };
      const asked = { ...claim, assets: ["tenants"], code_version: null };
      const { groups } = await client.call("claim", { body: asked });
      const results = groups.flatMap(({ run_pos, tasks }) =>
        tasks.map(({ task_key, attempt }) => {
          const ref = { run_pos, task_key, attempt };
          return { ...ref, outcome: "SUCCEEDED" as const, added_keys: [{ definition, keys }] };
        }),
      );
      const body = { worker_id: "w", code_version: null, results, released_leases: [] };
      return [await client.call("report", { body }), await client.call("report", { body })];
    };
    await run("a");
    expect(await report(["e", "a"])).toMatchObject([
      { results: ["recorded"] },
      { results: ["lost"] },
    ]);
    expect(await shownKeys()).toEqual(["a", "b", "c", "d", "e"]);
    await run("b");
    expect(await report(["f"], "tenant")).toMatchObject([
      { results: ["recorded"] },
      { results: ["lost"] },
    ]);
    expect(await shownKeys()).toEqual(["a", "b", "c", "d", "e"]);
    const { items } = await client.call("listRuns", { query: {} });
    expect(items[0]?.state).not.toBe("SUCCEEDED");
  });

  test("I76: that a task adds are no more than one commit takes, of however many definitions", async () => {
    const keys = Array.from({ length: 10_000 }, (_, n) => `${n}`);
    const added_keys = ["tenants", "b", "c"].map((definition) => ({ definition, keys }));
    const result = { run_pos: 1, task_key: 0, attempt: 1, outcome: "SUCCEEDED" as const };
    const body = { worker_id: "w", code_version: null, released_leases: [] };
    const told = client.call("report", { body: { ...body, results: [{ ...result, added_keys }] } });
    await expect(told).rejects.toMatchObject({ code: "INPUT_INVALID" });
    await expect(told).rejects.toThrow("20000 keys together");
  });

  test("I89: that an evaluation adds are there together with its runs, or not at all", async () => {
    await client.call("createSensor", {
      body: {
        name: "files",
        mode: "poll",
        watch: { type: "files", folder: "/data" },
        target: { asset_selection: ["tenants"], partition_key: "{stem}" },
        min_interval_ms: 100,
      },
    });
    await client.call("tick");
    const report = async (cursor: string, key: string, definition: string) => {
      const body = { worker_id: "worker", sensors: [], slots: 10, wait_ms: 0 };
      const { probes } = await client.call("claimProbes", { body });
      const request = {
        asset_selection: ["tenants"],
        partition_keys: [key],
        add: true,
        run_key: key,
        config: null,
        labels: {},
      };
      const added_keys = [{ definition, keys: [`${key}-too`] }];
      const outcome = { type: "evaluated" as const, cursor, run_requests: [request], added_keys };
      const results = probes.map(({ probe_id, attempt, ...probe }) => {
        const { cursor: read, expected_state_version, poll_epoch } = probe;
        const of = { probe_id, attempt, cursor: read, expected_state_version, poll_epoch };
        return { ...of, outcome };
      });
      await client.call("reportProbes", { body: { worker_id: "worker", results } });
      return probes.length;
    };
    expect(await report("c1", "n1", "tenant")).toBe(1);
    const sensor = { params: { sensor_id: "files" } };
    expect(await client.call("getSensor", sensor)).toMatchObject({ state: "ERROR", cursor: null });
    expect(await shownKeys()).toEqual(["a", "b", "c", "d"]);
    api.jump(600_000);
    expect(await report("c1", "n1", "tenants")).toBe(1);
    expect(await client.call("getSensor", sensor)).toMatchObject({ state: "ACTIVE", cursor: "c1" });
    expect((await shownKeys()).toSorted()).toEqual(["a", "b", "c", "d", "n1", "n1-too"]);
    const { items } = await client.call("listRuns", { query: {} });
    expect(items[0]).toMatchObject({ partition_keys: ["n1"] });
  });
});
