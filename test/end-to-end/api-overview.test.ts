import { join } from "node:path";
import Database from "better-sqlite3";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Client } from "../../src/client/client.ts";
import type { AttentionDocument } from "../../src/work/server-api.ts";
import {
  ALL_ORDERS,
  type Api,
  currentOverview,
  ORDERS,
  publish,
  startApi,
  work,
} from "./api-server.ts";
import {
  CAUGHT_UP,
  COPIED,
  endStep,
  FITTING,
  lookBefore,
  publishShards,
  say,
  SPREAD,
  takeMoveStep,
  takeSplitStep,
} from "./shard-hand.ts";
import {
  endSegments,
  fetchSegments,
  publishSyncs,
  seeHeads,
  takeSegments,
  TRANSFERS,
} from "./sync-hand.ts";

const NOON = "2026-03-01T12:00:00.000Z";
const HOUR_MS = 3_600_000;

let api: Api;
let client: Client;

/** Nothing happens by itself: what is late stays late. */
beforeEach(async () => {
  api = await startApi({ clockAt: NOON, actsByItself: false });
  ({ client } = api);
  await publish(client);
});

afterEach(() => api.close());

/** What is stale is looked for aside: the answer in which that is known as well. */
const overview = () => currentOverview(client);

/** What wants attention of a kind, without its id. */
async function attention(kind: AttentionDocument["kind"]): Promise<object[]> {
  const { attention: all } = await overview();
  return all.filter((item) => item.kind === kind).map(({ id: _id, ...told }) => told);
}

async function failBackfill(): Promise<string> {
  const { backfill_id } = await client.call("createBackfill", { body: ALL_ORDERS });
  while ((await work(client, "FAILED")) > 0);
  return backfill_id;
}

