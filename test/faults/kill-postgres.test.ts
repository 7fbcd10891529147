import { freshDatabaseUrl } from "../postgres.ts";
import { killSuite } from "./kill-suite.ts";

killSuite("Two servers on PostgreSQL", {
  kills: 14,
  timeoutMs: 600_000,
  databaseUrl: freshDatabaseUrl,
});
