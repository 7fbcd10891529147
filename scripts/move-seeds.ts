/**
 * `node scripts/move-seeds.ts --seeds 1..1000`: moves rows between SQLite files, one random move under
 * random failures for each seed, and tells of every row that is not where it should be.
 */
import { parseArgs } from "node:util";
import { moveSeed } from "../test/shards/moves-seed.ts";

const { values } = parseArgs({ options: { seeds: { type: "string", default: "1..100" } } });
const [from = Number.NaN, to = from] = values.seeds.split("..").map(Number);
if (!Number.isSafeInteger(from) || !Number.isSafeInteger(to)) {
  console.error(`--seeds must be like 1..1000, not ${values.seeds}.`);
  process.exit(2);
}

let broken = 0;
for (let seed = from; seed <= to; seed++) {
  const problems = await moveSeed(seed).catch((error: unknown) => [
    error instanceof Error ? (error.stack ?? error.message) : String(error),
  ]);
  if (problems.length === 0) continue;
  broken += 1;
  console.log(`seed ${seed}: ${problems.length} broken; again: --seeds ${seed}..${seed}`);
  for (const problem of problems.slice(0, 10)) console.log(`  ${problem}`);
}
console.log(`${to - from + 1} moves, ${broken} broken`);
process.exitCode = broken === 0 ? 0 : 1;
