import { liveSplits } from "./live/live-suite.ts";

liveSplits("SQLite", () => Promise.resolve(undefined), { writesPerSecond: 200 });
