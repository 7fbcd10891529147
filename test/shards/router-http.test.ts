import { routerCases } from "./router-cases.ts";
import { httpStage } from "./router-stage.ts";

routerCases("HTTP", httpStage);
