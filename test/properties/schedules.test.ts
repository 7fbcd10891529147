import fc from "fast-check";
import { expect, test } from "vitest";
import {
  pauseSchedule,
  resumeSchedule,
  triggerSchedule,
} from "../../src/work/schedule/commands.ts";
import { createEntity, deleteEntity, updateEntity } from "../../src/work/definition/commands.ts";
import { ScheduleSpec } from "../../src/work/definition/spec.ts";
import { cronTimes } from "../../src/kernel/cron/times.ts";
import { epochMsOf, instantOf } from "../../src/kernel/instant.ts";
import { LedgerWorld } from "./ledger-world.ts";

// Goal: whatever happens to a schedule and to the clock, every nominal time since its activation is
// decided exactly once, by the definition in force at that time. Method: random histories of one
// schedule; beside it the test keeps which definition was in force from when to when, lists the times
// that it names, and looks for each of them among what was decided.

const MINUTE_MS = 60_000;
const START_MS = Date.UTC(2026, 2, 27, 9, 17);

/** What may happen; the history picks among them. */
type Step =
  | { type: "pass"; ms: number }
  | { type: "settle" | "pause" | "resume" | "trigger" | "work" | "delete" }
  | { type: "edit"; options: object };

const options = fc.record({
  cron: fc.constantFrom(
    "*/7 * * * *",
    "0 * * * *",
    "30 2 * * *",
    "15,45 1-4 * * *",
    "20 */5 * * * *",
  ),
  timezone: fc.constantFrom("UTC", "Europe/Berlin", "Australia/Lord_Howe"),
  overlap: fc.constantFrom("allow", "skip", "buffer_one"),
  max_catchup_ticks: fc.nat({ max: 4 }),
  catchup_window_minutes: fc.constantFrom(0, 60, 1_440),
  catch_up_on_resume: fc.boolean(),
  jitter_ms: fc.constantFrom(0, 90_000, 3_600_000),
  enabled: fc.boolean(),
});

const anyStep: fc.Arbitrary<Step> = fc.oneof(
  { weight: 6, arbitrary: fc.record({ type: fc.constant("pass" as const), ms: passed() }) },
  { weight: 6, arbitrary: fc.constant({ type: "settle" as const }) },
  {
    weight: 5,
    arbitrary: fc.record({
      type: fc.constantFrom("pause", "resume", "trigger", "work", "delete") as fc.Arbitrary<"work">,
    }),
  },
  { weight: 2, arbitrary: fc.record({ type: fc.constant("edit" as const), options }) },
);

/** Mostly forward, sometimes far, now and then back. */
function passed(): fc.Arbitrary<number> {
  return fc.oneof(
    { weight: 5, arbitrary: fc.integer({ min: 1, max: 90 * MINUTE_MS }) },
    { weight: 2, arbitrary: fc.integer({ min: 1, max: 3 * 86_400_000 }) },
    { weight: 1, arbitrary: fc.integer({ min: -5 * 3_600_000, max: -1 }) },
  );
}

/** A definition, and the times it was in force for: after the first, up to the second. */
type Reign = { spec: ScheduleSpec; afterMs: number; throughMs: number };

function specOf(given: object): ScheduleSpec {
  return ScheduleSpec.parse({ kind: "schedule", name: "s", asset_selection: ["a"], ...given });
}

/** One schedule, and beside it what the ledger should say of it. */
class WatchedSchedule {
  readonly world = new LedgerWorld();
  readonly reigns: Reign[] = [];
  #spec: ScheduleSpec;
  #isDeleted = false;

  constructor(spec: ScheduleSpec) {
    this.world.now = instantOf(START_MS);
    this.world.publish({ asset_key: "a" });
    this.world.submit(createEntity(spec));
    this.#spec = spec;
    this.reigns.push({ spec, afterMs: START_MS, throughMs: START_MS });
  }

  get row() {
    const [row] = this.world.schedules();
    if (row === undefined) throw new Error("There is the schedule.");
    return row;
  }

