import { splitSeeds } from "./splits-seed-suite.ts";

splitSeeds(1, 150);
