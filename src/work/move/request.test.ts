import { describe, expect, test } from "vitest";
import { shardsSpec } from "../../../test/properties/split-world.ts";
import {
  claimMoveSteps,
  endMoveStep,
  loseMoveWorker,
  moveAt,
  moveWorld,
  planned,
} from "../../../test/properties/move-world.ts";
import { LOST_ATTEMPTS_MAX } from "../definition/spec.ts";
import { startMove } from "./commands.ts";

describe("the steps of a move", () => {
  test("may take as long as the shards say now, and are about the tables of the plan", () => {
    const world = moveWorld();
    const move = planned(world);
    for (const survey of claimMoveSteps(world)) {
      expect(survey.stall_after_ms).toBe(300_000);
      endMoveStep(world, survey);
    }
    const tables = [{ table: "others", shard_by: "tenant" }];
    world.publish(shardsSpec({ tables, stall_after_ms: 3_600_000 }));
    world.submit(startMove({ move }));
    // The rest of the surveys, and the look before the first copy.
    for (let round = 0; round < 2; round++) {
      for (const each of claimMoveSteps(world)) endMoveStep(world, each);
    }
    const [step] = claimMoveSteps(world, 1);
    expect(step).toMatchObject({ stall_after_ms: 3_600_000, step: { table: { table: "users" } } });
  });

  test("I78: set a segment aside that was lost with its worker too often in a row", () => {
    const world = moveWorld();
    const move = planned(world, { segment_attempts: 2 });
    for (let page = 0; page < 2; page++) {
      for (const survey of claimMoveSteps(world)) endMoveStep(world, survey);
    }
    world.submit(startMove({ move }));
    world.settle();
    for (const look of claimMoveSteps(world)) endMoveStep(world, look);
    const lose = () => {
      const [held] = claimMoveSteps(world, 1);
      if (held?.step.step !== "copy") throw new Error("There is no copy to lose.");
      loseMoveWorker(world, held);
      world.pass(300_000);
    };
    for (let lost = 1; lost < LOST_ATTEMPTS_MAX; lost++) lose();
    expect(world.moveSegments(move)[0]).toMatchObject({ state: "PENDING", failures: 0 });
    lose();
    expect(world.moveSegments(move)[0]).toMatchObject({
      state: "POISONED",
      error: { class: "lease-lost" },
    });
    expect(moveAt(world, move)).toMatchObject({ segments_poisoned: 1 });
  });
});
