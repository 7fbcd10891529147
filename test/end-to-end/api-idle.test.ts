import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { isIdle } from "../../src/cli/base/idle.ts";
import { ALL_ORDERS, type Api, publish, startApi, work } from "./api-server.ts";

let api: Api;

beforeEach(async () => {
  api = await startApi();
  await publish(api.client);
});

afterEach(() => api.close());

const NO_ASSETS = new Set<string>();

describe("a workspace", () => {
  test("is not idle while a worker of one's own may still ask for a task", async () => {
    await api.client.call("requestRun", { body: { assets: ["report"] } });
    expect(await isIdle(api.client, new Set(["report"]))).toBe(false);
    await work(api.client, "SUCCEEDED");
    expect(await isIdle(api.client, new Set(["report"]))).toBe(true);
  });

  test("is idle when all that is left waits for a worker that has its function", async () => {
    await api.client.call("createBackfill", { body: ALL_ORDERS });
    const { run_id } = await api.client.call("requestRun", { body: { assets: ["report"] } });
    await api.client.call("tick");
    const params = { run_id };
    const { items } = await api.client.call("listTasks", { params });
    expect(items).toMatchObject([{ state: "READY", lacks_worker: true }]);
    expect(await isIdle(api.client, NO_ASSETS)).toBe(true);

    const claim = { worker_id: "w", lease_id: "l", slots: 1, code_version: null, wait_ms: 0 };
    await api.client.call("claim", { body: { ...claim, assets: ["report"] } });
    await api.client.call("requestRun", { body: { assets: ["report"] } });
    expect(await isIdle(api.client, NO_ASSETS)).toBe(false);
  });

  test("is idle when a follower waits for a person to decide about the one before it", async () => {
    const { backfill_id } = await api.client.call("createBackfill", { body: ALL_ORDERS });
    const body = { ...ALL_ORDERS, after_backfill_id: backfill_id, allow_overlap: true };
    await api.client.call("createBackfill", { body });
    await api.client.call("cancelBackfill", { params: { backfill_id }, body: { now: true } });
    await work(api.client, "SUCCEEDED");
    await expect.poll(() => isIdle(api.client, NO_ASSETS)).toBe(true);
    const { items } = await api.client.call("listBackfills", { query: { status: "PENDING" } });
    expect(items).toHaveLength(1);
  });
});
