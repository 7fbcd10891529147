import { existsSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { EventData } from "../../src/work/events.ts";
import {
  PawlProcess,
  type Site,
  startServer,
  startWorker,
  until,
  untilReady,
} from "./pawl-process.ts";
import {
  askFor,
  clientOf,
  eventsOf,
  sitesOn,
  type SuiteStore,
  tasksOf,
  untilTasks,
} from "./sites.ts";

const KEYS = Array.from({ length: 20 }, (_, index) => `k${index}`);
/** So much work that it lasts for minutes. */
const MANY = Array.from({ length: 10_000 }, (_, index) => `m${index}`);

/** Functions that end their process, run beside those, or hear nothing. */
const PROJECT = `
import { writeFileSync } from "node:fs";
import { asset, definePawl, staticPartitions } from "pawl";
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
const retry = { maxAttempts: 2, maxLostAttempts: 3, delayMs: 10 };
const fill = async () => {
  const kept: unknown[] = [];
  for (;;) { kept.push(new Array(1_000_000).fill({ kept })); await pause(5); }
};
export const project = definePawl({
  assets: [
    asset("exits", { retry, materialize: () => pause(300).then(() => process.exit(3)) }),
    asset("throws", {
      retry,
      materialize: () => new Promise(() => setTimeout(() => { throw new Error("in a timer"); }, 300)),
    }),
    asset("fills", { retry, materialize: fill }),
    asset("kills", {
      retry,
      materialize: () => pause(300).then(() => { process.kill(process.pid, "SIGKILL"); return pause(60_000); }).then(() => undefined),
    }),
    asset("beside", {
      partitions: staticPartitions(${JSON.stringify(KEYS)}),
      retry: { maxAttempts: 1, maxLostAttempts: 3, delayMs: 10 },
      materialize: () => pause(700).then(() => undefined),
    }),
    asset("busy", {
      partitions: staticPartitions(${JSON.stringify(MANY)}),
      materialize: () => pause(200).then(() => undefined),
    }),
    asset("deaf", {
      materialize: () => {
        writeFileSync(process.env.FAULTS_DIR + "/deaf", "");
        return pause(600_000).then(() => undefined);
      },
    }),
    asset("blocked", {
      materialize: () => { Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 600_000); },
    }),
  ],
});
`;

/** A sensor and a head that are looked at without an end the first time, beside each other. */
const LOOKING = `
import { existsSync, writeFileSync } from "node:fs";
import { asset, definePawl, sensor, sync } from "pawl";
const folder = process.env.FAULTS_DIR + "/";
const once = (name: string): boolean => {
  const isFirst = !existsSync(folder + name);
  writeFileSync(folder + name + (isFirst ? "" : "-again"), "");
  return isFirst;
};
const never = () => new Promise<never>((resolve) => setTimeout(resolve, 600_000));
export const project = definePawl({
  assets: [asset("told", { materialize: () => undefined })],
  sensors: [
    sensor("looks", {
      minIntervalMs: 100,
      evaluate: async ({ request }) => {
        if (once("sensor")) await never();
        request({ assets: "told", runKey: "told" });
      },
    }),
  ],
  syncs: [
    sync("heads", {
      targets: [{ wallet: "w" }],
      from: 0,
      head: () => (once("head") ? never() : 5),
      headEveryMs: 100,
      fetch: () => undefined,
    }),
  ],
});
`;

const OVER = ["FAILED", "SUCCEEDED", "SKIPPED", "CANCELLED"];

/** What the last attempts of a task that ends its process are told to have ended with. */
const ENDS: Record<string, string> = {
  exits: "exit code 3",
  throws: "exit code 1",
  fills: "ended",
  kills: "SIGKILL",
};

/**
 * Ends worker processes in the middle on one kind of store, and holds what follows to the promises. The
 * ways in which a process ends are the same for every store.
 */
export function crashedSuite(
  name: string,
  store: SuiteStore = {},
  ends: readonly string[] = Object.keys(ENDS),
): void {
  const newSite = sitesOn(store);

  const openSite = (): Promise<Site> => newSite({ project: PROJECT });

  describe(`${name}, with a worker's process that ends in the middle`, () => {
    const openServed = async (): Promise<Site> => {
      const site = await openSite();
      await untilReady(startServer(site, ["--no-worker"]));
      return site;
    };

    test.concurrent.each(ends)(
      "I78: fails what %s, after its tries, and nothing that ran beside it",
      async (culprit) => {
        const site = await openServed();
        const culpritRun = await askFor(site, culprit);
        const besideRun = await askFor(site, "beside", KEYS);
        const env = { ...site.env, NODE_OPTIONS: "--max-old-space-size=160" };
        const worker = startWorker({ ...site, env });
        await untilTasks(site, culpritRun, OVER);
        await untilTasks(site, besideRun, OVER);
        await worker.terminate();

        const beside = await tasksOf(site, besideRun);
        expect(beside).toHaveLength(KEYS.length);
        for (const task of beside) {
          expect(task).toMatchObject({ state: "SUCCEEDED", failures: 0, lost_attempts: 0 });
        }
        const [task] = await tasksOf(site, culpritRun);
        expect(task).toMatchObject({ state: "FAILED", failures: 2, error: { class: "crash" } });
        expect(task?.error?.message).toContain("while it ran this task alone");
        expect(task?.error?.message).toContain(ENDS[culprit]);
        const lost = await mostLost(site);
        expect(lost).toBeLessThanOrEqual(1);
        // Others may take longer to end their process than what runs beside them takes.
        if (culprit === "exits") expect(lost).toBe(1);
      },
    );

    test.concurrent("I78: fails it as well where there is always other work, and that goes on", async () => {
      const site = await openServed();
      const culpritRun = await askFor(site, "exits");
      const busyRun = await askFor(site, "busy", MANY);
      const params = { run_id: busyRun };
      const busy = () => clientOf(site).call("getRun", { params });
      const worker = startWorker(site);
      await untilTasks(site, culpritRun, OVER);
      const [task] = await tasksOf(site, culpritRun);
      expect(task).toMatchObject({ state: "FAILED", failures: 2, error: { class: "crash" } });
      const { state, tasks_failed, tasks_succeeded } = await busy();
      expect({ state, tasks_failed }).toEqual({ state: "RUNNING", tasks_failed: 0 });
      await until(async () => (await busy()).tasks_succeeded > tasks_succeeded + 8);
      await worker.terminate();
    });

    test.concurrent("I78: tells of it at once and starts it again, as `pawl dev` does too", async () => {
      const own = await openSite();
      const dev = new PawlProcess(own, ["dev", "--port", String(own.port)]);
      await untilReady(dev);
      await askFor(own, "deaf");
      // The process has heard that it has the task, and so has who started it.
      await until(() => existsSync(join(own.directory, "deaf")));
      const [child] = dev.children();
      if (child === undefined) throw new Error("It has no worker.");
      process.kill(child, "SIGKILL");
      // The word of who started it, and no lease that ran out.
      const [first] = await eventsOf(own, "TasksFinished", 1);
      expect(resultsOf(first?.data)).toMatchObject([{ error: { class: "crash" } }]);
      expect(resultsOf(first?.data)[0]?.error?.message).toContain("SIGKILL");
      expect(await eventsOf(own, "TaskLeaseExpired")).toEqual([]);
      const [, second] = await eventsOf(own, "TasksStarted", 2);
      expect(second?.data).toMatchObject({ tasks: [{ attempt: 2 }] });
      expect(dev.children()).not.toContain(child);
      await dev.kill();
    });
  });

  test(`I37: ${name} frees the looks of a process that is killed at once, whatever their lease`, async () => {
    const site = await newSite({ project: LOOKING, leaseMs: 600_000 });
    const server = startServer(site);
    await untilReady(server);
    const began = (look: string) => existsSync(join(site.directory, look));
    await until(() => began("sensor") && began("head"));
    for (const pid of server.children()) process.kill(pid, "SIGKILL");
    await until(() => began("sensor-again") && began("head-again"));
    await server.terminate();
  });

  /** The most attempts in a row that a task of "beside" lost with a process. */
  async function mostLost(site: Site): Promise<number> {
    const events = await eventsOf(site, "TasksFinished");
    const lost = events
      .flatMap(({ data }) => resultsOf(data))
      .filter(({ asset_key }) => asset_key === "beside")
      .map(({ lost_attempts = 0 }) => lost_attempts);
    return Math.max(...lost);
  }

  describe(`${name}, with a worker whose task does not hear that it should stop`, () => {
    test.concurrent.each(["deaf", "blocked"])(
      "I65: stops with the server, within a bound, and gives back what is %s",
      async (asset) => {
        const site = await openSite();
        const server = startServer(site);
        await untilReady(server);
        const run = await askFor(site, asset);
        await untilTasks(site, run, ["RUNNING"]);
        const startedAt = performance.now();
        expect(await server.terminate()).toEqual({ code: 0, signal: null });
        // Ten seconds are promised; a busy machine may need more, but not until the task ends by itself.
        expect(performance.now() - startedAt).toBeLessThan(300_000);
        const next = startServer(site, ["--no-worker"]);
        await untilReady(next);
        const results = (await eventsOf(site, "TasksFinished")).flatMap(({ data }) =>
          resultsOf(data),
        );
        expect(results).toMatchObject([{ released: true }]);
        expect(await eventsOf(site, "TaskLeaseExpired")).toEqual([]);
      },
    );

    test.concurrent("I65: stops by itself as well, and gives back what blocks it", async () => {
      const site = await openSite();
      await untilReady(startServer(site, ["--no-worker"]));
      const worker = startWorker(site);
      const run = await askFor(site, "blocked");
      await untilTasks(site, run, ["RUNNING"]);
      const startedAt = performance.now();
      expect(await worker.terminate()).toEqual({ code: 0, signal: null });
      expect(performance.now() - startedAt).toBeLessThan(300_000);
      // What it says last is heard late where the machine is busy.
      await until(async () => (await tasksOf(site, run))[0]?.state !== "RUNNING");
    });
  });
}

function resultsOf(data: unknown): EventData<"TasksFinished">["results"] {
  return (data as EventData<"TasksFinished">).results;
}
