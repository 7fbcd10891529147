import { NOTABLE_SEEDS } from "./notable-seeds.ts";
import { simulationSuite } from "./simulation-suite.ts";

simulationSuite("notable", NOTABLE_SEEDS);
