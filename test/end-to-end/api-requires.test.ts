import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { connectWorker } from "../../src/client/worker-connection.ts";
import { verifyLedger } from "../../src/engine/ledger/verify.ts";
import { asset, daily, definePawl, externalAsset } from "../../src/index.ts";
import { runWorker } from "../../src/worker/run-worker.ts";
import { freshDatabaseUrl } from "../postgres.ts";
import { type Api, startApi } from "./api-server.ts";

/** For a signal that comes soon, but not on a machine that is busy. */
const WAIT = { interval: 10, timeout: 600_000 };
const quiet = { info: () => undefined, warn: () => undefined, error: () => undefined };

const days = daily({ start: "2025-01-01", end: "2025-02-01" });
const orders = asset("orders", { partitions: days, materialize: () => {} });
const bills = externalAsset("bills", { partitions: days });
const made = (key: string, requires: Parameters<typeof asset>[1]["requires"]) =>
  asset(key, {
    partitions: days,
    upstream: [orders, bills],
    ...(requires === undefined ? {} : { requires }),
    materialize: () => {},
  });
const project = definePawl({
  assets: [
    orders,
    bills,
    made("waits", "materialized"),
    made("skips", { upstream: "materialized", otherwise: "skip" }),
    made("fails", { upstream: "fresh", otherwise: "fail" }),
    made("short", { upstream: "materialized", waitTimeoutMs: 200 }),
    made("free", undefined),
  ],
});

describe.each(["SQLite", "PostgreSQL"])("an asset that requires its upstream, on %s", (kind) => {
  let api: Api;
  let stop: () => Promise<void>;

  beforeAll(async () => {
    api = await startApi(kind === "SQLite" ? {} : { databaseUrl: await freshDatabaseUrl() });
    await api.client.call("publishDefinitions", { body: { specs: [...project.specs] } });
    const connection = connectWorker({ url: api.url });
    const controller = new AbortController();
    const ended = runWorker({
      connection,
      project,
      workerId: "worker",
      codeVersion: null,
      logger: quiet,
      signal: controller.signal,
      concurrency: 8,
    });
    stop = async () => {
      controller.abort();
      await ended;
      connection.close();
    };
  });

  afterAll(async () => {
    await stop();
    await api.close();
  });

  async function asked(name: string, ...keys: string[]): Promise<string> {
    const body = { assets: [name], partition_keys: keys };
    return (await api.client.call("requestRun", { body })).run_id;
  }

  async function tasksOf(run_id: string) {
    return (await api.client.call("listTasks", { params: { run_id } })).items;
  }

  function reported(...partition_keys: string[]) {
    const params = { asset_key: "bills" };
    const items = [{ selector: { type: "explicit" as const, partition_keys } }];
    const body = { request_id: partition_keys.join(), items };
    return api.client.call("reportPartitions", { params, body });
  }

  async function isWaiting(run: string, message: string): Promise<void> {
    await vi.waitFor(async () => {
      const [task] = await tasksOf(run);
      expect(task?.waits_for?.message).toBe(message);
    }, WAIT);
  }

  test("I105: waits, says for what, and goes on with what a report and a run make", async () => {
    const run = await asked("waits", "2025-01-03");
    await isWaiting(run, "waits for bills 2025-01-03, which is missing, and 1 other partition");
    const [task] = await tasksOf(run);
    expect(task).toMatchObject({ state: "WAITING", attempt: 0, retry_at: null });
    await reported("2025-01-03");
    await isWaiting(run, "waits for orders 2025-01-03, which is missing");
    await asked("orders", "2025-01-03");
    expect((await api.client.runs.waitFor(run)).state).toBe("SUCCEEDED");
    const { items } = await api.client.call("explainEntity", { query: { entity: run } });
    expect(items.map(({ type }) => type)).toEqual([
      "RunRequested",
      "TasksDeferred",
      "TasksRequeued",
      "TasksDeferred",
      "TasksRequeued",
      "RunStarted",
      "TasksStarted",
      "TasksFinished",
      "RunFinished",
    ]);
  });

  test("I105: is skipped, or fails, where it says so, with the reason", async () => {
    const skipped = await api.client.runs.waitFor(await asked("skips", "2025-01-10"));
    const refused = await api.client.runs.waitFor(await asked("fails", "2025-01-10"));
    expect([skipped.state, skipped.tasks_skipped]).toEqual(["SUCCEEDED", 1]);
    const error = {
      class: "requires",
      message: "it requires bills 2025-01-10, which is missing, and 1 other partition",
    };
    expect([refused.state, refused.first_error]).toEqual(["FAILED", error]);
    const [task] = await tasksOf(skipped.run_id);
    expect(task).toMatchObject({ state: "SKIPPED", attempt: 0, error });
  });

  test("I106: fails once it has waited for as long as it may", async () => {
    const ended = await api.client.runs.waitFor(await asked("short", "2025-01-11"));
    expect(ended.state).toBe("FAILED");
    expect(ended.first_error?.message).toMatch(/^it waited since .* for bills 2025-01-11, which/);
  });

  test("I107: writes nothing for what waits, nor for what requires nothing", async () => {
    const run = await asked("waits", "2025-01-20");
    await isWaiting(run, "waits for bills 2025-01-20, which is missing, and 1 other partition");
    const before = (await api.client.call("listEvents", { query: { limit: 200 } })).items.length;
    const free = await asked("free", "2025-01-20");
    await api.client.runs.waitFor(free);
    await reported("2025-01-21");
    const { items } = await api.client.call("listEvents", { query: { limit: 200 } });
    expect(items.slice(before).map(({ type }) => type)).toEqual([
      "RunRequested",
      "RunStarted",
      "TasksStarted",
      "TasksFinished",
      "RunFinished",
      "PartitionsReported",
    ]);
  });

  test("I10: folds to the same rows again", async () => {
    const { store, engines } = api;
    const verified = await verifyLedger(store, engines[0]?.workspace ?? failed());
    expect(verified.state_hash).toMatch(/^[0-9a-f]{64}$/);
  });
});

function failed(): never {
  throw new Error("There is no engine.");
}
