import { freshDatabaseUrl } from "../postgres.ts";
import { automationSuite } from "./automation-suite.ts";

automationSuite("two servers with PostgreSQL", { kills: 7, databaseUrl: freshDatabaseUrl });
