import { z } from "zod";
import type { Json } from "../core/canonical.ts";
import { Count, FailureField, InstantText } from "../core/events/fields.ts";
import { addMs, type Instant, msBetween } from "../core/instant.ts";
import type { Anchor } from "../core/source-protocol.ts";
import type { NewProbe, Probe } from "../store/store.ts";

/** Longest pause between two looks at a head that fail, unless it is looked at more seldom. */
const BACKOFF_MS_MAX = 60_000;
/** Newest known hashes that a look is given; a rewrite that is deeper is measured by the oldest. */
const ANCHORS_GIVEN = 32;

/** What the probe of a head remembers. */
export const HeadMemory = z.object({
  looked_at: InstantText.nullable().default(null),
  /** Looks in a row that failed, and why the last one did. */
  failures: Count.default(0),
  error: FailureField.nullable().default(null),
});
export type HeadMemory = z.infer<typeof HeadMemory>;

/** What a probe remembers; nothing when it is new, or its value is not as expected. */
export function headMemoryOf(value: Json): HeadMemory {
  return HeadMemory.safeParse(value ?? {}).data ?? HeadMemory.parse({});
}

/** The probe of a source's head. */
export function headProbeId(sync: string, source: string): string {
  return `head:${sync}:${source}`;
}

/** The source that a head's probe is about. */
export function sourceOfProbe({ probe_id, subject }: Pick<Probe, "probe_id" | "subject">): string {
  return probe_id.slice(headProbeId(subject, "").length);
}

/** A look at a head that is due at once. */
export function newHeadProbe(sync: string, source: string, now: Instant): NewProbe {
  const probe_id = headProbeId(sync, source);
  return { probe_id, kind: "head", subject: sync, due_at: now, value: null };
}

/** The longest time between two looks at a head, however often they fail. */
export function longestPauseMs(everyMs: number): number {
  return Math.max(everyMs, BACKOFF_MS_MAX);
}

/** When a head is looked at again after so many looks in a row that failed. */
export function nextHeadAt(now: Instant, everyMs: number, failures: number): Instant {
  return addMs(now, Math.min(everyMs * 2 ** Math.min(failures, 30), longestPauseMs(everyMs)));
}

/** How long it is until one of these can be leased, at most so long; nothing for one that is due. */
export function freeInMs(
  probes: readonly Pick<Probe, "due_at" | "leased_until">[],
  now: Instant,
  msMax: number,
): number {
  const waits = probes.map(({ due_at, leased_until }) =>
    msBetween(now, leased_until !== null && leased_until > due_at ? leased_until : due_at),
  );
  return Math.max(0, Math.min(msMax, ...waits));
}

/** The known hashes that a look compares, newest first: the newest ones, and the oldest of all. */
export function anchorsFor(known: readonly Anchor[]): Anchor[] {
  const [oldest] = known;
  const newest = known.slice(-ANCHORS_GIVEN).toReversed();
  return oldest === undefined || known.length <= ANCHORS_GIVEN ? newest : [...newest, oldest];
}
