import { freshDatabaseUrl } from "../postgres.ts";
import { liveSplits } from "./live/live-suite.ts";

const LOAD = { writesPerSecond: 300, repeatableRead: 0.25, long: 0.005, longMs: 400 };

liveSplits("PostgreSQL", async () => [await freshDatabaseUrl(), await freshDatabaseUrl()], LOAD);
