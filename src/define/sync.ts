import { PawlError } from "../kernel/errors.ts";
import { SYNC_RETRY, SyncSpec, type SyncTarget, validateSync } from "../work/sync/spec.ts";
import { type RetryOptions, retryFrom } from "./asset.ts";
import { parseDefinition, refuseUnknownOptions, withoutUndefined } from "./parse-definition.ts";
import type { SyncCode } from "./automation-context.ts";

/** Everything that can be said about a sync. */
export type SyncOptions = {
  /** What to sync, or a function that lists it when the project is loaded; more by the API. */
  targets?: readonly SyncTarget[] | (() => readonly SyncTarget[]);
  /** What targets are fetched from, with fields of theirs in braces; the sync's name unless told. */
  source?: string;
  from: number | bigint;
  /** The last block of a fixed range; without it the head is followed. */
  to?: number | bigint;
  /** At most so many segments (365), none smaller than this (1,000) unless all of it is. */
  segments?: { max?: number; minSize?: number };
  /** False for sources that page their whole history: one segment, asked for as a whole. */
  splittable?: boolean;
  order?: "oldest first" | "newest first" | "oldest" | "newest";
  /** Segments of one target that run at once; 4 unless told. */
  maxParallel?: number;
  /** Never closer to the head than this; 0 unless told. */
  finality?: number;
  /** Most new blocks in a second that are believed of the head; 100,000 unless told. */
  headRateMax?: number;
  /** How often the head is looked up; every 5 s unless told. */
  headEveryMs?: number;
  /** Blocks in the first request; afterwards it is learnt how many the source answers for. */
  requestSize?: number;
  /** Most calls to the source in a second, by all workers together. */
  requestsPerSecond?: number;
  pool?: string | { pool: string };
  priority?: number;
  /** Without end unless told. */
  retry?: RetryOptions;
  timeoutMs?: number;
  /** How long a segment may show no progress, null for any time; 3 minutes unless told. */
  stallAfterMs?: number | null;
  /** How often a block must fail, while the source answers for others, to be quarantined; 5 times. */
  quarantineAfter?: number;
  /** After so many failed attempts a segment is abandoned, until somebody retries it; never unless told. */
  abandonAfter?: number;
  codeVersion?: string;
  description?: string;
  labels?: Readonly<Record<string, string>>;
  /** Stores the blocks of a range, so that storing them twice is storing them once. */
  fetch: SyncCode["fetch"];
  /** The newest block of the source. */
  head?: NonNullable<SyncCode["head"]>;
  /** The hash of a block, where the source can rewrite its newest blocks. */
  hash?: NonNullable<SyncCode["hash"]>;
  /** Looks whether a range is stored as the source has it. */
  verify?: NonNullable<SyncCode["verify"]>;
  /** Whether each segment is verified once it is fetched, not only when somebody asks; it is. */
  verifyEachSegment?: boolean;
};

/** A sync as defined. */
export type Sync = {
  readonly name: string;
  readonly spec: SyncSpec;
  readonly code: SyncCode;
};

const OPTIONS = [
  "targets",
  "source",
  "from",
  "to",
  "segments",
  "splittable",
  "order",
  "maxParallel",
  "finality",
  "headRateMax",
  "headEveryMs",
  "requestSize",
  "requestsPerSecond",
  "pool",
  "priority",
  "retry",
  "timeoutMs",
  "stallAfterMs",
  "quarantineAfter",
  "abandonAfter",
  "codeVersion",
  "description",
  "labels",
  "fetch",
  "head",
  "hash",
  "verify",
  "verifyEachSegment",
];

const ORDERS: Readonly<Record<string, SyncSpec["order"]>> = {
  "oldest first": "oldest_first",
  oldest: "oldest_first",
  "newest first": "newest_first",
  newest: "newest_first",
};

