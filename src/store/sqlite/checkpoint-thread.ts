import { parentPort, workerData } from "node:worker_threads";
import Database from "better-sqlite3";
import { present } from "../../core/assert.ts";

// Runs in a thread of its own: one passive checkpoint, which waits for nobody, per message.
const port = present(parentPort, "this file runs in a thread");
const database = new Database(String(workerData));
database.pragma("synchronous = full");
database.pragma("fullfsync = on");
database.pragma("checkpoint_fullfsync = on");

port.on("message", () => {
  database.pragma("wal_checkpoint(passive)");
  port.postMessage("done");
});
