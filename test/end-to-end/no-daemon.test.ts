import { expect, test } from "vitest";
import type { RunDocument } from "../../src/work/run/api.ts";
import type { ProbeResult } from "../../src/work/probe-protocol.ts";
import { Spec } from "../../src/work/definition/published-spec.ts";
import { type Api, ORDERS, REPORT, startApi, work } from "./api-server.ts";

// Goal: with nothing running in between, ticks are enough. Method: a server that does nothing by
// itself, whose clock stands still; every ten minutes of a day it is ticked, and a worker takes what
// is there until there is no more.

const STEP_MS = 600_000;
const STEPS_A_DAY = 144;

const ASSETS = [{ ...ORDERS, partitions: { type: "daily", start: "2026-02-01" } } as const, REPORT];

const SCHEDULES = [
  {
    kind: "schedule",
    name: "hourly-report",
    cron: "0 * * * *",
    asset_selection: ["report"],
    overlap: "skip",
  },
  {
    kind: "schedule",
    name: "nightly-orders",
    cron: "30 2 * * *",
    timezone: "Europe/Berlin",
    asset_selection: ["sales/orders"],
    selection: { type: "tick_time", offset: -1 },
  },
] as const;

const SENSORS = [
  /** Asks for the day that an order says, by code that only the worker has. */
  { kind: "sensor", name: "new-orders", mode: "poll", min_interval_ms: 3_600_000 },
  /** Asks for a report after every day of orders, without any code. */
  {
    kind: "sensor",
    name: "after-orders",
    mode: "poll",
    min_interval_ms: 60_000,
    watch: { type: "materializations", asset_key: "sales/orders" },
    target: { asset_selection: ["report"], run_key: "after-{partition_key}" },
  },
] as const;

/** Evaluates what is due as a worker does: the cursor counts, and each count asks for one report. */
async function evaluate({ client }: Api): Promise<number> {
  const { probes } = await client.call("claimProbes", {
    body: { worker_id: "worker", sensors: ["new-orders"], slots: 10, wait_ms: 0 },
  });
  if (probes.length === 0) return 0;
  const results = probes.map((probe): ProbeResult => {
    const { probe_id, attempt, cursor, expected_state_version, poll_epoch } = probe;
    const next = String(Number(cursor ?? 0) + 1);
    const request = {
      asset_selection: ["report"],
      partition_keys: null,
      run_key: `order-${next}`,
      config: null,
      labels: {},
    };
    const read = { probe_id, attempt, cursor, expected_state_version, poll_epoch };
    return { ...read, outcome: { type: "evaluated", cursor: next, run_requests: [request] } };
  });
  await client.call("reportProbes", { body: { worker_id: "worker", results } });
  return results.length;
}

/** Works until there is nothing left to do. A claim that does not wait may come too early for a task. */
async function workAll(api: Api): Promise<void> {
  const query = { status: "PENDING,RUNNING", limit: 1 } as const;
  for (;;) {
    const done = (await work(api.client, "SUCCEEDED", null, 0)) + (await evaluate(api));
    const open = (await api.client.call("listRuns", { query })).items.length;
    if (done + open === 0) return;
    await api.client.call("tick");
  }
}

test("a day of schedules, sensors and a backfill goes by ticks alone", async () => {
  const api = await startApi({ clockAt: "2026-03-01T00:00:30.000Z", actsByItself: false });
  try {
    const { client } = api;
    const specs = [...ASSETS, ...SCHEDULES, ...SENSORS].map((spec) => Spec.parse(spec));
    await client.call("publishDefinitions", { body: { origin: "code", specs } });
    const { backfill_id } = await client.call("createBackfill", {
      body: { assets: ["sales/orders"], selector: { type: "all" }, chunk_size: 4 },
    });

    for (let step = 0; step < STEPS_A_DAY; step++) {
      api.jump(STEP_MS);
      await client.call("tick");
      await workAll(api);
    }

    const backfill = await client.call("getBackfill", { params: { backfill_id } });
    expect(backfill).toMatchObject({ state: "SUCCEEDED", total_partitions: 28 });

    const ticksOf = async (schedule: string) => {
      const answer = await client.call("listTicks", {
        params: { schedule_id: schedule },
        query: { limit: 200 },
      });
      return answer.items;
    };
    const hourly = await ticksOf("hourly-report");
    expect(hourly.map(({ status }) => status)).toEqual(Array(24).fill("triggered"));
    const [nightly, ...others] = await ticksOf("nightly-orders");
    expect(others).toEqual([]);
    expect(nightly).toMatchObject({
      scheduled_for: "2026-03-01T01:30:00.000Z",
      partition_keys: ["2026-02-28"],
      status: "triggered",
    });

    const runs: RunDocument[] = [];
    for await (const run of client.each("listRuns")) runs.push(run);
    expect(runs.filter(({ state }) => state !== "SUCCEEDED")).toEqual([]);
    const keysWith = (part: string) => runs.filter(({ run_key }) => run_key.includes(part));
    // Once at the start, then every hour.
    expect(keysWith(":key:order-")).toHaveLength(24);
    // One for each day of February, however often it was materialized.
    expect(keysWith(":key:after-")).toHaveLength(28);

    const { pos } = await client.call("tick");
    expect((await client.call("tick")).pos).toBe(pos);
    expect(api.logged).toEqual([]);
  } finally {
    await api.close();
  }
});
