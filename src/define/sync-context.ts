import type { Json } from "../core/canonical.ts";
import type { SyncTarget } from "../core/sync-spec.ts";
import type { AbortSignalLike } from "./task-context.ts";

/** The blocks that one call is about, both ends included. */
export interface SyncRange {
  readonly from: number;
  readonly to: number;
  /**
   * Blocks whose rows are void, as the source rewrote them or somebody had them fetched again: to be
   * deleted in the transaction that stores the new ones. Reaches from `from` to the segment's end.
   */
  readonly undo: { readonly from: number; readonly to: number } | null;
  /** Whether the blocks are new ones at the head, not history. */
  readonly isLive: boolean;
}

/** What a function about a source is told. */
export interface SourceContext {
  readonly sync: string;
  readonly source: string;
  /** The target; where only the source matters, any of its targets. */
  readonly target: SyncTarget;
  /** Aborted when the work is no longer wanted, takes too long or belongs to somebody else. */
  readonly signal: AbortSignalLike;
  /**
   * Waits until the source may be asked once more. The call itself has had its turn; a function that
   * makes several requests to the source takes one before each of the others.
   */
  readonly turn: () => Promise<void>;
  readonly log: (message: string, fields?: Readonly<Record<string, Json>>) => void;
}

/** What `fetch` and `verify` are told, and what `fetch` can say while it runs. */
export interface SyncContext extends SourceContext {
  readonly syncId: string;
  readonly segment: {
    readonly index: number;
    readonly from: number;
    readonly to: number;
    readonly generation: number;
  };
  /** Counts from 1; grows by 1 each time the segment is tried again. */
  readonly attempt: number;
  /**
   * Says that everything up to this block is stored, and keeps that durably: the next attempt goes on
   * behind it. A call that returns without having said anything has stored its whole range; one that
   * said less is called again for the rest. In `verify` it only shows that the work goes on.
   */
  readonly progressTo: (block: number) => Promise<void>;
}

/** What `fetch` may answer: how many rows it stored, for rates. */
export type FetchResult = { rows?: number };

/** What `verify` may answer; true and nothing at all mean that all is well. */
export type VerifyResult = { ok: boolean; note?: string };

/** The functions of a sync, which only workers have. */
export type SyncCode = {
  /** Stores the blocks of a range, so that storing them twice is storing them once. */
  readonly fetch: (range: SyncRange, context: SyncContext) => Promise<FetchResult | void>;
  /** The newest block of the source. */
  readonly head: ((context: SourceContext) => Promise<number | bigint>) | null;
  /** The hash of a block; throws when the source does not know the block. */
  readonly hash: ((block: number, context: SourceContext) => Promise<string>) | null;
  /** Looks whether a range is stored as the source has it. */
  readonly verify:
    | ((range: SyncRange, context: SyncContext) => Promise<VerifyResult | boolean | void>)
    | null;
  /** Whether `verify` is called for each segment that was fetched, not only on demand. */
  readonly verifyEachSegment: boolean;
};
