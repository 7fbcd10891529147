/**
 * `node scripts/split-seeds.ts --seeds 1..3000`: takes splits between SQLite files through their
 * steps, with writes and crashes between all calls, as each seed draws them, and tells of every
 * promise that was broken.
 */
import { parseArgs } from "node:util";
import { runSplitSeed } from "../test/shards/splits-seed.ts";

const { values } = parseArgs({ options: { seeds: { type: "string", default: "1..100" } } });
const [from = Number.NaN, to = from] = values.seeds.split("..").map(Number);
if (!Number.isSafeInteger(from) || !Number.isSafeInteger(to)) {
  console.error(`--seeds must be like 1..3000, not ${values.seeds}.`);
  process.exit(2);
}

let broken = 0;
const sums = { attempts: 0, acknowledged: 0 };
for (let seed = from; seed <= to; seed++) {
  const { violations, attempts, acknowledged } = await runSplitSeed(seed, null);
  sums.attempts += attempts;
  sums.acknowledged += acknowledged;
  if (violations.length === 0) continue;
  broken += 1;
  console.log(`seed ${seed}: again with --seeds ${seed}..${seed}`);
  for (const violation of violations) console.log(`  ${violation}`);
}
const { attempts, acknowledged } = sums;
console.log(
  `${to - from + 1} seeds, ${attempts} attempts, ${acknowledged} acknowledged writes, ${broken} broken`,
);
process.exitCode = broken === 0 ? 0 : 1;
