import process from "node:process";
import { Worker } from "node:worker_threads";
import type { Connection } from "./connection.ts";

/** Pages in the log that are worth a checkpoint: 4 MB while commits go on, 400 kB in a pause. */
const BUSY_PAGES = 1_000;
const QUIET_PAGES = 100;

/** How often the log is looked at while commits go on, and how long a pause is. */
const LOOK_MS = 10;
const PAUSE_MS = 250;
/** How long an exit waits for a thread that has not loaded SQLite yet: some hundred times what it takes. */
const LOADED_MS_MAX = 2_000;

const THREAD_FILE = new URL(
  import.meta.url.endsWith(".ts") ? "./checkpoint-thread.ts" : "./checkpoint-thread.js",
  import.meta.url,
);

/** What the thread is started with; it says what the flag means. */
export type CheckpointThreadStart = { path: string; flag: Int32Array };

/**
 * Moves the write-ahead log into the database from a thread of its own, so that no commit pays for
 * it. Without the thread, SQLite's automatic checkpoint does the same, only less smoothly.
 */
export class Checkpointer {
  readonly #connection: Connection;
  readonly #path: string;
  readonly #flag = new Int32Array(new SharedArrayBuffer(8));
  #thread: { worker: Worker; ended: Promise<unknown> } | null = null;
  #lookedAt = 0;
  #pauseTimer: NodeJS.Timeout | null = null;

  constructor(connection: Connection, path: string) {
    this.#connection = connection;
    this.#path = path;
  }

  /** To be called after each commit. */
  committed(): void {
    this.#pauseTimer ??= setTimeout(() => this.#pause(), PAUSE_MS).unref();
    const now = performance.now();
    if (now - this.#lookedAt < LOOK_MS) return;
    this.#lookedAt = now;
    this.#checkpointFrom(BUSY_PAGES);
  }

  async close(): Promise<void> {
    if (this.#pauseTimer !== null) clearTimeout(this.#pauseTimer);
    this.#pauseTimer = null;
    this.#askToEnd();
    this.#thread?.worker.ref();
    await this.#thread?.ended;
  }

  /** It ends by itself: Node aborts the process when a thread is terminated that loads SQLite. */
  #askToEnd(): void {
    Atomics.store(this.#flag, 0, 2);
    Atomics.notify(this.#flag, 0);
  }

  /** The same at an exit that closes nothing, which terminates all threads. */
  #awaitLoaded = (): void => {
    this.#askToEnd();
    Atomics.wait(this.#flag, 1, 0, LOADED_MS_MAX);
  };

  #pause(): void {
    this.#pauseTimer = null;
    // The log can only be counted outside a transaction; the next commit sets the timer again.
    if (!this.#connection.inTransaction) this.#checkpointFrom(QUIET_PAGES);
  }

  #checkpointFrom(pages: number): void {
    const isIdle = Atomics.load(this.#flag, 0) === 0;
    if (!isIdle || this.#connection.pagesToCheckpoint() < pages) return;
    this.#thread ??= this.#start();
    Atomics.store(this.#flag, 0, 1);
    Atomics.notify(this.#flag, 0);
  }

  #start(): { worker: Worker; ended: Promise<unknown> } {
    const workerData: CheckpointThreadStart = { path: this.#path, flag: this.#flag };
    const worker = new Worker(THREAD_FILE, { workerData });
    const ended = new Promise((resolve) => worker.once("exit", resolve));
    // A thread that failed is asked no more.
    worker.on("error", () => Atomics.store(this.#flag, 0, 2));
    worker.once("exit", () => process.off("exit", this.#awaitLoaded));
    process.on("exit", this.#awaitLoaded);
    worker.unref();
    return { worker, ended };
  }
}
