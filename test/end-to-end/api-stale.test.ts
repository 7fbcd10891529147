import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Client } from "../../src/client/client.ts";
import type { PartInput } from "../../src/work/operations.ts";
import { NO_STALE_REASONS } from "../../src/kernel/keyspace/selector.ts";
import { surveyPartitions } from "../../src/server/overview/stale.ts";
import { type Api, startApi, work } from "./api-server.ts";

let api: Api;
let client: Client;

beforeEach(async () => {
  api = await startApi();
  ({ client } = api);
});

afterEach(() => api.close());

const partitions = { type: "daily", start: "2025-01-01", end: "2025-01-06" } as const;
const raw = { kind: "asset", asset_key: "sales/orders", partitions } as const;
const made = {
  kind: "asset",
  asset_key: "report",
  partitions,
  upstream: [{ asset_key: "sales/orders", mapping: { type: "identity" } }],
} as const;
const DAYS = ["2025-01-01", "2025-01-02", "2025-01-03", "2025-01-04", "2025-01-05"] as const;

type Body = PartInput<"createBackfill", "body">;

async function publish(...specs: object[]): Promise<void> {
  await client.call("publishDefinitions", { body: { specs } } as never);
}

async function materialize(asset: string, keys: readonly string[] | null): Promise<void> {
  const partition_keys = keys === null ? {} : { partition_keys: [...keys] };
  await client.call("requestRun", { body: { assets: [asset], ...partition_keys } });
  await work(client, "SUCCEEDED");
}

/** A wish for a backfill of what is stale, in chunks of two. */
function wish(changes: Partial<Body> = {}): Body {
  return { assets: ["report"], selector: { type: "stale" }, chunk_size: 2, ...changes };
}

function create(body: Body) {
  return client.call("createBackfill", { body });
}

/** Works until nothing is left to do, and answers the keys that were worked on, by asset. */
async function workedOn(): Promise<Record<string, string[]>> {
  const { pos } = await client.call("listPartitions", { query: {} });
  while ((await work(client, "SUCCEEDED")) > 0);
  const keys: Record<string, string[]> = {};
  for await (const partition of client.each("listPartitions", { query: {} })) {
    if ((partition.row_version ?? 0) <= pos) continue;
    (keys[partition.asset_key] ??= []).push(partition.partition_key);
  }
  return keys;
}

