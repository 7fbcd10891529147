import { PawlError } from "../core/errors.ts";
import type { ClaimedSegment } from "../core/segment-protocol.ts";
import { sourceUnavailable } from "../define/source-errors.ts";
import type { SyncRange } from "../define/sync-context.ts";
import { Skip } from "../define/task-errors.ts";
import type { Clock } from "./clock.ts";
import { Narrowing } from "./narrowing.ts";
import type { PlainSyncCode } from "./plain-sync-code.ts";
import { messageOf, VerificationFailed } from "./plain-values.ts";
import { FetchCall, segmentContext } from "./segment-context.ts";
import { SegmentProgress } from "./segment-progress.ts";
import { sourceFailureOf } from "./source-failure.ts";
import type { SourceGate, SourceRequest } from "./source-gate.ts";
import type { SourceGates } from "./source-gates.ts";
import { suspectBlock } from "./suspect-block.ts";
import type { TaskAttempt } from "./task-attempt.ts";
import { verifyStored } from "./verify-stored.ts";

/** How often in a row one attempt is throttled before it leaves its place to another. */
const THROTTLES_MAX = 8;
/** How often one attempt starts over because the source rewrote the segment meanwhile. */
const ROUNDS_MAX = 3;

/** What segments need of the worker they run in. */
export type SegmentHost = { gates: SourceGates; clock: Clock; random: () => number };

/** Runs a claimed segment with the sync's code; what it throws is how the attempt failed. */
export async function runSegment(
  attempt: TaskAttempt,
  segment: ClaimedSegment,
  code: PlainSyncCode,
  host: SegmentHost,
): Promise<void> {
  const { gates, clock } = host;
  const progress = new SegmentProgress(segment, attempt.task.checkpoint, attempt, () =>
    clock.now(),
  );
  attempt.reportSegment = (succeeded) => progress.report(succeeded);
  const definition = {
    requestSize: segment.request_size,
    requestsPerSecond: segment.requests_per_second,
  };
  const gate = await gates.gateOf(segment.source, definition, attempt.signal);
  const run = new SegmentRun(attempt, segment, code, progress, gate, host);
  try {
    if (segment.purpose === "verify") await run.verifyOnly();
    else await run.fetchAll();
  } catch (error) {
    const { type } = sourceFailureOf(error);
    if (type !== "network" && type !== "timeout") throw error;
    throw sourceUnavailable(messageOf(error));
  }
}

/** One attempt at a segment: fetches what is missing, request by request, and looks at the result. */
export class SegmentRun {
  readonly attempt: TaskAttempt;
  readonly segment: ClaimedSegment;
  readonly progress: SegmentProgress;
  readonly gate: SourceGate;
  readonly host: SegmentHost;
  readonly #code: PlainSyncCode;
  readonly #narrowing = new Narrowing();
  #throttles = 0;

  constructor(
    attempt: TaskAttempt,
    segment: ClaimedSegment,
    code: PlainSyncCode,
    progress: SegmentProgress,
    gate: SourceGate,
    host: SegmentHost,
  ) {
    this.attempt = attempt;
    this.segment = segment;
    this.progress = progress;
    this.gate = gate;
    this.host = host;
    this.#code = code;
  }

