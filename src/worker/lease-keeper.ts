import { extname } from "node:path";
import { Worker as Thread } from "node:worker_threads";
import type { PostAddress } from "../client/http-post.ts";
import type { WorkerConnection } from "../client/worker-connection.ts";
import { type ErrorCode, PawlError } from "../kernel/errors.ts";
import {
  type HeartbeatAnswer,
  type HeartbeatRequest,
  type LookRef,
  MESSAGE_ITEMS_MAX,
  type TaskRef,
} from "../work/run/protocol.ts";
import { backoffMs, type Clock } from "./outbox.ts";

/** How far a task got, by its own word. */
export type TaskProgress = { done: number; total: number | null; note: string | null };

/** A task under a lease, as far as renewing it is concerned. `id` is this process's own number. */
export type KeptTask = { id: number; ref: TaskRef; timeoutMs: number; stallAfterMs: number | null };

/** A look under a lease of its own: an evaluation of a sensor, or a look at a head. */
export type KeptLook = { id: number; look: LookRef; ttlMs: number; timeoutMs: number };

/** What one claim gave. Unless fresh it may have been granted long ago and is renewed at once. */
export type KeptLease = {
  leaseId: string;
  ttlMs: number;
  isFresh: boolean;
  tasks: readonly KeptTask[];
};

/** What a worker must hear about its tasks. */
export type LeaseNews =
  | { type: "lost"; ids: readonly number[] }
  | { type: "cancelled"; ids: readonly number[] }
  /** Two thirds of the lease passed without a renewal that was confirmed. */
  | { type: "unconfirmed"; ids: readonly number[] }
  /** The server does not want this worker. */
  | { type: "refused"; code: ErrorCode; message: string };

/** Keeps leases alive until their tasks are settled, here or in a thread of its own. */
export interface LeaseKeeping {
  /** Resolves once what is held is renewed, whatever this thread does; before that no task may start. */
  readonly ready: Promise<void>;
  hold(lease: KeptLease): void;
  /** Keeps a look as a task is kept; it is settled by its id too. */
  holdLook(look: KeptLook): void;
  /** These tasks have been reported, or nobody waits for them any more. */
  settle(ids: readonly number[]): void;
  /** The task is getting on; null when it did not say how far. */
  progress(id: number, progress: TaskProgress | null): void;
  close(): void;
}

type LeaseState = {
  leaseId: string;
  /** The look that the lease is for; null where it is for tasks. */
  look: LookRef | null;
  ttlMs: number;
  /** When the request was sent that was last answered with a renewal. */
  confirmedAt: number;
  tasks: Map<number, TaskState>;
};

type TaskState = {
  kept: Omit<KeptTask, "ref"> & { ref: TaskRef | null };
  lease: LeaseState;
  heldAt: number;
  progressAt: number;
  progress: TaskProgress | null;
};

/** How soon new progress is sent, when the renewal is not due yet. */
const PROGRESS_MS = 1_000;
/**
 * How long beyond its timeout a task is renewed: time for the worker to abort it and report. A
 * process that is blocked for longer loses the lease, however well this keeper is.
 */
const OVERTIME_MS = 30_000;

/**
 * Renews leases every third of their life. A lease that is settled sooner causes no traffic. At two
 * thirds without a confirmed renewal it says so and lets go, well before the server can give the
 * tasks to somebody else.
 */
export class LeaseKeeper implements LeaseKeeping {
  readonly ready: Promise<void> = Promise.resolve();
  readonly #connection: Pick<WorkerConnection, "heartbeat">;
  readonly #workerId: string;
  readonly #clock: Clock;
  readonly #random: () => number;
  readonly #tell: (news: LeaseNews) => void;
  readonly #leases = new Map<string, LeaseState>();
  readonly #tasks = new Map<number, TaskState>();
  readonly #progressed = new Set<number>();
  #wakeAt = Number.POSITIVE_INFINITY;
  #callOff: (() => void) | null = null;
  #failures = 0;
  /** No heartbeat before this: one is on its way, or the last one failed. */
  #quietUntil = Number.NEGATIVE_INFINITY;
  #sentAt = Number.NEGATIVE_INFINITY;
  #isClosed = false;

