import { freshDatabaseUrl } from "../postgres.ts";
import { killSuite } from "./kill-suite.ts";

killSuite("PostgreSQL", { kills: 12, timeoutMs: 200_000, databaseUrl: freshDatabaseUrl });
