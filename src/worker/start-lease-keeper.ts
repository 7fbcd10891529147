import { extname } from "node:path";
import { Worker as Thread } from "node:worker_threads";
import type { PostAddress } from "../client/http-post.ts";
import type { WorkerConnection } from "../client/worker-connection.ts";
import { PawlError } from "../kernel/errors.ts";
import type { Clock } from "./outbox.ts";
import {
  type KeptLease,
  type KeptLook,
  LeaseKeeper,
  type LeaseKeeping,
  type LeaseNews,
  type TaskProgress,
} from "./lease-keeper.ts";

/** What the thread is started with. */
export type KeeperStart = { address: PostAddress; workerId: string };

/** What the thread says: that it listens, and what there is to hear about tasks. */
export type KeeperNews = LeaseNews | { type: "ready" };

/** What the main thread says to the thread. */
export type KeeperCall =
  | { type: "hold"; lease: KeptLease }
  | { type: "hold look"; look: KeptLook }
  | { type: "settle"; ids: readonly number[] }
  | { type: "progress"; id: number; progress: TaskProgress | null };

/**
 * Starts to keep leases: in a thread, so that user code that blocks this one loses no lease; or on
 * this thread when the connection is one that only exists in memory.
 */
export function startLeaseKeeper(options: {
  connection: WorkerConnection;
  workerId: string;
  clock: Clock;
  random: () => number;
  tell: (news: LeaseNews) => void;
  /** Told when the thread ends by itself: leases are not kept any more. */
  fail: (error: PawlError) => void;
}): LeaseKeeping {
  const { connection, workerId, tell, fail } = options;
  if (connection.address === null) return new LeaseKeeper(options);

  const file = new URL(`./lease-keeper-thread${extname(import.meta.url)}`, import.meta.url);
  const start: KeeperStart = { address: connection.address, workerId };
  const thread = new Thread(file, { workerData: start, execArgv: [], name: "lease keeper" });
  let isClosed = false;
  const { promise: ready, resolve: becomeReady } = Promise.withResolvers<void>();
  thread.on("message", (news: KeeperNews) => {
    if (news.type === "ready") becomeReady();
    else tell(news);
  });
  thread.on("error", (cause) => {
    fail(
      new PawlError("INTERNAL", `Leases are not renewed any more: ${String(cause)}.`, { cause }),
    );
  });
  thread.on("exit", (code) => {
    if (isClosed) return;
    fail(new PawlError("INTERNAL", `Leases are not renewed any more: thread ended (${code}).`));
  });

  const call = (message: KeeperCall): void => {
    if (!isClosed) thread.postMessage(message, []);
  };
  return {
    ready,
    hold: (lease) => call({ type: "hold", lease }),
    holdLook: (look) => call({ type: "hold look", look }),
    settle: (ids) => call({ type: "settle", ids }),
    progress: (id, progress) => call({ type: "progress", id, progress }),
    close() {
      isClosed = true;
      void thread.terminate();
    },
  };
}
