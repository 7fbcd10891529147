import { asset } from "../src/define/asset.ts";
import { definePawl } from "../src/define/define-pawl.ts";
import {
  timeWindow,
  daily,
  dynamicPartitions,
  hourly,
  integers,
  multi,
  staticPartitions,
} from "../src/define/partitions.ts";
import { machineMs } from "./machine-ms.ts";

/** When a task was started and ended, in milliseconds of the machine's own clock. */
export type TaskTime = { startedMs: number; endedMs: number | null };

/** The tasks of `timed` and `held` that this process has begun. */
export const taskTimes: TaskTime[] = [];

/** How many milliseconds each task of `stamped` waited from its request to its start here. */
export const taskWaits: number[] = [];

/** Longer than any benchmark waits. */
const HELD_MS = 600_000;

/** A time around `ms`, at most so many milliseconds off. */
function anyMs(ms: number, spread: number): number {
  return ms + (2 * Math.random() - 1) * spread;
}

async function takeTime(ms: number): Promise<void> {
  const time: TaskTime = { startedMs: machineMs(), endedMs: null };
  taskTimes.push(time);
  await new Promise((resolve) => {
    setTimeout(resolve, ms).unref();
  });
  time.endedMs = machineMs();
}

/** A million hours and some, and their days. */
const days = asset("days", {
  partitions: daily({ start: "1900-01-01", end: "2014-02-01" }),
  batch: true,
  materialize: () => {},
});
const hours = asset("hours", {
  partitions: hourly({ start: "1900-01-01", end: "2014-02-01" }),
  upstream: [{ asset: days, mapping: timeWindow() }],
  batch: true,
  materialize: () => {},
});

/** Everything that the benchmarks run. */
export const project = definePawl({
  assets: [
    asset("single", { partitions: integers({ start: 0, end: 200_000 }), materialize: () => {} }),
    asset("batch", {
      partitions: integers({ start: 0, end: 1_000_000 }),
      batch: true,
      materialize: () => {},
    }),
    asset("million", {
      partitions: integers({ start: 0, end: 1_000_003 }),
      materialize: () => {},
    }),
    asset("ledger", { partitions: integers({ start: 0, end: 10_000_000 }), materialize: () => {} }),
    asset("timed", {
      partitions: integers({ start: 0, end: 4_000 }),
      materialize: ({ config }) => takeTime(anyMs(Number(config["ms"]), Number(config["spread"]))),
    }),
    asset("held", {
      partitions: integers({ start: 0, end: 100 }),
      materialize: () => takeTime(HELD_MS),
    }),
    asset("customer_hours", {
      partitions: multi({
        customer: staticPartitions(Array.from({ length: 1_000 }, (_, at) => `c${at}`)),
        hour: hourly({ start: "2025-01-01", end: "2026-02-21T16:00" }),
      }),
      batch: true,
      materialize: () => {},
    }),
    asset("stamped", {
      materialize: ({ config }) => {
        taskWaits.push(machineMs() - Number(config["sent_ms"]));
      },
    }),
    asset("customers", { partitions: dynamicPartitions("customers"), materialize: () => {} }),
    asset("report", { materialize: () => {} }),
    days,
    hours,
  ],
});
