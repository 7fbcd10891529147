import { crashedSuite } from "./crashed-suite.ts";

crashedSuite("SQLite");