describe("a backfill of what is stale", () => {
  test("I46: makes exactly that, says why, and leaves nothing stale", async () => {
    await publish(raw, made);
    await materialize("sales/orders", DAYS);
    await materialize("report", DAYS.slice(0, 4));
    await materialize("sales/orders", [DAYS[1], DAYS[3]]);

    const reasons = { ...NO_STALE_REASONS, NEVER_MATERIALIZED: 1, UPSTREAM_CHANGED: 2 };
    const preview = await client.call("previewBackfill", { body: wish() });
    expect(preview).toMatchObject({
      total_partitions: 3,
      total_chunks: 2,
      stale_reasons: reasons,
      first_chunk_partitions: [DAYS[1], DAYS[3]],
    });
    const created = await create(wish({ plan_hash: preview.plan_hash }));
    expect(created).toMatchObject({
      asset_selection: ["report"],
      selector: { type: "stale", limit: 10_000, as_of: expect.any(String) },
      total_partitions: 3,
      stale_reasons: reasons,
    });
    expect(await workedOn()).toEqual({ report: [DAYS[1], DAYS[3], DAYS[4]] });

    const params = { backfill_id: created.backfill_id };
    expect(await client.call("getBackfill", { params, query: {} })).toMatchObject({
      state: "SUCCEEDED",
      partitions_succeeded: 3,
      stale_reasons: reasons,
      parent_backfill_id: null,
    });
    const [event] = (await client.call("listEvents", { query: { type: "BackfillCreated" } })).items;
    expect(event?.data).toMatchObject({ stale_reasons: reasons, survey_pages: 1 });
    expect(JSON.stringify(event).length).toBeLessThan(4_000);
    await expect(create(wish())).rejects.toMatchObject({
      code: "SELECTION_EMPTY",
      message: expect.stringContaining("Nothing of report is stale"),
    });
  });

  test("has of each asset only what is stale of it", async () => {
    await publish(raw, made);
    await materialize("sales/orders", DAYS.slice(0, 3));
    await materialize("report", DAYS.slice(0, 2));
    const created = await create(wish({ assets: ["sales/orders", "report"] }));
    expect(created).toMatchObject({
      asset_selection: ["sales/orders", "report"],
      total_partitions: 3,
      stale_reasons: { NEVER_MATERIALIZED: 5 },
    });
    expect(await workedOn()).toEqual({
      "sales/orders": [DAYS[3], DAYS[4]],
      report: [DAYS[2], DAYS[3], DAYS[4]],
    });
  });

  test("is one for each definition, upstream first, and none where nothing is stale", async () => {
    const month = { type: "monthly", start: "2025-01-01", end: "2025-02-01" };
    const upstream = [{ asset_key: "sales/orders", mapping: { type: "time_window" } }];
    const tenants = { ...made, asset_key: "tenants", partitions: null, upstream: [] };
    await publish(raw, { ...made, partitions: month, upstream }, tenants);
    await materialize("tenants", null);
    const created = await create(wish({ assets: ["report", "sales/orders", "tenants"] }));
    expect(created.backfills).toMatchObject([
      { asset_selection: ["sales/orders"], total_partitions: 5 },
      { asset_selection: ["report"], total_partitions: 1 },
    ]);
    const [, second] = created.backfills;
    const params = { backfill_id: second?.backfill_id ?? "" };
    expect(await client.call("getBackfill", { params, query: {} })).toMatchObject({
      state: "PENDING",
      after_backfill_id: created.backfill_id,
    });
    expect(await workedOn()).toEqual({ "sales/orders": [...DAYS], report: ["2025-01"] });
  });

  test("fills an asset without partitions", async () => {
    await publish(raw, { ...made, partitions: null, upstream: [] });
    expect(await create(wish())).toMatchObject({ total_partitions: 1, total_chunks: 1 });
    expect(await workedOn()).toEqual({ report: [""] });
    await expect(create(wish())).rejects.toMatchObject({ code: "SELECTION_EMPTY" });
  });

  test("keeps to the limit and the reasons", async () => {
    await publish(raw, made);
    await materialize("report", DAYS.slice(0, 3));
    await materialize("sales/orders", DAYS);
    const selector: Body["selector"] = { type: "stale", reasons: ["UPSTREAM_CHANGED"], limit: 2 };
    const created = await create(wish({ selector }));
    expect(created).toMatchObject({
      total_partitions: 2,
      stale_reasons: { UPSTREAM_CHANGED: 2, NEVER_MATERIALIZED: 0 },
    });
    expect(await workedOn()).toEqual({ report: [DAYS[0], DAYS[1]] });
    const none = wish({ selector: { type: "stale", reasons: ["CODE_CHANGED"] } });
    await expect(create(none)).rejects.toMatchObject({
      code: "SELECTION_EMPTY",
      message: expect.stringContaining("for the reason CODE_CHANGED"),
    });
  });

  test("leaves out what a task works on, and refuses to overlap", async () => {
    await publish(raw);
    const body = { assets: ["sales/orders"], partition_keys: [DAYS[0]] };
    await client.call("requestRun", { body });
    const claim = { worker_id: "w", lease_id: "l", slots: 1, assets: ["sales/orders"] };
    await client.call("claim", { body: { ...claim, code_version: null, wait_ms: 1_000 } });
    const first = await create(wish({ assets: ["sales/orders"] }));
    expect(first.total_partitions).toBe(4);
    const again = create(wish({ assets: ["sales/orders"] }));
    await expect(again).rejects.toMatchObject({ code: "BACKFILL_OVERLAPS" });
  });

  test("I59: is the same backfill when the same request comes again, whatever is stale by then", async () => {
    await publish(raw);
    const body = wish({ assets: ["sales/orders"], client_request_id: "nightly" });
    const first = await create(body);
    await workedOn();
    const { accepted_pos: _, ...rest } = first;
    expect(await create(body)).toMatchObject(rest);
    const other = create({ ...body, chunk_size: 3 });
    await expect(other).rejects.toMatchObject({ code: "IDEMPOTENCY_KEY_REUSED" });
  });

  test("is refused with a time of its own, an unknown asset, or a plan that has changed", async () => {
    await publish(raw);
    const selector = { type: "stale", as_of: "2025-01-01T00:00:00.000Z" } as const;
    const timed = create(wish({ assets: ["sales/orders"], selector }));
    await expect(timed).rejects.toMatchObject({ code: "INPUT_INVALID" });
    await expect(create(wish())).rejects.toMatchObject({ code: "ASSET_NOT_FOUND" });
    const body = wish({ assets: ["sales/orders"] });
    const { plan_hash } = await client.call("previewBackfill", { body });
    await materialize("sales/orders", [DAYS[2]]);
    await expect(create({ ...body, plan_hash })).rejects.toMatchObject({ code: "PLAN_CHANGED" });
  });

  test("finds what is stale among many, a page at a time", async () => {
    const many = { type: "integers", start: 0, end: 20_000 };
    await publish({ ...raw, partitions: many });
    const keys = Array.from({ length: 300 }, (_, at) => String(at * 2));
    await materialize("sales/orders", keys);
    const selector = { type: "stale", limit: 15_000 } as const;
    const body = wish({ assets: ["sales/orders"], selector, chunk_size: 10_000 });
    expect(await create(body)).toMatchObject({ total_partitions: 15_000, total_chunks: 2 });
  });
});

