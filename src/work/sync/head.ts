import { PawlError } from "../../kernel/errors.ts";
import type { NewEvent } from "../events.ts";
import { type Instant, instantOf, msBetween } from "../../kernel/instant.ts";
import { IDEMPOTENCY_KEYS } from "../keys.ts";
import type { SyncSourceRow } from "./rows.ts";
import type { HeadOutcome } from "./source-protocol.ts";
import { HEAD_RATE_MAX, type SyncSpec } from "./spec.ts";
import type { Decide } from "../decision.ts";
import { currentSync } from "./look-up.ts";

const START_OF_TIME = instantOf(0);

/** What a worker saw when it looked at the head of a source. */
export type SeenHead = {
  sync: string;
  source: string;
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