/** Defines a sync: a copy of something numbered that is kept complete, and what fetches it. */
export function sync(name: string, options: SyncOptions): Sync {
  const subject = `The sync ${JSON.stringify(name)}`;
  refuseUnknownOptions(subject, options, OPTIONS);
  for (const each of ["fetch", "head", "hash", "verify"] as const) {
    const given: unknown = options[each];
    if (typeof given === "function" || (given === undefined && each !== "fetch")) continue;
    throw invalid(subject, `needs a function ${each}, not ${shown(given)}.`, { sync: name });
  }
  const spec = parseDefinition(subject, SyncSpec, specOf(subject, name, options));
  // Pools are held against those there are when the project is put together.
  validateSync(spec, new Set(spec.pool === null ? [] : [spec.pool]));
  const { fetch, head = null, hash = null, verify = null, verifyEachSegment = true } = options;
  if (typeof verifyEachSegment !== "boolean") {
    throw invalid(
      subject,
      `needs true or false for verifyEachSegment, not ${shown(verifyEachSegment)}.`,
      { sync: name },
    );
  }
  return Object.freeze({
    name,
    spec: Object.freeze(spec),
    code: Object.freeze({ fetch, head, hash, verify, verifyEachSegment }),
  });
}

function specOf(subject: string, name: string, options: SyncOptions): Record<string, unknown> {
  const { segments, pool, retry } = options;
  if (segments !== undefined) {
    refuseUnknownOptions(`${subject}, in segments,`, segments, ["max", "minSize"]);
  }
  return withoutUndefined({
    kind: "sync",
    name,
    description: options.description,
    labels: options.labels,
    targets: targetsOf(subject, options.targets),
    source: options.source ?? name,
    from: blockOf(subject, "from", options.from),
    to: blockOf(subject, "to", options.to),
    segments:
      segments === undefined
        ? undefined
        : withoutUndefined({ max: segments.max, min_size: segments.minSize }),
    splittable: options.splittable,
    order: orderOf(subject, options.order),
    max_parallel: options.maxParallel,
    finality: options.finality,
    head_rate_max: options.headRateMax,
    head_every_ms: options.headEveryMs,
    has: {
      head: options.head !== undefined,
      hash: options.hash !== undefined,
      verify: options.verify !== undefined,
    },
    request_size: options.requestSize,
    requests_per_second: options.requestsPerSecond,
    pool: typeof pool === "object" ? pool.pool : pool,
    priority: options.priority,
    // What a policy leaves out is as for every sync: it does not end.
    retry: retry === undefined ? undefined : { ...SYNC_RETRY, ...retryFrom(subject, retry) },
    timeout_ms: options.timeoutMs,
    stall_after_ms: options.stallAfterMs,
    quarantine_after: options.quarantineAfter,
    abandon_after: options.abandonAfter,
    code_version: options.codeVersion,
  });
}

function targetsOf(
  subject: string,
  targets: SyncOptions["targets"],
): readonly SyncTarget[] | undefined {
  const listed: unknown = typeof targets === "function" ? targets() : targets;
  if (listed === undefined && targets === undefined) return undefined;
  if (Array.isArray(listed)) return [...(listed as readonly SyncTarget[])];
  if (typeof listed === "object" && listed !== null && "then" in listed) {
    throw invalid(
      subject,
      "has targets that answers a promise; await the list before the sync is defined.",
    );
  }
  throw invalid(
    subject,
    `has the targets ${shown(listed)}; give a list such as [{ wallet: "0x1" }], or a function ` +
      "that answers one.",
  );
}

/** A block as it is kept: numbers only, so a bigint must be one that a number can hold. */
function blockOf(subject: string, option: string, given: unknown): unknown {
  if (typeof given !== "bigint") return given;
  const block = Number(given);
  if (Number.isSafeInteger(block)) return block;
  throw invalid(
    subject,
    `has ${option} ${given}, which is too large; blocks end at ${Number.MAX_SAFE_INTEGER}.`,
    { option },
  );
}

function orderOf(subject: string, given: unknown): SyncSpec["order"] | undefined {
  if (given === undefined) return undefined;
  const order = typeof given === "string" && Object.hasOwn(ORDERS, given) ? ORDERS[given] : null;
  if (order !== null) return order;
  throw invalid(
    subject,
    `has the order ${shown(given)}; it must be "oldest first" or "newest first".`,
    { order: given },
  );
}

function shown(given: unknown): string {
  return typeof given === "bigint" ? String(given) : (JSON.stringify(given) ?? "nothing");
}

function invalid(subject: string, fault: string, details: Record<string, unknown> = {}): PawlError {
  return new PawlError("DEFINITION_INVALID", `${subject} ${fault}`, { details });
}
