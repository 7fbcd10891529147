import { afterAll, describe, expect, test } from "vitest";
import { createClient } from "../../src/client/client.ts";
import type { EventDocument } from "../../src/core/api/event-operations.ts";
import type { EventData } from "../../src/core/events/index.ts";
import {
  besideSite,
  killAll,
  openSite,
  type PawlProcess,
  removeSite,
  type Site,
  startServer,
  startWorker,
  until,
  untilReady,
} from "./pawl-process.ts";

/** A short lease, so that nobody has to wait: the worker's own deadline is two thirds of it. */
const LEASE_MS = 4_000;

type Started = EventData<"TasksStarted">;

/** Who got each attempt at the only task of a run, in order. */
function holders(events: readonly EventDocument[]): string[] {
  return events
    .filter(({ type }) => type === "TasksStarted")
    .map(({ data }) => (data as Started).worker_id);
}

/** Has a worker, with whatever it has started, stopped or let go on, as a suspended machine is. */
function signal(worker: PawlProcess, name: "SIGSTOP" | "SIGCONT"): void {
  for (const pid of [worker.pid, ...worker.children()]) process.kill(pid, name);
}

/** Ends frozen workers and whatever they have started: nobody there hears that they should. */
async function endFrozen(...workers: PawlProcess[]): Promise<void> {
  for (const worker of workers) {
    for (const pid of worker.children()) process.kill(pid, "SIGKILL");
    await worker.kill();
  }
}

/** Freezes workers on one kind of store, and holds what follows to the promises. */
export function frozenSuite(
  name: string,
  options: { databaseUrl?: () => Promise<string>; beside?: boolean } = {},
): void {
  describe(`${name}, with frozen workers`, () => {
    const sites: Site[] = [];

    afterAll(async () => {
      await killAll();
      sites.forEach(removeSite);
    });

    const newSite = async (): Promise<Site> => {
      const databaseUrl = await options.databaseUrl?.();
      const site = await openSite({
        leaseMs: LEASE_MS,
        ...(databaseUrl === undefined ? {} : { databaseUrl }),
      });
      sites.push(site);
      return site;
    };

    const started = async (site: Site, count: number): Promise<string[]> => {
      let found: string[] = [];
      await until(async () => {
        const query = { type: "TasksStarted", limit: 100 };
        const { items } = await createClient({ url: site.url }).call("listEvents", { query });
        found = holders(items);
        return found.length >= count;
      }, 60_000);
      return found;
    };

    const succeeded = (site: Site, run_id: string): Promise<void> =>
      until(async () => {
        const run = await createClient({ url: site.url }).call("getRun", { params: { run_id } });
        expect(run.state).not.toBe("FAILED");
        return run.state === "SUCCEEDED";
      }, 60_000);

    /** How many claims of workers wait at the server. */
    const waiting = async (site: Site, count: number): Promise<void> => {
      await until(async () => {
        const text = await (await fetch(`${site.url}/metrics`)).text();
        return Number(/^pawl_waiting_claims\S* (\d+)/m.exec(text)?.[1] ?? 0) >= count;
      }, 60_000);
    };

    test("I78: gives the task of two frozen workers to a third, which finishes it", async () => {
      const site = await newSite();
      const server = startServer(site, ["--no-worker"]);
      await untilReady(server);
      const client = createClient({ url: site.url });
      const first = startWorker(site);
      const { run_id } = await client.call("requestRun", { body: { assets: ["stuck"] } });
      const [holder] = await started(site, 1);
      // The first waits for more work beside its task, the second for its first.
      const second = startWorker(site);
      await waiting(site, 2);
      signal(first, "SIGSTOP");
      signal(second, "SIGSTOP");
      const third = startWorker(site);
      await succeeded(site, run_id);

      // Whoever finished it had all attempts but the first: nobody frozen was given it.
      const again = (await started(site, 2)).slice(1);
      expect(new Set(again).size).toBe(1);
      expect(again).not.toContain(holder);
      await endFrozen(first, second);
      await third.terminate();
      await server.terminate();
    }, 180_000);

    test("I78: gives its task to a frozen worker no more before it has been heard of", async () => {
      const site = await newSite();
      const server = startServer(site, ["--no-worker"]);
      await untilReady(server);
      const client = createClient({ url: site.url });
      const worker = startWorker(site);
      const { run_id } = await client.call("requestRun", { body: { assets: ["stuck"] } });
      await started(site, 1);
      await waiting(site, 1);
      signal(worker, "SIGSTOP");
      await until(async () => {
        const query = { type: "TaskLeaseExpired", limit: 1 };
        return (await client.call("listEvents", { query })).items.length === 1;
      }, 60_000);
      const task = async () => {
        const { items } = await client.call("listTasks", { params: { run_id } });
        return items[0];
      };
      // Its time to be tried again comes, and nobody takes it.
      await until(
        async () => Date.now() > Date.parse((await task())?.retry_at ?? "") + 500,
        60_000,
      );
      expect(await task()).toMatchObject({ state: "RETRY_WAIT", attempt: 1, lost_attempts: 1 });
      signal(worker, "SIGCONT");
      await succeeded(site, run_id);
      await worker.terminate();
      await server.terminate();
    }, 180_000);

    if (options.beside !== true) return;

    test("I78: asks a claim that waits at another server again before it gets a lost task", async () => {
      const site = await newSite();
      const server = startServer(site, ["--no-worker"]);
      await untilReady(server);
      const beside = await besideSite(site);
      const other = startServer(beside, ["--no-worker"]);
      await untilReady(other);
      const client = createClient({ url: site.url });
      const first = startWorker(site);
      const { run_id } = await client.call("requestRun", { body: { assets: ["stuck"] } });
      const [holder] = await started(site, 1);
      const second = startWorker(beside);
      await waiting(beside, 1);
      signal(first, "SIGSTOP");
      signal(second, "SIGSTOP");
      const third = startWorker(beside);
      await succeeded(site, run_id);

      const again = (await started(site, 2)).slice(1);
      expect(new Set(again).size).toBe(1);
      expect(again).not.toContain(holder);
      await endFrozen(first, second);
      await third.terminate();
      await Promise.all([server.terminate(), other.terminate()]);
    }, 180_000);
  });
}
