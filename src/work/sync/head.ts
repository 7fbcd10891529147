import { z } from "zod";
import type { Json } from "../../kernel/canonical.ts";
import { PawlError } from "../../kernel/errors.ts";
import { Count, FailureField, InstantText } from "../envelope.ts";
import type { NewEvent } from "../events.ts";
import { addMs, type Instant, instantOf, msBetween } from "../../kernel/instant.ts";
import type { Condition } from "../../kernel/table.ts";
import { IDEMPOTENCY_KEYS } from "../keys.ts";
import type { SyncRow, SyncSourceRow } from "./rows.ts";
import type { Anchor, HeadOutcome } from "../probe-protocol.ts";
import { HEAD_RATE_MAX, type SyncSpec } from "./spec.ts";
import type { Decide } from "../decision.ts";
import { currentSync } from "./look-up.ts";

const START_OF_TIME = instantOf(0);

/** A source of a sync. */
export type SyncSource = { sync: string; source: string };

/** What a worker saw when it polled the head of a source. */
export type SeenHead = SyncSource & {
  outcome: HeadOutcome;
  /** The position of what the look was compared with; null or absent when nobody knows. */
  asOf?: number | null;
};

/**
 * Records that a head moved on, or that its source rewrote blocks. A head that stands still or goes
 * back records nothing, and so does a look that failed, or that was compared with what was known before
 * another look: it would hide a rewrite, or repeat one.
 */
export function recordHead(seen: SeenHead): Decide<"recorded" | "unchanged"> {
  return (rows, { now }) => {
    const { sync, source, outcome, asOf = null } = seen;
    const definition = currentSync(rows, sync);
    if (outcome.type === "failed" || definition === null) return UNCHANGED;
    const before = rows.syncSources.get(sync, source);
    if (asOf !== null && asOf !== (before?.row_version ?? 0)) return UNCHANGED;
    refuseImplausible(seen, outcome.head, definition.spec, before, now);
    const event = rewritten(seen, outcome, before) ?? moved(seen, outcome, before);
    return event === null ? UNCHANGED : { events: [event], result: "recorded" };
  };
}

/** So many new blocks are believed at any time: a source may make them in bursts. */
const BURST = 10_000;

/**
 * Refuses a head that the source cannot have reached since it was last seen; one that was never seen
 * is taken to have begun with 1970. What a broken or hostile node says would be believed for ever:
 * heads never go back by themselves.
 */
function refuseImplausible(
  { source }: SeenHead,
  head: number,
  { name, head_rate_max = HEAD_RATE_MAX }: SyncSpec,
  before: SyncSourceRow | null,
  now: Instant,
): void {
  const known = before?.head ?? 0;
  const seconds = msBetween(before?.head_at ?? START_OF_TIME, now) / 1_000;
  if (head - known <= BURST + head_rate_max * Math.max(0, seconds)) return;
  throw new PawlError(
    "HEAD_IMPLAUSIBLE",
    `The source ${JSON.stringify(source)} of ${name} says that its head is ${head}, ` +
      `${before === null ? "the first time it is asked" : `${Math.ceil(seconds)} s after ${known}`}; ` +
      `more than ${head_rate_max} new blocks in a second are not believed. If it is right, say so ` +
      `with \`pawl sync set-head\`, or raise headRateMax of the sync.`,
    { details: { source, head, known_head: before?.head ?? null, head_rate_max } },
  );
}

const UNCHANGED = { events: [], result: "unchanged" } as const;

type Seen = Extract<HeadOutcome, { type: "seen" }>;

/** A rewrite of blocks whose hashes are known; what was acted on before is known no more. */
function rewritten(
  { sync, source }: SeenHead,
  { fork, head, safe }: Seen,
  before: SyncSourceRow | null,
): NewEvent | null {
  if (fork === null || before === null) return null;
  const fork_block = fork.block ?? -1;
  if (!before.anchors.some(({ block }) => block > fork_block)) return null;
  const n = before.rewrites + 1;
  return {
    type: "SyncRewritten",
    idempotency_key: IDEMPOTENCY_KEYS.syncRewrite(sync, source, n),
    // The hash that it has now goes with it: the source may do it again before its head moves.
    data: { name: sync, source, n, fork_block, head, anchor: anchorOf(head, safe) },
  };
}

