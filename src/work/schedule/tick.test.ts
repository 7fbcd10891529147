import { beforeEach, describe, expect, test } from "vitest";
import { LedgerWorld } from "../../../test/properties/ledger-world.ts";
import { instantOf } from "../../kernel/instant.ts";
import { pauseSchedule, resumeSchedule, triggerSchedule } from "./commands.ts";
import { tickSchedule } from "./tick.ts";

const HOUR_MS = 3_600_000;
const NOON = Date.UTC(2026, 2, 10, 12);

let world: LedgerWorld;

/** Schedules the asset `a` every hour, from ten past noon on, unless told otherwise. */
function schedule(options: object = {}): void {
  world.publish({
    kind: "schedule",
    name: "hourly",
    cron: "0 * * * *",
    asset_selection: ["a"],
    ...options,
  });
}

/** So many hours and ten minutes later, everything due is decided. */
function later(hours: number): void {
  world.pass(hours * HOUR_MS);
  world.settle();
}

/** Decided times as `13 triggered` or `14 catchup_limit`, and `14–20 paused ×7` for a stretch. */
function decided(): string[] {
  return world.ticks().map(({ scheduled_for, through, count, status, reason }) => {
    const what = reason ?? status;
    const hour = scheduled_for.slice(11, 13);
    return count === 1 ? `${hour} ${what}` : `${hour}–${through.slice(11, 13)} ${what} ×${count}`;
  });
}

/** Runs everything that is ready. */
function work(): void {
  for (const { run_pos, tasks } of world.claim(["a", "day"])) {
    for (const { task_key, attempt } of tasks) {
      world.report({ run_pos, task_key, attempt, outcome: "SUCCEEDED" });
    }
  }
  world.settle();
}

beforeEach(() => {
  world = new LedgerWorld();
  world.now = instantOf(NOON + 600_000);
  world.publish(
    { asset_key: "a" },
    { asset_key: "day", partitions: { type: "daily", start: "2026-01-01" } },
  );
});

