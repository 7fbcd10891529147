import type { ClaimedSplit, SplitStep } from "../../src/work/shard/step-protocol.ts";
import { type SplitLimits, SPLIT_LIMITS } from "../../src/worker/steps/split/work.ts";
import { Random } from "../simulation/random.ts";
import type { Variant } from "./broken-shards.ts";
import { Application } from "./splits-application.ts";
import { type SplitPace, SplitDriver } from "./splits-driver.ts";

/** What a seed came to: what was broken, and how much went on. */
export type SeedOutcome = { violations: string[]; attempts: number; acknowledged: number };

const THERE: readonly SplitStep[] = ["arm", "copy", "tail", "cutover"];

/** What can become of a split. Each ends with somebody owning everything that was acknowledged. */
const PROGRAMS: readonly (readonly (readonly SplitStep[])[])[] = [
  [[...THERE, "reverse", "finish", "remove"]],
  [["check", ...THERE, "finish", "remove"]],
  [[...THERE, "reverse", "cutback", "discard"]],
  [[...THERE, "reverse", "cutback", "discard"], THERE],
  [
    ["arm", "copy", "discard"],
    [...THERE, "reverse"],
  ],
  [["arm", "copy", "tail", "discard"], THERE],
  [["check", "discard"], THERE],
  [["arm", "copy", "ddl", "tail", "cutover", "reverse", "ddl", "cutback", "discard"], THERE],
  [
    ["arm", "ddl", "discard"],
    ["arm", "ddl", "ddl", "copy", "tail", "cutover", "reverse"],
  ],
];

/** Runs splits as one seed draws them, but for what is given, with crashes between all calls. */
export async function runSplitSeed(
  seed: number,
  variant: Variant | null,
  given: Partial<SplitPace> = {},
): Promise<SeedOutcome> {
  const random = new Random(seed);
  const application = new Application(random.fork(), random.pick([3, 8, 20]));
  const pace = { ...drawPace(random), ...given };
  const driver = new SplitDriver(application, random.fork(), pace, variant);
  try {
    await driver.open();
    for (const [at, steps] of random.pick(PROGRAMS).entries()) {
      await driver.runSplit(`plan-${at}`, steps, drawLimits(random), drawTimes(random));
      if (driver.violations.length > 0) break;
    }
  } finally {
    await driver.close();
    application.close();
  }
  const { violations, attempts } = driver;
  return { violations, attempts, acknowledged: application.acknowledged };
}

/** Few rewrites, and often none soon after the copy: a busy key space writes its mistakes over. */
function drawPace(random: Random): SplitPace {
  return {
    writeRate: random.pick([0.02, 0.1, 0.4]),
    otherRate: random.pick([0, 0.05, 0.5]),
    killRate: random.pick([0, 0.01, 0.04]),
    lossRate: random.pick([0, 0.2]),
    freezeAfter: random.pick(["copy", "copy", "tail", null]),
    openRate: random.pick([0, 0, 0.3]),
    cutoverRate: random.pick([0, 0.3, 0.8]),
  };
}

function drawLimits(random: Random): SplitLimits {
  const chunkRows = random.pick([1, 2, 5, 200]);
  return {
    ...SPLIT_LIMITS,
    chunkRows,
    chunkRowsMin: 1,
    chunkRowsMax: random.pick([chunkRows, 50]),
    changesMax: random.pick([1, 2, 7, 1_000]),
    recheckMax: random.pick([5, 50, 1_000]),
    verifyRows: random.pick([1, 3, 1_000]),
    removeRows: random.pick([1, 4, 1_000]),
    sayEveryMs: random.pick([5, 40]),
    askAgainMs: 1,
  };
}

function drawTimes(random: Random): Pick<ClaimedSplit, "fence_wait_ms" | "fence_hold_ms"> {
  return { fence_wait_ms: random.pick([1, 1_000]), fence_hold_ms: random.pick([2, 20, 60_000]) };
}
