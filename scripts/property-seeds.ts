/**
 * `node scripts/property-seeds.ts --seeds 1..20`: draws other cases for all properties than `npm test`
 * does, once for each seed, and prints what failed. `--seeds 7.. --minutes 5` goes on for that long.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { globSync, readFileSync } from "node:fs";
import { stripVTControlCharacters, parseArgs } from "node:util";
import { runSeedCampaign, SEED_OPTIONS } from "./seed-campaign.ts";

const { values } = parseArgs({ options: SEED_OPTIONS });
const files = globSync(["src/**/*.test.ts", "test/properties/*.test.ts"]).filter((file) =>
  readFileSync(file, "utf8").includes('from "fast-check"'),
);

/** Runs the tests under a seed; answers what they complain of. */
async function problemsUnder(seed: number): Promise<string[]> {
  const args = ["run", "--config", "vitest.fast.config.ts", ...files];
  const env = { ...process.env, PAWL_TEST_SEED: String(seed) };
  const child = spawn("node_modules/.bin/vitest", args, { env, stdio: ["ignore", "pipe", "pipe"] });
  let printed = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.on("data", (part: Buffer) => (printed += part.toString()));
  }
  const [code] = (await once(child, "close")) as [number | null];
  if (code === 0) return [];
  const lines = stripVTControlCharacters(printed).split("\n");
  const told = lines.filter((line) => /FAIL|Counterexample|seed:/.test(line));
  return told.length > 0 ? told.map((line) => line.trim()) : [`vitest ended with ${code}`];
}

await runSeedCampaign(values, {
  unit: "draws of all properties",
  again: "node scripts/property-seeds.ts",
  run: async (seed) => ({ problems: await problemsUnder(seed), counts: {} }),
});
