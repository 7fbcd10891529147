import { expect, test } from "vitest";
import {
  bringOver,
  claimStep,
  endStep,
  plan,
  say,
  splitWorld,
} from "../../test/properties/split-world.ts";
import { rollbackSplit } from "../controllers/change-split.ts";
import type { RecordedEvent } from "../core/events/envelope.ts";
import { splitPhaseLine } from "./split-phase-line.ts";

test("a log has a line with fields for every phase that a split comes to", () => {
  const world = splitWorld();
  const { split_id } = plan(world);
  bringOver(world, split_id);
  world.submit(rollbackSplit({ split: split_id, reason: "too slow" }));
  world.settle();
  const cutback = claimStep(world);
  say(world, cutback, "commit");
  endStep(world, cutback);
  endStep(world, claimStep(world));
  const lines = world.events.flatMap((event) => {
    const recorded = { ...event, data: JSON.stringify(event.data) } as unknown as RecordedEvent;
    return splitPhaseLine(recorded) ?? [];
  });
  expect(lines.map(({ from_phase, phase }) => [from_phase, phase])).toEqual([
    [null, "planning"],
    ["planning", "dual_write"],
    ["dual_write", "backfill"],
    ["backfill", "tailing"],
    [null, "cutover_pending"],
    ["cutover_pending", "reversible"],
    ["reversible", "rolled_back"],
  ]);
  expect(new Set(lines.map((line) => line.split_id))).toEqual(new Set([split_id]));
  expect(lines.at(5)).toMatchObject({ routing_version: 2, changed_by: null });
  expect(lines[0]).toMatchObject({ state_version: 1, routing_version: 1 });
});
