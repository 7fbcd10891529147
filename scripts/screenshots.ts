/**
 * `npm run screenshots`: takes the pictures of the page that the README and the guide show, in
 * `docs/images`, from the examples as they run.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { cpSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { findProject } from "../src/cli/base/project.ts";
import { type Serving, startServing } from "../src/cli/base/serving.ts";
import { chromiumPath, launchChromium } from "../test/browser/chromium.ts";
import { buildPage } from "./build-page.ts";

type Shot = {
  /** The file, without its ending. */
  name: string;
  path: string;
  theme?: "light" | "dark";
  width?: number;
  height?: number;
  /** Something that is seen once the page is whole. */
  until: string;
};

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const EXAMPLES = join(ROOT, "examples");
const IMAGES = join(ROOT, "docs", "images");
/** The tenants that go from one shard to the other. */
const MOVING = ["birch", "cedar"];

const silent = () => undefined;
const LOG = { info: silent, warn: silent, error: silent };

const folder = mkdtempSync(join(tmpdir(), "pawl-screenshots-"));
await buildPage();
mkdirSync(IMAGES, { recursive: true });
const browser = await launchChromium(chromiumPath());
try {
  const sales = join(folder, "sales");
  const filter = (path: string) => ![".pawl", "data"].includes(basename(path));
  cpSync(join(EXAMPLES, "sales"), sales, { recursive: true, filter });
  // Errors name files as seen from where the command runs.
  process.chdir(sales);
  await withServer(sales, takeSales);
  // The code of this example finds its shards by the environment, in the worker too.
  process.env["LIVE_SPLIT_DATA"] = join(folder, "shards");
  await withServer(join(EXAMPLES, "live-split"), takeSplit);
} finally {
  await browser.close();
  rmSync(folder, { recursive: true, force: true });
}

async function withServer(
  project: string,
  body: (serving: Serving) => Promise<void>,
): Promise<void> {
  const data_dir = join(folder, basename(project), ".pawl");
  const serving = await startServing({
    project: findProject({ cwd: project, env: {}, flags: { data_dir } }),
    host: "127.0.0.1",
    port: 0,
    worker: true,
    log: LOG,
  });
  try {
    await body(serving);
  } finally {
    await serving.stop();
  }
}

async function takeSales(serving: Serving): Promise<void> {
  const { client } = serving;
  const { items: assets } = await client.call("listAssets");
  const { backfills } = await client.call("createBackfill", {
    body: {
      assets: assets.map(({ asset_key }) => asset_key),
      selector: { type: "all" },
      max_concurrent_runs: 4,
      continue_on_failure: true,
    },
  });
  for (const { backfill_id } of backfills) await ended(serving, backfill_id);
  const orders = backfills[0]?.backfill_id ?? "";
  const { items: runs } = await client.call("listRuns", {
    query: { backfill_id: orders, status: "FAILED" },
  });
  await take(serving, {
    name: "backfill",
    path: `/backfills/${orders}`,
    until: "expected an amount",
  });
  await take(serving, {
    name: "backfill-dark",
    path: `/backfills/${orders}`,
    until: "expected an amount",
    theme: "dark",
  });
  await take(serving, { name: "asset", path: "/assets/clean_orders", until: "region" });
  await take(serving, { name: "lineage", path: "/lineage", until: "daily_sales" });
  await take(serving, { name: "run", path: `/runs/${runs[0]?.run_id ?? ""}`, until: "Timeline" });
  await take(serving, {
    name: "new-backfill",
    path: `/backfills/new?asset=clean_orders&filter=${encodeURIComponent(
      JSON.stringify({ date: { start: "2025-03-01", end: "2025-03-31" }, region: ["eu"] }),
    )}`,
    until: "31 partitions",
  });
  await client.call("createBackfill", {
    body: { assets: ["raw_orders", "clean_orders"], selector: { type: "all" } },
  });
  await take(serving, { name: "overview", path: "/", until: "raw_orders, clean_orders" });
  const phone = { width: 390, height: 800 };
  await take(serving, { name: "overview-phone", path: "/", until: "Needs attention", ...phone });
}

async function takeSplit(serving: Serving): Promise<void> {
  const { client } = serving;
  const inExample = { cwd: join(EXAMPLES, "live-split"), stdio: "ignore" } as const;
  const prepared = spawn(process.execPath, ["prepare.ts"], inExample);
  await once(prepared, "exit");
  await client.call("changeRouting", { body: { expected_version: 0, default_shard: "east" } });
  const env = { ...process.env, PAWL_URL: serving.file.url };
  const load = spawn(process.execPath, ["load.ts"], { ...inExample, env });
  try {
    const { split_id } = await client.call("planSplit", {
      body: { source: "east", target: "west", tenants: MOVING },
    });
    const params = { split: split_id };
    const offered = async (command: string): Promise<void> => {
      for (;;) {
        const { next } = await client.call("getSplit", { params });
        if (next.commands.some((each) => each.command.includes(command))) return;
        await sleep(100);
      }
    };
    await offered("start-dual-write");
    await client.call("startDualWrite", { params, body: {} });
    await offered("run-backfill");
    await client.call("runSplitBackfill", { params, body: {} });
    await offered("cutover");
    // So that there is a line to be seen.
    await sleep(30_000);
    await take(serving, {
      name: "split",
      path: `/splits/${split_id}`,
      until: "cutover",
      height: 1000,
    });
  } finally {
    load.kill();
    await once(load, "exit");
  }
}

async function ended({ client }: Serving, backfill_id: string): Promise<void> {
  for (;;) {
    const { finished_at } = await client.call("getBackfill", { params: { backfill_id } });
    if (finished_at !== null) return;
    await sleep(200);
  }
}

async function take(serving: Serving, shot: Shot): Promise<void> {
  const { name, path, theme = "light", width = 1280, height = 800, until } = shot;
  const context = await browser.newContext({
    viewport: { width, height },
    colorScheme: theme,
    reducedMotion: "reduce",
  });
  const page = await context.newPage();
  await page.goto(`${serving.file.url}${path}`);
  await page.getByText(until).filter({ visible: true }).first().waitFor();
  // Plots and maps are drawn in the frame after their answer.
  await sleep(500);
  await page.screenshot({ path: join(IMAGES, `${name}.png`) });
  await context.close();
  console.log(`docs/images/${name}.png`);
}
