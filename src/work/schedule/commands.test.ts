import { beforeEach, describe, expect, test } from "vitest";
import { LedgerWorld } from "../../../test/properties/ledger-world.ts";
import { instantOf } from "../../kernel/instant.ts";
import { pauseSchedule, resumeSchedule } from "./commands.ts";

const HOUR_MS = 3_600_000;

let world: LedgerWorld;

function later(hours: number): void {
  world.pass(hours * HOUR_MS);
  world.settle();
}

function decided(): string[] {
  return world.ticks().map(({ scheduled_for, status, reason }) => {
    return `${scheduled_for.slice(11, 13)} ${reason ?? status}`;
  });
}

/** Runs everything that is ready. */
function work(): void {
  for (const { run_pos, tasks } of world.claim(["a"])) {
    for (const { task_key, attempt } of tasks) {
      world.report({ run_pos, task_key, attempt, outcome: "SUCCEEDED" });
    }
  }
  world.settle();
}

beforeEach(() => {
  world = new LedgerWorld();
  world.now = instantOf(Date.UTC(2026, 2, 10, 12, 10));
  world.publish(
    { asset_key: "a" },
    {
      kind: "schedule",
      name: "buffered",
      cron: "0 */3 * * *",
      asset_selection: ["a"],
      overlap: "buffer_one",
      catch_up_on_resume: true,
      catchup_window_minutes: 60,
    },
  );
  later(3);
  later(5);
  expect(decided()).toEqual(["15 triggered"]);
});

describe("a time that waits for a run to end", () => {
  test("is acted on however long that took, as nobody missed it", () => {
    work();
    expect(decided()).toEqual(["15 triggered", "18 triggered"]);
  });

  test("is acted on when a pause ends soon after the run", () => {
    world.submit(pauseSchedule({ schedule: "buffered" }));
    work();
    world.submit(resumeSchedule({ schedule: "buffered" }));
    world.settle();
    expect(decided()).toEqual(["15 triggered", "18 triggered"]);
  });

  test("was missed like any other when a pause outlasts the run by more than the window", () => {
    world.submit(pauseSchedule({ schedule: "buffered" }));
    work();
    world.pass(4 * HOUR_MS);
    world.submit(resumeSchedule({ schedule: "buffered" }));
    world.settle();
    expect(decided()).toEqual([
      "15 triggered",
      "18 catchup_window",
      "21 catchup_window",
      "00 triggered",
    ]);
  });
});
