import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Client } from "../../src/client/client.ts";
import type { PartInput } from "../../src/work/operations.ts";
import { PARTITION_BLOCKS } from "../../src/work/run/rows.ts";
import { type Api, startApi, work } from "./api-server.ts";

let api: Api;
let client: Client;

const partitions = { type: "daily", start: "2025-01-01", end: "2025-01-06" } as const;
const raw = { kind: "asset", asset_key: "sales/orders", partitions, external: true } as const;
const made = {
  kind: "asset",
  asset_key: "report",
  partitions,
  upstream: [{ asset_key: "sales/orders", mapping: { type: "identity" } }],
} as const;
const [FIRST, SECOND] = ["2025-01-01", "2025-01-02"];
const AT = "2025-02-01T00:00:00.000Z";

beforeEach(async () => {
  api = await startApi();
  ({ client } = api);
  await client.call("publishDefinitions", { body: { specs: [raw, made] } } as never);
});

afterEach(() => api.close());

type Items = PartInput<"reportPartitions", "body">["items"];

function report(asset_key: string, items: Items) {
  return client.call("reportPartitions", { params: { asset_key }, body: { items } });
}

async function statusesOf(asset_key: string): Promise<string[]> {
  const { items } = await client.call("listAssetPartitions", { params: { asset_key }, query: {} });
  return items.map(({ status, stale_reason }) => `${status} ${stale_reason ?? ""}`.trim());
}

const keys = (...partition_keys: string[]) => ({ type: "explicit" as const, partition_keys });

const NEVER = "NEVER_MATERIALIZED NEVER_MATERIALIZED";

