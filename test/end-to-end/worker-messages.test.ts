import { afterEach, describe, expect, test } from "vitest";
import type { Materialize } from "../../src/define/automation-context.ts";
import { ManualClock } from "../manual-clock.ts";
import { Random } from "../simulation/random.ts";
import { stopWorkers, tasks, work } from "./started-worker.ts";
import { unreachable, WorkServer } from "./work-server.ts";

afterEach(stopWorkers);

/** Runs of ten tasks, of which so many are there at once, as in a backfill. */
const RUN_TASKS = 10;
const RUNS_AT_ONCE = 100;
/** Long enough for everything that is lost to be said again, and far too short for one that waits for nothing. */
const WITHIN_MS = 60_000;
const STEP_MS = 20;

type Way = {
  seed: number;
  isCalm: boolean;
  concurrency: number;
  takesClaims: boolean;
  runs: number;
};

/** A worker on a way that delays messages, and now and then loses one or its answer. */
async function workOff({ seed, isCalm, concurrency, takesClaims, runs }: Way) {
  const random = new Random(seed);
  const clock = new ManualClock();
  const server = new WorkServer({ takesClaims });
  const underWay = { reports: 0, most: 0 };
  const pass = async (): Promise<void> => {
    const ms = random.pick([0, 1, 5, 20, 60]);
    await new Promise<void>((resolve) => void clock.after(ms, resolve));
    if (!isCalm && random.chance(0.05)) unreachable();
  };
  const report = server.report.bind(server);
  server.report = async (request) => {
    underWay.most = Math.max(underWay.most, ++underWay.reports);
    return report(request).finally(() => underWay.reports--);
  };
  server.before = pass;
  server.after = pass;
  const isQuick = random.chance(0.7);
  const function_: Materialize = isQuick
    ? () => undefined
    : () => new Promise((resolve) => void clock.after(random.integer(1, 30), () => resolve()));
  let added = 0;
  const recorded = new Map<string, number>();
  const look = (): void => {
    recorded.clear();
    for (const { run_pos, task_key, attempt, answer } of server.results) {
      const name = `${run_pos}:${task_key}:${attempt}`;
      if (answer === "recorded") recorded.set(name, (recorded.get(name) ?? 0) + 1);
    }
    const done = Math.floor(recorded.size / RUN_TASKS);
    for (; added < Math.min(runs, done + RUNS_AT_ONCE); added++) {
      server.add({ asset_key: "orders", tasks: tasks(RUN_TASKS) });
    }
  };
  look();
  const { ended, stop } = work(server, function_, {}, { clock, concurrency, random: () => 1 });
  while (recorded.size < runs * RUN_TASKS && clock.now() < WITHIN_MS) {
    await clock.advance(STEP_MS);
    look();
  }
  const tookMs = clock.now();
  const over = { is: false };
  void ended.finally(() => (over.is = true));
  void stop();
  while (!over.is) await clock.advance(STEP_MS);
  return { server, recorded, tookMs, mostReports: underWay.most };
}

const ways = Array.from({ length: 24 }, (_, index): Way => {
  const concurrency = [1, 8, 40, 400][index % 4] ?? 1;
  const takesClaims = index % 5 !== 0;
  const runs = concurrency === 1 ? 20 : 150;
  return { seed: index, isCalm: index % 3 === 0, concurrency, takesClaims, runs };
});

describe("the messages of a worker", () => {
  test.each(ways)(
    "I97: bring every result once and never come to a stand ($seed: $concurrency slots)",
    async (way) => {
      const { server, recorded, tookMs, mostReports } = await workOff(way);
      expect(recorded.size).toBe(way.runs * RUN_TASKS);
      expect([...recorded.values()].every((times) => times === 1)).toBe(true);
      expect(server.results.every(({ attempt }) => attempt === 1)).toBe(true);
      expect(tookMs).toBeLessThan(WITHIN_MS);
      expect(mostReports).toBeLessThanOrEqual(2);
      if (!way.isCalm) return;
      // Each lease that got something was given up by the worker, not left to run out.
      const granted = new Set(server.granted);
      expect(new Set([...server.released].filter((id) => granted.has(id)))).toEqual(granted);
    },
  );

  test("I97: have two reports under way where tasks are short and many", async () => {
    const way = { seed: 1, isCalm: true, concurrency: 400, takesClaims: true, runs: 1_000 };
    const { server, mostReports } = await workOff(way);
    expect(mostReports).toBe(2);
    const along = server.reports.filter(({ claim }) => claim !== undefined);
    expect(along.length).toBeGreaterThan(2);
  });
});
