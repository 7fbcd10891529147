import { expect, test, beforeEach, describe } from "vitest";
import { LedgerWorld } from "../../../test/properties/ledger-world.ts";
import { instantOf } from "../../kernel/instant.ts";
import { triggerSchedule } from "./commands.ts";

const HOUR_MS = 3_600_000;

/** What one tick of a schedule said that asks for an asset with these partitions. */
function tickOf(partitions: object, selection: object, asset: object = {}) {
  const world = new LedgerWorld();
  world.publish({ asset_key: "a", partitions, ...asset });
  world.publish({
    kind: "schedule",
    name: "hourly",
    cron: "0 * * * *",
    asset_selection: ["a"],
    selection,
  });
  world.pass(HOUR_MS);
  world.settle();
  const [tick] = world.ticks();
  return tick;
}

test("a partition before the first is refused, however long before it lies", () => {
  const years = { type: "cron", expression: "0 0 1 1 *", start: "2020-01-01" };
  // Ten thousand years ago is before all instants that can be written.
  expect(tickOf(years, { type: "tick_time", offset: -10_000 })).toMatchObject({
    status: "failed",
    error: {
      class: "PARTITION_INVALID",
      message:
        "The partition 10000 before that of 2026-03-10T01:00:00.000Z is outside those that a is " +
        "defined for.",
    },
  });
  const days = { type: "daily", start: "2026-04-01" };
  expect(tickOf(days, { type: "tick_time" })?.error?.message).toContain("of 2026-03-10T01:00");
});

test("all partitions are refused while there are none", () => {
  const none = { type: "dynamic", name: "tenants" };
  expect(tickOf(none, { type: "all" })).toMatchObject({
    status: "failed",
    error: { class: "SELECTION_EMPTY" },
  });
});

test("a run whose events would be too long is refused, so that the schedule gets past that time", () => {
  const keys = Array.from({ length: 9_000 }, (_, index) => String(index).padEnd(500, "x"));
  expect(tickOf({ type: "static", keys }, { type: "all" })).toMatchObject({
    status: "failed",
    error: { class: "SELECTION_TOO_LARGE" },
  });
});

test("a part of a day's partitions is never taken for all of them", () => {
  const keys = Array.from({ length: 10_002 }, (_, index) => `shop-${index}`);
  const dimensions = {
    date: { type: "daily", start: "2026-01-01" },
    shop: { type: "static", keys },
  };
  const ofDay = { type: "tick_time", offset: -1 };
  // One task for all partitions, which the limit of tasks therefore does not stop.
  const tick = tickOf({ type: "multi", dimensions }, ofDay, { batch: true });
  expect(tick).toMatchObject({ status: "failed", error: { class: "SELECTION_TOO_LARGE" } });
});

let world: LedgerWorld;

/** Looks every hour for what is stale of `day`, unless told otherwise. */
function schedule(options: object = {}): void {
  world.publish({
    kind: "schedule",
    name: "stale",
    cron: "0 * * * *",
    asset_selection: ["day"],
    selection: { type: "stale" },
    ...options,
  });
}

function decided(): string[] {
  return world.ticks().map(({ status, reason }) => reason ?? status);
}

/** Where the pages of each backfill say that it was created, and where it was. */
function positions(): [said: number[], created: number[]] {
  const said = world.events.flatMap(({ type, data }) =>
    type === "KeysSurveyed" ? [data.backfill_pos] : [],
  );
  const created = world.events.flatMap(({ type, pos }) =>
    type === "BackfillCreated" ? [pos] : [],
  );
  return [said, created];
}

beforeEach(() => {
  world = new LedgerWorld();
  world.now = instantOf(Date.UTC(2026, 0, 4, 12, 10));
  world.publish({ asset_key: "day", partitions: { type: "daily", start: "2026-01-01" } });
});

describe("a tick that looks for what is stale", () => {
  test("asks for one backfill, however many times are caught up together", () => {
    schedule({ overlap: "allow" });
    world.pass(3 * HOUR_MS);
    world.settle();
    expect(decided()).toEqual(["triggered", "overlap", "overlap"]);
    expect(world.backfills()).toHaveLength(1);
  });

  test("asks for an asset once that is selected twice", () => {
    schedule({ asset_selection: ["day", "day"] });
    world.pass(HOUR_MS);
    world.settle();
    expect(decided()).toEqual(["triggered"]);
    expect(world.backfills()).toMatchObject([{ asset_selection: ["day"], total_partitions: 3 }]);
  });
});

describe("the pages of a backfill of what is stale", () => {
  test("belong to the backfill, although the tick comes before it", () => {
    schedule();
    world.pass(HOUR_MS);
    world.settle();
    const [said, created] = positions();
    expect(said).toEqual(created);
    expect(said).toHaveLength(1);
  });

  test("belong to it when somebody asks for the tick", () => {
    schedule();
    world.submit(triggerSchedule({ schedule: "stale" }));
    const [said, created] = positions();
    expect(said).toEqual(created);
  });

  test("belong to it when a publish decides what is due, after other schedules' times", () => {
    world.publish({ asset_key: "a" });
    const other = { kind: "schedule", name: "other", cron: "0 * * * *", asset_selection: ["a"] };
    world.publish(other);
    schedule();
    world.pass(HOUR_MS);
    world.publish(
      { ...other, description: "changed" },
      {
        kind: "schedule",
        name: "stale",
        cron: "30 * * * *",
        asset_selection: ["day"],
        selection: { type: "stale" },
      },
    );
    const [said, created] = positions();
    expect(said).toEqual(created);
    expect(said).toHaveLength(1);
  });
});
