import { routerCases } from "./router-cases.ts";
import { postgresStage } from "./router-stage.ts";

routerCases("PostgreSQL", postgresStage);
