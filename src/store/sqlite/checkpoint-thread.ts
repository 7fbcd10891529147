import { workerData } from "node:worker_threads";
import Database from "better-sqlite3";
import type { CheckpointThreadStart } from "./checkpointer.ts";

// Runs in a thread of its own. A shared flag works even while the other thread never returns to its
// event loop: 1 while a checkpoint is asked for or under way, 2 from when the thread is to end. A
// second one says that it may be ended in whatever way: SQLite is loaded, or will not be.
const { path, flag } = workerData as CheckpointThreadStart;

if (Atomics.load(flag, 0) !== 2) checkpointUntilEnd();
else sayLoaded();

function sayLoaded(): void {
  Atomics.store(flag, 1, 1);
  Atomics.notify(flag, 1);
}

function checkpointUntilEnd(): void {
  const database = new Database(path);
  sayLoaded();
  database.pragma("synchronous = full");
  database.pragma("fullfsync = on");
  database.pragma("checkpoint_fullfsync = on");

  for (;;) {
    Atomics.wait(flag, 0, 0);
    if (Atomics.load(flag, 0) === 2) break;
    // A passive checkpoint moves what it can and waits for nobody.
    database.pragma("wal_checkpoint(passive)");
    Atomics.compareExchange(flag, 0, 1, 0);
  }
  database.close();
}
