import { describe, expect, test } from "vitest";
import { ClaimPace } from "./task-slots.ts";

function paceAfter(finished: number, ms: number): ClaimPace {
  const pace = new ClaimPace(8, 0);
  for (let round = 1; round <= 10; round++) {
    for (let task = 0; task < finished; task++) pace.taskFinished();
    pace.claimed(round * ms);
  }
  return pace;
}

describe("ClaimPace", () => {
  test("holds nothing ahead while tasks take long", () => {
    expect(new ClaimPace(8, 0).wanted).toBe(8);
    expect(paceAfter(8, 60_000).wanted).toBe(8);
  });

  test("holds a tenth of a second ahead of short tasks, within a bound", () => {
    expect(paceAfter(50, 50).wanted).toBeGreaterThan(100);
    expect(paceAfter(50, 50).wanted).toBeLessThanOrEqual(108);
    expect(paceAfter(10_000, 10).wanted).toBe(1_008);
  });

  test("holds nothing ahead any more when tasks turn out to take longer", () => {
    const pace = paceAfter(50, 50);
    pace.slowDown();

    expect(pace.wanted).toBe(8);
  });
});
