import { describe, expect, test } from "vitest";
import { SaidBudget } from "./said-budget.ts";

const LIMITS = { checkpointBytesMax: 100, checkpointsBytesMax: 1_000, logBytesHourlyMax: 1_000 };
const ref = { run_pos: 1, task_key: 0, attempt: 1 };
const exceeded = expect.objectContaining({ code: "QUOTA_EXCEEDED" });
const overloaded = expect.objectContaining({ code: "OVERLOADED" });
const value = (bytes: number): string => "x".repeat(bytes - 2);

/** A budget of which the test says what is stored, and what time it is. */
function budgetOf(stored: Record<string, number> = {}) {
  const world = { stored, ms: 0, measured: 0 };
  const budget = new SaidBudget(
    LIMITS,
    async () => {
      world.measured++;
      return new Map(Object.entries(world.stored));
    },
    () => world.ms,
  );
  const checkpoint = (holder: string, bytes: number) =>
    budget.takeCheckpoints(holder, [{ ...ref, value: value(bytes) }]);
  const log = (holder: string, bytes: number) =>
    budget.takeLogs(holder, [{ ...ref, message: "x".repeat(bytes - 4), fields: null }]);
  return { world, budget, checkpoint, log };
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

describe("log lines", () => {
  test("I64: are refused when their fields are too large", () => {
    const { budget } = budgetOf();
    const line = { ...ref, message: "m", fields: value(70_000) };
    expect(() => budget.takeLogs("t", [line])).toThrow(exceeded);
  });

  test("I64: are bounded by the hour, for a token and for all", () => {
    const { world, log } = budgetOf();
    log("t", 500);
    expect(() => log("t", 10)).toThrow(overloaded);
    log("u", 490);
    expect(() => log("v", 20)).toThrow(overloaded);
    world.ms += 3_600_000;
    log("t", 10);
  });
});
