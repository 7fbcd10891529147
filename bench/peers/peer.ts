/** What is asked of a job: nothing, to say how long it waited, or to go on for ever. */
export type Job = {
  key: number;
  /** When it was asked for, by `machineMs`; only where its wait is measured. */
  sentMs?: number;
  isHeld?: boolean;
};

/** Does a job. */
export type Work = (job: Job) => void | Promise<void>;

/** The side of a queue that asks for jobs. */
export type PeerQueue = {
  /** Asks for jobs with the keys from `first` on; resolves when they are durable. */
  addMany(first: number, count: number): Promise<void>;
  addOne(job: Job): Promise<void>;
  /** How many jobs are not recorded as done. */
  countPending(): Promise<number>;
};

/**
 * A queue that a team would use instead. What it runs with is what its documentation advises for
 * many small jobs. Its package is loaded when it is started, as it is installed for this benchmark
 * only.
 */
export interface Peer {
  readonly name: string;
  /** Its package on npm. */
  readonly packageName: string;
  readonly server: "PostgreSQL" | "Redis";
  /** What it runs with, in words. */
  readonly settings: string;
  /** How many jobs one request adds. */
  readonly page: number;
  /** When the job of a dead worker runs again by its documentation, such as "after 4 h". */
  readonly afterDeath: string;
  /** How long it keeps a job that is done. */
  readonly keeps: string;
  /** Makes what it needs in its store and works from then on; the id is the same after a restart. */
  startWorker(url: string, id: number, work: Work): Promise<void>;
  openQueue(url: string): Promise<PeerQueue>;
}

/** Objects for a request that adds many jobs. */
export function jobsFrom(first: number, count: number): Job[] {
  return Array.from({ length: count }, (_, index) => ({ key: first + index }));
}
