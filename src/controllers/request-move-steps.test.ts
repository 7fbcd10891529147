import { describe, expect, test } from "vitest";
import { shardsSpec } from "../../test/properties/split-world.ts";
import {
  claimMoveSteps,
  endMoveStep,
  moveWorld,
  planned,
} from "../../test/properties/move-world.ts";
import { startMove } from "./change-move.ts";

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
    for (const survey of claimMoveSteps(world)) endMoveStep(world, survey);
    const [step] = claimMoveSteps(world, 1);
    expect(step).toMatchObject({ stall_after_ms: 3_600_000, step: { table: { table: "users" } } });
  });
});
