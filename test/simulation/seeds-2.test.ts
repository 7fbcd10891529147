import { seedsFrom, simulationSuite } from "./simulation-suite.ts";

simulationSuite("part 2 of 4", seedsFrom(1501, 2000));
