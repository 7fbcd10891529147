import { fileURLToPath } from "node:url";
import { afterAll, describe, expect, test } from "vitest";
import { type Client, createClient } from "../../src/client/client.ts";
import { freshDatabaseUrl } from "../postgres.ts";
import {
  killAll,
  openSite,
  PawlProcess,
  removeSite,
  type Site,
  startServer,
  until,
  untilReady,
} from "./pawl-process.ts";

const CONFIG = fileURLToPath(new URL("./heavy-project/pawl.config.ts", import.meta.url));
/** Far less than a thousand runs of ten thousand tasks take. */
const HEAP_MB = 512;
/** As many slots has the worker as there are tasks of ten thousand partitions, which end all at once. */
const SLOTS = 40;

const sites: Site[] = [];

afterAll(async () => {
  await killAll();
  sites.forEach(removeSite);
});

async function newSite(databaseUrl?: string): Promise<Site> {
  const options = databaseUrl === undefined ? {} : { databaseUrl };
  const site = await openSite({ config: CONFIG, ...options });
  const env = { ...site.env, NODE_OPTIONS: `--max-old-space-size=${HEAP_MB}` };
  sites.push(site);
  return { ...site, env };
}

async function plannedChunks(client: Client, backfill_id: string): Promise<number> {
  const backfill = await client.call("getBackfill", { params: { backfill_id } });
  return backfill.chunks_planned;
}

describe("a backfill whose runs are more than memory holds", () => {
  test("I76: is planned commit by commit, also after a restart, and the server serves others", async () => {
    const site = await newSite();
    const client = createClient({ url: site.url });
    const first = startServer(site, ["--no-worker"]);
    await untilReady(first);
    const small = await client.call("createBackfill", {
      body: { assets: ["small"], selector: { type: "all" } },
    });
    const { backfill_id } = await client.call("createBackfill", {
      body: {
        assets: ["grid"],
        selector: { type: "all" },
        chunk_size: 10_000,
        max_concurrent_runs: 1_000,
        after_backfill_id: small.backfill_id,
        continue_on_failure: true,
      },
    });
    await client.call("cancelBackfill", { params: small, body: { now: true } });
    const grown = async (from: number, by: number): Promise<void> => {
      await until(async () => (await plannedChunks(client, backfill_id)) >= from + by);
    };
    await grown(0, 3);
    await first.kill();

    const second = startServer(site, ["--no-worker"]);
    await untilReady(second);
    await grown(await plannedChunks(client, backfill_id), 3);
    await client.call("requestRun", { body: { assets: ["small"] } });
    await client.call("pauseBackfill", { params: { backfill_id }, body: {} });

    expect(await second.terminate()).toEqual({ code: 0, signal: null });
    expect(second.stderr).toBe("");
  });
});

describe("a worker with many slots and batches of ten thousand partitions", () => {
  test("I76: gets all of them recorded by PostgreSQL, and others are served meanwhile", async () => {
    const site = await newSite(await freshDatabaseUrl());
    const client = createClient({ url: site.url });
    const server = startServer(site, ["--no-worker"]);
    await untilReady(server);
    const worker = new PawlProcess(site, [
      "worker",
      "--url",
      site.url,
      "--concurrency",
      String(SLOTS),
    ]);
    const { backfill_id } = await client.call("createBackfill", {
      body: {
        assets: ["batch"],
        selector: { type: "all" },
        chunk_size: 10_000,
        max_concurrent_runs: SLOTS,
      },
    });
    await until(async () => {
      // One commit may fail where the machine is very busy; smaller ones follow it.
      await client.call("requestRun", { body: { assets: ["small"] } });
      const backfill = await client.call("getBackfill", { params: { backfill_id } });
      return backfill.state === "SUCCEEDED";
    });

    expect(await worker.terminate()).toEqual({ code: 0, signal: null });
    expect(await server.terminate()).toEqual({ code: 0, signal: null });
  });
});
