import { join } from "node:path";
import process from "node:process";
import { asset, definePawl, newFiles, schedule, sensor } from "pawl";

/*
 * What acts by itself while its processes are killed: schedules that tick every second, sensors that
 * are pushed to, with and without code, and one that looks for files.
 */

const { FAULTS_DIR: folder = "" } = process.env;
/** A kill counts as an attempt, and there are many of them. */
const retry = {
  maxAttempts: "unbounded",
  maxLostAttempts: "unbounded",
  delayMs: 20,
  factor: 1,
  maxDelayMs: 20,
} as const;

const quick = (name: string) => asset(name, { retry, materialize: () => undefined });
const ticked = quick("ticked");
const told = quick("told");
const arrived = quick("arrived");

/** Nothing here takes long, so whoever holds an evaluation is soon known to be gone. */
const timeoutMs = 500;

export default definePawl({
  assets: [ticked, told, arrived],
  schedules: [
    schedule("each-second", { cron: "* * * * * *", assets: ticked, maxCatchupTicks: 100 }),
    schedule("one-at-a-time", { cron: "*/2 * * * * *", assets: ticked, overlap: "skip" }),
    schedule("one-waits", { cron: "*/3 * * * * *", assets: ticked, overlap: "buffer_one" }),
  ],
  sensors: [
    sensor("forwarded", { push: true, target: { assets: told, config: "{payload}" } }),
    sensor("weighed", {
      push: true,
      timeoutMs,
      evaluate: ({ request, message }) =>
        request({ assets: told, config: message?.payload ?? null }),
    }),
    sensor("arrivals", {
      watch: newFiles({ folder: join(folder, "inbox"), pattern: "*.txt", settleMs: 0 }),
      target: { assets: arrived, runKey: "{name}" },
      minIntervalMs: 200,
      timeoutMs,
    }),
  ],
});
