import { Spec } from "../../src/work/definition/published-spec.ts";
import { drawSchedule } from "./draw-schedule.ts";
import { drawSensors } from "./draw-sensors.ts";
import { drawSyncs, type SyncDrawing } from "./draw-syncs.ts";
import type { Random } from "./random.ts";
import type { AutomationKinds } from "./simulated-automation.ts";
import { CODE_SCHEDULES } from "./simulated-operator.ts";

const DAYS = { type: "daily", start: "2026-01-25", end: "2026-02-06" };
const MONTHS = { type: "monthly", start: "2026-01", end: "2026-04" };
const LETTERS = { type: "static", keys: ["a", "b", "c d", "e,f", "g=h", "i"] };
const NUMBERS = { type: "static", keys: ["1", "2", "3", "4", "5", "6", "7", "8", "9"] };
const GRID = {
  type: "multi",
  dimensions: {
    day: { type: "daily", start: "2026-02-01", end: "2026-02-05" },
    region: { type: "static", keys: ["eu", "us-east", "us-west"] },
  },
};
const HOURS = { type: "hourly", start: "2026-03-10T06:00", format: "YYYY-MM-DD-HH" };
const TENANTS = { type: "dynamic", name: "tenants" };
/** The dynamic partitions that tasks add keys to. */
export const FOUND = "found";
const FOUND_KEYS = { type: "dynamic", name: FOUND };
const SAME = { type: "identity" };

/** Every asset of the simulated project; the groups are what one backfill can hold. */
export const ASSET_GROUPS: Readonly<Record<string, readonly string[]>> = {
  single: ["days"],
  crossing: ["days", "months"],
  months: ["months"],
  diamond: ["top", "left", "right", "bottom"],
  half: ["left", "bottom"],
  batch: ["batch"],
  mixed: ["batch", "batch/each", "batch/all"],
  pooled: ["pooled"],
  dynamic: ["tenants"],
  grid: ["grid"],
  shifted: ["days", "days/shifted"],
  lagging: ["batch", "batch/shifted"],
  lone: ["lone"],
  lones: ["lone", "lone/next"],
};

/** All assets of the project. */
export const ASSETS: readonly string[] = [...new Set(Object.values(ASSET_GROUPS).flat()), "hours"];

/** Keys that an asset has, as far as they are fixed. */
export const KEYS: Readonly<Record<string, readonly string[]>> = {
  days: ["2026-01-25", "2026-01-26", "2026-01-30", "2026-01-31", "2026-02-01", "2026-02-04"],
  months: ["2026-01", "2026-02", "2026-03"],
  top: LETTERS.keys,
  left: LETTERS.keys,
  right: LETTERS.keys,
  bottom: LETTERS.keys,
  batch: NUMBERS.keys,
  "batch/each": NUMBERS.keys,
  "batch/all": NUMBERS.keys,
  "batch/shifted": NUMBERS.keys,
  pooled: LETTERS.keys,
  grid: ["day=2026-02-01,region=eu", "day=2026-02-02,region=us-east", "day=2026-02-04,region=eu"],
  "days/shifted": ["2026-01-26", "2026-01-27", "2026-02-03"],
  tenants: ["t1", "t2", "t3", "t4"],
};

/** The project's specs as published once; what may vary is drawn anew for every publish. */
export function drawSpecs(random: Random, has: AutomationKinds, syncs: SyncDrawing | null): Spec[] {
  const code_version = random.pick([null, "v1", "v2", "v3"]);
  const retry = {
    max_attempts: random.pick([1, 2, 3, 3, 5]),
    delay_ms: random.pick([0, 100, 1_000, 3_000]),
    factor: 2,
    max_delay_ms: 10_000,
    jitter: 0.2,
  };
  const asset = (asset_key: string, partitions: object | null, rest: object = {}): Spec =>
    Spec.parse({
      kind: "asset",
      asset_key,
      partitions,
      retry,
      code_version,
      timeout_ms: random.pick([5_000, 60_000, 3_600_000]),
      ...rest,
    });
  // A list of keys that grew at its front or shrank: what runs already keeps the one it had.
  const letters = random.pick([
    LETTERS,
    LETTERS,
    { ...LETTERS, keys: ["z", ...LETTERS.keys] },
    { ...LETTERS, keys: LETTERS.keys.slice(0, 4) },
  ]);
  const requires = drawnRequirement(retry.delay_ms, code_version);
  const from = (...keys: string[]) => keys.map((asset_key) => ({ asset_key, mapping: SAME }));
  const specs = [
    Spec.parse({ kind: "pool", pool: "narrow", limit: random.integer(1, 3) }),
    asset("days", DAYS, random.chance(0.3) ? { pool: "narrow" } : {}),
    asset("months", MONTHS, {
      ...requires,
      upstream: [{ asset_key: "days", mapping: { type: "time_window" } }],
    }),
    asset("days/shifted", DAYS, {
      ...requires,
      upstream: [{ asset_key: "days", mapping: { type: "offset", by: -1 } }],
    }),
    asset("top", letters),
    asset("left", letters, { upstream: from("top") }),
    asset("right", letters, { ...requires, upstream: from("top"), pool: "narrow" }),
    asset("bottom", letters, { ...requires, upstream: from("left", "right") }),
    asset("batch", NUMBERS, { batch: true, bisect: random.chance(0.7) }),
    asset("batch/each", NUMBERS, { upstream: from("batch") }),
    asset("batch/all", NUMBERS, {
      ...requires,
      upstream: from("batch", "batch/each"),
      batch: true,
    }),
    asset("batch/shifted", NUMBERS, {
      ...requires,
      upstream: [{ asset_key: "batch", mapping: { type: "offset", by: -1 } }],
    }),
    asset("pooled", letters, { pool: "narrow" }),
    asset("tenants", TENANTS),
    // Tasks add keys to it; nobody makes them.
    Spec.parse({ kind: "asset", asset_key: FOUND, partitions: FOUND_KEYS, external: true }),
    asset("grid", GRID),
    asset("hours", HOURS),
    asset("lone", null),
    asset("lone/next", null, { upstream: [{ asset_key: "lone", mapping: { type: "all" } }] }),
  ];
  if (has.sensors) specs.push(...drawSensors(random));
  if (has.schedules) {
    const named = CODE_SCHEDULES.filter(() => random.chance(0.7));
    specs.push(...named.map((name) => drawSchedule(random, name)));
  }
  if (syncs !== null) specs.push(...drawSyncs(random, syncs));
  const isGone = random.chance(0.15);
  return specs.filter((spec) => !(isGone && spec.kind === "asset" && spec.asset_key === "grid"));
}

/** What some assets require of their upstream, by what was drawn anyway, so that other seeds stay as they are. */
function drawnRequirement(delayMs: number, code: string | null): object {
  if (delayMs === 0) return {};
  const upstream = delayMs === 3_000 ? "fresh" : "materialized";
  const others = code === "v1" ? "skip" : code === "v2" ? "fail" : "wait";
  const otherwise = delayMs === 1_000 ? others : "wait";
  return { requires: { upstream, otherwise, wait_timeout_ms: code === null ? 4_000 : 20_000 } };
}
