import { readFileSync } from "node:fs";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { type Client, createClient } from "../../src/client/client.ts";
import { PawlError } from "../../src/kernel/errors.ts";
import type { EventData } from "../../src/work/events.ts";
import { Violations } from "../simulation/violations.ts";
import { LedgerAudit } from "./audit-ledger.ts";
import {
  killAll,
  openSite,
  type PawlProcess,
  removeSite,
  type Site,
  startServer,
  until,
  untilReady,
} from "./pawl-process.ts";
import { deedsFile } from "./project/effects.ts";
import { readLedger } from "./stored-ledger.ts";

let site: Site;
let server: PawlProcess;
let client: Client;

beforeEach(async () => {
  site = await openSite();
  server = startServer(site);
  await untilReady(server);
  client = createClient({ url: site.url, retryDelaysMs: [] });
});

afterEach(async () => {
  await killAll();
  removeSite(site);
});

/** The code that a call was refused with, or null. */
function refusalOf(call: Promise<unknown>): Promise<string | null> {
  return call.then(
    () => null,
    (error: unknown) => (error instanceof PawlError ? error.code : String(error)),
  );
}

let answers = 0;

/** Asks for runs one after the other until the server is away; answers what became of each. */
async function askUntilAway(name: string): Promise<Map<string, string | null>> {
  const outcomes = new Map<string, string | null>();
  for (let number = 0; ; number++) {
    const key = `${name}-${number}`;
    const partition_keys = [new Date(Date.UTC(2020, 0, 1 + number)).toISOString().slice(0, 10)];
    const body = { assets: ["raw"], partition_keys };
    const outcome = await refusalOf(client.call("requestRun", { body, idempotencyKey: key }));
    outcomes.set(key, outcome);
    answers += 1;
    if (outcome === "SERVER_UNREACHABLE") return outcomes;
  }
}

describe("SIGTERM under load", () => {
  test("I65: answers every request that it carried out, and releases every lease", async () => {
    const asking = Promise.all(["a", "b", "c", "d"].map(askUntilAway));
    const waiting = refusalOf(
      client.call("listBackfills", { query: { min_pos: 1_000_000_000, timeout_ms: 30_000 } }),
    );
    await expect.poll(() => answers).toBeGreaterThan(20);
    const startedAt = performance.now();
    const exit = await server.terminate();
    const seconds = (performance.now() - startedAt) / 1_000;
    const outcomes = new Map((await asking).flatMap((each) => [...each]));

    expect(exit).toEqual({ code: 0, signal: null });
    expect(seconds).toBeLessThan(60);
    // It waited for what never comes, and was told so.
    expect(await waiting).not.toBe("SERVER_UNREACHABLE");

    const { events, leases } = await readLedger(site);
    const done = new Set(
      events
        .filter(({ type }) => type === "RunRequested")
        .map(({ data }) => (data as EventData<"RunRequested">).run_key),
    );
    const answered = [...outcomes].filter(([, outcome]) => outcome === null).map(([key]) => key);
    expect([...done].toSorted()).toEqual(answered.map((key) => `manual:${key}`).toSorted());
    expect(answered.length).toBeGreaterThan(10);
    expect(leases).toEqual([]);
    expect(runningTasks(events)).toEqual([]);
  });

  test("I65: gives back tasks that do not end, within a bound", async () => {
    const partition_keys = ["2020-01-01", "2020-01-02", "2020-01-03"];
    const body = { assets: ["endless"], partition_keys };
    await client.call("requestRun", { body });
    await until(() => startedCount() === 3);
    const startedAt = performance.now();
    const exit = await server.terminate();
    const seconds = (performance.now() - startedAt) / 1_000;

    expect(exit).toEqual({ code: 0, signal: null });
    expect(seconds).toBeLessThan(60);
    const { events, leases } = await readLedger(site);
    expect(leases).toEqual([]);
    expect(runningTasks(events)).toEqual([]);
    const results = events
      .filter(({ type }) => type === "TasksFinished")
      .flatMap(({ data }) => (data as EventData<"TasksFinished">).results);
    expect(results.reduce((sum, { count = 1 }) => sum + count, 0)).toBe(3);
    expect(results.every(({ released }) => released === true)).toBe(true);
  });
});

function startedCount(): number {
  try {
    return readFileSync(deedsFile(site.directory), "utf8").split('"did":"started"').length - 1;
  } catch {
    return 0;
  }
}

/** Tasks that the ledger says somebody works on. */
function runningTasks(events: Awaited<ReturnType<typeof readLedger>>["events"]): string[] {
  const audit = new LedgerAudit(new Violations()).follow(events);
  return [...audit.runs.values()].flatMap(({ runKey, tasks }) =>
    tasks.filter(({ state }) => state === "running").map((task) => `${runKey} ${task.task_key}`),
  );
}
