import type { Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { type Api, startApi } from "../end-to-end/api-server.ts";
import { CliProject } from "../end-to-end/cli-project.ts";
import {
  endStep,
  lookBefore,
  publishShards,
  SPREAD,
  takeMoveStep,
} from "../end-to-end/shard-hand.ts";
import { fetchSegments, publishSyncs, seeHeads, TRANSFERS } from "../end-to-end/sync-hand.ts";
import { TestBrowser } from "./test-browser.ts";

// Goal: whoever asks the API, the command line or the page hears the same number for the same thing.
// Method: a workspace where something of each kind is half done and stands still, read all three ways.

let api: Api;
let browser: TestBrowser;
const project = new CliProject();

const NOON = "2026-03-01T12:00:00.000Z";
const ASSETS = ["sales/orders", "report"];
const partitions = { type: "daily", start: "2025-01-01", end: "2025-01-11" } as const;
const upstream = [{ asset_key: "sales/orders", mapping: { type: "identity" as const } }];

beforeAll(async () => {
  [api, browser] = await Promise.all([
    startApi({ actsByItself: false, clockAt: NOON }),
    TestBrowser.open(),
  ]);
  const specs = [
    { kind: "asset" as const, asset_key: "sales/orders", partitions },
    { kind: "asset" as const, asset_key: "report", partitions, upstream },
  ];
  await api.client.call("publishDefinitions", { body: { specs } });
});

afterEach(() => browser.endVisits());

afterAll(async () => {
  await browser.close();
  await api.close();
  await project.remove();
});

/** What a command says, without the blanks that lay it out. */
async function said(...args: string[]): Promise<string> {
  const text = await project.said(...args, "--url", api.url);
  return text.replace(/ +/g, " ");
}

async function shown(path: string, texts: readonly (string | RegExp)[]): Promise<Page> {
  const { page } = await browser.visit(`${api.url}${path}`);
  for (const text of texts) await page.getByText(text).first().waitFor();
  return page;
}

/** Takes some tasks of an asset, and ends the first of them well and the others not. */
async function workOn(asset: string, slots: number, wellDone: number): Promise<void> {
  const worker = { worker_id: "worker", code_version: null };
  const lease_id = crypto.randomUUID();
  const claim = { ...worker, lease_id, slots, assets: [asset], wait_ms: 0 };
  const { groups } = await api.client.call("claim", { body: claim });
  const tasks = groups.flatMap(({ run_pos, tasks: taken }) =>
    taken.map(({ task_key, attempt }) => ({ run_pos, task_key, attempt })),
  );
  const error = { class: "user", message: "the file is broken" };
  const results = tasks.map((task, at) =>
    at < wellDone
      ? { ...task, outcome: "SUCCEEDED" as const }
      : { ...task, outcome: "FAILED" as const, final: true, error },
  );
  await api.client.call("report", { body: { ...worker, results, released_leases: [lease_id] } });
}

describe("the API, the command line and the page", () => {
  test("say how much a backfill would be, and how far it is, in the same numbers", async () => {
    const body = { assets: ASSETS, selector: { type: "all" as const }, chunk_size: 5 };
    const preview = await api.client.call("previewBackfill", { body });
    expect(preview).toMatchObject({ partitions_total: 20, total_partitions: 10, total_chunks: 2 });
    const size = "(10 keys × 2 assets)";
    const previewed = await said("backfill", "preview", ...ASSETS, "--all", "--chunk-size", "5");
    expect(previewed).toContain(`partitions 20 ${size}\n`);
    const assets = ASSETS.map((asset) => `asset=${encodeURIComponent(asset)}`).join("&");
    await shown(`/backfills/new?${assets}&all=1&chunk_size=5`, [`20 partitions ${size}`]);

    const made = await api.client.call("createBackfill", { body });
    expect(made).toMatchObject({ partitions_total: 20 });
    const params = { backfill_id: made.backfill_id };
    await api.client.call("tick");
    await workOn("sales/orders", 5, 3);
    await workOn("report", 2, 2);
    api.jump(90_000);
    await api.client.call("pauseBackfill", { params });
    const counts = { succeeded: 5, failed: 4 };
    expect(await api.client.call("getBackfill", { params })).toMatchObject({
      partitions_total: 20,
      partitions_succeeded: counts.succeeded,
      partitions_failed: counts.failed,
    });
    const told = await said("backfill", "show", made.backfill_id);
    expect(told).toMatch(/^partitions 20 \(10 keys × 2 assets\): .*5 succeeded, 4 failed$/m);
    expect(await said("backfill", "list")).toContain(" 9/20 4 ");
    const page = await shown(`/backfills/${made.backfill_id}`, [`done of 20 partitions ${size}`]);
    await page.getByRole("img", { name: /^5 succeeded, 4 failed.* of 20 partitions$/ }).waitFor();
    await shown("/backfills", [/^45 %$/]);
  });

  test("do not count the time that a backfill is paused", async () => {
    const [backfill] = (await api.client.call("listBackfills")).items;
    const params = { backfill_id: backfill?.backfill_id ?? "" };
    // The page's own clock is far ahead of the server's, which stands still.
    const page = await shown(`/backfills/${params.backfill_id}`, ["elapsed"]);
    await page.getByText("1 min 30 s").waitFor();
    await shown("/backfills", ["1 min 30 s"]);
    api.jump(3_600_000);
    await api.client.call("resumeBackfill", { params });
    const resumed = await api.client.call("getBackfill", { params });
    expect(resumed).toMatchObject({ state: "RUNNING", paused_ms: 3_600_000, paused_at: null });
    api.jump(5_000);
    await api.client.call("pauseBackfill", { params });
    await page.getByText("1 min 35 s").waitFor();
    api.jump(60_000);
    await api.client.call("cancelBackfill", { params, body: { now: true } });
    await api.client.call("tick");
    const ended = await api.client.call("getBackfill", { params });
    expect(ended).toMatchObject({ state: "CANCELLED", paused_ms: 3_660_000, paused_at: null });
    await page.getByText("total", { exact: true }).waitFor();
    await page.getByText("1 min 35 s").waitFor();
    // When it was created, and when it was done.
    expect(await said("backfill", "list")).toMatch(/ CANCELLED .* ago \S+ ago$/m);
  });

  test("say how the partitions of an asset stand in the same numbers", async () => {
    const params = { asset_key: "sales/orders" };
    const summary = await api.client.call("summarizePartitions", { params });
    const { total, materialized, failed, never_materialized: never } = summary;
    expect({ total, materialized, failed, never }).toEqual({
      total: 10,
      materialized: 3,
      failed: 2,
      never: 5,
    });
    const told = await said("partitions", "summary", "sales/orders");
    for (const line of ["total 10", "materialized 3", "failed 2", "never materialized 5"]) {
      expect(told.split("\n").map((text) => text.trim())).toContain(line);
    }
    expect(told).toContain("stale 7: 5 never materialized, 2 failed");
    const listed = await said("partitions", "list", "sales/orders", "--status", "failed");
    expect(listed.match(/ FAILED .*the file is broken$/gm)).toHaveLength(2);
    const stale = await said("partitions", "stale", "sales/orders");
    expect(stale.match(/ NEVER_MATERIALIZED .*the file is broken$/gm)).toHaveLength(2);
    const words = "3 materialized, 2 failed of 10 partitions";
    for (const path of ["/assets", "/assets/sales%2Forders"]) {
      const page = await shown(path, []);
      await page.getByRole("img", { name: words }).waitFor();
    }
    const page = await shown("/assets/sales%2Forders", ["5 never materialized, 2 failed"]);
    for (const name of ["materialized 3", "failed 2", "never materialized 5"]) {
      await page.getByRole("button", { name, exact: true }).waitFor();
    }
    const again = { assets: ["sales/orders"], partition_keys: ["2025-01-01"] };
    await api.client.call("requestRun", { body: again });
    const worker = { worker_id: "worker", lease_id: "again", code_version: null };
    const claim = { ...worker, slots: 1, assets: ["sales/orders"], wait_ms: 0 };
    expect((await api.client.call("claim", { body: claim })).groups).toHaveLength(1);
    const remade = await said("partitions", "summary", "sales/orders");
    expect(remade).toMatch(/materialized 3\n ?of which being remade 1\n(?:.*\n)* ?in progress 0\n/);
    await page
      .getByRole("img", { name: "2 materialized, 1 being remade, 2 failed of 10 partitions" })
      .waitFor();
  });

  test("say how far a sync is in the same numbers, each with what it counts", async () => {
    await publishSyncs(api.client, { ...TRANSFERS, segments: { max: 3, min_size: 10 } });
    await api.client.call("tick");
    await seeHeads(api.client, "transfers", { main: 1_004 });
    await fetchSegments(api.client, "transfers", 2);
    const [sync] = (await api.client.call("listSyncs")).items;
    const done = sync?.blocks_complete ?? 0;
    expect(sync).toMatchObject({ segments_complete: 2, segments_total: 3, blocks_total: 1_000 });
    expect(sync?.progress_pct).toBe(66.6);
    const told = await said("sync", "show", sync?.sync_id ?? "");
    expect(told).toContain(`progress 66.6% of segments (2 of 3), ${done} of 1,000 blocks`);
    const text = `66.6 % of segments (2 of 3), ${done} of 1,000 blocks`;
    await shown(`/syncs/${sync?.sync_id}`, [text]);
    await shown("/", [`${done} of 1,000`]);
  });

  test("say how far a move is in the same numbers, which add up, also when it was cancelled", async () => {
    await publishShards(api.client, SPREAD);
    const { move_id } = await api.client.call("planMove", { body: { move: "spread" } });
    const bounds = [1, 2, 3, 4, 5].map((at) => ({ upper: [`${at}00`], rows: 100 }));
    const survey = { bounds: [...bounds, { upper: null, rows: 100 }], sealed: true };
    await endStep(api.client, await takeMoveStep(api.client, "survey"), survey);
    const params = { move: move_id };
    await api.client.call("startMove", { params });
    await lookBefore(api.client);
    const copied = { rows: 100, bytes: 1_000, work_ms: 500, digest: "d", equal: true };
    await endStep(api.client, await takeMoveStep(api.client, "copy"), copied);
    await takeMoveStep(api.client, "copy");
    await api.client.call("pauseMove", { params });
    expect(await api.client.call("getMove", { params })).toMatchObject({
      segments_total: 6,
      segments_pending: 5,
      segments_copied: 1,
      segments_active: 1,
      progress_pct: 16.6,
    });
    const paused = await said("move", "status", move_id);
    expect(paused).toMatch(/^segments 6: 5 pending, 1 copied \(1 of them stopping\)$/m);
    const page = await shown(`/moves/${move_id}`, ["16.6 % of 6 segments copied"]);
    // Of the move, and of its only lane.
    const bars = page.getByRole("img", { name: /of 6 segments$/ });
    await expect
      .poll(() => bars.evaluateAll((all) => all.map((bar) => bar.getAttribute("aria-label"))))
      .toEqual(["1 copied of 6 segments", "1 copied of 6 segments"]);
    for (const name of ["pending 5", "copied 1"]) {
      await page.getByRole("button", { name, exact: true }).waitFor();
    }
    await page.getByRole("row", { name: /^1\b.*pending.*stopping$/ }).waitFor();
    const runningTexts = async () =>
      (await api.client.call("getOverview")).running
        .filter(({ kind }) => kind === "move")
        .map(({ text }) => text);
    expect(await runningTexts()).toEqual(["paused; phase copy"]);
    // What is compared goes on in a paused move.
    await api.client.call("verifyMove", { params });
    await takeMoveStep(api.client, "verify");
    expect(await said("move", "status", move_id)).toContain(
      "5 pending, 1 copied (2 of them at work)",
    );
    await page.getByRole("row", { name: /^0\b.*running/ }).waitFor();

    await api.client.call("cancelMove", { params });
    expect(await runningTexts()).toEqual(["cancelled; phase copy"]);
    const phase = "copy";
    expect(await api.client.call("getMove", { params })).toMatchObject({ phase });
    expect(await said("move", "list")).toMatch(/ CANCELLED copy 16\.6% 6 /);
    await shown("/moves", [/^copy$/]);
    const steps = (await shown(`/moves/${move_id}`, [])).getByRole("list", { name: /^Phases/ });
    await steps.locator("[data-phase=done].phase-skipped").waitFor();
  });

  test("count as running whatever a worker is at", async () => {
    const { running_total } = await api.client.call("getOverview");
    expect(running_total).toBeGreaterThan(0);
    const page = await shown("/", []);
    await page.getByRole("link", { name: new RegExp(`^${running_total}\\s*Running$`) }).waitFor();
    expect(await page.getByText("Nothing is running right now.").count()).toBe(0);
  });
});
