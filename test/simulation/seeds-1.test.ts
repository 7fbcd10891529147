import { seedsFrom, simulationSuite } from "./simulation-suite.ts";

simulationSuite("part 1 of 4", seedsFrom(1001, 1500));
