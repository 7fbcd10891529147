import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { found, SensorServer } from "../../../test/sensor-server.ts";
import { resetCursor } from "../../work/sensor/commands.ts";
import { createBackfill } from "../../work/backfill/create.ts";
import { reportPartitions } from "../../work/asset/report.ts";
import { requestRun } from "../../work/run/request.ts";

let server: SensorServer;

beforeEach(async () => {
  server = await SensorServer.start();
  await server.publish({ asset_key: "raw", partitions: { type: "static", keys: ["x", "y", "z"] } });
  await server.publish({
    asset_key: "clean",
    partitions: { type: "static", keys: ["x", "y", "z"] },
  });
  await server.publish({ asset_key: "plain" }, { asset_key: "repair" });
});

afterEach(async () => {
  expect(server.warnings).toEqual([]);
  await server.close();
});

let requests = 0;

/** Runs an asset and lets it end. */
async function run(asset: string, outcome: "SUCCEEDED" | "FAILED", ...keys: string[]) {
  requests += 1;
  const partition_keys = keys.length === 0 ? undefined : keys;
  const request = { request_id: `r${requests}`, assets: [asset], partition_keys };
  await server.submit(requestRun(request));
  await server.work(outcome, asset);
  await server.pass(20);
}

async function keysOf(asset: string): Promise<(string | undefined)[]> {
  const runs = await server.runs();
  return runs
    .filter(({ asset_selection }) => asset_selection.includes(asset))
    .map(({ partition_keys }) => partition_keys?.[0]);
}

const WATCH_RAW = {
  kind: "sensor",
  name: "follow",
  mode: "poll",
  min_interval_ms: 1_000,
  watch: { type: "materializations", asset_key: "raw" },
} as const;
const TO_CLEAN = { asset_selection: ["clean"], partition_key: "{partition_key}" };

