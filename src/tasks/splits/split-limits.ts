/** How much a step on a split takes at once. */
export type SplitLimits = {
  /** Rows of the first chunk, of the smallest and of the greatest. */
  readonly chunkRows: number;
  readonly chunkRowsMin: number;
  readonly chunkRowsMax: number;
  /** Bytes that a chunk should not be much greater than. */
  readonly chunkBytes: number;
  /** How long reading and writing a chunk should take. */
  readonly chunkMs: number;
  /** Changes that are read at once. */
  readonly changesMax: number;
  /** Changes that are read once more to compare them, before the whole is compared again. */
  readonly recheckMax: number;
  /** Rows of a range that is compared. */
  readonly verifyRows: number;
  /** Rows that are deleted in one transaction. */
  readonly removeRows: number;
  /** How often a step says how far it is. */
  readonly sayEveryMs: number;
  /** How long a tail waits when there is nothing to do, at first and at most. */
  readonly idleMs: number;
  readonly idleMsMax: number;
  /** How long until a server is asked again what became of a commit record. */
  readonly askAgainMs: number;
};

/** What steps take when nobody says otherwise. */
export const SPLIT_LIMITS: SplitLimits = Object.freeze({
  chunkRows: 200,
  chunkRowsMin: 50,
  chunkRowsMax: 50_000,
  chunkBytes: 16_000_000,
  chunkMs: 100,
  changesMax: 5_000,
  recheckMax: 50_000,
  verifyRows: 50_000,
  removeRows: 5_000,
  sayEveryMs: 1_000,
  idleMs: 10,
  idleMsMax: 200,
  askAgainMs: 200,
});
