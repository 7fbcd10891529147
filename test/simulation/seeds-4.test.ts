import { seedsFrom, simulationSuite } from "./simulation-suite.ts";

simulationSuite("part 4 of 4", seedsFrom(1226, 1300));
