import { routerCases } from "./router-cases.ts";
import { sqliteStage } from "./router-stage.ts";

routerCases("SQLite", sqliteStage);