  constructor(options: {
    connection: Pick<WorkerConnection, "heartbeat">;
    workerId: string;
    clock: Clock;
    random: () => number;
    tell: (news: LeaseNews) => void;
  }) {
    this.#connection = options.connection;
    this.#workerId = options.workerId;
    this.#clock = options.clock;
    this.#random = options.random;
    this.#tell = options.tell;
  }

  hold({ leaseId, ttlMs, isFresh, tasks }: KeptLease): void {
    const now = this.#clock.now();
    const confirmedAt = isFresh ? now : now - ttlMs / 3;
    this.#keep({ leaseId, look: null, ttlMs, confirmedAt, tasks: new Map() }, tasks);
  }

  holdLook({ id, look, ttlMs, timeoutMs }: KeptLook): void {
    const leaseId = `look ${id}`;
    const confirmedAt = this.#clock.now();
    const lease = { leaseId, look, ttlMs, confirmedAt, tasks: new Map() };
    this.#keep(lease, [{ id, ref: null, timeoutMs, stallAfterMs: null }]);
  }

  settle(ids: readonly number[]): void {
    for (const id of ids) {
      const task = this.#tasks.get(id);
      if (task === undefined) continue;
      this.#tasks.delete(id);
      this.#progressed.delete(id);
      task.lease.tasks.delete(id);
      if (task.lease.tasks.size === 0) this.#leases.delete(task.lease.leaseId);
    }
  }

  progress(id: number, progress: TaskProgress | null): void {
    const task = this.#tasks.get(id);
    if (task === undefined) return;
    task.progressAt = this.#clock.now();
    if (progress === null) return;
    task.progress = progress;
    this.#progressed.add(id);
    this.#wakeBy(Math.max(this.#sentAt + PROGRESS_MS, this.#quietUntil));
  }

  close(): void {
    this.#isClosed = true;
    this.#callOff?.();
    this.#leases.clear();
    this.#tasks.clear();
  }

