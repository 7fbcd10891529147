import { splitSeeds } from "./splits-seed-suite.ts";

splitSeeds(101, 200);
