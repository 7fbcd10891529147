import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, describe, expect, test } from "vitest";
import { createClient } from "../../src/client/client.ts";
import {
  killAll,
  openSite,
  removeSite,
  type Site,
  startServer,
  startWorker,
  until,
  untilReady,
} from "./pawl-process.ts";
import { readLedger } from "./stored-ledger.ts";

const INDEX = JSON.stringify(fileURLToPath(new URL("../../src/index.ts", import.meta.url)));

/** Functions that end their process, run beside those, or hear nothing. */
const PROJECT = `
import { asset, definePawl } from ${INDEX};
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
const retry = { maxAttempts: 2, maxLostAttempts: 3, delayMs: 10 };
export const project = definePawl({
  assets: [
    asset("exits", { retry, materialize: () => pause(300).then(() => process.exit(3)) }),
    asset("throws", {
      retry,
      materialize: () => new Promise(() => setTimeout(() => { throw new Error("in a timer"); }, 300)),
    }),
    asset("beside", { retry: { maxAttempts: 1 }, materialize: () => pause(600).then(() => undefined) }),
    asset("deaf", { materialize: () => pause(600_000).then(() => undefined) }),
    asset("blocked", { materialize: () => { const until = Date.now() + 60_000; while (Date.now() < until); } }),
  ],
});
`;

const sites: Site[] = [];

afterAll(async () => {
  await killAll();
  sites.forEach(removeSite);
});

async function newSite(): Promise<Site> {
  const site = await openSite();
  sites.push(site);
  const folder = join(site.directory, "project");
  mkdirSync(folder);
  const config = join(folder, "pawl.config.ts");
  writeFileSync(config, PROJECT);
  return { ...site, config };
}

/** The only task of a run that has been asked for. */
async function taskOf(site: Site, run_id: string) {
  const client = createClient({ url: site.url });
  const { items } = await client.call("listTasks", { params: { run_id }, query: { limit: 1 } });
  return items[0];
}

async function ask(site: Site, asset: string): Promise<string> {
  const body = { assets: [asset] };
  return (await createClient({ url: site.url }).call("requestRun", { body })).run_id;
}

async function untilTask(site: Site, run_id: string, states: readonly string[]): Promise<void> {
  await until(async () => states.includes((await taskOf(site, run_id))?.state ?? ""), 60_000);
}

describe("a worker's process that ends in the middle", () => {
  test.concurrent.each(["exits", "throws"])(
    "I78: fails what %s, with its exit code, and nothing that ran beside it",
    async (name) => {
      const site = await newSite();
      await untilReady(startServer(site));
      const beside = await ask(site, "beside");
      const culprit = await ask(site, name);
      await untilTask(site, culprit, ["FAILED", "SUCCEEDED"]);
      await untilTask(site, beside, ["FAILED", "SUCCEEDED"]);

      expect(await taskOf(site, beside)).toMatchObject({ state: "SUCCEEDED", failures: 0 });
      const task = await taskOf(site, culprit);
      expect(task).toMatchObject({ state: "FAILED", error: { class: "crash" } });
      expect(task?.error?.message).toContain(name === "exits" ? "exit code 3" : "exit code");
    },
    120_000,
  );
});

describe("a worker whose task does not hear that it should stop", () => {
  test.concurrent.each(["deaf", "blocked"])(
    "I65: stops with the server, within a bound, and gives back what is %s",
    async (name) => {
      const site = await newSite();
      const server = startServer(site);
      await untilReady(server);
      await untilTask(site, await ask(site, name), ["RUNNING"]);
      const startedAt = performance.now();
      expect(await server.terminate()).toEqual({ code: 0, signal: null });
      // Ten seconds are promised; a busy machine may need more for the rest.
      expect(performance.now() - startedAt).toBeLessThan(20_000);
      await expectGivenBack(site);
    },
    120_000,
  );

  test.concurrent("I65: stops by itself as well, and gives back what blocks it", async () => {
    const site = await newSite();
    await untilReady(startServer(site, ["--no-worker"]));
    const worker = startWorker(site);
    const run = await ask(site, "blocked");
    await untilTask(site, run, ["RUNNING"]);
    const startedAt = performance.now();
    expect(await worker.terminate()).toEqual({ code: 0, signal: null });
    expect(performance.now() - startedAt).toBeLessThan(20_000);
    expect((await taskOf(site, run))?.state).not.toBe("RUNNING");
  }, 120_000);
});

async function expectGivenBack(site: Site): Promise<void> {
  const { events, leases } = await readLedger(site);
  expect(leases).toEqual([]);
  const results = events
    .filter(({ type }) => type === "TasksFinished")
    .flatMap(({ data }) => (data as { results: { released?: boolean }[] }).results);
  expect(results).toMatchObject([{ released: true }]);
}
