/** What every campaign of seeds takes: `--seeds 1..100`, or `--seeds 7.. --minutes 5` without an end. */
export const SEED_OPTIONS = {
  seeds: { type: "string", default: "1..100" },
  minutes: { type: "string", default: "Infinity" },
} as const;

/** What one seed came to: the promises it broke, and how much went on, by what was counted. */
export type SeedResult = { problems: readonly string[]; counts: Readonly<Record<string, number>> };

type SeedCampaign = {
  /** What a seed is one of, in the plural. */
  unit: string;
  /** The command that runs a seed again, without the seed. */
  again: string;
  run: (seed: number) => Promise<SeedResult>;
};

const PROBLEMS_SHOWN_MAX = 20;

/**
 * Runs seed after seed and prints each that breaks a promise, with the command that runs it again. The
 * last line says how many there were. Sets the exit code to 1 when one broke something.
 */
export async function runSeedCampaign(
  { seeds, minutes }: { seeds: string; minutes: string },
  { unit, again, run }: SeedCampaign,
): Promise<void> {
  const { from, to } = seedRange(seeds);
  const endsAt = performance.now() + Number(minutes) * 60_000;
  const sums: Record<string, number> = {};
  let done = 0;
  let broken = 0;
  for (let seed = from; seed <= to && performance.now() < endsAt; seed++) {
    const { problems, counts } = await run(seed).catch(thrown);
    for (const [name, count] of Object.entries(counts)) sums[name] = (sums[name] ?? 0) + count;
    done += 1;
    if (problems.length === 0) continue;
    broken += 1;
    console.log(
      `seed ${seed}: ${problems.length} broken; again: ${again} --seeds ${seed}..${seed}`,
    );
    for (const problem of problems.slice(0, PROBLEMS_SHOWN_MAX)) console.log(`  ${problem}`);
  }
  const counted = Object.entries(sums).map(([name, sum]) => `${sum} ${name}, `);
  console.log(`${done} ${unit}, ${counted.join("")}${broken} broken`);
  process.exitCode = broken === 0 ? 0 : 1;
}

function seedRange(seeds: string): { from: number; to: number } {
  const [, first = "", dots, last = ""] = /^(\d+)(?:(\.\.)(\d*))?$/.exec(seeds) ?? [];
  if (first === "") {
    console.error(`--seeds must be like 1..1000, 7 or 7.., not ${seeds}.`);
    process.exit(2);
  }
  const from = Number(first);
  if (dots === undefined) return { from, to: from };
  return { from, to: last === "" ? Number.POSITIVE_INFINITY : Number(last) };
}

function thrown(error: unknown): SeedResult {
  const what = error instanceof Error ? (error.stack ?? error.message) : String(error);
  return { problems: [what], counts: {} };
}