describe("an overview", () => {
  test("of a workspace where nothing happened counts what is published, and what is stale", async () => {
    const answer = await overview();
    expect(answer).toMatchObject({
      now: NOON,
      running: [],
      attention_total: 2,
      attention_counts: { failed: 0, stuck: 0, late: 0, stale: 2, paused: 0 },
      stale_complete: true,
    });
    expect(answer.counts).toMatchObject({
      definitions: { asset: 3 },
      backfills: {},
      tasks: { READY: 0, RUNNING: 0 },
    });
    expect(await attention("asset")).toEqual([
      {
        kind: "asset",
        name: "sales/orders",
        what: "stale",
        since: null,
        text: "10 partitions are stale: 10 never materialized.",
      },
      expect.objectContaining({
        name: "report",
        text: "1 partition is stale: 1 never materialized.",
      }),
    ]);
  });

  test("shows a failed backfill with its cause until a retry has succeeded", async () => {
    const backfill_id = await failBackfill();
    expect(await attention("backfill")).toEqual([
      {
        kind: "backfill",
        name: "sales/orders",
        what: "failed",
        since: NOON,
        text: "10 of 10 partitions failed: no.",
      },
    ]);
    const [first] = (await overview()).attention;
    expect(first).toMatchObject({ kind: "backfill", id: backfill_id });

    const params = { backfill_id };
    const retry = await client.call("retryBackfill", { params, body: { outcomes: ["FAILED"] } });
    const { running, running_total, counts } = await overview();
    expect(running).toMatchObject([
      { kind: "backfill", id: retry.backfill_id, done: 0, total: 10, unit: "partitions" },
    ]);
    expect(running_total).toBe(1);
    expect(counts.backfills).toEqual({ FAILED: 1, RUNNING: 1 });
    expect(await attention("backfill")).toMatchObject([
      { text: "10 of 10 partitions failed: no. A retry is under way." },
    ]);
    while ((await work(client, "SUCCEEDED")) > 0);
    expect(await attention("backfill")).toEqual([]);
    expect(await attention("asset")).toMatchObject([{ name: "report" }]);
  });

  test("shows what failed after a retry of a backfill that was still going on", async () => {
    const { backfill_id } = await client.call("createBackfill", {
      body: {
        assets: ["sales/orders"],
        selector: { type: "all" },
        chunk_size: 5,
        max_concurrent_runs: 1,
      },
    });
    const params = { backfill_id };
    await client.call("tick");
    await client.call("pauseBackfill", { params });
    expect(await work(client, "FAILED")).toBeGreaterThan(0);
    await client.call("retryBackfill", { params, body: {} });
    while ((await work(client, "SUCCEEDED")) > 0);
    api.jump(1_000);
    await client.call("resumeBackfill", { params });
    while ((await work(client, "FAILED")) > 0);
    expect(await client.call("getBackfill", { params })).toMatchObject({ state: "FAILED" });
    expect(await attention("backfill")).toMatchObject([{ name: "sales/orders", what: "failed" }]);
  });

  test("shows a failed backfill until others have made what it left, in whatever pieces", async () => {
    await failBackfill();
    const [, ...rest] = Array.from(
      { length: 10 },
      (_, at) => `2025-01-${String(at + 1).padStart(2, "0")}`,
    );
    const make = async (keys: string[], outcome: "SUCCEEDED" | "FAILED"): Promise<void> => {
      await client.call("requestRun", { body: { assets: ["sales/orders"], partition_keys: keys } });
      await work(client, outcome);
    };
    await make(rest, "SUCCEEDED");
    expect(await attention("backfill")).toHaveLength(1);
    const selector = { type: "explicit" as const, partition_keys: ["2025-01-01"] };
    await client.call("createBackfill", { body: { assets: ["sales/orders"], selector } });
    while ((await work(client, "SUCCEEDED")) > 0);
    expect(await attention("backfill")).toEqual([]);
    // What fails from here on is the failure of whoever tried.
    await make(["2025-01-01"], "FAILED");
    expect(await attention("backfill")).toEqual([]);
  });

  test("shows a failed backfill while what was skipped for its failures was not tried since", async () => {
    const upstream = [{ asset_key: "sales/orders", mapping: { type: "identity" } }] as const;
    const { partitions } = ORDERS;
    const report = { kind: "asset", asset_key: "report", partitions, upstream } as const;
    await client.call("publishDefinitions", { body: { specs: [report] } } as never);
    const assets = ["sales/orders", "report"];
    const selector = { type: "explicit" as const, partition_keys: ["2025-01-01"] };
    await client.call("createBackfill", { body: { assets, selector } });
    while ((await work(client, "FAILED")) > 0);
    expect(await attention("backfill")).toHaveLength(1);
    const again = async (asset: string): Promise<void> => {
      const body = { assets: [asset], partition_keys: ["2025-01-01"] };
      await client.call("requestRun", { body });
      await work(client, "SUCCEEDED");
    };
    await again("sales/orders");
    expect(await attention("backfill")).toHaveLength(1);
    await again("report");
    expect(await attention("backfill")).toEqual([]);
  });

  test("shows whatever a worker is at as running, also what was paused or follows its head", async () => {
    const { backfill_id } = await client.call("createBackfill", { body: ALL_ORDERS });
    await client.call("tick");
    await client.call("claim", {
      body: {
        worker_id: "w",
        lease_id: "held",
        slots: 2,
        assets: ["sales/orders"],
        code_version: null,
        wait_ms: 0,
      },
    });
    await client.call("pauseBackfill", { params: { backfill_id }, body: {} });
    await publishSyncs(client, { ...TRANSFERS, segments: { max: 1, min_size: 10 } });
    await client.call("tick");
    await seeHeads(client, "transfers", { main: 104 });
    await fetchSegments(client, "transfers", 1);
    api.jump(10_000);
    await client.call("tick");
    await seeHeads(client, "transfers", { main: 109 });
    await takeSegments(client, "transfers", 1);
    const { running, running_total, counts } = await overview();
    expect(counts).toMatchObject({ backfills: { PAUSED: 1 }, runs: { RUNNING: 2 } });
    expect(running.map(({ kind, text }) => [kind, text])).toEqual([
      ["backfill", "paused; 1 chunk running"],
      ["sync", "1 segment running"],
    ]);
    expect(running_total).toBe(2);
  });

  test("counts all that is running, also what it does not list", async () => {
    const selector = { type: "all" } as const;
    for (let index = 0; index < 53; index++) {
      await client.call("createBackfill", {
        body: { assets: ["report"], selector, allow_overlap: true, client_request_id: `b${index}` },
      });
    }
    await client.call("tick");
    const { running, running_total, counts } = await overview();
    expect(counts.backfills).toEqual({ RUNNING: 53 });
    expect([running.length, running_total]).toEqual([50, 53]);
  });

  test("counts every run that stands for itself, however many they are", async () => {
    for (let index = 0; index < 520; index++) {
      await client.call("requestRun", {
        body: { assets: ["report"], request_id: `${index}` },
      });
    }
    const { running, running_total, running_complete, counts } = await overview();
    expect(counts.runs).toEqual({ PENDING: 520 });
    expect([running.length, running_total, running_complete]).toEqual([50, 520, true]);
  });

  test("I64: stops counting runs where their rows are very long, and says so", async () => {
    const config = "x".repeat(290_000);
    for (let index = 0; index < 210; index++) {
      await client.call("requestRun", { body: { assets: ["report"], config } });
    }
    const { running_total, running_complete } = await overview();
    expect([running_total, running_complete]).toEqual([200, false]);
  });

  test("says of a backfill that failed for a cancelled run what was cancelled", async () => {
    const { backfill_id } = await client.call("createBackfill", { body: ALL_ORDERS });
    await client.call("tick");
    const [run] = (await client.call("listRuns", { query: { backfill_id } })).items;
    await client.call("cancelRun", { params: { run_id: run?.run_id ?? "" } });
    while ((await work(client, "SUCCEEDED")) > 0);
    await client.call("tick");
    expect(await attention("backfill")).toMatchObject([
      { what: "failed", text: "2 of 10 partitions were cancelled." },
    ]);
  });

  test("forgets a failure after a day", async () => {
    await failBackfill();
    api.jump(25 * HOUR_MS);
    expect(await attention("backfill")).toEqual([]);
  });

  test("shows a failed run until another has made its partitions good", async () => {
    const body = { assets: ["sales/orders"], partition_keys: ["2025-01-03"] };
    await client.call("requestRun", { body: { ...body, request_id: "first" } });
    expect((await overview()).running).toMatchObject([
      {
        kind: "run",
        name: "sales/orders",
        text: "triggered by a user",
        done: 0,
        total: 1,
        unit: "tasks",
      },
    ]);
    await work(client, "FAILED");
    expect(await attention("run")).toMatchObject([
      { what: "failed", name: "sales/orders", text: "1 of 1 task of 2025-01-03 failed: no." },
    ]);
    const other = { ...body, partition_keys: ["2025-01-04"], request_id: "other" };
    const { run_id } = await client.call("requestRun", { body: other });
    await work(client, "FAILED");
    const alike =
      "2 runs failed with this error; in the last, 1 of 1 task of 2025-01-04 failed: no.";
    expect(await attention("run")).toMatchObject([{ text: alike }]);
    expect((await overview()).attention).toContainEqual(expect.objectContaining({ id: run_id }));
    const again = { ...body, partition_keys: ["2025-01-03", "2025-01-04"], request_id: "again" };
    await client.call("requestRun", { body: again });
    await work(client, "SUCCEEDED");
    expect(await attention("run")).toEqual([]);
  });

  test("shows schedules that are late and those that are paused", async () => {
    const asset_selection = ["report"];
    const body = { name: "hourly", cron: "0 * * * *", asset_selection };
    await client.call("createSchedule", { body });
    const still = { ...body, name: "still" };
    const { schedule_id } = await client.call("createSchedule", { body: still });
    const reason = "The source is being rebuilt";
    await client.call("pauseSchedule", { params: { schedule_id }, body: { reason } });
    const paused = {
      kind: "schedule",
      name: "still",
      what: "paused",
      since: NOON,
      text: "Paused: The source is being rebuilt.",
    };
    expect(await attention("schedule")).toEqual([paused]);
    api.jump(HOUR_MS + 61_000);
    expect(await attention("schedule")).toEqual([
      {
        kind: "schedule",
        name: "hourly",
        what: "late",
        since: "2026-03-01T13:00:00.000Z",
        text: "The tick at 2026-03-01T13:00:00.000Z is overdue.",
      },
      paused,
    ]);
    await client.call("tick");
    expect(await attention("schedule")).toEqual([paused]);
  });

  test("shows a conflict about a run key, and work that no worker comes for", async () => {
    const run_key = "acme";
    const first = { assets: ["tenants"], partition_keys: ["a"], run_key };
    await client.call("addPartitionKeys", {
      params: { asset_key: "tenants" },
      body: { keys: ["a", "b"], request_id: "keys" },
    });
    const { run_id } = await client.call("requestRun", { body: { ...first, request_id: "1" } });
    const other = { ...first, partition_keys: ["b"], request_id: "2" };
    const refused = client.call("requestRun", { body: other });
    await expect(refused).rejects.toMatchObject({ code: "RUN_KEY_CONFLICT" });
    expect(await attention("worker")).toEqual([]);
    api.jump(11_000);
    const { attention: all } = await overview();
    expect(all).toContainEqual({
      kind: "conflict",
      id: run_id,
      name: expect.stringContaining("acme"),
      what: "failed",
      since: NOON,
      text: expect.stringContaining("1 request reused this run key with other content"),
    });
    expect(all).toContainEqual({
      kind: "worker",
      id: "tenants",
      name: "tenants",
      what: "stuck",
      since: NOON,
      text:
        "1 task waits for a worker: none with the function of tenants has polled in " +
        "the last minute.",
    });
    await work(client, "SUCCEEDED");
    expect(await attention("worker")).toEqual([]);
  });

  test("shows a move and a sync with quarantined segments", async () => {
    await publishShards(client, SPREAD);
    const { move_id } = await client.call("planMove", { body: { move: "spread" } });
    const bounds = [{ upper: null, rows: 100 }];
    await endStep(client, await takeMoveStep(client, "survey"), { bounds, sealed: true });
    await client.call("startMove", { params: { move: move_id }, body: {} });
    await lookBefore(client);
    const error = { class: "ROWS_CONFLICT", message: "Row 7 is there already." };
    await endStep(client, await takeMoveStep(client, "copy"), {}, { error, final: true });
    expect(await attention("move")).toMatchObject([
      {
        name: "spread",
        what: "stuck",
        text: "1 segment was quarantined: Row 7 is there already.",
      },
    ]);

    await publishSyncs(client, TRANSFERS);
    await client.call("tick");
    await seeHeads(client, "transfers", { main: 1_004 });
    const taken = await takeSegments(client, "transfers", 1);
    const quarantined = [{ block: 40, error: { class: "user", message: "No such block." } }];
    await endSegments(client, taken, { report: { quarantined } });
    expect(await attention("sync")).toMatchObject([
      {
        name: "transfers@network=main,wallet=0xa",
        what: "stuck",
        text: "1 segment was quarantined, from block 40 on: No such block.",
      },
    ]);
    const { running } = await overview();
    expect(running).toContainEqual(
      expect.objectContaining({ kind: "sync", total: 1_000, unit: "blocks", failed: 1 }),
    );
  });

  test("shows a sensor whose evaluation failed and one that nobody looks for", async () => {
    const target = { asset_selection: ["report"], config: { file: "{path}" } };
    const watch = { type: "files", folder: "/data", pattern: "*.csv" } as const;
    const body = { name: "files", mode: "poll", watch, target } as const;
    await client.call("createSensor", { body });
    await client.call("tick");
    const { probes } = await client.call("claimProbes", {
      body: { worker_id: "w", slots: 1, wait_ms: 0, sensors: [] },
    });
    const error = { class: "user", message: "The folder is gone." };
    await client.call("reportProbes", {
      body: {
        worker_id: "w",
        results: probes.map(
          ({ probe_id, attempt, cursor, expected_state_version, poll_epoch }) => ({
            probe_id,
            attempt,
            cursor,
            expected_state_version,
            poll_epoch,
            outcome: { type: "failed" as const, error },
          }),
        ),
      },
    });
    expect(await attention("sensor")).toMatchObject([
      { what: "failed", text: "The last evaluation failed: The folder is gone." },
    ]);
    api.jump(HOUR_MS);
    expect(await attention("sensor")).toMatchObject([
      { what: "failed" },
      { what: "late", text: "A poll is overdue: no worker has taken it." },
    ]);
  });

  test("holds 100 items at most, of which no kind hides another", async () => {
    for (let index = 0; index < 105; index++) {
      const body = { name: `s${index}`, cron: "0 * * * *", asset_selection: ["report"] };
      await client.call("createSchedule", { body: { ...body, enabled: false } });
    }
    await failBackfill();
    const answer = await overview();
    expect(answer.attention_counts).toMatchObject({ failed: 1, stale: 2, paused: 105 });
    expect(answer.attention).toHaveLength(100);
    expect(answer.attention_total).toBe(108);
    expect(answer.attention.slice(0, 3).map(({ what }) => what)).toEqual([
      "failed",
      "stale",
      "stale",
    ]);
  });
});

