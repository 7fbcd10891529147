import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Problem } from "../../src/work/operation.ts";
import { ALL_ORDERS, type Api, publish, startApi } from "./api-server.ts";

// Goal: the other names that requests may use mean the same as the names, down to the idempotency
// key, and two names that say different things are refused. Method: real requests, as text.

const BASE = "/api/v1/orchestration";

let api: Api;

beforeAll(async () => {
  api = await startApi();
  await publish(api.client);
});

afterAll(() => api.close());

async function sent(method: string, path: string, body: unknown, key?: string) {
  const headers: Record<string, string> = key === undefined ? {} : { "idempotency-key": key };
  const response = await api.send(method, `${BASE}${path}`, { body, headers });
  return {
    status: response.status,
    body: (await response.json()) as Problem & { [x: string]: unknown },
  };
}

const RANGE = { type: "range", start: "2025-01-02", end: "2025-01-04" };
const NAMED = { type: "range", partition_start: "2025-01-02", partition_end: "2025-01-04" };

describe("other names in requests", () => {
  test("select the partitions of a backfill, under the same idempotency key", async () => {
    const asked = { asset_selection: ["sales/orders"], allow_overlap: true };
    const first = await sent(
      "POST",
      "/backfills",
      { ...asked, partition_selector: NAMED },
      "range",
    );
    expect(first).toMatchObject({ status: 202, body: { selector: RANGE, total_partitions: 3 } });
    const again = await sent("POST", "/backfills", { ...asked, selector: RANGE }, "range");
    expect(again).toEqual({ status: 200, body: first.body });
    const mixed = { ...asked, selector: { ...RANGE, ...NAMED }, partition_selector: RANGE };
    expect((await sent("POST", "/backfills", mixed, "range")).status).toBe(200);

    const filters = { type: "filter", filters: { partition: "2025-01-0*" } };
    const preview = await sent("POST", "/backfills/preview", {
      ...asked,
      partition_selector: filters,
    });
    expect(preview).toMatchObject({
      status: 200,
      body: { total_partitions: 9, selector: { type: "filter", dimensions: filters.filters } },
    });
  });

  test("are refused beside the name when the two differ", async () => {
    const asked = { assets: ["sales/orders"] };
    for (const body of [
      { ...asked, selector: RANGE, partition_selector: { type: "all" } },
      { ...asked, selector: { ...RANGE, partition_end: "2025-01-09" } },
    ]) {
      const refused = await sent("POST", "/backfills/preview", body);
      expect(refused).toMatchObject({ status: 400, body: { code: "INPUT_INVALID" } });
      expect(refused.body.detail).toMatch(/partition_(selector|end) .*(selector|end)\b.*send one/);
    }
    const cron = { name: "both", cron: "0 1 * * *", cron_expression: "0 2 * * *" };
    const refused = await sent("POST", "/schedules", { ...cron, asset_selection: ["report"] }, "b");
    expect(refused).toMatchObject({ status: 400 });
    expect(refused.body.detail).toContain("cron_expression");
  });

  test("say when a schedule fires, as it is created, changed and previewed", async () => {
    const asked = { name: "nightly", asset_selection: ["report"], enabled: false };
    const made = await sent("POST", "/schedules", { ...asked, cron_expression: "0 1 * * *" }, "s");
    expect(made.status).toBe(202);
    const params = { schedule_id: "nightly" };
    expect(await api.client.call("getSchedule", { params })).toMatchObject({ cron: "0 1 * * *" });
    const changed = { ...asked, cron_expression: "0 2 * * *" };
    expect((await sent("PUT", "/schedules/nightly", changed)).status).toBe(202);
    expect(await api.client.call("getSchedule", { params })).toMatchObject({ cron: "0 2 * * *" });
    const times = await sent("POST", "/schedules/preview", {
      cron_expression: "0 2 * * *",
      count: 1,
    });
    expect(times).toMatchObject({ status: 200, body: { items: [{}] } });
  });
});

describe("the version that a change is for", () => {
  test("I62: may stand in the query, and must be the same wherever it stands", async () => {
    const body = { ...ALL_ORDERS, allow_overlap: true };
    const { backfill_id } = await api.client.call("createBackfill", { body });
    const running = async () => {
      return (await api.client.call("getBackfill", { params: { backfill_id } })).state;
    };
    await expect.poll(running).toBe("RUNNING");
    const pause = `/backfills/${backfill_id}/pause`;
    const stale = await sent("POST", `${pause}?expected_state_version=1`, undefined);
    expect(stale).toMatchObject({
      status: 412,
      body: { details: { state_version: 2, expected_state_version: 1 } },
    });
    const both = await sent("POST", `${pause}?expected_state_version=2`, {
      expected_state_version: 1,
    });
    expect(both).toMatchObject({ status: 400, body: { code: "INPUT_INVALID" } });
    const header = { headers: { "if-match": '"1"' }, body: { expected_state_version: 2 } };
    expect((await api.send("POST", `${BASE}${pause}`, header)).status).toBe(400);
    expect((await sent("POST", `${pause}?expected_state_version=2`, {})).status).toBe(202);
    expect((await sent("POST", `${pause}?expected_state_version=x`, {})).status).toBe(400);
  });
});

describe("a backfill under an id of the caller's", () => {
  test("is found by it, made once, and refused for another wish", async () => {
    const wish = { ...ALL_ORDERS, allow_overlap: true, backfill_id: "orders_2025-01" };
    const made = await sent("POST", "/backfills", wish, "own-1");
    expect(made).toMatchObject({ status: 202, body: { backfill_id: "orders_2025-01" } });
    expect(await sent("POST", "/backfills", wish, "own-1")).toEqual({ ...made, status: 200 });
    const params = { backfill_id: "orders_2025-01" };
    const { items } = await api.client.call("listChunks", { params });
    expect(items[0]).toMatchObject({ run_key: "backfill:orders_2025-01:chunk:0" });
    const query = { entity: "orders_2025-01:0" };
    expect((await api.client.call("explainEntity", { query })).items.length).toBeGreaterThan(0);
    const taken = await sent("POST", "/backfills", { ...wish, chunk_size: 3 }, "own-2");
    expect(taken).toMatchObject({ status: 409, body: { code: "NAME_TAKEN" } });
    expect(taken.body.details).toMatchObject({ backfill_id: "orders_2025-01" });
    for (const backfill_id of ["a:b", "run_1", "", "../x", "x".repeat(65)]) {
      const refused = await sent("POST", "/backfills", { ...wish, backfill_id }, "own-3");
      expect(refused).toMatchObject({ status: 400, body: { code: "INPUT_INVALID" } });
    }
  });
});

describe("other names in answers", () => {
  test("tell why a partition is stale, and which assets a tick was for", async () => {
    const stale = await api.client.call("listStalePartitions", { query: { limit: 5 } });
    expect(stale.items.length).toBeGreaterThan(0);
    for (const item of stale.items) expect(item.stale_reason_code).toBe(item.stale_reason);

    const schedule = { name: "ticks", cron: "0 1 1 1 *", asset_selection: ["report"] };
    await api.client.call("createSchedule", { body: schedule });
    const params = { schedule_id: "ticks" };
    await api.client.call("triggerSchedule", { params });
    await api.client.call("updateSchedule", {
      params,
      body: { ...schedule, asset_selection: ["tenants"], selection: { type: "all" } },
    });
    const { items } = await api.client.call("listTicks", { params });
    expect(items).toMatchObject([{ manual: true, asset_selection: ["report"] }]);
  });
});
