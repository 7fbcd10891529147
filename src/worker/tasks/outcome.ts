import { PawlError } from "../../kernel/errors.ts";
import { METADATA_LENGTH_MAX, type ReportedResult } from "../../work/run/protocol.ts";
import { DoNotRetry, RetryAfter, Skip } from "../../define/errors.ts";
import type { Json } from "../../kernel/canonical.ts";
import {
  hiddenIn,
  isError,
  jsonOf,
  keptJson,
  messageOf,
  plainError,
  shortened,
  readableText,
} from "../plain-values.ts";
import { sourceClassOf, sourceFailureOf } from "../segments/source-failure.ts";

/** How an attempt ended, before it is said of which task. */
export type TaskOutcome = Omit<ReportedResult, "run_pos" | "task_key" | "attempt">;

/** Why the worker itself ended an attempt. */
export type StopCause = {
  type: "lost" | "cancelled" | "timeout" | "stalled" | "stopped";
  message: string;
};

/** Longest delay that is reported: a year. */
const DELAY_MS_MAX = 31_536_000_000;

/** Failures of the network or the operating system that usually pass. */
const TRANSIENT_CODES = new Set([
  "EAI_AGAIN",
  "ECONNREFUSED",
  "ECONNRESET",
  "EPIPE",
  "ETIMEDOUT",
  "UND_ERR_CONNECT_TIMEOUT",
  "UND_ERR_SOCKET",
]);

/** What to report of an attempt whose function threw. */
export function outcomeOfError(thrown: unknown): TaskOutcome {
  const error = plainError(thrown);
  const message = messageOf(error);
  if (error instanceof Skip) {
    return { outcome: "SKIPPED", error: { class: "skipped", message } };
  }
  if (error instanceof DoNotRetry) {
    return { outcome: "FAILED", error: { class: "user", message }, final: true };
  }
  if (error instanceof RetryAfter) {
    const retry_after_ms = wholeMs(error.delayMs);
    return { outcome: "FAILED", error: { class: "transient", message }, retry_after_ms };
  }
  // The next attempt would keep as much, and fail in the same place.
  if (error instanceof PawlError && error.code === "QUOTA_EXCEEDED") {
    const said = `${message} (${error.code})`;
    return { outcome: "FAILED", error: { class: "quota", message: said }, final: true };
  }
  const failed = { outcome: "FAILED", error: { class: classOf(error), message } } as const;
  const said = sourceFailureOf(error);
  if (said.type !== "throttled" || said.error.retryAfterMs === null) return failed;
  return { ...failed, retry_after_ms: wholeMs(said.error.retryAfterMs) };
}

/** A delay as it is reported; nothing sensible is no delay. */
function wholeMs(ms: number): number {
  return Number.isFinite(ms) ? Math.min(DELAY_MS_MAX, Math.max(0, Math.ceil(ms))) : 0;
}

/** What to report of an attempt that the worker ended, or null: nobody waits for it any more. */
export function outcomeOfStop({ type, message }: StopCause): TaskOutcome | null {
  switch (type) {
    case "lost":
      return null;
    case "cancelled":
      return { outcome: "CANCELLED", error: { class: "cancelled", message } };
    case "timeout":
    case "stalled":
      return { outcome: "FAILED", error: { class: type, message } };
    case "stopped":
      return {
        outcome: "FAILED",
        error: { class: "transient", message },
        retry_after_ms: 0,
        released: true,
      };
  }
}

/** What is kept about a materialization, absent when nothing is, and what of it could not be. */
export type KeptMetadata = { value?: Json; faults: string[] };

/**
 * What is to be kept about a materialization: each fact that can be, and for each that cannot a
 * sentence that says why. Throws what the metadata's own code throws.
 */
export function metadataOf(returned: unknown): KeptMetadata {
  if (typeof returned !== "object" || returned === null) return { faults: [] };
  const { metadata } = returned as { metadata?: unknown };
  if (metadata === undefined) return { faults: [] };
  const plain = jsonOf(metadata, "");
  const hasFacts = typeof plain === "object" && plain !== null && !Array.isArray(plain);
  if (!hasFacts || hiddenIn(plain) !== null || isError(plain)) {
    const kept = keptJson(plain, METADATA_LENGTH_MAX);
    return "value" in kept
      ? { value: kept.value, faults: [] }
      : { faults: [`The metadata is not kept: ${kept.fault}.`] };
  }
  return keptFacts(plain);
}

