import { frozenSuite } from "./frozen-suite.ts";

frozenSuite("SQLite");