describe("tickSchedule", () => {
  test("asks for a run at each time, from the activation on, and never for the past", () => {
    schedule();
    world.settle();
    expect(decided()).toEqual([]);
    later(1);
    later(1);
    expect(decided()).toEqual(["13 triggered", "14 triggered"]);
    const [run] = world.runs();
    expect(run?.run_key).toBe(`sched:${world.schedules()[0]?.schedule_id}:${NOON / 1_000 + 3_600}`);
    expect(world.ticks()[0]).toMatchObject({ run_key: run?.run_key, run_id: run?.run_id });
  });

  test("I76: asks for as many runs at once as one decision has room for, and I21: leaves no time out", () => {
    schedule({ max_catchup_ticks: 5 });
    world.settle();
    world.room = { rows: 2, bytes: 1_000_000 };
    const [row] = world.schedules();
    if (row === undefined) throw new Error("There is no schedule.");
    world.pass(5 * HOUR_MS);
    const first = world.read((rows) => tickSchedule(rows, row, world.context()));
    expect(first.filter(({ type }) => type === "RunRequested")).toHaveLength(2);
    world.settle();
    expect(decided()).toEqual([13, 14, 15, 16, 17].map((hour) => `${hour} triggered`));
    expect(world.runs()).toHaveLength(5);
  });

  test("I22: catches up the newest times within limit and window, oldest first, and skips the rest", () => {
    schedule({ catchup_window_minutes: 300 });
    later(10);
    expect(decided()).toEqual([
      "13 catchup_window",
      "14 catchup_window",
      "15 catchup_window",
      "16 catchup_window",
      "17 catchup_window",
      "18 catchup_limit",
      "19 catchup_limit",
      "20 triggered",
      "21 triggered",
      "22 triggered",
    ]);
    world.settle();
    expect(world.runs()).toHaveLength(3);
  });

  test("skips a long stretch by one event", () => {
    schedule({ cron: "* * * * * *" });
    later(24 * 365);
    const [stretch, ...taken] = world.ticks();
    expect(stretch).toMatchObject({ status: "skipped", reason: "catchup_window" });
    expect(stretch?.count).toBe(365 * 86_400 - 86_401);
    expect(taken.map(({ reason, status }) => reason ?? status)).toEqual([
      "catchup_limit",
      "triggered",
      "triggered",
      "triggered",
    ]);
    expect(world.schedules()[0]?.ticks_skipped).toBe(365 * 86_400 - 3);
  });

  test("takes a time that is on time although nothing is to be caught up", () => {
    schedule({ max_catchup_ticks: 0, catchup_window_minutes: 0 });
    world.pass(50 * 60_000 + 30_000);
    world.settle();
    later(2);
    expect(decided()).toEqual(["13 triggered", "14 catchup_window", "15 triggered"]);
  });

  test("I20: fires nothing twice when the clock is set back", () => {
    schedule();
    later(1);
    later(-1);
    later(0.5);
    expect(decided()).toEqual(["13 triggered"]);
    later(1.5);
    expect(decided()).toEqual(["13 triggered", "14 triggered"]);
  });

  test("skips a time whose predecessor still runs", () => {
    schedule({ overlap: "skip" });
    later(1);
    later(1);
    work();
    later(1);
    expect(decided()).toEqual(["13 triggered", "14 overlap", "15 triggered"]);
  });

  test("keeps the newest time that came while a run went on, and acts on it when the run ends", () => {
    schedule({ overlap: "buffer_one" });
    later(1);
    later(3);
    expect(decided()).toEqual(["13 triggered"]);
    expect(world.schedules()[0]?.due_at).toBeNull();
    work();
    expect(decided()).toEqual(["13 triggered", "14 overlap", "15 overlap", "16 triggered"]);
    work();
    later(1);
    expect(decided().at(-1)).toBe("17 triggered");
  });

  test("lets one that buffers catch up one run after the other", () => {
    schedule({ overlap: "buffer_one" });
    later(3);
    expect(decided()).toEqual(["13 triggered"]);
    work();
    expect(decided()).toEqual(["13 triggered", "14 overlap", "15 triggered"]);
  });

  test("moves all its times by the same part of the jitter", () => {
    schedule({ jitter_ms: HOUR_MS / 2 });
    const { next_scheduled_for, next_due_at } = world.schedules()[0] ?? {};
    expect(next_scheduled_for).toBe("2026-03-10T13:00:00.000Z");
    const shift = Date.parse(next_due_at ?? "") - Date.parse(next_scheduled_for ?? "");
    expect(shift).toBeGreaterThan(0);
    expect(shift).toBeLessThan(HOUR_MS / 2);
    world.pass(50 * 60_000 + shift - 1);
    world.settle();
    expect(decided()).toEqual([]);
    world.pass(1);
    world.settle();
    expect(decided()).toEqual(["13 triggered"]);
  });

  test("keeps to its start and its end", () => {
    schedule({ starts_at: "2026-03-10T14:00:00.000Z", ends_at: "2026-03-10T16:00:00.000Z" });
    for (let hour = 0; hour < 6; hour++) later(1);
    expect(decided()).toEqual(["14 triggered", "15 triggered"]);
    expect(world.schedules()[0]?.next_scheduled_for).toBeNull();
  });

  test("does not fire a time that is two months ahead", () => {
    schedule({ cron: "0 0 9 5 *" });
    expect(world.schedules()[0]?.due_at).toBe("2026-05-09T00:00:00.000Z");
    later(24 * 59);
    expect(decided()).toEqual([]);
  });

  test("asks for the partition that the tick's time falls in, or one before it", () => {
    schedule({ asset_selection: ["day"], selection: { type: "tick_time" } });
    world.publish({
      kind: "schedule",
      name: "nightly",
      cron: "0 2 * * *",
      asset_selection: ["day"],
      selection: { type: "tick_time", offset: -1 },
    });
    later(1);
    later(13.5);
    const keys = world.runs().map((run) => run.partition_keys);
    expect(keys[0]).toEqual(["2026-03-10"]);
    expect(world.ticks().find(({ scheduled_for }) => scheduled_for.includes("T02"))).toBeDefined();
    expect(keys).toContainEqual(["2026-03-11"]);
    expect(keys.filter((each) => each?.[0] === "2026-03-10").length).toBeGreaterThan(1);
  });

  test("asks for all other dimensions of the partition that the time falls in", () => {
    world.publish({
      asset_key: "grid",
      partitions: {
        type: "multi",
        dimensions: {
          date: { type: "daily", start: "2026-01-01" },
          region: { type: "static", keys: ["eu", "us"] },
        },
      },
    });
    schedule({ asset_selection: ["grid"], selection: { type: "tick_time", offset: -1 } });
    later(1);
    expect(world.runs()[0]?.partition_keys).toEqual([
      "date=2026-03-09,region=eu",
      "date=2026-03-09,region=us",
    ]);
  });

  test("records a request that cannot be made as failed, with the error", () => {
    schedule({
      asset_selection: ["day"],
      selection: { type: "explicit", partition_keys: ["2020-01-01"] },
    });
    later(1);
    expect(world.ticks()[0]).toMatchObject({
      status: "failed",
      error: { class: "PARTITION_INVALID" },
    });
    expect(world.runs()).toEqual([]);
  });

  test("asks for a backfill of what is stale, with the reasons, and for nothing when nothing is", () => {
    world.now = instantOf(Date.UTC(2026, 0, 4, 12, 10));
    schedule({ asset_selection: ["day"], selection: { type: "stale" }, overlap: "skip" });
    later(1);
    const [tick] = world.ticks();
    expect(tick).toMatchObject({
      status: "triggered",
      stale_reasons: { NEVER_MATERIALIZED: 3 },
      run_key: null,
    });
    expect(world.backfills()[0]).toMatchObject({
      backfill_id: tick?.backfill_id,
      total_partitions: 3,
      state: "RUNNING",
    });
    later(1);
    work();
    later(1);
    expect(decided()).toEqual(["13 triggered", "14 overlap", "15 nothing_stale"]);
  });
});

