import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Client } from "../../src/client/client.ts";
import type { Json } from "../../src/kernel/canonical.ts";
import { rebuildRows } from "../../src/engine/ledger/refold.ts";
import { stateHashes, verifyLedger } from "../../src/engine/ledger/verify.ts";
import type { PartInput } from "../../src/work/operations.ts";
import { freshDatabaseUrl } from "../postgres.ts";
import { type Api, startApi } from "./api-server.ts";

type Result = PartInput<"report", "body">["results"][number];

const daily = { type: "daily", start: "2026-01-01", end: "2026-01-09" } as const;
const ASSETS = [
  { kind: "asset", asset_key: "orders", partitions: daily },
  { kind: "asset", asset_key: "whole", partitions: null },
  { kind: "asset", asset_key: "tenants", partitions: { type: "dynamic", name: "tenants" } },
];
const LARGE = { note: "x".repeat(15_000) };

describe.each([
  { name: "SQLite", databaseUrl: () => Promise.resolve(undefined) },
  { name: "PostgreSQL", databaseUrl: freshDatabaseUrl },
])("metadata over time on $name", ({ databaseUrl }) => {
  let api: Api;
  let client: Client;

  beforeEach(async () => {
    const url = await databaseUrl();
    api = await startApi(url === undefined ? {} : { databaseUrl: url });
    ({ client } = api);
    await client.call("publishDefinitions", { body: { specs: ASSETS } } as never);
  });

  afterEach(() => api.close());

  /** Makes partitions in a run of their own, each with its metadata; answers the run. */
  async function make(
    asset: string,
    keys: readonly string[],
    of: (key: string) => Json | undefined,
  ) {
    const wish = { assets: [asset], ...(keys[0] === "" ? {} : { partition_keys: [...keys] }) };
    const { run_id } = await client.call("requestRun", { body: wish });
    const lease_id = crypto.randomUUID();
    const claim = { worker_id: "w", lease_id, slots: 50, wait_ms: 5_000, code_version: "v1" };
    const { groups } = await client.call("claim", { body: { ...claim, assets: [asset] } });
    const results = groups.flatMap(({ run_pos, tasks }) =>
      tasks.map(({ task_key, attempt, partition_keys }): Result => {
        const metadata = of(partition_keys[0] ?? "");
        const said = metadata === undefined ? {} : { metadata };
        return { run_pos, task_key, attempt, outcome: "SUCCEEDED", ...said };
      }),
    );
    const body = { worker_id: "w", code_version: "v1", results, released_leases: [lease_id] };
    await client.call("report", { body });
    return run_id;
  }

  async function historyOf(asset_key: string, partition?: string, limit = 200): Promise<Json[]> {
    const query = { limit, ...(partition === undefined ? {} : { partition }) };
    const params = { asset_key };
    const all: Json[] = [];
    for await (const { metadata } of client.each("listPartitionMetadata", { params, query })) {
      all.push(metadata);
    }
    return all;
  }

  const numbers = (asset_key: string, query: PartInput<"listPartitionNumbers", "query"> = {}) =>
    client.call("listPartitionNumbers", { params: { asset_key }, query });

  test("I101: each materialization with metadata is there, with what made it", async () => {
    const first = await make("orders", ["2026-01-01", "2026-01-02"], () => ({ rows: 1 }));
    await make("orders", ["2026-01-01"], () => undefined);
    const second = await make("orders", ["2026-01-01"], () => ({ rows: 2, ...LARGE }));
    const params = { asset_key: "orders" };
    await client.call("reportPartitions", {
      params,
      body: {
        items: [
          {
            selector: { type: "explicit", partition_keys: ["2026-01-01"] },
            materialized_at: "2026-01-05T00:00:00.000Z",
            metadata: { rows: 3 },
            code_version: "v9",
          },
        ],
      },
    });
    const query = { partition: "2026-01-01" };
    const { items, next_cursor } = await client.call("listPartitionMetadata", { params, query });
    expect(next_cursor).toBeNull();
    expect(items).toMatchObject([
      {
        metadata: { rows: 3 },
        run_id: null,
        reported_by: expect.any(String),
        materialized_at: "2026-01-05T00:00:00.000Z",
        code_version: "v9",
      },
      { metadata: { rows: 2, ...LARGE }, run_id: second, reported_by: null, code_version: "v1" },
      { metadata: { rows: 1 }, run_id: first, reported_by: null, code_version: "v1" },
    ]);
    expect(await historyOf("orders", "2026-01-02")).toEqual([{ rows: 1 }]);
    expect(await historyOf("orders", "2026-01-03")).toEqual([]);
  });

  test("I102: of many the newest 100 before the last are kept, on pages that stay put", async () => {
    for (let rows = 0; rows < 130; rows++) await make("whole", [""], () => ({ rows }));
    const expected = Array.from({ length: 101 }, (_, at) => ({ rows: 129 - at }));
    expect(await historyOf("whole", undefined, 7)).toEqual(expected);
    const params = { asset_key: "whole" };
    const page = await client.call("listPartitionMetadata", { params, query: { limit: 2 } });
    await make("whole", [""], () => ({ rows: 130 }));
    const cursor = page.next_cursor ?? "";
    const { items } = await client.call("listPartitionMetadata", {
      params,
      query: { limit: 2, cursor },
    });
    expect(items.map(({ metadata }) => metadata)).toEqual([{ rows: 127 }, { rows: 126 }]);
  }, 120_000);

  test("I102: a page has about a megabyte of metadata, whatever its limit", async () => {
    for (let at = 0; at < 70; at++) await make("whole", [""], () => ({ at, ...LARGE }));
    const params = { asset_key: "whole" };
    const page = await client.call("listPartitionMetadata", { params, query: { limit: 200 } });
    expect(page.items).toHaveLength(67);
    expect(page.next_cursor).not.toBeNull();
    expect(await historyOf("whole")).toHaveLength(70);
  }, 120_000);

  test("I103: is the same after the ledger was folded anew", async () => {
    await make("orders", ["2026-01-01", "2026-01-02"], () => ({ rows: 1 }));
    await make("orders", ["2026-01-01"], () => LARGE);
    await make("orders", ["2026-01-01"], () => ({ rows: 2 }));
    const before = await historyOf("orders", "2026-01-01");
    expect(before).toEqual([{ rows: 2 }, LARGE, { rows: 1 }]);
    const { store } = api;
    const [workspace] = await store.workspaces();
    if (workspace === undefined) throw new Error("There is a workspace.");
    const hashes = await store.read(workspace.ws, stateHashes);
    await verifyLedger(store, workspace);
    await rebuildRows(store, workspace, { batch: 1 });
    expect(await store.read(workspace.ws, stateHashes)).toEqual(hashes);
    expect(await historyOf("orders", "2026-01-01")).toEqual(before);
  });

  test("I104: what was reported and is taken back leaves no history; what was removed keeps it", async () => {
    const params = { asset_key: "tenants" };
    await client.call("addPartitionKeys", { params, body: { keys: ["a", "b"] } });
    const selector = { type: "explicit" as const, partition_keys: ["a"] };
    for (const rows of [1, 2, 3]) {
      await client.call("reportPartitions", {
        params,
        body: { items: [{ selector, metadata: { rows } }] },
      });
    }
    expect(await historyOf("tenants", "a")).toEqual([{ rows: 3 }, { rows: 2 }, { rows: 1 }]);
    await client.call("forgetPartitions", { params, body: { selector } });
    expect(await historyOf("tenants", "a")).toEqual([]);
    await make("tenants", ["a", "b"], () => ({ rows: 4 }));
    await make("tenants", ["a", "b"], () => ({ rows: 5 }));
    expect(await historyOf("tenants", "a")).toEqual([{ rows: 5 }, { rows: 4 }]);
    await client.call("removePartitionKeys", { params, body: { keys: ["b"] } });
    expect(await historyOf("tenants", "b")).toEqual([{ rows: 5 }, { rows: 4 }]);
    await expect(historyOf("tenants", "c")).rejects.toMatchObject({ code: "PARTITION_INVALID" });
  });

  test("numbers of neighbouring partitions are told in order, by name and with their unit", async () => {
    const keys = ["2026-01-01", "2026-01-02", "2026-01-04"];
    await make("orders", keys, (key) => ({
      rows: Number(key.slice(-2)),
      size: { type: "number", value: 7, unit: "MB" },
      text: "no number",
    }));
    await make("orders", ["2026-01-05"], () => ({ text: "no number" }));
    const answer = await numbers("orders");
    const [first] = answer.items;
    expect(answer).toMatchObject({
      total: 8,
      from: 0,
      through: 8,
      names: [
        { name: "rows", unit: null },
        { name: "size", unit: "MB" },
      ],
    });
    expect(first).toMatchObject({ partition_key: "2026-01-01", ordinal: 0 });
    expect(answer.items.map(({ numbers: own }) => own)).toEqual(
      [1, 2, 4].map((rows) => ({ rows, size: 7 })),
    );
    const part = await numbers("orders", { from: 1, limit: 2, names: "rows" });
    expect(part).toMatchObject({ from: 1, through: 3, items: [{ numbers: { rows: 2 } }] });
    expect((await numbers("orders", { limit: 6 })).items).toMatchObject([{ ordinal: 3 }]);
    await make("whole", [""], () => ({ rows: 9 }));
    expect(await numbers("whole")).toMatchObject({ total: 1, items: [{ partition_key: "" }] });
  });
});
