import { expect } from "vitest";
import { type KillReport, runKillRound, type KillOptions } from "./kill-rounds.ts";

/** Kills, and holds what is left to the promises. */
export async function expectSurvived(options: KillOptions): Promise<KillReport> {
  const report = await runKillRound(options);
  expect(report.mismatches).toEqual([]);
  expect(report.said.staleReads).toEqual([]);
  expect(report.leftovers).toEqual([]);
  expect(report.complaints).toEqual([]);
  const reached = report.splits.filter(({ isReached }) => isReached);
  console.log(`${options.victim}: killed at ${reached.length} of ${report.splits.length} points`);
  expect(reached.length).toBeGreaterThan(report.splits.length / 2);
  const wrong = reached.filter(({ split, goal }) => {
    return split.phase !== (goal === "ahead" ? "completed" : "rolled_back");
  });
  expect(wrong.map(({ point, split }) => `${point.name}: ${split.phase}`)).toEqual([]);
  // Once for each direction, and nothing else has moved anybody.
  const directions = report.cutovers.map(({ split_id, direction }) => `${split_id} ${direction}`);
  expect(new Set(directions).size).toBe(directions.length);
  expect(report.versions).toEqual(report.versions.map((_, at) => at + 1));
  expect(report.versions).toHaveLength(1 + directions.length);
  return report;
}
