import type { NewEvent } from "../events.ts";
import type { Rows } from "../rows.ts";
import type { RunRow } from "../run/rows.ts";
import type { SegmentRow, SyncRow, SyncSourceRow, SyncState } from "./rows.ts";
import type { Spec } from "../definition/published-spec.ts";
import type { Condition, Key } from "../../kernel/table.ts";
import { cancelEvents, needForCancel } from "../run/cancel.ts";
import { type Context, DECISION_EVENTS_MAX } from "../decision.ts";
import { segmentOfRun } from "../run/tasks.ts";
import { type SyncSpec, targetKeyOf } from "./spec.ts";
import { PawlError, present } from "../../kernel/errors.ts";
import { IDEMPOTENCY_KEYS } from "../keys.ts";
import { notFound } from "../command.ts";

/** Segments that one look-up brings. */
const PAGE_SIZE = 500;

/** The spec of a sync; null for one of something else. */
export function asSyncSpec(spec: Spec): SyncSpec | null {
  return spec.kind === "sync" ? spec : null;
}

/** What has not been fetched, or has to be again. */
export const OPEN_SEGMENTS = {
  cell: "status",
  is: "in",
  values: ["PENDING", "RUNNING", "FAILED", "QUARANTINED"],
} as const satisfies Condition;

/** Pages of the segments that meet a range of blocks, in order. */
export function* segmentsWithin(
  rows: Rows,
  syncId: string,
  from: number,
  to: number,
): Generator<SegmentRow[]> {
  const own = { cell: "sync_id", is: "=", value: syncId } as const;
  const begins = { cell: "from_block", is: "<=", value: from } as const;
  const last = [{ cell: "from_block", descending: true }];
  const [first] = rows.segments.find([own, begins], last, 1);
  if (first !== undefined && first.to_block >= from) yield [first];
  let after = from;
  for (;;) {
    const where: Condition[] = [
      own,
      { cell: "from_block", is: ">", value: after },
      { cell: "from_block", is: "<=", value: to },
    ];
    const page = rows.segments.find(where, [{ cell: "from_block" }], PAGE_SIZE);
    if (page.length > 0) yield page;
    if (page.length < PAGE_SIZE) return;
    after = page.at(-1)?.from_block ?? to;
  }
}

/** The runs of segments, by their place, with one load for all. */
export function runsOfSegments(
  rows: Rows,
  segments: readonly SegmentRow[],
): ReadonlyMap<number, RunRow> {
  const keys = segments.flatMap(({ run_pos }): Key[] => (run_pos === null ? [] : [[run_pos]]));
  rows.runs.need(keys);
  return new Map(
    keys.map(([runPos]) => {
      const run = present(rows.runs.get(runPos as number), "a segment's run exists");
      return [run.run_pos, run];
    }),
  );
}

/**
 * Cancels the runs of a sync that nobody has cancelled yet, but for its verifications unless they are
 * meant too; as many as one decision holds, and the rest is for the next.
 */
export function cancelSegmentRuns(
  rows: Rows,
  syncId: string,
  reason: string,
  context: Context,
  options: { verifications: boolean },
): NewEvent[] {
  const most = DECISION_EVENTS_MAX - 1;
  const events: NewEvent[] = [];
  let after = -1;
  for (;;) {
    const where: Condition[] = [
      { cell: "sync_id", is: "=", value: syncId },
      { cell: "run_pos", is: "not null" },
      { cell: "segment_index", is: ">", value: after },
    ];
    const page = rows.segments.find(where, [{ cell: "segment_index" }], PAGE_SIZE);
    const active = [...runsOfSegments(rows, page).values()].filter((run) => {
      if (run.cancel_requested_at !== null || run.finished_at !== null) return false;
      return options.verifications || segmentOfRun(run)?.purpose !== "verify";
    });
    needForCancel(rows, active.slice(0, most - events.length));
    for (const run of active) {
      const cancelled = cancelEvents(rows, run, reason, context);
      if (events.length + cancelled.length > most) return events;
      events.push(...cancelled);
    }
    if (page.length < PAGE_SIZE) return events;
    after = page.at(-1)?.segment_index ?? after;
  }
}

