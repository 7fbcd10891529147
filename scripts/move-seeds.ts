/**
 * `node scripts/move-seeds.ts --seeds 1..1000`: moves rows between SQLite files, one random move under
 * random failures for each seed, and prints every row that is not where it should be.
 * `--seeds 7.. --minutes 5` goes on from a seed for that long.
 */
import { parseArgs } from "node:util";
import { moveSeed } from "../test/shards/moves-seed.ts";
import { runSeedCampaign, SEED_OPTIONS } from "./seed-campaign.ts";

const { values } = parseArgs({ options: SEED_OPTIONS });

await runSeedCampaign(values, {
  unit: "moves",
  again: "node scripts/move-seeds.ts",
  run: async (seed) => ({ problems: await moveSeed(seed), counts: {} }),
});
