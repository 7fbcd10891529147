import { afterEach, describe, expect, test, vi } from "vitest";
import { simulate } from "./simulate.ts";

// Goal: the checkers see what they are there for. Method: break one rule of the real system, and look
// for the promise it breaks.

const broken = vi.hoisted(() => ({
  variant: "sound" as "sound" | "judges nobody" | "wakes nobody",
}));

vi.mock(import("../../src/work/requires/judge.ts"), async (importOriginal) => {
  const original = await importOriginal();
  return {
    ...original,
    judgeTasks: (rows, assetKey, tasks, context, looksMax) => {
      if (broken.variant === "judges nobody") {
        return { requires: null, judgements: tasks.map(() => null), looked: 0 };
      }
      return original.judgeTasks(rows, assetKey, tasks, context, looksMax);
    },
  };
});

vi.mock(import("../../src/work/requires/note-made.ts"), async (importOriginal) => {
  const original = await importOriginal();
  return {
    ...original,
    noteMade: (...made) => {
      if (broken.variant !== "wakes nobody") original.noteMade(...made);
    },
  };
});

/** Whether one of some simulations finds the promise broken; `first` is a seed that is known to find it. */
async function isFound(promise: string, first: number): Promise<boolean> {
  for (let seed = first; seed < first + 120; seed++) {
    const { violations } = await simulate(seed);
    if (violations.list.some((violation) => violation.promise === promise)) return true;
  }
  return false;
}

afterEach(() => {
  broken.variant = "sound";
});

describe("the checkers find", () => {
  test("a claim that does not look at what is required: I105", async () => {
    broken.variant = "judges nobody";
    expect(await isFound("I105", 9_300_041)).toBe(true);
  });

  test("a fold that forgets what was made for those that wait: I106", async () => {
    broken.variant = "wakes nobody";
    expect(await isFound("I106", 9_300_042)).toBe(true);
  });
});
