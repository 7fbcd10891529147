import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { createClient } from "../../src/client/client.ts";
import { loadConfig } from "../../src/engine/config.ts";
import type { EventDocument } from "../../src/work/server-api.ts";
import type { EventData } from "../../src/work/events.ts";
import { connectWorker } from "../../src/client/worker-connection.ts";
import { isAlive, type Site, startServer, startWorker, until, untilReady } from "./pawl-process.ts";
import { deedsFile } from "./project/effects.ts";
import { askFor, sitesOn, untilSucceeded } from "./sites.ts";
import { readLedger } from "./stored-ledger.ts";

const newSite = sitesOn();

const GRANTED_AGAIN_MS = 20_000;

/** Asks for a run and resolves when its task has started. */
async function runTask(site: Site, asset: string): Promise<string> {
  const runId = await askFor(site, asset);
  await until(() => hasDeed(site));
  return runId;
}

function hasDeed(site: Site): boolean {
  try {
    return readFileSync(deedsFile(site.directory), "utf8").includes('"started"');
  } catch {
    return false;
  }
}

/**
 * How long a task has to wait at most after its worker was last heard of: a lease, and what the ledger says
 * of the time after it. How long it takes on a machine is a benchmark.
 */
function grantedAgainMs(events: readonly EventDocument[]): number {
  const expired = events.find(({ type }) => type === "TaskLeaseExpired");
  if (expired === undefined) throw new Error("No lease has run out.");
  const { result } = expired.data as EventData<"TaskLeaseExpired">;
  const waitMs = Date.parse(result.retry_at ?? "") - Date.parse(expired.occurred_at);
  return loadConfig({ env: {} }).lease_ms + waitMs;
}

describe("a task whose worker is killed", () => {
  test.concurrent("I37: runs again within 20 s, with the lease that is the default", async () => {
    const site = await newSite();
    const server = startServer(site, ["--no-worker"]);
    await untilReady(server);
    const worker = startWorker(site);
    const runId = await runTask(site, "stuck");
    await worker.kill();
    startWorker(site);
    await untilSucceeded(site, runId);
    await server.terminate();

    const { events } = await readLedger(site);
    expect(grantedAgainMs(events)).toBeLessThanOrEqual(GRANTED_AGAIN_MS);
  });

  test.concurrent("I37: runs again within 20 s when its server is killed with it", async () => {
    const site = await newSite();
    const server = startServer(site);
    await untilReady(server);
    const runId = await runTask(site, "stuck");
    const children = server.children();
    expect(children).toHaveLength(1);
    await server.kill();
    const next = startServer(site);
    await until(() => !children.some(isAlive));
    await untilSucceeded(site, runId);
    await next.terminate();

    const { events } = await readLedger(site);
    expect(grantedAgainMs(events)).toBeLessThanOrEqual(GRANTED_AGAIN_MS);
  });
});

describe("a worker whose server is killed", () => {
  // Longer than any server takes to start, however busy the machine is.
  const leaseMs = 60_000;

  test.concurrent("goes on with its tasks while the server starts again", async () => {
    const site = await newSite({ leaseMs });
    const server = startServer(site, ["--no-worker"]);
    await untilReady(server);
    const worker = startWorker(site);
    const runId = await runTask(site, "slow");
    await server.kill();
    const next = startServer(site, ["--no-worker"]);
    await untilSucceeded(site, runId);
    expect(await worker.terminate()).toEqual({ code: 0, signal: null });
    await next.terminate();

    const { events } = await readLedger(site);
    const attempts = events.filter(({ type }) => type === "TasksStarted");
    expect(attempts).toHaveLength(1);
    expect(events.filter(({ type }) => type === "TaskLeaseExpired")).toEqual([]);
  });

  test.concurrent("I60: gets the tasks of a claim again when it repeats it", async () => {
    const site = await newSite({ leaseMs });
    const server = startServer(site, ["--no-worker"]);
    await untilReady(server);
    const client = createClient({ url: site.url });
    const selector = { type: "range" as const, start: "2020-01-01", end: "2020-01-20" };
    await client.call("createBackfill", { body: { assets: ["raw"], selector } });
    const connection = connectWorker({ url: site.url });
    const request = {
      worker_id: "worker",
      lease_id: "lease",
      slots: 3,
      assets: ["raw"],
      code_version: null,
      wait_ms: 5_000,
    };
    const keysOf = async () =>
      (await connection.claim(request)).groups
        .flatMap(({ tasks }) => tasks)
        .map(({ task_key, attempt }) => [task_key, attempt]);
    const first = await keysOf();
    await server.kill();
    const next = startServer(site, ["--no-worker"]);
    await untilReady(next);

    expect(first).toHaveLength(3);
    expect(await keysOf()).toEqual(first);
    connection.close();
    expect(await next.terminate()).toEqual({ code: 0, signal: null });
    expect(next.stderr).not.toContain("commit failed");
  });
});
