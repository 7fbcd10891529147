/** Most blocks that are remembered; whoever forgets one only has to see it fail again. */
const REMEMBERED_MAX = 1_000;

type Lone = { syncId: string; block: number; failures: number; fetched: number };

/**
 * Blocks that failed where nothing beside them could be asked for, as in a segment of one block at
 * the head: whether it is the block or the source shows only from one attempt to the next.
 */
export class LoneFailures {
  /** Ranges of each sync that were fetched so far. */
  readonly #fetched = new Map<string, number>();
  readonly #blocks = new Map<string, Lone>();

  /** A range of a sync was fetched: its blocks are fine, and so is the source. */
  fetched(sync: string, syncId: string, from: number, to: number): void {
    this.#fetched.set(sync, (this.#fetched.get(sync) ?? 0) + 1);
    for (const [key, lone] of this.#blocks) {
      const isFetched = lone.syncId === syncId && from <= lone.block && lone.block <= to;
      if (isFetched) this.#blocks.delete(key);
    }
  }

  /**
   * The block failed once more. Answers how often it did, counting only failures between which
   * something else of the sync was fetched: one outage of the source is one failure.
   */
  failed(sync: string, syncId: string, block: number): number {
    const key = `${syncId}/${block}`;
    const before = this.#blocks.get(key);
    const fetched = this.#fetched.get(sync) ?? 0;
    if (before?.fetched === fetched) return before.failures;
    const failures = (before?.failures ?? 0) + 1;
    this.#blocks.delete(key);
    this.#blocks.set(key, { syncId, block, failures, fetched });
    for (const oldest of this.#blocks.keys()) {
      if (this.#blocks.size <= REMEMBERED_MAX) break;
      this.#blocks.delete(oldest);
    }
    return failures;
  }
}
