/* What a service imports from "pawl/embedded". Every name is here on purpose, and stays once released. */

export { startPawl } from "./start-pawl.ts";

export type { EmbeddedPawl, PawlLog, PawlOptions } from "./start-pawl.ts";
