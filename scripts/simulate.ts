/**
 * `node scripts/simulate.ts --seeds 1..1000`: simulates servers, workers and users under failures, one
 * simulation for each seed, and tells of every promise that was broken. `--ledger` prints the events
 * as well, to look into one seed; with `--syncs` every simulation has syncs, with `--no-syncs` none.
 */
import { parseArgs } from "node:util";
import { simulate } from "../test/simulation/simulate.ts";

const { values } = parseArgs({
  options: {
    seeds: { type: "string", default: "1..100" },
    ledger: { type: "boolean" },
    syncs: { type: "boolean" },
  },
  allowNegative: true,
});
const [from = Number.NaN, to = from] = values.seeds.split("..").map(Number);
if (!Number.isSafeInteger(from) || !Number.isSafeInteger(to)) {
  console.error(`--seeds must be like 1..1000, not ${values.seeds}.`);
  process.exit(2);
}

let broken = 0;
let events = 0;
for (let seed = from; seed <= to; seed++) {
  const { ledger, violations } = await simulate(
    seed,
    values.syncs === undefined ? {} : { syncs: values.syncs },
  );
  events += ledger.length;
  if (values.ledger === true) {
    for (const { pos, occurred_at, type, data } of ledger)
      console.log(pos, occurred_at, type, data);
  }
  if (violations.count === 0) continue;
  broken += 1;
  console.log(`seed ${seed}: ${violations.count} broken; again: --seeds ${seed}..${seed}`);
  for (const { promise, what } of violations.list) console.log(`  ${promise} ${what}`);
}
console.log(`${to - from + 1} simulations, ${events} events, ${broken} broken`);
process.exitCode = broken === 0 ? 0 : 1;
