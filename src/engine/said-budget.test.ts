import { describe, expect, test } from "vitest";
import { CheckpointBudget, SAID_LIMITS, type SaidLimits } from "./said-budget.ts";

const LIMITS = { ...SAID_LIMITS, checkpointBytesMax: 100, checkpointsBytesMax: 1_000 };
const exceeded = expect.objectContaining({ code: "QUOTA_EXCEEDED" });
const value = (bytes: number): string => "x".repeat(bytes - 2);

/** A budget of which the test says what is stored; time passes only where it is waited. */
function budgetOf(stored: Record<string, number> = {}, limits: Partial<SaidLimits> = {}) {
  const world = { stored, ms: 0, measured: 0 };
  const budget = new CheckpointBudget(
    { ...LIMITS, ...limits },
    {
      async measure() {
        world.measured++;
        return Object.entries(world.stored).map(([holder, bytes]) => {
          return { run_pos: 1, holder, bytes };
        });
      },
      elapsedMs: () => world.ms,
      async pause(ms) {
        world.ms += ms;
      },
    },
  );
  const checkpoint = (holder: string, bytes: number, run_pos = 1) =>
    budget.take(holder, [{ run_pos, task_key: 0, attempt: 1, value: value(bytes) }]);
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
    world.stored = { t: 500, u: 500 };
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

  test("I64: are refused when those of their run are too large, whoever has the others", async () => {
    const { checkpoint } = budgetOf({ t: 90, u: 100 }, { checkpointBytesRunMax: 200 });
    await checkpoint("v", 10);
    await expect(checkpoint("v", 20)).rejects.toEqual(exceeded);
    await checkpoint("v", 20, 2);
  });

  test("I64: are never refused for what was only written over, however often that was", async () => {
    const { world, checkpoint } = budgetOf({ t: 100 }, { checkpointBytesRunMax: 300 });
    for (let word = 0; word < 50; word++) await checkpoint("t", 100);
    expect(world.measured).toBeLessThan(50);
  });

  test("I64: that come at once share one measurement", async () => {
    const { world, checkpoint } = budgetOf({ t: 500 });
    const refused = Array.from({ length: 20 }, () => checkpoint("t", 10));
    const ends = await Promise.allSettled(refused);
    expect(ends.every(({ status }) => status === "rejected")).toBe(true);
    expect(world.measured).toBeLessThan(4);
  });
});