describe("a schedule of what is stale", () => {
  test("crosses definitions, and waits for all the backfills it asked for", () => {
    world.now = instantOf(Date.UTC(2026, 0, 4, 12, 10));
    world.publish({
      asset_key: "month",
      partitions: { type: "monthly", start: "2025-12" },
      upstream: [{ asset_key: "day", mapping: { type: "time_window" } }],
    });
    schedule({ asset_selection: ["month", "day"], selection: { type: "stale" }, overlap: "skip" });
    later(1);
    expect(world.backfills().map(({ asset_selection }) => asset_selection)).toEqual([
      ["day"],
      ["month"],
    ]);
    work();
    later(1);
    expect(decided()).toEqual(["13 triggered", "14 overlap"]);
  });
});

describe("pausing a schedule", () => {
  test("records nothing meanwhile, and skips what was missed when it is resumed", () => {
    schedule();
    later(1);
    world.submit(pauseSchedule({ schedule: "hourly", expected_state_version: 1 }));
    later(3);
    expect(decided()).toEqual(["13 triggered"]);
    expect(world.submit(resumeSchedule({ schedule: "hourly" }))).toMatchObject({
      state: "ACTIVE",
      state_version: 3,
    });
    later(1);
    expect(decided().slice(1)).toEqual(["14 paused", "15 paused", "16 paused", "17 triggered"]);
  });

  test("is caught up by the same limits where the schedule says so", () => {
    schedule({ catch_up_on_resume: true, max_catchup_ticks: 2 });
    world.submit(pauseSchedule({ schedule: "hourly" }));
    later(4);
    world.submit(resumeSchedule({ schedule: "hourly" }));
    world.settle();
    expect(decided()).toEqual([
      "13 catchup_limit",
      "14 catchup_limit",
      "15 triggered",
      "16 triggered",
    ]);
  });

  test("is refused for one that is paused, and with an old version", () => {
    schedule();
    expect(() =>
      world.submit(pauseSchedule({ schedule: "hourly", expected_state_version: 7 })),
    ).toThrow(/version 1 .*not 7/);
    world.submit(pauseSchedule({ schedule: "hourly" }));
    expect(() => world.submit(pauseSchedule({ schedule: "hourly" }))).toThrow(/is PAUSED/);
    expect(() => world.submit(pauseSchedule({ schedule: "nightly" }))).toThrow(
      /no schedule "nightly"/,
    );
  });
});

describe("changing a schedule", () => {
  test("I24: decides what is due by the old definition, and what follows by the new one", () => {
    schedule();
    world.pass(3 * HOUR_MS);
    schedule({ cron: "30 * * * *" });
    later(1);
    expect(
      world.ticks().map(({ scheduled_for, status }) => `${scheduled_for.slice(11, 16)} ${status}`),
    ).toEqual(["13:00 triggered", "14:00 triggered", "15:00 triggered", "15:30 triggered"]);
    expect(world.ticks().map(({ definition_version }) => definition_version)).toEqual([2, 2, 2, 3]);
  });

  test("lets no time wait for a request that was refused", () => {
    const refused = {
      asset_selection: ["day"],
      selection: { type: "explicit", partition_keys: ["2020-01-01"] },
      overlap: "buffer_one",
    };
    schedule(refused);
    world.pass(3 * HOUR_MS);
    schedule({ ...refused, cron: "30 * * * *" });
    expect(decided()).toEqual(["13 failed", "14 failed", "15 failed"]);
  });

  test("keeps the id under the same name, and pauses it when enabled is set to false", () => {
    schedule();
    const [before] = world.schedules();
    schedule({ enabled: false });
    expect(world.schedules()).toMatchObject([
      { schedule_id: before?.schedule_id, state: "PAUSED", state_version: 3, due_at: null },
    ]);
    schedule({ enabled: true });
    expect(world.schedules()).toMatchObject([{ state: "ACTIVE", state_version: 5 }]);
  });

  test("is refused when it could never tick", () => {
    expect(() => schedule({ cron: "61 * * * *" })).toThrow(/cron expression that is wrong.*61/);
    expect(() => schedule({ timezone: "Mars/Base" })).toThrow(/"Mars\/Base"/);
    expect(() => schedule({ asset_selection: ["b"] })).toThrow(/"b", which is not defined/);
    expect(() => schedule({ asset_selection: ["a", "day"] })).toThrow(/partitions differ/);
    expect(() => schedule({ asset_selection: ["day"] })).toThrow(/must say which/);
    expect(() => schedule({ selection: { type: "all" } })).toThrow(/have none/);
  });
});

describe("triggering a schedule", () => {
  test("acts at once, as often as it is asked, and leaves the schedule's own times alone", () => {
    schedule();
    const first = world.submit(triggerSchedule({ schedule: "hourly" }));
    const second = world.submit(triggerSchedule({ schedule: "hourly" }));
    const epoch = NOON / 1_000 + 600;
    expect(first.tick_id).toBe(`${first.schedule_id}:manual:${epoch}`);
    expect(first.run_key).toBe(`sched:${first.schedule_id}:manual:${epoch}`);
    expect(second.tick_id).toBe(`${first.tick_id}:2`);
    later(1);
    expect(decided()).toEqual(["12 triggered", "12 triggered", "13 triggered"]);
  });
});
