import { seedsFrom, simulationSuite } from "./simulation-suite.ts";

simulationSuite("part 3 of 4", seedsFrom(1151, 1225));
