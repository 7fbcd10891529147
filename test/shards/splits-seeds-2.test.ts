import { splitSeeds } from "./splits-seed-suite.ts";

splitSeeds(61, 120);
