import { workerData } from "node:worker_threads";
import Database from "better-sqlite3";

// Runs in a thread of its own. The flag is 1 while a checkpoint is asked for or under way; a shared
// flag works even while the other thread never returns to its event loop.
const { path, flag } = workerData as { path: string; flag: Int32Array };
const database = new Database(path);
database.pragma("synchronous = full");
database.pragma("fullfsync = on");
database.pragma("checkpoint_fullfsync = on");

for (;;) {
  Atomics.wait(flag, 0, 0);
  // A passive checkpoint moves what it can and waits for nobody.
  database.pragma("wal_checkpoint(passive)");
  Atomics.store(flag, 0, 0);
}
