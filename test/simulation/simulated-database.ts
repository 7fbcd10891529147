import { sourceUnavailable } from "../../src/define/errors.ts";
import type { Random } from "./random.ts";
import type { BlockRow } from "./simulated-chain.ts";

/** One transaction of somebody who keeps a copy of a chain. */
export type Stored = {
  syncId: string;
  /** Blocks whose rows are deleted first. */
  undo: { from: number; to: number } | null;
  rows: readonly BlockRow[];
  fence: Fence;
};

/** Who stores: a process that stood still may wake up long after others took its place. */
export type Fence = { segment: number; generation: number; attempt: number };

/** The rows of one sync, as transactions leave them: hashes of forks by block. */
export class StoredRows {
  readonly #hashes = new Map<number, Set<string>>();

  /** Deletes what is void and adds what is new; what is there already stays as it is. */
  apply({ undo, rows }: Stored): void {
    if (undo !== null) {
      for (const block of this.#hashes.keys()) {
        if (block >= undo.from && block <= undo.to) this.#hashes.delete(block);
      }
    }
    for (const { block, hash } of rows) {
      const hashes = this.#hashes.get(block) ?? new Set();
      this.#hashes.set(block, hashes.add(hash));
    }
  }

  /** The forks of which there is a row for the block. */
  at(block: number): readonly string[] {
    return [...(this.#hashes.get(block) ?? [])];
  }
}

/**
 * The database of a user, keyed by sync, block and hash, so that storing twice is storing once.
 * Every transaction is kept in order, to be compared with the ledger.
 */
export class SimulatedDatabase {
  readonly log: Stored[] = [];
  /** The newest attempt at each segment that has stored anything. */
  readonly #fences = new Map<string, Fence>();
  readonly #random: Random;
  readonly #isCalm: () => boolean;

  constructor(random: Random, isCalm: () => boolean) {
    this.#random = random;
    this.#isCalm = isCalm;
  }

  /**
   * One transaction; it may fail, and fail although it was committed. It is refused when a later
   * attempt at the segment has stored something.
   */
  store(transaction: Stored): void {
    this.#mayFail();
    const { fence, syncId } = transaction;
    const key = `${syncId} ${fence.segment}`;
    const last = this.#fences.get(key);
    if (last !== undefined && isLater(last, fence)) throw new Error("somebody else is at it");
    this.#fences.set(key, fence);
    this.log.push(transaction);
    this.#mayFail();
  }

  /** The rows of a sync as they are now. */
  rowsOf(syncId: string): StoredRows {
    const rows = new StoredRows();
    for (const stored of this.log) if (stored.syncId === syncId) rows.apply(stored);
    return rows;
  }

  #mayFail(): void {
    if (this.#isCalm() || !this.#random.chance(0.02)) return;
    throw sourceUnavailable("the database went away");
  }
}

function isLater(one: Fence, other: Fence): boolean {
  if (one.generation !== other.generation) return one.generation > other.generation;
  return one.attempt > other.attempt;
}
