import { seedsFrom, simulationSuite } from "./simulation-suite.ts";

simulationSuite("part 4 of 4", seedsFrom(2051, 2400));
