import { splitSeeds } from "./splits-seed-suite.ts";

splitSeeds(151, 300);
