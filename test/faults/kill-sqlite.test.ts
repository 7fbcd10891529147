import { killSuite } from "./kill-suite.ts";

killSuite("SQLite", { kills: 40, timeoutMs: 300_000 });
