import { NOTABLE_SEEDS, NOTABLE_SYNC_SEEDS } from "./notable-seeds.ts";
import { simulationSuite } from "./simulation-suite.ts";

simulationSuite("notable", NOTABLE_SEEDS, { syncs: false });
simulationSuite("notable, with syncs", NOTABLE_SYNC_SEEDS, { syncs: true });
