import type { Json } from "../../kernel/canonical.ts";
import {
  type ClaimedSegment,
  SegmentCheckpoint,
  type SegmentReport,
} from "../../work/sync/segment-protocol.ts";
import type { Failure } from "../../work/backfill/rows.ts";
import type { TaskProgress } from "../lease-keeper.ts";

/** Where an attempt's progress is kept. */
export interface ProgressKeeper {
  /** Resolves once it is kept durably. */
  checkpoint(value: Json): Promise<void>;
  progressed(progress: TaskProgress | null): void;
}

type Verification = SegmentReport["verification"];

/**
 * How far an attempt at a segment got. Everything up to `position` is stored or quarantined; that only
 * grows, unless what was stored is void and the segment starts over.
 */
export class SegmentProgress {
  readonly #segment: ClaimedSegment;
  readonly #keeper: ProgressKeeper;
  readonly #now: () => number;
  readonly #startedAt: number;
  #position: number;
  #rows = 0;
  #endHash: string | null = null;
  #setAside: { block: number; error: Failure }[] = [];
  #undo: boolean;
  #startedOver = false;
  #blocks = 0;
  #kept = "";
  requests = 0;
  verification: Verification = null;

  constructor(
    segment: ClaimedSegment,
    checkpoint: Json,
    keeper: ProgressKeeper,
    now: () => number,
  ) {
    this.#segment = segment;
    this.#keeper = keeper;
    this.#now = now;
    this.#startedAt = now();
    const known = SegmentCheckpoint.safeParse(checkpoint).data;
    const stored = known === undefined ? segment.last_processed_block : known.last_processed_block;
    const { from_block: from, to_block: to } = segment;
    this.#position = stored !== null && stored >= from && stored <= to ? stored : from - 1;
    this.#startedOver = known?.undo === true;
    // An earlier generation may have left rows of blocks that it never came to say were stored.
    this.#undo = segment.undo || segment.generation > 0 || this.#startedOver;
    // Whoever goes on behind an earlier run has to find the blocks that it left: the same hash.
    const { rows = 0, end_hash = null } = this.#position < from ? {} : segment;
    const left = known ?? { rows, end_hash, quarantined: [] };
    this.#rows = left.rows;
    this.#endHash = left.end_hash;
    this.#setAside = left.quarantined;
  }

  /** The last block that is done; one less than the first when none is. */
  get position(): number {
    return this.#position;
  }

  get isDone(): boolean {
    return this.#position >= this.#segment.to_block;
  }

  /** Whether rows beyond the position are void. */
  get undo(): boolean {
    return this.#undo;
  }

  /** The hash of the segment's last block when the first request was made; null before. */
  get endHash(): string | null {
    return this.#endHash;
  }

  get setAside(): readonly { block: number; error: Failure }[] {
    return this.#setAside;
  }

  /** Everything up to the block is stored. */
  advance(block: number): void {
    if (block <= this.#position) return;
    this.#blocks += block - this.#position;
    this.#position = block;
    const { from_block: from, to_block: to } = this.#segment;
    this.#keeper.progressed({ done: block - from + 1, total: to - from + 1, note: null });
  }

  addRows(rows: number): void {
    this.#rows += rows;
  }

  setEndHash(hash: string): void {
    this.#endHash = hash;
  }

  /** The next block cannot be fetched: the rest goes on without it. */
  passOver(block: number, error: Failure): void {
    this.#setAside = [...this.#setAside, { block, error }];
    this.advance(block);
  }

  /** What was stored is void: everything is to be fetched again. */
  startOver(): void {
    this.#position = this.#segment.from_block - 1;
    this.#rows = 0;
    this.#endHash = null;
    this.#setAside = [];
    this.#undo = true;
    this.#startedOver = true;
  }

  /** Keeps how far it got, for the next attempt; does nothing when that is known already. */
  async keep(): Promise<void> {
    const value: SegmentCheckpoint = {
      last_processed_block: this.#orNull(this.#position),
      end_hash: this.#endHash,
      rows: this.#rows,
      quarantined: this.#setAside,
      ...(this.#startedOver ? { undo: true } : {}),
    };
    const text = JSON.stringify(value);
    if (text === this.#kept) return;
    await this.#keeper.checkpoint(JSON.parse(text) as Json);
    this.#kept = text;
  }

  /** What goes with the end of the attempt. */
  report(succeeded: boolean): SegmentReport {
    const [firstAside] = this.#setAside;
    // Without the checkpoint nobody would know of blocks that were passed over: a run that follows
    // this one has to come to them again.
    const isKnown = succeeded || firstAside === undefined;
    const through = isKnown ? this.#position : Math.min(this.#position, firstAside.block - 1);
    return {
      last_processed_block: this.#orNull(through),
      end_hash: this.#endHash,
      rows: this.#rows,
      blocks: this.#blocks,
      work_ms: Math.max(0, Math.round(this.#now() - this.#startedAt)),
      requests: this.requests,
      quarantined: this.#setAside,
      verification: this.verification,
    };
  }

  #orNull(block: number): number | null {
    return block < this.#segment.from_block ? null : block;
  }
}

/**
 * Finds what fails in a range: after a failure the next requests take half of what may hold it, until
 * it stands alone. Blocks beyond the range are asked for as before.
 */
export class Narrowing {
  /** The last block of the smallest request that failed and has not been passed yet. */
  #end: number | null = null;

  /** A request from `from` to `to` failed. */
  failed(to: number): void {
    this.#end = to;
  }

  /** The last block to ask for from `from` on, when `to` would be by itself. */
  endOf(from: number, to: number): number {
    if (this.#end === null) return to;
    if (this.#end < from) {
      this.#end = null;
      return to;
    }
    const size = this.#end - from + 1;
    return Math.min(to, from + Math.max(1, Math.floor(size / 2)) - 1);
  }
}