/** Each fact by itself, so that one that cannot be kept costs no other. */
function keptFacts(metadata: object): KeptMetadata {
  const facts: Record<string, Json> = {};
  const faults: string[] = [];
  let more = 0;
  const leaveOut = (fault: string): void => {
    if (faults.length < FAULTS_MAX) faults.push(fault);
    else more++;
  };
  let left = METADATA_LENGTH_MAX - 2;
  for (const name of Object.keys(metadata)) {
    const given = (metadata as Record<string, unknown>)[name];
    if (given === undefined) continue;
    const named = JSON.stringify(name).length + 2;
    const kept =
      name === "__proto__"
        ? { fault: "that name is not allowed in a document" }
        : keptJson(given, Math.max(0, left - named));
    if ("fault" in kept) leaveOut(`${shortened(name)}: ${kept.fault}`);
    else {
      const { length } = JSON.stringify(kept.value);
      // Escapes make a text longer than what was counted while it was copied.
      if (named + length > left) leaveOut(`${shortened(name)}: there is no room left for it`);
      else {
        left -= named + length;
        facts[name] = kept.value;
      }
    }
  }
  const isAny = Object.keys(facts).length > 0 || faults.length === 0;
  const said = isAny ? "A fact of the metadata is not kept" : "The metadata is not kept";
  const rest = more === 0 ? [] : [`${more} more facts of the metadata are not kept.`];
  return {
    ...(isAny ? { value: facts } : {}),
    faults: [...faults.map((fault) => `${said}: ${fault}.`), ...rest],
  };
}

/** Facts that are left out with a line of the log each; of more, one line says how many. */
const FAULTS_MAX = 20;

const INPUT_CODES: ReadonlySet<string> = new Set([
  "ASSET_NOT_FOUND",
  "PARTITION_INVALID",
  "SYNC_NOT_FOUND",
]);

function classOf(error: Error): string {
  if (error instanceof PawlError) {
    if (INPUT_CODES.has(error.code)) return "input";
    return error.retryable ? "transient" : "user";
  }
  const explained = sourceClassOf(error);
  if (explained !== null) return explained;
  return isTransient(error) || isTransient(error.cause) ? "transient" : "user";
}

function isTransient(error: unknown): boolean {
  if (!(error instanceof Error) || !("code" in error)) return false;
  return TRANSIENT_CODES.has(String(error.code));
}

type Exception = NonNullable<ReportedResult["exceptions"]>[number];

/** What a batch task says of single partitions; the last word on each counts. */
export class PartitionExceptions {
  readonly #isBatch: boolean;
  readonly #keys: readonly string[];
  #indexes: Map<string, number> | null = null;
  #byIndex: Map<number, Exception> | null = null;

  constructor(isBatch: boolean, keys: readonly string[]) {
    this.#isBatch = isBatch;
    this.#keys = keys;
  }

  /** Notes the exception; `INPUT_INVALID` for a key that is not the task's. */
  add(key: string, exception: Omit<Exception, "index">): void {
    if (!this.#isBatch) {
      throw new PawlError(
        "INPUT_INVALID",
        "Only a batch can fail or skip single partitions; throw an error or skip() instead.",
      );
    }
    this.#indexes ??= new Map(this.#keys.map((each, index) => [each, index]));
    const index = this.#indexes.get(key);
    if (index === undefined) {
      throw new PawlError(
        "INPUT_INVALID",
        `The partition ${shortened(key)} is not one of this task's partitions.`,
        { details: { partition_key: readableText(key, 200) } },
      );
    }
    this.#byIndex ??= new Map();
    this.#byIndex.set(index, { index, ...exception });
  }

  /** Those that ended otherwise than the task, in the order of its partitions. */
  differingFrom(outcome: ReportedResult["outcome"]): Exception[] {
    if (this.#byIndex === null) return [];
    return [...this.#byIndex.values()]
      .filter((exception) => exception.outcome !== outcome)
      .toSorted((one, other) => one.index - other.index);
  }
}
