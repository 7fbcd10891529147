import { automationSuite } from "./automation-suite.ts";

automationSuite("SQLite", { kills: 7 });