describe("a sensor that watches materializations", () => {
  test("asks for what follows from each partition, from its creation on, and once", async () => {
    await run("raw", "SUCCEEDED", "x");
    await server.publish({ ...WATCH_RAW, target: TO_CLEAN });
    await server.pass(5_000);
    expect(await keysOf("clean")).toEqual([]);
    await run("raw", "SUCCEEDED", "y", "z");
    expect(await keysOf("clean")).toEqual(["y", "z"]);
    await run("raw", "FAILED", "x");
    await run("plain", "SUCCEEDED");
    await server.pass(60_000);
    expect(await keysOf("clean")).toEqual(["y", "z"]);
    await run("raw", "SUCCEEDED", "x");
    expect(await keysOf("clean")).toEqual(["y", "z", "x"]);
  });

  test("looks at most once in its interval, and then at all that came", async () => {
    await server.publish({ ...WATCH_RAW, min_interval_ms: 60_000, target: TO_CLEAN });
    await run("raw", "SUCCEEDED", "x");
    await run("raw", "SUCCEEDED", "y");
    await run("raw", "SUCCEEDED", "z");
    expect(await keysOf("clean")).toEqual(["x"]);
    await server.pass(60_000);
    expect(await keysOf("clean")).toEqual(["x", "y", "z"]);
  });

  test("reads what happened in parts, however long what was reported is", async () => {
    const text = "m".repeat(15_000);
    const selector = { type: "explicit" as const, partition_keys: ["x"] };
    const items = Array.from({ length: 20 }, () => ({ selector, metadata: { text } }));
    await server.publish({ ...WATCH_RAW, target: TO_CLEAN });
    let longest = 0;
    const { store } = server;
    const read = store.read.bind(store);
    store.read = (ws, job) =>
      read(ws, (reader) => {
        const events = reader.events.bind(reader);
        reader.events = async (filter) => {
          const page = await events(filter);
          const length = page.reduce((sum, { data }) => sum + data.length, 0);
          if (filter.types?.includes("PartitionsReported")) longest = Math.max(longest, length);
          return page;
        };
        return job(reader).finally(() => {
          reader.events = events;
        });
      });
    // All of an asset that the sensor does not watch.
    for (let at = 0; at < 70; at++) {
      const request_id = `long ${at}`;
      await server.submit(reportPartitions({ asset_key: "clean", request_id, items }));
    }
    await server.submit(
      reportPartitions({ asset_key: "raw", request_id: "y", items: [{ selector }] }),
    );
    await server.pass(60_000);
    await expect.poll(() => keysOf("clean")).toEqual(["x"]);
    // 70 events of 300,000 characters, of which the first page has 50.
    expect(longest).toBeGreaterThan(300_000);
    expect(longest).toBeLessThan(16_000_000);
  });

  test("takes no more at once than it may ask for, and goes on with the rest", async () => {
    await server.publish({ ...WATCH_RAW, max_run_requests: 1, target: TO_CLEAN });
    await run("raw", "SUCCEEDED", "x", "y", "z");
    await server.pass(100);
    expect(await keysOf("clean")).toEqual(["x", "y", "z"]);
    const { cursor, evaluations, state } = await server.sensor("follow");
    expect({ evaluations, state }).toEqual({ evaluations: 3, state: "ACTIVE" });
    expect(cursor).toMatch(/^\d+$/);
  });

  test("hands what it found to a worker when code decides, and nothing when there is nothing", async () => {
    await server.publish(WATCH_RAW);
    expect(await server.claim(["follow"])).toEqual([]);
    const request = { worker_id: "w", sensors: ["follow"], slots: 1, wait_ms: 20_000 };
    const waiting = server.engine.claimProbes(request);
    await run("plain", "SUCCEEDED");
    await run("raw", "SUCCEEDED", "y");
    const [probe] = (await waiting).probes;
    expect(probe?.found?.items).toMatchObject([
      { asset_key: "raw", partition_key: "y", code_version: null, metadata: null },
    ]);
    if (probe === undefined) return;
    expect(await server.report(probe, found(probe.found?.cursor ?? null))).toBe("recorded");
    await server.pass(5_000);
    expect(await server.claim(["follow"])).toEqual([]);
    await server.submit(resetCursor({ sensor: "follow", cursor: null }));
    expect((await server.claimOne("follow")).found?.items).toHaveLength(1);
  });

  test("does not follow what it asked for itself", async () => {
    const target = { asset_selection: ["raw"], partition_key: "{partition_key}" };
    await server.publish({ ...WATCH_RAW, min_interval_ms: 100, target });
    await run("raw", "SUCCEEDED", "x");
    for (let round = 0; round < 5; round++) {
      await server.work("SUCCEEDED", "raw");
      await server.pass(1_000);
    }
    expect(await keysOf("raw")).toEqual(["x", "x"]);
  });

  test("I71: remembers how far it looked in vain, without an event and without looking again", async () => {
    await server.publish({ ...WATCH_RAW, min_interval_ms: 100, target: TO_CLEAN });
    const backfill = {
      client_request_id: "b",
      assets: ["clean"],
      selector: { type: "all" },
      chunk_size: 1,
      max_concurrent_runs: 3,
      order: "ascending",
      priority: 0,
      allow_overlap: true,
      continue_on_failure: false,
    } as const;
    await server.submit(createBackfill(backfill));
    await server.work("SUCCEEDED", "clean");
    const before = await server.pos();
    await server.pass(60_000);
    await server.restart();
    await server.pass(60_000);
    expect(await server.pos()).toBe(before);
    expect(await server.sensor("follow")).toMatchObject({ evaluations: 0, state_version: 1 });
    await run("raw", "SUCCEEDED", "x");
    expect(await keysOf("clean")).toContain("x");
  });

  test("says when its cursor is no position, until somebody moves it", async () => {
    await server.publish({ ...WATCH_RAW, watch: null });
    const probe = await server.claimOne("follow");
    await server.report(probe, found("page 7"));
    await server.pass(1);
    await server.publish({ ...WATCH_RAW, target: TO_CLEAN });
    expect(await server.sensor("follow")).toMatchObject({ state: "ERROR", cursor: "page 7" });
    await server.submit(resetCursor({ sensor: "follow", cursor: null }));
    await run("raw", "SUCCEEDED", "x");
    await server.pass(10_000);
    expect(await server.sensor("follow")).toMatchObject({ state: "ACTIVE" });
    expect(await keysOf("clean")).toEqual(["x"]);
  });
});

describe("a sensor that watches runs that fail", () => {
  const repair = {
    asset_selection: ["repair"],
    config: { of: "{run_id}", why: "{error.message}" },
  };
  const WATCH = {
    kind: "sensor",
    name: "mend",
    mode: "poll",
    min_interval_ms: 100,
    watch: { type: "run_failures", assets: [] },
    target: repair,
  } as const;

  test("asks for a run for each that failed, with what is known of it", async () => {
    await server.publish(WATCH);
    await run("plain", "SUCCEEDED");
    await run("plain", "FAILED");
    const [failed, mending] = (await server.runs()).slice(1);
    expect(mending).toMatchObject({
      asset_selection: ["repair"],
      config: { of: failed?.run_id, why: "it broke" },
    });
  });

  test("does not ask again when what it asked for fails itself", async () => {
    await server.publish(WATCH);
    await run("plain", "FAILED");
    for (let round = 0; round < 5; round++) {
      await server.work("FAILED", "repair");
      await server.pass(1_000);
    }
    expect(await server.runs()).toHaveLength(2);
  });

  test("keeps to the assets it is for", async () => {
    await server.publish({ ...WATCH, watch: { type: "run_failures", assets: ["raw"] } });
    await run("plain", "FAILED");
    expect(await server.runs()).toHaveLength(1);
    await run("raw", "FAILED", "x");
    expect(await server.runs()).toHaveLength(3);
  });
});
