import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import type { PartInput } from "../../src/core/api/operations.ts";
import { type Api, startApi } from "./api-server.ts";

/** More than a decision may load one by one. */
const MANY = 1_000;

const names = Array.from({ length: MANY }, (_, index) => `a${index}`);
type Specs = PartInput<"publishDefinitions", "body">["specs"];
const assets: Specs = names.map((asset_key) => ({ kind: "asset", asset_key, partitions: null }));
const cron = "0 * * * *";
const schedules: Specs = names.map((name) => {
  return { kind: "schedule", name, cron, asset_selection: [name] };
});
const sensors: Specs = names.map((name) => {
  return { kind: "sensor", name, mode: "push", target: { asset_selection: [name] } };
});

/** Of several dimensions, one whose keys are added: it varies slower in one, faster in the other. */
const grids: Specs = [
  {
    kind: "asset",
    asset_key: "by-region",
    partitions: {
      type: "multi",
      dimensions: {
        customer: { type: "dynamic", name: "customers" },
        region: { type: "static", keys: ["eu", "us"] },
      },
    },
  },
  {
    kind: "asset",
    asset_key: "by-date",
    partitions: {
      type: "multi",
      dimensions: {
        customer: { type: "dynamic", name: "customers" },
        a_date: { type: "daily", start: "2026-01-01" },
      },
    },
  },
];
const customers = Array.from({ length: 3 * MANY }, (_, index) => `customer-${index}`);

let folder: string;
let api: Api;

/** A server that has nothing in memory yet. */
function open(): Promise<Api> {
  return startApi({ folder, clockAt: "2026-03-01T09:30:00.000Z", actsByItself: false });
}

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "pawl-many-"));
  const first = await open();
  const specs = [
    ...assets,
    ...schedules,
    ...sensors,
    ...grids,
    { kind: "asset", asset_key: "customers", partitions: { type: "dynamic", name: "customers" } },
  ] satisfies Specs;
  await first.client.call("publishDefinitions", { body: { specs } });
  await first.client.call("addPartitionKeys", {
    params: { asset_key: "customers" },
    body: { keys: customers },
  });
  await first.close();
});

afterAll(() => rmSync(folder, { recursive: true }));

beforeEach(async () => {
  api = await open();
});

afterEach(() => api.close());

test("a run may be of a thousand assets", async () => {
  const { outcome } = await api.client.call("requestRun", { body: { assets: names } });
  expect(outcome).toBe("created");
});

test("a backfill may be of a thousand assets", async () => {
  const body = { assets: names, selector: { type: "all" } } as const;
  const made = await api.client.call("createBackfill", { body });
  expect(made.asset_selection).toHaveLength(MANY);
});

test("a schedule may be of a thousand assets, and ticks", async () => {
  const body = { name: "all", cron, asset_selection: names };
  await api.client.call("createSchedule", { body });
  await api.close();
  api = await open();
  const params = { schedule_id: "all" };
  const { run_id } = await api.client.call("triggerSchedule", { params, body: {} });
  expect(run_id).toMatch(/^run_/);
});

test("a webhook may name a thousand assets", async () => {
  const { state } = await api.client.call("createWebhook", {
    body: {
      name: "all",
      url: "https://example.org/",
      notifications: ["run.failed"],
      assets: names,
    },
  });
  expect(state).toBe("ACTIVE");
});

test("a thousand schedules and as many sensors are changed by one publish", async () => {
  const specs = [
    ...assets,
    ...schedules.map((spec) => ({ ...spec, description: "changed" })),
    ...sensors.map((spec) => ({ ...spec, enabled: false })),
  ];
  const { changed } = await api.client.call("publishDefinitions", { body: { specs } });
  expect(changed).toHaveLength(2 * MANY);
});

test.each([
  ["by-region", { type: "all" }],
  ["by-region", { type: "stale", limit: 10_000 }],
  ["by-date", { type: "tick_time" }],
] as const)(
  "a schedule of %s ticks for thousands of keys that were added: %j",
  async (asset, selection) => {
    const name = `${asset}-${selection.type}`;
    const body = { name, cron, asset_selection: [asset], selection };
    await api.client.call("createSchedule", { body });
    const params = { schedule_id: name };
    const { run_id, backfill_id } = await api.client.call("triggerSchedule", { params, body: {} });
    expect(run_id ?? backfill_id).not.toBeNull();
  },
);
