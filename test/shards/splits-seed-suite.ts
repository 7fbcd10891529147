import { describe, expect, test } from "vitest";
import { runSplitSeed } from "./splits-seed.ts";

// Goal: whatever is killed, nothing is lost or doubled, on real files. Method: each seed draws
// tables' rows, writers, steps and crashes; `node scripts/split-seeds.ts` runs more of them.

const GROUP = 25;

/** Runs the seeds from one to another, both included. */
export function splitSeeds(from: number, to: number): void {
  const count = Math.ceil((to - from + 1) / GROUP);
  const groups = Array.from({ length: count }, (_, at) => from + at * GROUP);
  describe("splits between SQLite files", () => {
    test.each(groups)(
      "I53, I54, I55, I56, I57: hold under crashes between all calls, from seed %i",
      async (first) => {
        const broken: string[] = [];
        for (let seed = first; seed < first + GROUP && seed <= to; seed++) {
          const { violations } = await runSplitSeed(seed, null);
          broken.push(...violations.map((violation) => `seed ${seed}: ${violation}`));
        }
        expect(broken).toEqual([]);
      },
    );
  });
}
