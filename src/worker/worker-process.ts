import { enableCompileCache } from "node:module";

// What comes of reading our own sources is kept, as by the command line; it has to be asked for
// before they are read.
enableCompileCache();
await import("./worker-process-main.ts");
