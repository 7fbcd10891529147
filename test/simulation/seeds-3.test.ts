import { seedsFrom, simulationSuite } from "./simulation-suite.ts";

simulationSuite("part 3 of 4", seedsFrom(1301, 1450));