describe("partitions that were made elsewhere", () => {
  test("I88: count as materialized, with who said so, when, by what code and with what metadata", async () => {
    const range = { type: "range", start: FIRST, end: SECOND } as const;
    const said = { materialized_at: AT, code_version: "v7", metadata: { rows: 3 } };
    expect(await report("sales/orders", [{ selector: range, ...said }])).toMatchObject({
      reported: 2,
    });
    const { items } = await client.call("listAssetPartitions", {
      params: { asset_key: "sales/orders" },
      query: {},
    });
    expect(items[0]).toMatchObject({
      status: "MATERIALIZED",
      last_materialization_at: AT,
      last_materialization_code_version: "v7",
      last_materialization_run_id: null,
      last_materialization_reported_by: expect.any(String),
      last_attempt_run_id: null,
      metadata: { rows: 3 },
    });
    expect(await statusesOf("sales/orders")).toEqual([
      "MATERIALIZED",
      "MATERIALIZED",
      NEVER,
      NEVER,
      NEVER,
    ]);
    const summary = await client.call("summarizePartitions", {
      params: { asset_key: "sales/orders" },
      query: {},
    });
    expect(summary).toMatchObject({ materialized: 2, never_materialized: 3 });
    const entity = `sales/orders@${FIRST}`;
    const about = await client.call("listEvents", { query: { entity } });
    expect(about.items.map(({ type }) => type)).toEqual(["PartitionsReported"]);
    const why = await client.call("explainEntity", { query: { entity } });
    expect(why.items.map(({ type }) => type)).toEqual(["PartitionsReported"]);
  });

  test("I88: make what is made from them stale, across the border", async () => {
    const one = keys(FIRST);
    await report("sales/orders", [{ selector: one }]);
    const body = { assets: ["report"], partition_keys: [FIRST] };
    await client.call("requestRun", { body });
    await work(client, "SUCCEEDED");
    expect((await statusesOf("report"))[0]).toBe("MATERIALIZED");
    await report("sales/orders", [{ selector: one }]);
    expect((await statusesOf("report"))[0]).toBe("STALE UPSTREAM_CHANGED");
    // What was reported for the asset itself is newer than that.
    await report("report", [{ selector: one }]);
    expect((await statusesOf("report"))[0]).toBe("MATERIALIZED");
  });

  test("I88: a report is taken back, and what was made here stays", async () => {
    const body = { assets: ["report"], partition_keys: [FIRST] };
    await client.call("requestRun", { body });
    await work(client, "SUCCEEDED");
    const metadata = { long: "x".repeat(1_000) };
    const second = keys(SECOND);
    await report("report", [{ selector: second, metadata }]);
    const params = { asset_key: "report" };
    const all = { selector: { type: "all" } } as const;
    expect(await client.call("forgetPartitions", { params, body: all })).toMatchObject({
      forgotten: 1,
      left: 4,
    });
    expect((await statusesOf("report")).slice(0, 2)).toEqual(["MATERIALIZED", NEVER]);
    expect(await client.call("forgetPartitions", { params, body: all })).toMatchObject({
      forgotten: 0,
      left: 5,
    });
    // Reported again, it has nothing of what was forgotten.
    await report("report", [{ selector: second }]);
    const { items } = await client.call("listAssetPartitions", { params, query: {} });
    expect(items[1]?.metadata).toBeNull();
  });

  test("are told to sensors that watch the asset, as no run's", async () => {
    const watch = { type: "materializations", asset_key: "sales/orders" };
    const target = { asset_selection: ["report"], partition_key: "{partition_key}" };
    const sensor = { kind: "sensor", name: "follow", mode: "poll", watch, target };
    await client.call("publishDefinitions", { body: { specs: [sensor] } } as never);
    await report("sales/orders", [{ selector: keys(SECOND) }]);
    await expect
      .poll(
        async () =>
          (await client.call("listRuns", { query: {} })).items.map((run) => run.partition_keys),
        { interval: 50 },
      )
      .toEqual([[SECOND]]);
  });

  test("an external asset is never run here", async () => {
    const body = { assets: ["sales/orders"], selector: { type: "all" as const } };
    const refused = {
      code: "INPUT_INVALID",
      message: expect.stringContaining("sales/orders is external: it is made elsewhere"),
    };
    await expect(client.call("createBackfill", { body })).rejects.toMatchObject(refused);
    const run = { assets: ["sales/orders"], partition_keys: [FIRST] };
    await expect(client.call("requestRun", { body: run })).rejects.toMatchObject(refused);
  });

  test("I88: are on a map that was made before", async () => {
    const numbers = { type: "integers", start: 0, end: 20_000 };
    const many = { kind: "asset", asset_key: "many", partitions: numbers, external: true };
    await client.call("publishDefinitions", { body: { specs: [many] } } as never);
    const params = { asset_key: "many" };
    const lengths = async () =>
      (await client.call("mapPartitions", { params, query: {} })).lengths.filter((_, at) => at % 2);
    expect(await lengths()).toEqual([20_000]);
    await report("many", [{ selector: keys("3", "4") }]);
    expect(await lengths()).toEqual([3, 2, 19_995]);
    await client.call("forgetPartitions", { params, body: { selector: keys("4") } });
    expect(await lengths()).toEqual([3, 1, 19_996]);
    await client.call("forgetPartitions", { params, body: { selector: keys("3") } });
    expect(await lengths()).toEqual([20_000]);
    // Nothing is left of it, not even an empty row.
    const where = [{ cell: "asset_key", is: "=", value: "many" }] as const;
    const find = { table: PARTITION_BLOCKS, where, order: [], limit: 10 };
    expect(await api.engines[0].read((reader) => reader.find(find))).toEqual([]);
  });

  test("many items of dynamic keys are looked up at once, and metadata is bounded", async () => {
    const dynamic = { type: "dynamic", name: "shops" };
    const shops = { kind: "asset", asset_key: "shops", partitions: dynamic, external: true };
    await client.call("publishDefinitions", { body: { specs: [shops] } } as never);
    const names = Array.from({ length: 900 }, (_, at) => `shop ${at}`);
    const params = { asset_key: "shops" };
    await client.call("addPartitionKeys", { params, body: { keys: names } });
    const items = names.map((name, rows) => ({ selector: keys(name), metadata: { rows } }));
    expect(await report("shops", items)).toMatchObject({ reported: 900 });
    const long = { text: "x".repeat(15_000) };
    await expect(
      report("shops", [{ selector: { type: "all" }, metadata: { ...long, more: long } }]),
    ).rejects.toMatchObject({ code: "INPUT_INVALID" });
    const each = Array.from({ length: 2 }, () => ({
      selector: { type: "all" as const },
      metadata: long,
    }));
    await expect(report("shops", each)).rejects.toMatchObject({ code: "SELECTION_TOO_LARGE" });
    const many = Array.from({ length: 101 }, () => ({ selector: { type: "all" as const } }));
    await expect(report("shops", many)).rejects.toMatchObject({ code: "INPUT_INVALID" });
  });

  test("patterns of many items are compared with as many keys as that of one", async () => {
    const minutes = {
      type: "cron",
      expression: "* * * * *",
      start: "2024-01-01",
      end: "2025-06-01",
    };
    const many = { kind: "asset", asset_key: "many", partitions: minutes, external: true };
    await client.call("publishDefinitions", { body: { specs: [many] } } as never);
    const item = (partition: string) => ({
      selector: { type: "filter" as const, dimensions: { partition } },
    });
    expect(await report("many", [item("2024-01-01T00:0*")])).toMatchObject({ reported: 10 });
    const both = [item("2024-01-01T00:0*"), item("2024-01-02T00:0*")];
    await expect(report("many", both)).rejects.toMatchObject({
      code: "SELECTION_TOO_LARGE",
      message: expect.stringContaining("compared with 1488960 keys together, more than 1000000"),
    });
    const few = Array.from({ length: 3 }, (_, day) => item(`2025-01-0${day + 1}`));
    expect(await report("sales/orders", few)).toMatchObject({ reported: 3 });
  });

  test("nothing can be asked for with words that select only external assets", async () => {
    const assets = ["+sales/orders"];
    const selector = { type: "all" } as const;
    const refusals = [
      client.call("previewBackfill", { body: { assets, selector } }),
      client.call("createBackfill", { body: { assets, selector }, idempotencyKey: "none" }),
      client.call("createBackfill", {
        body: { assets, selector: { ...selector, only: "missing" } },
        idempotencyKey: "none missing",
      }),
      client.call("requestRun", { body: { assets, run_key: "none" } }),
    ];
    for (const refused of await Promise.allSettled(refusals)) {
      expect(refused).toMatchObject({
        status: "rejected",
        reason: { code: "SELECTION_EMPTY", message: expect.stringContaining("sales/orders") },
      });
    }
    expect(api.logged).toEqual([]);
  });

  test("what failed of an asset that is external by now is not made again", async () => {
    const body = { assets: ["report"], selector: keys(FIRST) };
    const { backfill_id } = await client.call("createBackfill", { body });
    expect(await work(client, "FAILED")).toBe(1);
    const params = { backfill_id };
    const ended = () => client.call("getBackfill", { params });
    await expect.poll(async () => (await ended()).state).toBe("FAILED");
    await client.call("publishDefinitions", {
      body: { specs: [raw, { ...made, external: true }] },
    } as never);
    const selector = { type: "outcome" as const, backfill_id, outcomes: ["FAILED" as const] };
    for (const refused of await Promise.allSettled([
      client.call("retryBackfill", { params, body: {} }),
      client.call("createBackfill", { body: { assets: ["report"], selector } }),
    ])) {
      expect(refused).toMatchObject({
        status: "rejected",
        reason: { message: expect.stringContaining("report is external") },
      });
    }
  });

  test("a schedule that asks for an external asset is refused when it is published", async () => {
    const selection = { type: "all" };
    const schedule = { kind: "schedule", name: "nightly", cron: "0 2 * * *", selection };
    const specs = [{ ...schedule, asset_selection: ["sales/orders"] }];
    await expect(
      client.call("publishDefinitions", { body: { specs } } as never),
    ).rejects.toMatchObject({
      code: "DEFINITION_INVALID",
      message: expect.stringContaining("sales/orders, which is external"),
    });
  });

  test("a request that was made before is the same report", async () => {
    const call = {
      params: { asset_key: "sales/orders" },
      body: { items: [{ selector: { type: "all" as const } }] },
      idempotencyKey: "once",
    };
    const first = await client.call("reportPartitions", call);
    expect(await client.call("reportPartitions", call)).toMatchObject({
      accepted_pos: first.accepted_pos,
    });
  });

  test.each([
    [{ materialized_at: "2999-01-01T00:00:00.000Z" }, "expected a time that has passed"],
    [{ selector: { type: "explicit", partition_keys: ["2024-12-31"] } }, "2024-12-31"],
    [{ selector: { type: "stale" } }, "selector"],
    [{ selector: { type: "all", only: "missing" } }, "only"],
  ])("refuses %j with a sentence", async (changes, sentence) => {
    const item = { selector: { type: "all" }, ...changes };
    await expect(report("sales/orders", [item] as Items)).rejects.toMatchObject({
      message: expect.stringContaining(sentence),
    });
  });
});
