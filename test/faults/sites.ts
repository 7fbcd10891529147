import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, expect } from "vitest";
import { type Client, createClient } from "../../src/client/client.ts";
import type { EventDocument } from "../../src/work/server-api.ts";
import type { EventData } from "../../src/work/events.ts";
import {
  killAll,
  openSite,
  type PawlProcess,
  removeSite,
  type Site,
  until,
} from "./pawl-process.ts";

/** Which store the sites of a suite have; a file of SQLite's unless told. */
export type SuiteStore = { databaseUrl?: () => Promise<string> };

type SiteWish = {
  leaseMs?: number;
  /** The code of a project of its own. */
  project?: string;
};

/** Makes sites on one kind of store; after the tests they go, with whatever runs there. */
export function sitesOn({ databaseUrl }: SuiteStore = {}): (wish?: SiteWish) => Promise<Site> {
  const sites: Site[] = [];
  afterAll(async () => {
    await killAll();
    sites.forEach(removeSite);
  });
  return async ({ leaseMs, project } = {}) => {
    const url = await databaseUrl?.();
    const site = await openSite({
      ...(leaseMs === undefined ? {} : { leaseMs }),
      ...(url === undefined ? {} : { databaseUrl: url }),
    });
    sites.push(site);
    return project === undefined ? site : { ...site, config: writeProject(site, project) };
  };
}

function writeProject({ directory }: Site, code: string): string {
  const folder = join(directory, "project");
  mkdirSync(folder);
  const config = join(folder, "pawl.config.ts");
  writeFileSync(config, code);
  return config;
}

/** Talks to the server of a site. */
export function clientOf({ url }: Site): Client {
  return createClient({ url });
}

/** Asks for a run and answers its id. */
export async function askFor(site: Site, asset: string, keys?: string[]): Promise<string> {
  const body = { assets: [asset], ...(keys === undefined ? {} : { partition_keys: keys }) };
  return (await clientOf(site).call("requestRun", { body })).run_id;
}

/** The tasks of a run. */
export async function tasksOf(site: Site, run_id: string) {
  const { items } = await clientOf(site).call("listTasks", { params: { run_id } });
  return items;
}

/** Resolves when every task of the run is in one of these states. */
export async function untilTasks(
  site: Site,
  run_id: string,
  states: readonly string[],
): Promise<void> {
  await until(async () => {
    const tasks = await tasksOf(site, run_id);
    return tasks.length > 0 && tasks.every(({ state }) => states.includes(state));
  });
}

/** Resolves when the run has succeeded; fails when it cannot any more. */
export async function untilSucceeded(site: Site, run_id: string): Promise<void> {
  const client = createClient({ url: site.url, retryDelaysMs: [] });
  await until(async () => {
    const run = await client.call("getRun", { params: { run_id } }).catch(() => null);
    expect(run?.state).not.toBe("FAILED");
    return run?.state === "SUCCEEDED";
  });
}

/** The events of a type at a site whose server runs, once there are so many. */
export async function eventsOf(site: Site, type: string, count = 0): Promise<EventDocument[]> {
  let found: EventDocument[] = [];
  await until(async () => {
    const query = { type, limit: 200 };
    found = (await clientOf(site).call("listEvents", { query })).items;
    return found.length >= count;
  });
  return found;
}

/** Who got each attempt, in order, once there are so many. */
export async function holdersOf(site: Site, count: number): Promise<string[]> {
  const started = await eventsOf(site, "TasksStarted", count);
  return started.map(({ data }) => (data as EventData<"TasksStarted">).worker_id);
}

/** Has a worker, with whatever it has started, stopped or let go on, as a suspended machine is. */
export function signalAll(worker: PawlProcess, name: "SIGSTOP" | "SIGCONT"): void {
  for (const pid of [worker.pid, ...worker.children()]) process.kill(pid, name);
}

/** Ends frozen workers and whatever they have started: nobody there hears that they should. */
export async function endFrozen(...workers: PawlProcess[]): Promise<void> {
  for (const worker of workers) {
    for (const pid of worker.children()) process.kill(pid, "SIGKILL");
    await worker.kill();
  }
}
