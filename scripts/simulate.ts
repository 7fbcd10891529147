/**
 * `node scripts/simulate.ts --seeds 1..1000`: simulates servers, workers and users under failures, one
 * simulation for each seed, and prints every promise that was broken. `--ledger` prints the events
 * as well, to look into one seed; with `--syncs` every simulation has syncs, with `--no-syncs` none.
 * `--seeds 7.. --minutes 5` goes on from a seed for that long.
 */
import { parseArgs } from "node:util";
import { simulate } from "../test/simulation/simulate.ts";
import { runSeedCampaign, SEED_OPTIONS } from "./seed-campaign.ts";

const { values } = parseArgs({
  options: { ...SEED_OPTIONS, ledger: { type: "boolean" }, syncs: { type: "boolean" } },
  allowNegative: true,
});
const { syncs } = values;
const flag = syncs === undefined ? "" : syncs ? " --syncs" : " --no-syncs";

await runSeedCampaign(values, {
  unit: "simulations",
  again: `node scripts/simulate.ts${flag}`,
  run: async (seed) => {
    const { ledger, violations } = await simulate(seed, syncs === undefined ? {} : { syncs });
    if (values.ledger === true) {
      for (const { pos, occurred_at, type, data } of ledger)
        console.log(pos, occurred_at, type, data);
    }
    const problems = violations.list.map(({ promise, what }) => `${promise} ${what}`);
    return { problems, counts: { events: ledger.length } };
  },
});
