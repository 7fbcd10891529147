import type { PawlError } from "../../kernel/errors.ts";

/** How a write in PostgreSQL is kept apart from others; the database's own default unless given. */
export type Isolation = "read committed" | "repeatable read" | "serializable";

/** Whose rows a transaction is about, and the epoch of the route that led here. */
export type Entry = {
  readonly tenant: string;
  readonly epoch: number;
  readonly isolation: Isolation | null;
};

/** What an application does in a transaction; the handle depends on the shard. */
export type Work = (handle: never) => unknown;

/** One shard as the router uses it: transactions whose epoch the shard has checked. */
export interface RoutedShard {
  /**
   * Enters, runs the work and commits. Throws `Refusal` only when the transaction is known to be
   * rolled back and the shard refused it; else what the work threw, or `COMMIT_UNKNOWN`.
   */
  write(entry: Entry, work: Work): Promise<unknown>;
  /** Runs the work on one snapshot in which the epoch was checked. */
  read(entry: Entry, work: Work): Promise<unknown>;
  /** Ends what the router itself has opened. */
  close(): Promise<void>;
}

/** The shard did not let a transaction in, and nothing of it has happened: it may be tried again. */
export class Refusal extends Error {
  readonly refusal: PawlError;

  constructor(refusal: PawlError) {
    super(refusal.message, { cause: refusal });
    this.refusal = refusal;
  }
}