  do(step: Step): void {
    const { world } = this;
    const schedule = this.row.schedule_id;
    const { state } = this.row;
    if (step.type === "pass") world.pass(step.ms);
    else if (step.type === "settle") world.settle();
    else if (step.type === "work") this.#work();
    else if (this.#isDeleted) return;
    else if (step.type === "pause" && state === "ACTIVE") {
      world.submit(pauseSchedule({ schedule }));
    } else if (step.type === "resume" && state === "PAUSED") {
      world.submit(resumeSchedule({ schedule }));
    } else if (step.type === "trigger") world.submit(triggerSchedule({ schedule }));
    else if (step.type === "edit") this.#edit(specOf(step.options));
    else if (step.type === "delete") {
      world.submit(deleteEntity("schedule", { id: schedule }));
      this.#isDeleted = true;
    }
    this.#reign();
  }

  #edit(spec: ScheduleSpec): void {
    const before = JSON.stringify(this.#spec);
    this.world.submit(updateEntity("schedule", { id: this.row.schedule_id }, () => spec));
    if (JSON.stringify(spec) === before) return;
    this.#spec = spec;
    this.#reign();
    const throughMs = epochMsOf(this.row.ticked_through);
    const last = this.reigns.at(-1);
    if (last !== undefined) last.throughMs = throughMs;
    this.reigns.push({ spec, afterMs: throughMs, throughMs });
  }

  /** The last definition has been in force for as long as its times are decided. */
  #reign(): void {
    const last = this.reigns.at(-1);
    if (last !== undefined) last.throughMs = epochMsOf(this.row.ticked_through);
  }

  #work(): void {
    for (const { run_pos, tasks } of this.world.claim(["a"])) {
      for (const { task_key, attempt } of tasks) {
        this.world.report({ run_pos, task_key, attempt, outcome: "SUCCEEDED" });
      }
    }
    this.world.settle();
  }

  /** Every time that some definition in force named, in order. */
  nominalTimes(): string[] {
    return this.reigns.flatMap(({ spec, afterMs, throughMs }) => {
      const times = cronTimes(spec.cron, spec.timezone);
      if (typeof times === "string") throw new Error(times);
      return times.newestBetween(afterMs, throughMs, 1_000_000).map((at) => instantOf(at));
    });
  }

  /** The same times as they were decided, with those of a stretch listed. */
  decidedTimes(): string[] {
    return this.world.ticks().flatMap(({ manual, scheduled_for, through, count }) => {
      if (manual === 1) return [];
      if (count === 1) return [scheduled_for];
      const within = this.nominalTimes().filter((at) => at >= scheduled_for && at <= through);
      expect(within).toHaveLength(count);
      return within;
    });
  }
}

test("I20, I21, I24: decides every time since the activation exactly once, by the definition in force", () => {
  fc.assert(
    fc.property(options, fc.array(anyStep, { minLength: 5, maxLength: 40 }), (first, steps) => {
      const watched = new WatchedSchedule(specOf(first));
      for (const each of steps) {
        watched.do(each);
        expect(watched.decidedTimes()).toEqual(watched.nominalTimes());
      }
      const { row, world } = watched;
      const triggered = world.ticks().filter(({ status }) => status === "triggered");
      expect(world.runs()).toHaveLength(triggered.length);
      expect(row.ticks_triggered).toBe(triggered.length);
      // An active schedule leaves nothing undecided that is due, but for what waits for a run.
      world.settle();
      if (row.state === "ACTIVE" && row.overlap !== "buffer_one") {
        expect(watched.row.due_at === null || watched.row.due_at > world.now).toBe(true);
      }
    }),
    { numRuns: 400 },
  );
});

test("I22: catches up no more than the limit, the newest, oldest first", () => {
  fc.assert(
    fc.property(options, passed(), (given, ms) => {
      const spec = specOf({ ...given, overlap: "allow", jitter_ms: 0, enabled: true });
      const { world } = new WatchedSchedule(spec);
      world.pass(Math.abs(ms));
      world.settle();
      const ticks = world.ticks();
      const triggered = ticks.filter(({ status }) => status === "triggered");
      expect(triggered.length).toBeLessThanOrEqual(Math.max(1, spec.max_catchup_ticks));
      const times = ticks.map(({ scheduled_for }) => scheduled_for);
      expect(times).toEqual(times.toSorted());
      // What was taken is the newest there was.
      expect(ticks.slice(ticks.length - triggered.length)).toEqual(triggered);
      const windowMs = Math.max(spec.catchup_window_minutes, 1) * MINUTE_MS;
      for (const { scheduled_for } of triggered) {
        expect(epochMsOf(world.now) - epochMsOf(scheduled_for)).toBeLessThanOrEqual(windowMs);
      }
    }),
    { numRuns: 300 },
  );
});
