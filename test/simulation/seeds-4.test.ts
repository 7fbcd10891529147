import { seedsFrom, simulationSuite } from "./simulation-suite.ts";

simulationSuite("part 4 of 4", seedsFrom(2501, 3000));