/** What an attempt may go on behind: before the first block that was quarantined, which is tried again. */
export function resumePoint(segment: SegmentRow): number | null {
  const { last_processed_block: done, set_aside, from_block } = segment;
  if (done === null || set_aside === null) return done;
  const first = set_aside.reduce((least, { block }) => Math.min(least, block), done + 1);
  return first - 1 < from_block ? null : first - 1;
}

/** A sync's spec and the hash that pins it. */
export type PinnedSync = { spec: SyncSpec; spec_hash: string };

/** The current definition of syncs of a name; null when there is none. */
export function currentSync(rows: Rows, name: string): PinnedSync | null {
  const definition = rows.definitions.get("sync", name);
  if (definition === null) return null;
  const { spec_hash } = definition;
  const body = rows.specs.get(spec_hash)?.body;
  const spec = body === undefined ? null : asSyncSpec(body);
  return spec === null ? null : { spec, spec_hash };
}

/** Whether looks at heads compare hashes for syncs of a name, so that a rewrite does not go unseen. */
export function seesRewrites(rows: Rows, name: string): boolean {
  const has = currentSync(rows, name)?.spec.has;
  return has?.head === true && has.hash;
}

/** How many segments of a sync may run at once. */
export function parallelOf(
  sync: Pick<SyncRow, "max_parallel">,
  spec: Pick<SyncSpec, "max_parallel" | "splittable">,
): number {
  return spec.splittable ? (sync.max_parallel ?? spec.max_parallel) : 1;
}

/** The last block of a sync's fixed range; null when it follows the head. */
export function limitOf(sync: SyncRow, spec: SyncSpec): number | null {
  return sync.to_limit ?? spec.to;
}

/** The newest block that may be fetched; null while the head is not known. */
export function safeEnd(spec: SyncSpec, source: SyncSourceRow | null): number | null {
  // Without a head to ask for, the whole of a fixed range is there.
  if (!spec.has.head) return Number.MAX_SAFE_INTEGER - 1;
  if (source === null) return null;
  const safe = source.head - spec.finality;
  if (!spec.has.hash) return safe;
  // Beyond the newest known hash a rewrite would go unseen, as where less finality is asked for since.
  return Math.min(safe, source.anchors.at(-1)?.block ?? -1);
}

/** The last block that should be planned by now; null while that is not known. */
export function wantedEnd(
  sync: SyncRow,
  spec: SyncSpec,
  source: SyncSourceRow | null,
): number | null {
  const safe = safeEnd(spec, source);
  const limit = limitOf(sync, spec);
  if (safe === null) return null;
  if (limit !== null) return Math.min(safe, limit);
  return spec.has.head ? safe : null;
}

/**
 * The end of the longest complete prefix when these segments are complete, and others, from
 * `openedFrom` on, are open.
 */
export function syncedTo(
  rows: Rows,
  sync: SyncRow,
  change: { completing?: number; openedFrom?: number | null },
): number {
  const { completing, openedFrom } = change;
  const where = [{ cell: "sync_id", is: "=", value: sync.sync_id }, OPEN_SEGMENTS] as const;
  const [open] = rows.segments
    .find(where, [{ cell: "from_block" }], 2)
    .filter(({ segment_index }) => segment_index !== completing);
  const first = Math.min(
    open?.from_block ?? Number.POSITIVE_INFINITY,
    openedFrom ?? Number.POSITIVE_INFINITY,
  );
  return Number.isFinite(first) ? first - 1 : (sync.planned_to ?? sync.from_block - 1);
}

const namedBy = new WeakMap<SyncSpec, ReadonlySet<string>>();

/** The targets that a definition names. Made once for a definition: every sync of it asks. */
export function targetsOf(spec: SyncSpec): ReadonlySet<string> {
  const known = namedBy.get(spec);
  if (known !== undefined) return known;
  const named = new Set(spec.targets.map(targetKeyOf));
  namedBy.set(spec, named);
  return named;
}

