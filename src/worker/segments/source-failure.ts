import { PawlError } from "../../kernel/errors.ts";
import {
  RangeTooLarge,
  SourceLagging,
  SourceUnavailable,
  Throttled,
  DoNotRetry,
  RetryAfter,
} from "../../define/errors.ts";
import {
  plainError,
  VerificationFailed,
  callUser,
  shortened,
  readableText,
} from "../plain-values.ts";
import { BlockHash, type SegmentReport } from "../../work/sync/segment-protocol.ts";
import type {
  SourceContext,
  SyncCode,
  SyncContext,
  SyncRange,
} from "../../define/automation-context.ts";

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
