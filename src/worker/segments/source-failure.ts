import type {
  SourceContext,
  SyncCode,
  SyncContext,
  SyncRange,
} from "../../define/automation-context.ts";
import {
  DoNotRetry,
  RangeTooLarge,
  RetryAfter,
  SourceLagging,
  SourceUnavailable,
  Throttled,
} from "../../define/errors.ts";
import { PawlError } from "../../kernel/errors.ts";
import type { Failure } from "../../work/backfill/rows.ts";
import { BlockHash, type SegmentReport } from "../../work/sync/segment-protocol.ts";
import { backoffMs, pause } from "../outbox.ts";
import {
  callUser,
  messageOf,
  plainError,
  readableText,
  shortened,
  VerificationFailed,
} from "../plain-values.ts";
import type { SegmentRun } from "./run-segment.ts";

/**
 * What a failed request says: about its size, about the pace, that the source could not answer at
 * this time, by its own word or by what the network says, what the function decided itself, or
 * (`other`) maybe something about the blocks.
 */
export type SourceFailure =
  | { type: "too-large"; error: RangeTooLarge }
  | { type: "throttled"; error: Throttled }
  | { type: "lagging" | "unavailable" | "network" | "timeout" | "decided" | "other" };

const TIMEOUT_CODES = new Set([
  "ETIMEDOUT",
  "UND_ERR_BODY_TIMEOUT",
  "UND_ERR_CONNECT_TIMEOUT",
  "UND_ERR_HEADERS_TIMEOUT",
]);

const NETWORK_CODES = new Set([
  "EAI_AGAIN",
  "ECONNABORTED",
  "ECONNREFUSED",
  "ECONNRESET",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "ENOTFOUND",
  "EPIPE",
  "UND_ERR_SOCKET",
]);

/** How many causes deep a wrapped error is looked for. */
const CAUSES_MAX = 5;

/** What is known from an error of a function that asked a source, however it is wrapped. */
export function sourceFailureOf(error: unknown): SourceFailure {
  let each: unknown = plainError(error);
  for (let depth = 0; depth < CAUSES_MAX && each instanceof Error; depth++) {
    const failure = plainFailureOf(each);
    if (failure !== null) return failure;
    each = each.cause;
  }
  return { type: "other" };
}

function plainFailureOf(error: Error): SourceFailure | null {
  if (error instanceof RangeTooLarge) return { type: "too-large", error };
  if (error instanceof Throttled) return { type: "throttled", error };
  if (error instanceof SourceLagging) return { type: "lagging" };
  if (error instanceof SourceUnavailable) return { type: "unavailable" };
  if (error instanceof DoNotRetry || error instanceof RetryAfter) return { type: "decided" };
  if (error instanceof VerificationFailed) return { type: "decided" };
  if (error instanceof PawlError) return error.retryable ? { type: "network" } : null;
  const code = "code" in error ? String(error.code) : "";
  if (error.name === "TimeoutError" || TIMEOUT_CODES.has(code)) return { type: "timeout" };
  if (error.name === "AbortError" || NETWORK_CODES.has(code)) return { type: "network" };
  return null;
}

/** The class under which a failure that a source explained is kept; null for any other. */
export function sourceClassOf(error: unknown): string | null {
  if (plainError(error) instanceof VerificationFailed) return "verification";
  const { type } = sourceFailureOf(error);
  switch (type) {
    case "too-large":
    case "throttled":
    case "lagging":
    case "unavailable":
      return type;
    default:
      return null;
  }
}

const NOTE_LENGTH_MAX = 2_000;

/** What a look at stored blocks found. */
export type Found = NonNullable<SegmentReport["verification"]>;

/** The functions of a sync, which answer with checked values and throw plain errors only. */
export type PlainSyncCode = {
  /** Stores the blocks of a range; answers how many rows that were. */
  readonly fetch: (range: SyncRange, context: SyncContext) => Promise<number>;
  readonly head: ((context: SourceContext) => Promise<number>) | null;
  readonly hash: ((block: number, context: SourceContext) => Promise<string>) | null;
  readonly verify: ((range: SyncRange, context: SyncContext) => Promise<Found>) | null;
  readonly verifyEachSegment: boolean;
};

/** Wraps the functions of a sync, so that nothing odd gets behind them. */
export function plainSyncCode(code: SyncCode): PlainSyncCode {
  const { fetch, head, hash, verify, verifyEachSegment } = code;
  return {
    fetch: (range, context) => callUser(async () => rowsOf(await fetch(range, context))),
    head:
      head === null ? null : (context) => callUser(async () => checkedHead(await head(context))),
    hash:
      hash === null
        ? null
        : (block, context) => callUser(async () => checkedHash(block, await hash(block, context))),
    verify:
      verify === null
        ? null
        : (range, context) => callUser(async () => foundBy(await verify(range, context))),
    verifyEachSegment,
  };
}

function rowsOf(result: unknown): number {
  if (typeof result !== "object" || result === null || !("rows" in result)) return 0;
  const rows = Math.floor(Number(result.rows));
  return rows >= 0 && Number.isSafeInteger(rows) ? rows : 0;
}

