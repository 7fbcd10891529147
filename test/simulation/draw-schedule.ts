import { ScheduleSpec } from "../../src/work/definition/spec.ts";
import type { Random } from "./random.ts";

/** What a tick may ask for; some of it is refused at every tick, which a schedule must survive. */
const WISHES: readonly object[] = [
  { asset_selection: ["lone"] },
  { asset_selection: ["lone", "lone/next"], config: { mode: "full" } },
  { asset_selection: ["top", "left"], selection: { type: "explicit", partition_keys: ["a", "b"] } },
  { asset_selection: ["hours"], selection: { type: "tick_time" } },
  { asset_selection: ["hours"], selection: { type: "tick_time", offset: -1 } },
  { asset_selection: ["days"], selection: { type: "tick_time" } },
  { asset_selection: ["batch"], selection: { type: "all" } },
];

/** Searches for what is stale, which become backfills. */
const SEARCHES: readonly object[] = [
  {
    asset_selection: ["days"],
    selection: { type: "stale", limit: 5, reasons: ["NEVER_MATERIALIZED"] },
  },
  { asset_selection: ["top", "left"], selection: { type: "stale", limit: 3 } },
  { asset_selection: ["lone"], selection: { type: "stale" } },
];

const EVERY_SECOND = "* * * * * *";
const EVERY_FEW_SECONDS = ["*/5 * * * * *", "*/20 * * * * *", "10,40 * * * * *", EVERY_SECOND];
const RARELY = ["* * * * *", "*/2 * * * *", "30 9 * * *", "0 0 1 1 *"];

/** Bounds among which the simulated clock moves. */
const BOUNDS = ["2026-03-10T08:00:20.000Z", "2026-03-10T08:00:45.000Z", "2026-03-10T08:01:30.000Z"];

/** A schedule under a name; everything else is drawn. */
export function drawSchedule(random: Random, name: string): ScheduleSpec {
  const isSearch = random.chance(0.2);
  const cron = random.pick(random.chance(0.8) ? EVERY_FEW_SECONDS : RARELY);
  // More runs than the workers can do would never come to an end.
  const policies = ["skip", ...(cron === EVERY_SECOND ? [] : ["allow"])];
  return ScheduleSpec.parse({
    kind: "schedule",
    name,
    cron,
    timezone: random.pick(["UTC", "Europe/Berlin"]),
    ...random.pick(isSearch ? SEARCHES : WISHES),
    overlap: random.pick(isSearch ? policies : [...policies, "buffer_one"]),
    max_catchup_ticks: random.pick([0, 1, 3]),
    catchup_window_minutes: random.pick([0, 1, 1_440]),
    catch_up_on_resume: random.chance(0.4),
    jitter_ms: random.pick([0, 0, 1_500, 12_000]),
    enabled: random.chance(0.85),
    starts_at: random.chance(0.1) ? random.pick(BOUNDS.slice(0, 2)) : null,
    ends_at: random.chance(0.1) ? random.pick(BOUNDS.slice(2)) : null,
  });
}
