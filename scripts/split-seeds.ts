/**
 * `node scripts/split-seeds.ts --seeds 1..3000`: takes splits between SQLite files through their
 * steps, with writes and crashes between all calls, as each seed draws them, and prints every
 * promise that was broken. `--seeds 7.. --minutes 5` goes on from a seed for that long.
 */
import { parseArgs } from "node:util";
import { runSplitSeed } from "../test/shards/splits-seed.ts";
import { runSeedCampaign, SEED_OPTIONS } from "./seed-campaign.ts";

const { values } = parseArgs({ options: SEED_OPTIONS });

await runSeedCampaign(values, {
  unit: "seeds of splits",
  again: "node scripts/split-seeds.ts",
  run: async (seed) => {
    const { violations, attempts, acknowledged } = await runSplitSeed(seed, null);
    return { problems: violations, counts: { attempts, "acknowledged writes": acknowledged } };
  },
});
