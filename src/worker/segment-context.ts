import { PawlError } from "../core/errors.ts";
import type { ClaimedSegment } from "../core/segment-protocol.ts";
import type { SyncContext } from "../define/sync-context.ts";
import { shown } from "./plain-values.ts";
import type { SegmentProgress } from "./segment-progress.ts";
import type { TaskAttempt } from "./task-attempt.ts";

/** What one call of `fetch` said while it ran. */
export class FetchCall {
  readonly from: number;
  readonly to: number;
  readonly #progress: SegmentProgress | null;
  #said: number | null = null;
  #isOver = false;
  #kept: Promise<void> = Promise.resolve();

  /** Without progress, what the call says is heard but moves nothing. */
  constructor(from: number, to: number, progress: SegmentProgress | null) {
    this.from = from;
    this.to = to;
    this.#progress = progress;
  }

  /** The last block that it said is stored; null when it said nothing. */
  get said(): number | null {
    return this.#said;
  }

  /** Nothing that is said after this counts; resolves when what was said before is kept. */
  async end(): Promise<void> {
    this.#isOver = true;
    await this.#kept;
  }

  progressTo(block: unknown): Promise<void> {
    const kept = this.#keep(block);
    // A call that does not wait for it hears of a failure when it returns.
    this.#kept = Promise.all([this.#kept, kept]).then(() => undefined);
    this.#kept.catch(() => undefined);
    return kept;
  }

  async #keep(given: unknown): Promise<void> {
    const block = typeof given === "bigint" ? Number(given) : given;
    const fault = this.#faultOf(block);
    if (fault !== null)
      throw new PawlError("INPUT_INVALID", `progressTo(${shown(given)}) ${fault}`);
    this.#said = block as number;
    if (this.#progress === null) return;
    this.#progress.advance(this.#said);
    await this.#progress.keep();
  }

  #faultOf(block: unknown): string | null {
    if (this.#isOver) return "was called after fetch had returned; await everything in it.";
    if (!Number.isSafeInteger(block)) return "needs a block, which is a whole number.";
    const { from, to } = this;
    // One less than the first block says that nothing is stored yet.
    if ((block as number) < from - 1 || (block as number) > to) {
      return `is outside the range that was asked for, ${from} to ${to}.`;
    }
    if (this.#said !== null && (block as number) < this.#said) {
      return `goes back: ${this.#said} was said before.`;
    }
    return null;
  }
}

/** What `fetch` and `verify` get; without a call what is said only shows that the work goes on. */
export function segmentContext(
  attempt: TaskAttempt,
  segment: ClaimedSegment,
  call: FetchCall | null,
  turn: () => Promise<void>,
): SyncContext {
  return {
    sync: segment.sync,
    syncId: segment.sync_id,
    source: segment.source,
    target: segment.target,
    segment: {
      index: segment.segment_index,
      from: segment.from_block,
      to: segment.to_block,
      generation: segment.generation,
    },
    attempt: attempt.task.attempt,
    get signal() {
      return attempt.signal;
    },
    turn,
    log: (message, fields) => attempt.log(message, fields ?? {}),
    async progressTo(block) {
      if (call === null) attempt.progressed(null);
      else await call.progressTo(block);
    },
  };
}