function moved(
  { sync, source }: SeenHead,
  { head, safe }: Seen,
  before: SyncSourceRow | null,
): NewEvent | null {
  const anchor = anchorOf(head, safe);
  if (before !== null && !isNews(before, head, anchor)) return null;
  const n = (before?.moves ?? 0) + 1;
  return {
    type: "SyncHeadMoved",
    idempotency_key: IDEMPOTENCY_KEYS.syncHead(sync, source, n),
    data: { name: sync, source, n, head, anchor },
  };
}

/** A head that moved on, or one that stands still under which more may be synced than before. */
function isNews(before: SyncSourceRow, head: number, anchor: Seen["safe"]): boolean {
  if (head !== before.head || anchor === null) return head > before.head;
  return anchor.block > (before.anchors.at(-1)?.block ?? -1);
}

function anchorOf(head: number, safe: Seen["safe"]): Seen["safe"] {
  return safe !== null && safe.block <= head ? safe : null;
}

/** Longest pause between two polls of a head that fail, unless it is polled more seldom. */
const BACKOFF_MS_MAX = 60_000;
/** Newest known hashes that a poll is given; a rewrite that is deeper is measured by the oldest. */
const ANCHORS_GIVEN = 32;

/** What the probe of a head remembers. */
export const HeadMemory = z.object({
  looked_at: InstantText.nullable().default(null),
  /** Polls in a row that failed, and why the last one did. */
  failures: Count.default(0),
  error: FailureField.nullable().default(null),
});
export type HeadMemory = z.infer<typeof HeadMemory>;

/** What a probe remembers; nothing when it is new, or its value is not as expected. */
export function headMemoryOf(value: Json): HeadMemory {
  return HeadMemory.safeParse(value ?? {}).data ?? HeadMemory.parse({});
}

/** The probe of a source's head. */
export function headProbeId({ sync, source }: SyncSource): string {
  return `head:${sync}:${source}`;
}

/** The source that a head's probe is about. */
export function sourceOfProbe(probe: { probe_id: string; subject: string }): SyncSource {
  const sync = probe.subject;
  return { sync, source: probe.probe_id.slice(headProbeId({ sync, source: "" }).length) };
}

/** The longest time between two polls of a head, however often they fail. */
export function longestPauseMs(everyMs: number): number {
  return Math.max(everyMs, BACKOFF_MS_MAX);
}

/** When a head is polled again after so many polls in a row that failed. */
export function nextHeadAt(now: Instant, everyMs: number, failures: number): Instant {
  return addMs(now, Math.min(everyMs * 2 ** Math.min(failures, 30), longestPauseMs(everyMs)));
}

/** The known hashes that a poll compares, newest first: the newest ones, and the oldest of all. */
export function anchorsFor(known: readonly Anchor[]): Anchor[] {
  const [oldest] = known;
  const newest = known.slice(-ANCHORS_GIVEN).toReversed();
  return oldest === undefined || known.length <= ANCHORS_GIVEN ? newest : [...newest, oldest];
}

/** The syncs that go on with their source. */
export const GOING_ON: Condition = {
  cell: "state",
  is: "in",
  values: ["PENDING", "RUNNING", "FOLLOWING"],
};

/** States in which a sync needs no head, so that leaving them may bring the need back. */
export const RESTING: ReadonlySet<string> = new Set(["PAUSED", "COMPLETE"]);

/** Whether a sync may still grow, or waits for blocks to become safe. */
export function needsHead(row: SyncRow, spec: SyncSpec, known: SyncSourceRow | null): boolean {
  const end = row.to_limit ?? spec.to;
  if (end === null || row.planned_to === null || row.planned_to < end) return true;
  // Nothing runs while the head is not known, as of a range that was planned when there was none; and
  // a rewrite may have put the head back below what was planned before.
  if (known === null || row.planned_to > known.head - spec.finality) return true;
  // What is open is not fetched before a hash is known, nor complete while the source has left one, and
  // only a poll finds out that the source was rewritten.
  return row.synced_to < row.planned_to && (spec.has.hash || known.anchors.length > 0);
}
