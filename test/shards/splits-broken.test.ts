import { describe, expect, test } from "vitest";
import { combined, type Variant, VARIANTS } from "./broken-shards.ts";
import type { SplitPace } from "./splits-driver.ts";
import { runSplitSeed } from "./splits-seed.ts";

// Goal: the seeds see what they are there for. Method: break one rule, and look for what it breaks.

const SEEDS_MAX = 60;
/** Many writes while it is copied, and none afterwards that would write over what was lost. */
const IN_THE_COPY = { writeRate: 0.9, freezeAfter: "copy", cutoverRate: 0, killRate: 0 } as const;
/** Many writes while it is cut over. */
const IN_THE_CUTOVER = { cutoverRate: 0.8, killRate: 0 } as const;

/** The variant, with nobody who compares. */
const without = (variant: Variant): Variant => combined(variant, VARIANTS.NO_VERIFICATION);

/** What seeds of a variant find first, from this one on. */
async function firstFound(
  variant: Variant,
  from: number,
  pace: Partial<SplitPace>,
  finds: RegExp,
): Promise<string> {
  const others: string[] = [];
  for (let seed = from; seed < from + SEEDS_MAX; seed++) {
    const { violations } = await runSplitSeed(seed, variant, pace);
    const violation = violations.find((each) => finds.test(each));
    if (violation !== undefined) return violation;
    others.push(...violations);
  }
  return `nothing but ${others.join("; ")}`;
}

describe("broken splits between SQLite files", () => {
  // Each begins at a seed that is known to find it, as seeds are many and a day is short.
  test.each([
    { variant: VARIANTS.SKIPS_FAST_FORWARD, from: 3, finds: /VERIFICATION_FAILED/ },
    { variant: without(VARIANTS.SKIPS_FAST_FORWARD), from: 3, finds: /^I5[45]/ },
    { variant: VARIANTS.TWO_SNAPSHOTS, from: 6, pace: IN_THE_COPY, finds: /VERIFICATION_FAILED/ },
    { variant: without(VARIANTS.TWO_SNAPSHOTS), from: 6, pace: IN_THE_COPY, finds: /^I5[45]/ },
    { variant: VARIANTS.NO_WAITING, from: 1, pace: IN_THE_CUTOVER, finds: /^I5[45]/ },
    { variant: VARIANTS.STUCK_CURSOR, from: 3, finds: /goes on for ever/ },
    { variant: VARIANTS.NO_HOLD, from: 1, finds: /^I55/ },
    { variant: VARIANTS.OPENS_FIRST, from: 18, finds: /^I53/ },
    { variant: VARIANTS.NOT_FENCED, from: 1, finds: /^I57 a stale/ },
  ])("are found out: $variant.name", async ({ variant, from, pace = {}, finds }) => {
    expect(await firstFound(variant, from, pace, finds)).toMatch(finds);
  });
});
