import { PawlError } from "../../kernel/errors.ts";
import type { ClaimedSegment } from "../../work/sync/segment-protocol.ts";
import type { SyncContext, SyncRange } from "../../define/automation-context.ts";
import { shortened, messageOf, VerificationFailed } from "../plain-values.ts";
import { SegmentProgress, Narrowing } from "./progress.ts";
import type { TaskAttempt } from "../tasks/attempt.ts";
import { type Found, type PlainSyncCode, sourceFailureOf, suspectBlock } from "./source-failure.ts";
import { sourceUnavailable, Skip } from "../../define/errors.ts";
import type { Clock } from "../outbox.ts";
import type { SourceGate, SourceRequest } from "./source-gate.ts";
import type { SourceGates } from "./source-gates.ts";

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
      throw new PawlError("INPUT_INVALID", `progressTo(${shortened(given)}) ${fault}`);
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

/** Looks at what is stored of a segment, but for blocks that were quarantined; null without a way to. */
export async function verifyStored(
  run: SegmentRun,
  verify: PlainSyncCode["verify"],
): Promise<Found | null> {
  if (verify === null) return null;
  const { attempt, segment, progress } = run;
  const context = segmentContext(attempt, segment, null, () => run.turn());
  let found: Found = { ok: true, note: null };
  const aside = progress.setAside.map(({ block }) => block);
  for (const { from, to } of piecesBetween(segment.from_block, segment.to_block, aside)) {
    const range = { from, to, undo: null, isLive: segment.is_live };
    found = await run.ask(null, () => verify(range, context));
    attempt.signal.throwIfAborted();
    attempt.progressed(null);
    if (!found.ok) return found;
  }
  return found;
}

/** What lies between single blocks, which come in their order. */
export function piecesBetween(
  from: number,
  to: number,
  blocks: readonly number[],
): { from: number; to: number }[] {
  const pieces: { from: number; to: number }[] = [];
  let next = from;
  for (const block of blocks) {
    if (block > next) pieces.push({ from: next, to: block - 1 });
    next = block + 1;
  }
  if (next <= to) pieces.push({ from: next, to });
  return pieces;
}

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
