import { freshDatabaseUrl } from "../postgres.ts";
import { crashedSuite } from "./crashed-suite.ts";

crashedSuite("PostgreSQL", { databaseUrl: freshDatabaseUrl }, ["exits"]);
