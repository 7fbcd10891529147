import { killSuite } from "./kill-suite.ts";

killSuite("SQLite", { kills: 40, timeoutMs: 600_000 });
