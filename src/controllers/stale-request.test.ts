import { beforeEach, describe, expect, test } from "vitest";
import { LedgerWorld } from "../../test/properties/ledger-world.ts";
import { instantOf } from "../core/instant.ts";
import { triggerSchedule } from "./change-schedule.ts";

const HOUR_MS = 3_600_000;

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
