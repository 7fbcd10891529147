import { describe, expect, test } from "vitest";
import type { LedgerWorld } from "../../test/properties/ledger-world.ts";
import {
  claimMoveSteps,
  endMoveStep,
  moveAt,
  moveWorld,
  planned,
  workOff,
} from "../../test/properties/move-world.ts";
import {
  arm,
  beginCutover,
  bringOver,
  claimStep,
  endStep,
  FINAL,
  plan,
  say,
  splitWorld,
} from "../../test/properties/split-world.ts";
import type { RecordedEvent } from "../core/events/envelope.ts";
import { pauseMove, startMove } from "./change-move.ts";
import { completeSplit, resumeSplit, rollbackSplit, runBackfill } from "./change-split.ts";
import { type Notification, notificationsOf, notificationTypeOf } from "./notification-of-event.ts";

/** What there is to tell of everything that happened. */
function told(world: LedgerWorld): Notification[] {
  const events = world.events.map(({ pos, type, data }) => {
    return { pos, type, data: JSON.stringify(data), occurred_at: world.now } as RecordedEvent;
  });
  const all = world.read((rows) => notificationsOf(rows, events));
  // What is told is known by the event alone, so that what nobody asked for is not looked up.
  for (const [index, notification] of all.entries()) {
    const event = events[index];
    if (notification === null || event === undefined) continue;
    expect(notificationTypeOf(event)).toBe(notification.type);
  }
  return all.flatMap((notification) => notification ?? []);
}

function types(world: LedgerWorld): string[] {
  return told(world).map(({ type }) => type);
}

describe("what there is to tell of a split", () => {
  test("is that it is caught up, cut over and completed, and not what leads there", () => {
    const world = splitWorld();
    const { split_id: split } = plan(world, { description: "more room" });
    bringOver(world, split);
    world.submit(completeSplit({ split, reason: "it went well" }));
    world.settle();
    endStep(world, claimStep(world));
    expect(types(world)).toEqual(["split.caught_up", "split.cut_over", "split.completed"]);
    expect(told(world)[1]).toMatchObject({
      timestamp: world.now,
      assets: [],
      data: {
        split_id: split,
        description: "more room",
        source: "a",
        target: "b",
        tenants: ["t1"],
        phase: "completed",
        outcome: "cut_over",
        direction: "forward",
        error: null,
      },
    });
  });

  test("is which way it was cut over", () => {
    const world = splitWorld();
    const { split_id: split } = plan(world);
    bringOver(world, split);
    world.submit(rollbackSplit({ split }));
    world.settle();
    const cutback = claimStep(world);
    say(world, cutback, "commit");
    endStep(world, cutback);
    endStep(world, claimStep(world));
    const [, , back, last] = told(world);
    expect(back).toMatchObject({ type: "split.cut_over", data: { direction: "back" } });
    expect(last?.type).toBe("split.rolled_back");
  });

  test("is that a cutover could not be had, once", () => {
    const world = splitWorld();
    const { split_id: split } = plan(world);
    endStep(world, beginCutover(world, split), FINAL);
    expect(types(world)).toEqual(["split.caught_up", "split.fell_back"]);
    expect(told(world)[1]?.data).toMatchObject({ reason: "no luck", error: FINAL.error });
  });

  test("is that a step failed for good, each time", () => {
    const world = splitWorld();
    const { split_id: split } = plan(world);
    arm(world, split);
    world.submit(runBackfill({ split }));
    world.settle();
    endStep(world, claimStep(world), FINAL);
    expect(told(world)).toMatchObject([
      {
        type: "split.failed",
        data: { split_id: split, step: "copy", phase: "backfill", error: { message: "no luck" } },
      },
    ]);
    world.submit(resumeSplit({ split }));
    world.settle();
    endStep(world, claimStep(world), FINAL);
    expect(types(world)).toEqual(["split.failed", "split.failed"]);
  });

  test("is that a commit record could not be carried out", () => {
    const world = splitWorld();
    const { split_id: split } = plan(world);
    const cutover = beginCutover(world, split);
    say(world, cutover, "commit");
    endStep(world, cutover, FINAL);
    expect(types(world)).toEqual(["split.caught_up", "split.cut_over", "split.failed"]);
  });
});

describe("what there is to tell of a move", () => {
  test("is that it is complete", () => {
    const world = moveWorld();
    const move = planned(world);
    world.submit(startMove({ move }));
    workOff(world);
    expect(told(world)).toMatchObject([
      { type: "move.completed", data: { move_id: move, state: "COMPLETE", segments_total: 8 } },
    ]);
  });

  test("is which segment was set aside", () => {
    const world = moveWorld();
    const move = planned(world);
    workOff(world);
    world.submit(startMove({ move }));
    world.settle();
    for (const look of claimMoveSteps(world)) endMoveStep(world, look);
    const [first] = claimMoveSteps(world, 1);
    if (first === undefined) throw new Error("Nothing is copied.");
    endMoveStep(world, first, FINAL);
    expect(told(world)).toMatchObject([
      { type: "move.poisoned", data: { segment_index: first.step.index, segments_poisoned: 1 } },
    ]);
  });

  test("is that it paused by itself, and not that somebody paused it", () => {
    const world = moveWorld();
    const move = planned(world);
    for (const survey of claimMoveSteps(world, 1)) endMoveStep(world, survey, FINAL);
    expect(moveAt(world, move).state).toBe("PAUSED");
    const [paused] = told(world);
    expect(paused).toMatchObject({ type: "move.paused", data: { move_id: move } });
    expect(paused?.data["reason"]).toContain("failed: no luck");
    const other = planned(world);
    world.submit(pauseMove({ move: other }));
    expect(types(world)).toEqual(["move.paused"]);
  });
});
