/** What a store holds on disk. */
export type StoreSize = { rows: number; bytes: number };

/** How a contender did all jobs, from the first request to the last one recorded as done. */
export type Throughput = {
  perSecond: number;
  /** Most that its processes took, but for the one that asks for the jobs. */
  memoryBytes: number;
  /** Most that a server took that holds all jobs in memory; 0 without one. */
  serverMemoryBytes: number;
  /** What each job left behind. */
  perJob: StoreSize;
};

/** One that is measured. Each measurement begins with new processes on an empty store. */
export interface Contender {
  readonly name: string;
  readonly version: string;
  /** What it runs with, in words. */
  readonly settings: string;
  /** When the job of a dead worker runs again by its own account, such as "after 4 h". */
  readonly afterDeath: string;
  /** How long it keeps a job that is done. */
  readonly keeps: string;
  throughput(jobs: number): Promise<Throughput>;
  /** How many milliseconds each job waited from its request to its start; null: as another one. */
  latency: ((jobs: number, perSecond: number) => Promise<number[]>) | null;
  /** Milliseconds from the kill of a worker until its job runs again, or null if it did not. */
  recovery: (() => Promise<number | null>) | null;
}

/** Longer than the slowest contender needs for all jobs. */
export const THROUGHPUT_MS_MAX = 300_000;

/** How long a dead worker's job is waited for: BullMQ looks every 30 s, and looks three times. */
export const RECOVERY_MS_MAX = 90_000;

/** How long a worker has its job before it is killed: long enough for some heartbeats. */
export const HELD_BEFORE_KILL_MS = 5_000;