describe("samples", () => {
  const read = async (series: string, query: object = {}) => {
    const { items } = await client.call("listSamples", { query: { series, ...query } });
    return Object.fromEntries(items.map((item) => [item.series, item.points]));
  };
  const AT = Date.parse(NOON) / 1_000;

  test("count what was done and what waits, and say once that nothing does", async () => {
    api.sampler.start();
    await client.call("createBackfill", { body: { ...ALL_ORDERS, max_concurrent_runs: 2 } });
    await api.sampler.sample();
    const gauges = "tasks_queued,tasks_running";
    expect(await read(gauges)).toEqual({ tasks_queued: [[AT, 4]], tasks_running: [[AT, 0]] });
    await work(client, "SUCCEEDED");
    api.jump(10_000);
    await work(client, "FAILED");
    await api.sampler.sample();
    while ((await work(client, "FAILED")) > 0);
    api.jump(10_000);
    await api.sampler.sample();
    await api.sampler.sample();
    const counted = await read("tasks_succeeded,tasks_failed,runs_finished");
    expect(counted["tasks_succeeded"]).toEqual([[AT, 4]]);
    expect(counted["tasks_failed"]).toEqual([[AT + 10, 6]]);
    expect(counted["runs_finished"]).toEqual([
      [AT, 2],
      [AT + 10, 3],
    ]);
    expect((await read(gauges))["tasks_queued"]?.at(-1)).toEqual([AT + 20, 0]);
    api.jump(60_000);
    await api.sampler.sample();
    expect((await read(gauges))["tasks_queued"]?.at(-1)).toEqual([AT + 20, 0]);
  });

  test("are read for an hour unless told otherwise, and dropped after a day", async () => {
    api.sampler.start();
    const { ws } = api.engines[0].workspace;
    await api.store.setSamples(ws, [
      { series: "s", at: AT - 7_200, value: 1 },
      { series: "s", at: AT - 600, value: 2 },
    ]);
    expect(await read("s,t")).toEqual({ s: [[AT - 600, 2]], t: [] });
    const since = "2026-03-01T09:00:00Z";
    expect(await read("s", { since, until: "2026-03-01T11:00:00Z" })).toEqual({
      s: [[AT - 7_200, 1]],
    });
    await expect(read("s", { since, until: since })).rejects.toMatchObject({
      code: "INPUT_INVALID",
    });
    api.jump(23 * HOUR_MS);
    await client.call("requestRun", { body: { assets: ["report"] } });
    await api.sampler.sample();
    expect(await read("s", { since })).toEqual({ s: [[AT - 600, 2]] });
  });

  test("are dropped after a day, too, where nothing is ever seen waiting", async () => {
    api.sampler.start();
    const { ws } = api.engines[0].workspace;
    await api.store.addSamples(ws, [{ series: "s", at: AT - 600, value: 2 }]);
    api.jump(24 * HOUR_MS);
    await client.call("requestRun", { body: { assets: ["report"] } });
    await work(client, "SUCCEEDED");
    await api.sampler.sample();
    expect(await read("s,tasks_succeeded", { since: NOON.replace("12:", "11:") })).toEqual({
      s: [],
      tasks_succeeded: [[AT + 24 * 3_600, 1]],
    });
  });

  test("hold how far a split and a sync are behind", async () => {
    await publishShards(client);
    await client.call("changeRouting", { body: { default_shard: "a" } });
    const plan = { source: "a", target: "b", tenants: ["acme"] };
    const { split_id } = await client.call("planSplit", { body: plan });
    const params = { split: split_id };
    await endStep(client, await takeSplitStep(client, "check"), FITTING);
    await client.call("startDualWrite", { params });
    await endStep(client, await takeSplitStep(client, "arm"));
    await client.call("runSplitBackfill", { params });
    await endStep(client, await takeSplitStep(client, "copy"), COPIED);
    const tail = await takeSplitStep(client, "tail");
    await say(client, tail, { ...CAUGHT_UP, lag_events: 12, lag_ms: 340 }, "caught_up");
    await api.sampler.sample();
    expect(await read(`split_lag_ms:${split_id},split_lag_events:${split_id}`)).toEqual({
      [`split_lag_ms:${split_id}`]: [[AT, 340]],
      [`split_lag_events:${split_id}`]: [[AT, 12]],
    });
    expect((await overview()).running).toMatchObject([
      {
        kind: "split",
        name: "acme: a → b",
        text: "phase cutover pending, 340 ms behind",
        done: 30,
      },
    ]);

    await publishSyncs(client, { ...TRANSFERS, segments: { max: 1, min_size: 10 } });
    await client.call("tick");
    await seeHeads(client, "transfers", { main: 104 });
    await fetchSegments(client, "transfers", 1);
    const { items } = await client.call("listSyncs");
    const series = `sync_lag_blocks:${items[0]?.sync_id}`;
    api.jump(10_000);
    await api.sampler.sample();
    expect(await read(series)).toEqual({ [series]: [[AT + 10, 0]] });
    await client.call("tick");
    await seeHeads(client, "transfers", { main: 109 });
    await api.sampler.sample();
    expect(await read(series)).toEqual({ [series]: [[AT + 10, 5]] });
  });

  test("of an idle workspace are not written", async () => {
    const idle = await startApi();
    const database = new Database(join(idle.folder, "pawl.db"), { readonly: true });
    try {
      await publish(idle.client);
      await idle.client.call("requestRun", { body: { assets: ["report"] } });
      await work(idle.client, "SUCCEEDED");
      await idle.client.call("tick");
      await idle.sampler.sample();
      const before = database.pragma("data_version");
      for (let round = 0; round < 3; round++) await idle.sampler.sample();
      await idle.client.call("getOverview");
      expect(database.pragma("data_version")).toEqual(before);
    } finally {
      database.close();
      await idle.close();
    }
  });
});