describe("a backfill of only a part of a selection", () => {
  const week = { type: "range", start: DAYS[0], end: DAYS[3] } as const;

  /** The first day is made, the second was made and failed since, the third only failed. */
  async function someDays(): Promise<void> {
    await publish(raw, made);
    await materialize("sales/orders", DAYS.slice(0, 2));
    await client.call("requestRun", {
      body: { assets: ["sales/orders"], partition_keys: DAYS.slice(1, 3) },
    });
    await work(client, "FAILED");
  }

  test.each([
    ["missing", [DAYS[2], DAYS[3]]],
    ["failed", [DAYS[1], DAYS[2]]],
    ["missing_or_failed", [DAYS[1], DAYS[2], DAYS[3]]],
    ["stale", [DAYS[2], DAYS[3]]],
  ] as const)("I86: %s is what is so, and no other", async (only, keys) => {
    await someDays();
    const body = wish({ assets: ["sales/orders"], selector: { ...week, only }, chunk_size: 10 });
    const preview = await client.call("previewBackfill", { body });
    expect(preview).toMatchObject({
      partitions_selected: 4,
      partitions_total: keys.length,
      first_chunk_partitions: keys,
      selector: { ...week, only, as_of: expect.any(String) },
    });
    const created = await create({ ...body, plan_hash: preview.plan_hash });
    expect(created).toMatchObject({
      total_partitions: keys.length,
      stale_reasons: only === "stale" ? { ...NO_STALE_REASONS, NEVER_MATERIALIZED: 2 } : null,
    });
    expect(await workedOn()).toEqual({ "sales/orders": keys });
  });

  test("I86: holds for a list of keys, a filter and everything, and for each asset by itself", async () => {
    await someDays();
    const only = "missing" as const;
    const keysOf = async (selector: Body["selector"]): Promise<string[]> => {
      const body = wish({ assets: ["sales/orders"], selector, chunk_size: 10 });
      return (await client.call("previewBackfill", { body })).first_chunk_partitions;
    };
    const partition_keys = [DAYS[4], DAYS[0], DAYS[2]];
    expect(await keysOf({ type: "explicit", partition_keys, only })).toEqual([DAYS[2], DAYS[4]]);
    const glob = { partition: "*-0?" };
    expect(await keysOf({ type: "filter", dimensions: glob, only })).toEqual(DAYS.slice(2));
    expect(await keysOf({ type: "all", only })).toEqual(DAYS.slice(2));
    expect(await keysOf({ type: "all", only: "failed" })).toEqual(DAYS.slice(1, 3));

    const both = wish({ assets: ["sales/orders", "report"], selector: { ...week, only } });
    expect(await create(both)).toMatchObject({ total_partitions: 4, partitions_total: 6 });
    expect(await workedOn()).toEqual({
      "sales/orders": [DAYS[2], DAYS[3]],
      report: DAYS.slice(0, 4),
    });
  });

  test("leaves out what is being made, and says when nothing is left", async () => {
    await someDays();
    await client.call("requestRun", {
      body: { assets: ["sales/orders"], partition_keys: [DAYS[3]] },
    });
    const claim = { worker_id: "w", lease_id: "l", slots: 1, assets: ["sales/orders"] };
    await client.call("claim", { body: { ...claim, code_version: null, wait_ms: 0 } });
    const ask = (selector: Body["selector"]) =>
      create(wish({ assets: ["sales/orders"], selector }));
    await expect(
      ask({ type: "explicit", partition_keys: [DAYS[3]], only: "missing" }),
    ).rejects.toMatchObject({
      code: "SELECTION_EMPTY",
      message: expect.stringContaining(
        "None of the 1 selected partitions of sales/orders is missing",
      ),
    });
    await expect(ask({ ...week, only: "missing", as_of: "2025-01-01" })).rejects.toMatchObject({
      code: "INPUT_INVALID",
      message: expect.stringContaining("selector.as_of: expected nothing"),
    });
  });

  test("goes through days and their months, each by what is missing of it", async () => {
    const month = { type: "monthly", start: "2025-01-01", end: "2025-03-01" };
    const upstream = [{ asset_key: "sales/orders", mapping: { type: "time_window" } }];
    await publish(raw, { ...made, partitions: month, upstream });
    await materialize("sales/orders", DAYS.slice(0, 4));
    const body = wish({
      assets: ["sales/orders", "report"],
      selector: { ...week, only: "missing" },
    });
    // All the days are there; their month is not.
    const preview = await client.call("previewBackfill", { body });
    expect(preview).toMatchObject({
      asset_selection: ["report"],
      partitions_selected: 5,
      first_chunk_partitions: ["2025-01"],
    });
  });
});