/** Whether code made the sync and does not name it any more. */
export function hasLeftCode(sync: SyncRow, spec: SyncSpec | null): boolean {
  return sync.origin === "code" && (spec === null || !targetsOf(spec).has(sync.target_key));
}

/** The sync of a name and a target that was not removed; null when there is none. */
export function livingSync(rows: Rows, name: string, targetKey: string): SyncRow | null {
  return syncsOfTarget(rows, name, targetKey, { cell: "state", is: "<>", value: "REMOVED" });
}

function syncsOfTarget(
  rows: Rows,
  name: string,
  targetKey: string,
  ...more: Condition[]
): SyncRow | null {
  const where: Condition[] = [
    { cell: "name", is: "=", value: name },
    { cell: "target_key", is: "=", value: targetKey },
    ...more,
  ];
  return rows.syncs.find(where, [{ cell: "sync_id", descending: true }], 1)[0] ?? null;
}

/** The refusal of a sync that there is not. */
export function syncNotFound(reference: string): PawlError {
  return notFound("SYNC_NOT_FOUND", "sync", reference);
}

/** The sync under an id, or of `name@target_key`; refuses what there is not. */
export function knownSync(rows: Rows, reference: string): SyncRow {
  const found = rows.syncs.get(reference) ?? ofTarget(rows, reference);
  if (found === null) throw syncNotFound(reference);
  return found;
}

/** One that is there goes before those that were removed. */
function ofTarget(rows: Rows, reference: string): SyncRow | null {
  const at = reference.indexOf("@");
  if (at < 0) return null;
  const [name, targetKey] = [reference.slice(0, at), reference.slice(at + 1)];
  return livingSync(rows, name, targetKey) ?? syncsOfTarget(rows, name, targetKey);
}

/** The current definition of syncs of a name; refuses one that there is not. */
export function knownDefinition(rows: Rows, name: string): PinnedSync {
  const definition = currentSync(rows, name);
  if (definition !== null) return definition;
  throw new PawlError(
    "SYNC_NOT_FOUND",
    `There is no definition of a sync ${JSON.stringify(name)}. Define it in code and publish it ` +
      "with `pawl deploy`.",
    { details: { sync: name } },
  );
}

/** The event that moves a sync to another state. */
export function syncStateChanged(
  sync: SyncRow,
  toState: SyncState,
  said: { changedBy?: string | undefined; reason?: string | null | undefined } = {},
): NewEvent {
  const state_version = sync.state_version + 1;
  return {
    type: "SyncStateChanged",
    idempotency_key: IDEMPOTENCY_KEYS.syncState(sync.sync_id, state_version, toState),
    data: {
      sync_id: sync.sync_id,
      from_state: sync.state,
      to_state: toState,
      state_version,
      changed_by: said.changedBy ?? null,
      reason: said.reason ?? null,
    },
  };
}

/** The change back to work of a sync that was whole and is no more; nothing for others. */
export function syncReopened(sync: SyncRow, reason: string): NewEvent[] {
  const isWhole = sync.state === "COMPLETE" || sync.state === "FOLLOWING";
  return isWhole ? [syncStateChanged(sync, "RUNNING", { reason })] : [];
}

/** Whether any of its segments has a run: counted, so that nothing is looked up in vain. */
export function hasActiveRuns(sync: SyncRow): boolean {
  const { segments_queued, segments_running, segments_failed, verify_active } = sync;
  return segments_queued + segments_running + segments_failed + verify_active > 0;
}

/** Stops the runs of a sync that stands still, as many as fit; the controller goes on with the rest. */
export function stopRuns(
  rows: Rows,
  sync: SyncRow,
  isRemoved: boolean,
  context: Context,
): NewEvent[] {
  if (!hasActiveRuns(sync)) return [];
  const name = `${sync.name}@${sync.target_key}`;
  const reason = `sync ${name} was ${isRemoved ? "removed" : "paused"}`;
  return cancelSegmentRuns(rows, sync.sync_id, reason, context, { verifications: isRemoved });
}
