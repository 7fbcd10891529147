import { freshDatabaseUrl } from "../postgres.ts";
import { frozenSuite } from "./frozen-suite.ts";

frozenSuite("PostgreSQL", { databaseUrl: freshDatabaseUrl, beside: true });