  #keep(lease: LeaseState, tasks: readonly TaskState["kept"][]): void {
    const now = this.#clock.now();
    for (const kept of tasks) {
      const task = { kept, lease, heldAt: now, progressAt: now, progress: null };
      lease.tasks.set(kept.id, task);
      this.#tasks.set(kept.id, task);
    }
    this.#leases.set(lease.leaseId, lease);
    this.#wakeBy(lease.confirmedAt + lease.ttlMs / 3);
  }

  #wakeBy(at: number): void {
    if (at >= this.#wakeAt || this.#isClosed) return;
    this.#callOff?.();
    this.#wakeAt = at;
    this.#callOff = this.#clock.after(Math.max(0, at - this.#clock.now()), () => this.#wake());
  }

  #wake(): void {
    this.#wakeAt = Number.POSITIVE_INFINITY;
    this.#callOff = null;
    const now = this.#clock.now();
    this.#letGo(now);
    if (now >= this.#quietUntil && this.#isDue(now)) this.#beat(now);

    for (const lease of this.#leases.values()) {
      const due = Math.max(lease.confirmedAt + lease.ttlMs / 3, this.#quietUntil);
      this.#wakeBy(Math.min(due, lease.confirmedAt + (lease.ttlMs * 2) / 3));
    }
    if (this.#progressed.size > 0) {
      this.#wakeBy(Math.max(this.#sentAt + PROGRESS_MS, this.#quietUntil));
    }
  }

  /** Forgets leases that were not confirmed in time, and tasks that no worker can still be doing. */
  #letGo(now: number): void {
    for (const lease of this.#leases.values()) {
      if (now >= lease.confirmedAt + (lease.ttlMs * 2) / 3) {
        const ids = [...lease.tasks.keys()];
        this.settle(ids);
        this.#tell({ type: "unconfirmed", ids });
        continue;
      }
      for (const { kept, heldAt, progressAt } of lease.tasks.values()) {
        const stallsAt = progressAt + (kept.stallAfterMs ?? Number.POSITIVE_INFINITY);
        if (now >= Math.min(heldAt + kept.timeoutMs, stallsAt) + OVERTIME_MS)
          this.settle([kept.id]);
      }
    }
  }

  #isDue(now: number): boolean {
    if (this.#progressed.size > 0 && now >= this.#sentAt + PROGRESS_MS) return true;
    for (const { confirmedAt, ttlMs } of this.#leases.values()) {
      if (now >= confirmedAt + ttlMs / 3) return true;
    }
    return false;
  }

  #beat(now: number): void {
    this.#sentAt = now;
    // Leases that are due before long go with those that are due now.
    const leases = [...this.#leases.values()].filter(
      ({ confirmedAt, ttlMs }) => now >= confirmedAt + ttlMs / 6,
    );
    const tasks = new Map<number, TaskState>();
    let asked: LeaseState[] = [];
    for (const lease of leases) {
      if (tasks.size + lease.tasks.size > MESSAGE_ITEMS_MAX && asked.length > 0) {
        void this.#send(asked, [...tasks.values()], now);
        asked = [];
        tasks.clear();
      }
      asked.push(lease);
      for (const [id, task] of lease.tasks) tasks.set(id, task);
    }
    for (const id of this.#progressed) {
      const task = this.#tasks.get(id);
      if (task !== undefined && tasks.size < MESSAGE_ITEMS_MAX) tasks.set(id, task);
    }
    void this.#send(asked, [...tasks.values()], now);
  }

  async #send(leases: LeaseState[], tasks: readonly TaskState[], now: number): Promise<void> {
    const ttlMs = Math.min(...leases.map((lease) => lease.ttlMs), 15_000);
    // An answer that takes half the time there is until two thirds is as good as lost: ask again.
    this.#quietUntil = now + ttlMs / 6;
    try {
      const answer = await this.#connection.heartbeat(this.#requestOf(leases, tasks));
      if (this.#isClosed) return;
      this.#failures = 0;
      this.#quietUntil = this.#clock.now();
      this.#take(answer, leases, tasks, now);
    } catch (error) {
      if (this.#isClosed) return;
      this.#failures++;
      this.#quietUntil = this.#clock.now() + backoffMs(this.#failures, this.#random, ttlMs / 15);
      if (error instanceof PawlError && !error.retryable) {
        this.#tell({ type: "refused", code: error.code, message: error.message });
      }
    }
    this.#wakeBy(this.#quietUntil);
  }

  #requestOf(leases: readonly LeaseState[], tasks: readonly TaskState[]): HeartbeatRequest {
    for (const { kept } of tasks) this.#progressed.delete(kept.id);
    const looks = leases.flatMap(({ look }) => (look === null ? [] : [look]));
    return {
      worker_id: this.#workerId,
      leases: leases.flatMap(({ leaseId, look }) => (look === null ? [leaseId] : [])),
      tasks: tasks.flatMap(({ kept: { ref }, progress }) => {
        if (ref === null) return [];
        return progress === null ? [ref] : [{ ...ref, progress }];
      }),
      ...(looks.length === 0 ? {} : { looks }),
    };
  }

  #take(
    answer: HeartbeatAnswer,
    leases: readonly LeaseState[],
    tasks: readonly TaskState[],
    sentAt: number,
  ): void {
    const renewed = new Set(answer.renewed);
    const lost = new Set(answer.lost.map(fenceOf));
    const lostLooks = new Set(answer.lost_looks?.map(lookText));
    const cancelled = new Set(answer.cancelled.map(fenceOf));
    const gone = new Set<LeaseState>();
    for (const lease of leases) {
      const { leaseId, look } = lease;
      if (look === null ? renewed.has(leaseId) : !lostLooks.has(lookText(look))) {
        lease.confirmedAt = Math.max(lease.confirmedAt, sentAt);
        lease.ttlMs = answer.ttl_ms;
      } else gone.add(lease);
    }
    const open = tasks.filter(({ kept }) => this.#tasks.has(kept.id));
    const isIn = ({ kept: { ref } }: TaskState, fences: ReadonlySet<string>): boolean =>
      fences.size > 0 && ref !== null && fences.has(fenceOf(ref));
    const lostIds = open
      .filter((task) => gone.has(task.lease) || isIn(task, lost))
      .map(({ kept }) => kept.id);
    const cancelledIds = open.filter((task) => isIn(task, cancelled)).map(({ kept }) => kept.id);
    if (lostIds.length > 0) {
      this.settle(lostIds);
      this.#tell({ type: "lost", ids: lostIds });
    }
    if (cancelledIds.length > 0) this.#tell({ type: "cancelled", ids: cancelledIds });
  }
}

function lookText({ probe_id, attempt }: LookRef): string {
  return `${attempt} ${probe_id}`;
}

function fenceOf({ run_pos, task_key, attempt }: TaskRef): string {
  return `${run_pos}:${task_key}:${attempt}`;
}

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