function checkedHead(given: unknown): number {
  const head = typeof given === "bigint" ? Number(given) : given;
  if (typeof head === "number" && Number.isSafeInteger(head) && head >= 0) {
    // The last number there is has none behind it.
    if (head < Number.MAX_SAFE_INTEGER) return head;
  }
  throw new PawlError(
    "INPUT_INVALID",
    `head answered ${readableText(given, 200)}; it must be the newest block, a whole number from 0.`,
  );
}

/** The hash that a function answered. Throws when it is none. */
function checkedHash(block: number, hash: unknown): string {
  const parsed = BlockHash.safeParse(hash);
  if (parsed.success) return parsed.data;
  throw new PawlError(
    "INPUT_INVALID",
    `hash answered ${hash === undefined ? "nothing" : shortened(hash)} for block ${block}; it must be a ` +
      "text of 1 to 200 characters, and throw for a block that the source does not know.",
  );
}

function foundBy(result: unknown): Found {
  if (result === undefined || result === true) return { ok: true, note: null };
  if (result === false) return { ok: false, note: null };
  if (typeof result === "object" && result !== null && "ok" in result) {
    const { ok, note } = result as { ok: unknown; note?: unknown };
    const kept = typeof note === "string" ? readableText(note, NOTE_LENGTH_MAX) : null;
    if (typeof ok === "boolean") return { ok, note: kept };
  }
  throw new PawlError(
    "INPUT_INVALID",
    `verify answered ${shortened(result)}; it must be true, false or { ok, note }.`,
  );
}

/** Longest pause between two tries of a block. */
const PAUSE_MS_MAX = 5_000;
/** How often an attempt that waits shows that it is alive. */
const ALIVE_MS = 500;
/** Most blocks that one segment may be without: more of them is another kind of trouble. */
const SET_ASIDE_MAX = 500;
/** Longest message that is kept of one: they are all in every checkpoint that follows. */
const MESSAGE_LENGTH_MAX = 300;

/** A segment of no more blocks has too few to tell a bad block from a bad source at once. */
const SMALL_SEGMENT_MAX = 3;

/**
 * A block that stands alone has failed. It is tried again, and is quarantined when it failed often
 * enough while the source answered for another, each time: only then is it about the block. Where
 * nothing else can be fetched either, the failure is thrown.
 */
export async function suspectBlock(run: SegmentRun, block: number, first: unknown): Promise<void> {
  const { segment, progress, attempt } = run;
  if (progress.setAside.length >= SET_ASIDE_MAX) throw first;
  const isKnown = segment.was_quarantined && segment.from_block === segment.to_block;
  const proof = isKnown ? { error: first } : await proofAgainst(run, block, first);
  if (proof === null) return;
  const message = messageOf(proof.error).slice(0, MESSAGE_LENGTH_MAX).toWellFormed();
  const failure: Failure = { class: sourceClassOf(proof.error) ?? "user", message };
  attempt.log(`Block ${block} is quarantined: ${failure.message}`, { block });
  progress.passOver(block, failure);
  await progress.keep();
}

/** The last failure of a block that has to be quarantined; null when it could be fetched after all. */
async function proofAgainst(
  run: SegmentRun,
  block: number,
  first: unknown,
): Promise<{ error: unknown } | null> {
  const { segment, progress, attempt } = run;
  let error = first;
  for (let failures = 1; ; failures++) {
    if (!(await hasWitness(run, block))) {
      if (failedOften(run, block)) return { error };
      throw error;
    }
    if (failures >= segment.quarantine_after) return { error };
    await waitAlive(run, backoffMs(failures, run.host.random, PAUSE_MS_MAX));
    try {
      await run.fetch(block, block);
      return null;
    } catch (caught) {
      if (attempt.signal.aborted) throw attempt.signal.reason;
      if (progress.position >= block) return null;
      const { type } = sourceFailureOf(caught);
      if (type !== "other" && type !== "too-large") throw caught;
      error = caught;
    }
  }
}

/** Whether a block without others to compare it with failed in enough attempts. */
function failedOften({ segment, gate }: SegmentRun, block: number): boolean {
  const { sync, sync_id, from_block, to_block, quarantine_after } = segment;
  if (to_block - from_block + 1 > SMALL_SEGMENT_MAX) return false;
  return gate.loneFailures.failed(sync, sync_id, block) >= quarantine_after;
}

/** Whether another block of the segment can be fetched now: nothing is lost by doing it twice. */
async function hasWitness(run: SegmentRun, block: number): Promise<boolean> {
  const { from_block: from, to_block: to } = run.segment;
  const aside = new Set(run.progress.setAside.map((each) => each.block));
  const others = new Set([block + 1, to, block - 1]);
  for (const other of others) {
    if (other === block || other < from || other > to || aside.has(other)) continue;
    try {
      await run.fetchAside(other);
      return true;
    } catch {
      run.attempt.signal.throwIfAborted();
    }
  }
  return false;
}

async function waitAlive({ attempt, host }: SegmentRun, ms: number): Promise<void> {
  for (let leftMs = ms; leftMs > 0; leftMs -= ALIVE_MS) {
    attempt.progressed(null);
    await pause(host.clock, Math.min(leftMs, ALIVE_MS), attempt.signal);
    attempt.signal.throwIfAborted();
  }
}

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
