import { seedsFrom, simulationSuite } from "./simulation-suite.ts";

simulationSuite("part 3 of 4", seedsFrom(2001, 2500));