describe("surveyPartitions", () => {
  const many = { type: "integers", start: 0, end: 20_000 };
  const signal = AbortSignal.timeout(600_000);

  test("never takes a part for the whole, and says how to ask for a part", async () => {
    await publish({ ...raw, partitions: many });
    const keys = Array.from({ length: 1_990 }, (_, at) => String(at));
    await client.call("requestRun", { body: { assets: ["sales/orders"], partition_keys: keys } });
    while ((await work(client, "SUCCEEDED")) > 0);
    const [engine] = api.engines;
    const look = (limit: number) =>
      surveyPartitions(
        engine,
        { assets: ["sales/orders"], selector: { type: "stale", limit } },
        signal,
        2_000,
      );
    await expect(look(11)).rejects.toMatchObject({
      code: "SELECTION_TOO_LARGE",
      message: expect.stringContaining("Set the limit to 10 to fill those"),
    });
    const { assets } = await look(10);
    expect(assets.get("sales/orders")?.ordinals).toEqual(
      [...Array(10).keys()].map((at) => 1_990 + at),
    );
    const selector = { type: "range", start: "0", end: "19999", only: "missing" } as const;
    const missing = surveyPartitions(engine, { assets: ["sales/orders"], selector }, signal, 2_000);
    await expect(missing).rejects.toMatchObject({
      code: "SELECTION_TOO_LARGE",
      message: expect.stringContaining("Select fewer at once"),
    });
  });

  test("ends when nobody waits for it any more", async () => {
    await publish({ ...raw, partitions: many });
    const selector = { type: "stale", limit: 20_000 } as const;
    const asked = { assets: ["sales/orders"], selector };
    const gone = surveyPartitions(api.engines[0], asked, AbortSignal.abort());
    await expect(gone).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" });
  });
});

describe("the summary of an asset's partitions", () => {
  test("counts what is stale by reason, and says when it did not look at all", async () => {
    const many = { type: "integers", start: 0, end: 20_000 };
    await publish(raw, made, { ...made, asset_key: "tenants", partitions: many, upstream: [] });
    await materialize("sales/orders", DAYS);
    await materialize("report", DAYS.slice(0, 3));
    await materialize("sales/orders", [DAYS[0]]);
    const summary = (asset_key: string) =>
      client.call("summarizePartitions", { params: { asset_key }, query: {} });
    expect(await summary("report")).toMatchObject({
      total: 5,
      materialized: 3,
      never_materialized: 2,
      stale_reasons: { ...NO_STALE_REASONS, NEVER_MATERIALIZED: 2, UPSTREAM_CHANGED: 1 },
      stale_complete: true,
    });
    expect(await summary("tenants")).toMatchObject({
      stale_reasons: { ...NO_STALE_REASONS, NEVER_MATERIALIZED: 20_000 },
      stale_complete: false,
    });
  });
});

describe("the data of a partition", () => {
  test("I44, I45: stays when a later run fails, and when an older attempt ends late", async () => {
    await publish(raw);
    const params = { asset_key: "sales/orders" };
    const shown = async () =>
      (await client.call("listAssetPartitions", { params, query: { limit: 1 } })).items[0];
    const body = { assets: ["sales/orders"], partition_keys: [DAYS[0]] };
    await client.call("requestRun", { body });
    const claim = { worker_id: "slow", lease_id: "slow", slots: 1, assets: ["sales/orders"] };
    const old = await client.call("claim", {
      body: { ...claim, code_version: null, wait_ms: 1_000 },
    });
    // The slow worker is not heard of again, and its task is given to another.
    api.jump(60_000);
    await client.call("tick", { body: {} });
    api.jump(3_600_000);
    while ((await work(client, "SUCCEEDED")) > 0);
    const newer = await shown();
    expect(newer?.status).toBe("MATERIALIZED");

    const [group] = old.groups;
    const [task] = group?.tasks ?? [];
    const late = await client.call("report", {
      body: {
        worker_id: "slow",
        code_version: null,
        results: [
          {
            run_pos: group?.run_pos ?? 0,
            task_key: task?.task_key ?? 0,
            attempt: task?.attempt ?? 0,
            outcome: "SUCCEEDED",
          },
        ],
        released_leases: [],
      },
    });
    expect(late.results).toEqual(["lost"]);
    expect(await shown()).toEqual(newer);

    await client.call("requestRun", { body });
    await work(client, "FAILED");
    expect(await shown()).toMatchObject({
      status: "MATERIALIZED_LAST_ATTEMPT_FAILED",
      last_materialization_run_id: newer?.last_materialization_run_id,
      last_materialization_at: newer?.last_materialization_at,
      last_attempt_outcome: "FAILED",
    });
  });
});
