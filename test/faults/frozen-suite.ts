import { describe, expect, test } from "vitest";
import {
  besideSite,
  type Site,
  startServer,
  startWorker,
  until,
  untilReady,
} from "./pawl-process.ts";
import {
  askFor,
  endFrozen,
  eventsOf,
  holdersOf,
  signalAll,
  sitesOn,
  type SuiteStore,
  tasksOf,
  untilSucceeded,
} from "./sites.ts";

/** A short lease, so that nobody has to wait: the worker's own deadline is two thirds of it. */
const LEASE_MS = 8_000;

/** Freezes workers on one kind of store, and holds what follows to the promises. */
export function frozenSuite(name: string, options: SuiteStore & { beside?: boolean } = {}): void {
  describe(`${name}, with frozen workers`, () => {
    const sites = sitesOn(options);
    const newSite = (): Promise<Site> => sites({ leaseMs: LEASE_MS });

    /** How many claims of workers wait at the server. */
    const waiting = async (site: Site, count: number): Promise<void> => {
      await until(async () => {
        const text = await (await fetch(`${site.url}/metrics`)).text();
        return Number(/^pawl_waiting_claims\S* (\d+)/m.exec(text)?.[1] ?? 0) >= count;
      });
    };

    test("I78: gives the task of two frozen workers to a third, which finishes it", async () => {
      const site = await newSite();
      const server = startServer(site, ["--no-worker"]);
      await untilReady(server);
      const first = startWorker(site);
      const run_id = await askFor(site, "stuck");
      const [holder] = await holdersOf(site, 1);
      // The first waits for more work beside its task, the second for its first.
      const second = startWorker(site);
      await waiting(site, 2);
      signalAll(first, "SIGSTOP");
      signalAll(second, "SIGSTOP");
      const third = startWorker(site);
      await untilSucceeded(site, run_id);

      // Whoever finished it had all attempts but the first: nobody frozen was given it.
      const again = (await holdersOf(site, 2)).slice(1);
      expect(new Set(again).size).toBe(1);
      expect(again).not.toContain(holder);
      await endFrozen(first, second);
      await third.terminate();
      await server.terminate();
    });

    test("I78: gives its task to a frozen worker no more before it has been heard of", async () => {
      const site = await newSite();
      const server = startServer(site, ["--no-worker"]);
      await untilReady(server);
      const worker = startWorker(site);
      const run_id = await askFor(site, "stuck");
      await holdersOf(site, 1);
      await waiting(site, 1);
      signalAll(worker, "SIGSTOP");
      await eventsOf(site, "TaskLeaseExpired", 1);
      const task = async () => (await tasksOf(site, run_id))[0];
      // Its time to be tried again comes, and nobody takes it.
      await until(async () => Date.now() > Date.parse((await task())?.retry_at ?? "") + 500);
      expect(await task()).toMatchObject({ state: "RETRY_WAIT", attempt: 1, lost_attempts: 1 });
      signalAll(worker, "SIGCONT");
      await untilSucceeded(site, run_id);
      await worker.terminate();
      await server.terminate();
    });

    if (options.beside !== true) return;

    test("I78: asks a claim that waits at another server again before it gets a lost task", async () => {
      const site = await newSite();
      const server = startServer(site, ["--no-worker"]);
      await untilReady(server);
      const beside = await besideSite(site);
      const other = startServer(beside, ["--no-worker"]);
      await untilReady(other);
      const first = startWorker(site);
      const run_id = await askFor(site, "stuck");
      const [holder] = await holdersOf(site, 1);
      const second = startWorker(beside);
      await waiting(beside, 1);
      signalAll(first, "SIGSTOP");
      signalAll(second, "SIGSTOP");
      const third = startWorker(beside);
      await untilSucceeded(site, run_id);

      const again = (await holdersOf(site, 2)).slice(1);
      expect(new Set(again).size).toBe(1);
      expect(again).not.toContain(holder);
      await endFrozen(first, second);
      await third.terminate();
      await Promise.all([server.terminate(), other.terminate()]);
    });
  });
}
