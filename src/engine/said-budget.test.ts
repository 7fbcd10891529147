import { describe, expect, test } from "vitest";
import { CheckpointBudget, SAID_LIMITS } from "./said-budget.ts";

const LIMITS = { ...SAID_LIMITS, checkpointBytesMax: 100, checkpointsBytesMax: 1_000 };
const ref = { run_pos: 1, task_key: 0, attempt: 1 };
const exceeded = expect.objectContaining({ code: "QUOTA_EXCEEDED" });
const value = (bytes: number): string => "x".repeat(bytes - 2);

/** A budget of which the test says what is stored, and what time it is. */
function budgetOf(stored: Record<string, number> = {}) {
  const world = { stored, ms: 0, measured: 0 };
  const budget = new CheckpointBudget(
    LIMITS,
    async () => {
      world.measured++;
      return new Map(Object.entries(world.stored));
    },
    () => world.ms,
  );
  const checkpoint = (holder: string, bytes: number) =>
    budget.take(holder, [{ ...ref, value: value(bytes) }]);
  return { world, checkpoint };
}

describe("checkpoints", () => {
  test("I64: are refused when they are too large by themselves", async () => {
    const { checkpoint } = budgetOf();
    await checkpoint("t", 100);
    await expect(checkpoint("t", 101)).rejects.toEqual(exceeded);
  });

  test("I64: are refused when all of a token, or of all, are too large, until runs have ended", async () => {
    const { world, checkpoint } = budgetOf({ t: 450, u: 500 });
    await expect(checkpoint("t", 60)).rejects.toEqual(exceeded);
    await checkpoint("t", 50);
    await expect(checkpoint("v", 10)).rejects.toEqual(exceeded);
    world.stored = { t: 40 };
    world.ms += 1_000;
    await checkpoint("v", 10);
    await checkpoint("t", 60);
  });

  test("are measured again only to refuse, so that one written over is not counted twice", async () => {
    const { world, checkpoint } = budgetOf();
    for (let word = 0; word < 30; word++) {
      world.ms += 1_000;
      world.stored = { t: 100 };
      await checkpoint("t", 100);
    }
    expect(world.measured).toBeLessThan(12);
  });
});