  async fetchAll(): Promise<void> {
    const { progress, segment } = this;
    for (let round = 1; ; round++) {
      if (progress.endHash === null) await this.#readEndHash();
      while (!progress.isDone) await this.#fetchNext();
      if (await this.#endHolds()) break;
      this.attempt.log(`Block ${segment.to_block} was rewritten meanwhile; starting over.`, {});
      progress.startOver();
      await progress.keep();
      if (round < ROUNDS_MAX) continue;
      throw sourceUnavailable(
        `The source rewrote block ${segment.to_block} ${ROUNDS_MAX} times while it was fetched.`,
      );
    }
    await this.#expectAnchor();
    const { verify, verifyEachSegment } = this.#code;
    const found = await verifyStored(this, verifyEachSegment ? verify : null);
    progress.verification = found;
    if (found === null || found.ok) return;
    // What is stored is in doubt, all of it: the next attempt fetches it again.
    progress.startOver();
    await progress.keep();
    throw new VerificationFailed(
      `What was stored did not pass: ${found.note ?? "no reason given"}.`,
    );
  }

  async verifyOnly(): Promise<void> {
    const { verify } = this.#code;
    if (verify === null) {
      throw new PawlError(
        "SYNC_NOT_FOUND",
        `This worker's code has no function verify for the sync ${this.segment.sync}; deploy the ` +
          "code that does.",
      );
    }
    this.progress.verification = await verifyStored(this, verify);
  }

  /** Asks the source when it is this segment's turn. */
  ask<Answer>(size: number | null, call: () => Promise<Answer>): Promise<Answer> {
    return this.gate.ask(this.#request(size), async () => call());
  }

  /** Waits until the source may be asked once more within a call. */
  turn(): Promise<void> {
    return this.gate.turn(this.#request(null));
  }

  #request(size: number | null): SourceRequest {
    const { attempt, segment } = this;
    return {
      isLive: segment.is_live,
      size,
      signal: attempt.signal,
      alive: () => attempt.progressed(null),
    };
  }

  /** Fetches a range and keeps how far that got. */
  async fetch(from: number, to: number): Promise<void> {
    const { progress } = this;
    const call = new FetchCall(from, to, progress);
    const rows = await this.#call(call);
    if (call.said === null) progress.advance(to);
    else if (call.said < from) {
      throw new Error(
        `fetch returned for ${from} to ${to} and said with progressTo(${call.said}) that nothing ` +
          "is stored; it must get on, or throw.",
      );
    }
    const { sync, sync_id } = this.segment;
    this.gate.loneFailures.fetched(sync, sync_id, from, call.said ?? to);
    progress.addRows(rows);
    await progress.keep();
  }

  /** Fetches one block again or ahead of its turn, only to see whether that works. */
  async fetchAside(block: number): Promise<void> {
    await this.#call(new FetchCall(block, block, null));
  }

  async #call(call: FetchCall): Promise<number> {
    const { attempt, segment, progress } = this;
    const { from, to } = call;
    const range: SyncRange = {
      from,
      to,
      undo: progress.undo ? { from, to: segment.to_block } : null,
      isLive: segment.is_live,
    };
    const context = segmentContext(attempt, segment, call, () => this.turn());
    // What is always asked for as a whole says nothing about what others may ask for.
    const size = segment.splittable ? to - from + 1 : null;
    const rows = await this.ask(size, async () => {
      progress.requests++;
      try {
        return await this.#code.fetch(range, context);
      } catch (error) {
        if (!(error instanceof Skip)) throw error;
        throw new Error("fetch threw skip(), but blocks cannot be skipped.", { cause: error });
      } finally {
        await call.end();
      }
    });
    // A loop that was broken off and returned would look like a success.
    attempt.signal.throwIfAborted();
    attempt.progressed(null);
    return rows;
  }

  async #fetchNext(): Promise<void> {
    const { progress, segment } = this;
    const from = progress.position + 1;
    const size = segment.splittable ? (this.gate.requestSize ?? Infinity) : Infinity;
    const limit = Math.min(segment.to_block, from + size - 1);
    const to = segment.splittable ? this.#narrowing.endOf(from, limit) : limit;
    try {
      await this.fetch(from, to);
      this.#throttles = 0;
    } catch (error) {
      await this.#recover(error, from, to);
    }
  }

  /** Goes on where a failure leaves a way to; throws it where it does not. */
  async #recover(error: unknown, from: number, to: number): Promise<void> {
    const { attempt, segment, progress } = this;
    if (attempt.signal.aborted) throw attempt.signal.reason;
    const { type } = sourceFailureOf(error);
    if (type === "throttled") {
      this.#throttles++;
      if (this.#throttles >= THROTTLES_MAX) throw error;
      return;
    }
    if (!segment.splittable || (type !== "too-large" && type !== "other")) throw error;
    if (error instanceof PawlError && error.code === "LEASE_LOST") throw error;
    // The gate knows by now; or the request got on before it failed.
    if (type === "too-large" && to > from) return;
    this.attempt.log(`Blocks ${from} to ${to} failed: ${messageOf(error)}`, {});
    if (to > from) {
      if (progress.position < to) this.#narrowing.failed(to);
      return;
    }
    if (progress.position < to) await suspectBlock(this, from, error);
  }

  async #readEndHash(): Promise<void> {
    const hash = await this.#hashOfEnd();
    if (hash === null) return;
    this.progress.setEndHash(hash);
    await this.progress.keep();
  }

  async #endHolds(): Promise<boolean> {
    return (await this.#hashOfEnd()) === this.progress.endHash;
  }

  #hashOfEnd(): Promise<string | null> {
    return this.#hashOf(this.segment.to_block);
  }

  /**
   * Throws unless the source still has the block that was known when the segment was claimed: only then
   * is the segment of the same chain as all that is complete, and its last hash tells how deep a rewrite
   * goes. Nothing that was stored is void: the next look at the head says from where on it is.
   */
  async #expectAnchor(): Promise<void> {
    const { to_block, anchor } = this.segment;
    if (anchor === undefined || this.progress.endHash === null) return;
    if (anchor.block === to_block && this.progress.endHash === anchor.hash) return;
    // Asked twice before it counts: behind one address there may be several nodes.
    for (let asked = 0; anchor.block > to_block && asked < 2; asked++) {
      if ((await this.#hashOf(anchor.block)) === anchor.hash) return;
    }
    throw sourceUnavailable(
      `The source rewrote block ${anchor.block}, and its head was not looked at since: what was fetched ` +
        "may be of another chain than the rest.",
    );
  }

  async #hashOf(block: number): Promise<string | null> {
    const { hash } = this.#code;
    if (hash === null) return null;
    const { attempt, segment } = this;
    const context = segmentContext(attempt, segment, null, () => this.turn());
    return this.ask(null, () => hash(block, context));
  }
}
