import { type StartLimit } from "../kind.ts";
import type { NewEvent } from "../events.ts";
import { segmentRunKey, verifyRunKey } from "../keys.ts";
import type { Rows } from "../rows.ts";
import type { SegmentRow, SyncRow, SyncSourceRow } from "./rows.ts";
import type { Condition, Order, Key } from "../../kernel/table.ts";
import type { SegmentPurpose, ClaimedSegment } from "./segment-protocol.ts";
import { workNameOf, type SyncSpec } from "./spec.ts";
import type { Context } from "../decision.ts";
import { RUN_CLASS, singleTaskRun } from "../run/request.ts";
import {
  limitOf,
  parallelOf,
  type PinnedSync,
  safeEnd,
  resumePoint,
  currentSync,
  seesRewrites,
} from "./look-up.ts";
import { present } from "../../kernel/errors.ts";
import type { SegmentRef } from "../run/events.ts";
import type { RunAssetRow, RunRow } from "../run/rows.ts";
import type { Anchor } from "../probe-protocol.ts";
import { pinnedSync } from "../asset/look-up.ts";
import { segmentOfRun } from "../run/tasks.ts";

/** Most runs that one decision asks for; the sync stays dirty while there is room for more. */
const RUNS_REQUESTED_MAX = 50;
/** So many segments may wait for a retry, at least, before no new one is begun. */
const FAILED_MAX = 16;
/** Segments with a verification that one look-up brings. */
const PAGE_SIZE = 500;

/** Asks for runs of segments that wait for one: pieces of tail first, as many as there is room for. */
export function segmentRuns(
  rows: Rows,
  sync: SyncRow,
  definition: PinnedSync,
  source: SyncSourceRow | null,
  context: Context,
): NewEvent[] {
  const { spec } = definition;
  const room = roomOf(sync, definition);
  const safe = safeEnd(spec, source);
  if (room <= 0 || safe === null || sync.segments_pending === sync.segments_queued) return [];
  const find = (kind: SegmentRow["kind"], descending: boolean, limit: number): SegmentRow[] => {
    const where: Condition[] = [
      { cell: "sync_id", is: "=", value: sync.sync_id },
      { cell: "status", is: "=", value: "PENDING" },
      { cell: "kind", is: "=", value: kind },
      { cell: "run_pos", is: "null" },
      // After a rewrite the head may be lower than it was when this was planned.
      { cell: "to_block", is: "<=", value: safe },
    ];
    const order: Order[] = [{ cell: "from_block", descending }];
    return limit === 0 ? [] : rows.segments.find(where, order, limit);
  };
  const tails = find("tail", false, room);
  const left = Math.min(room - tails.length, historyRoom(rows, sync, spec));
  const history = find("history", spec.order === "newest_first", Math.max(0, left));
  return [...tails, ...history].map((segment) =>
    runOfSegment(sync, segment, definition, "fetch", context),
  );
}

function roomOf(sync: SyncRow, { spec }: PinnedSync): number {
  const { segments_queued: queued, segments_running: running, segments_failed: failed } = sync;
  const parallel = parallelOf(sync, spec);
  if (!spec.splittable) return queued + running + failed > 0 ? 0 : 1;
  if (failed >= Math.max(FAILED_MAX, 4 * parallel)) return 0;
  return Math.min(RUNS_REQUESTED_MAX, parallel - queued - running);
}

/**
 * How many more segments of history may run: one slot is left to what is new at the head, which would
 * otherwise wait for a segment that takes hours.
 */
function historyRoom(rows: Rows, sync: SyncRow, spec: PinnedSync["spec"]): number {
  const { segments_queued: queued, segments_running: running } = sync;
  const parallel = parallelOf(sync, spec);
  const follows = spec.has.head && limitOf(sync, spec) === null;
  if (!follows || parallel === 1) return parallel - queued - running;
  const where: Condition[] = [
    { cell: "sync_id", is: "=", value: sync.sync_id },
    { cell: "run_pos", is: "not null" },
    { cell: "status", is: "in", values: ["PENDING", "RUNNING"] },
    { cell: "kind", is: "=", value: "tail" },
  ];
  const tails = rows.segments.find(where, [{ cell: "segment_index" }], parallel).length;
  return parallel - 1 - (queued + running - tails);
}

/** Asks for runs that verify complete segments, where that was wished. */
export function verificationRuns(
  rows: Rows,
  sync: SyncRow,
  definition: PinnedSync,
  context: Context,
): NewEvent[] {
  const room = parallelOf(sync, definition.spec) - sync.verify_active;
  const most = Math.min(RUNS_REQUESTED_MAX, room, sync.verify_waiting);
  if (most <= 0 || !definition.spec.has.verify) return [];
  const found: SegmentRow[] = [];
  let after = -1;
  for (;;) {
    const where: Condition[] = [
      { cell: "sync_id", is: "=", value: sync.sync_id },
      { cell: "verification", is: "not null" },
      { cell: "segment_index", is: ">", value: after },
    ];
    const page = rows.segments.find(where, [{ cell: "segment_index" }], PAGE_SIZE);
    for (const segment of page) {
      // One that is asked for again waits for the run that is still ending.
      const waits = segment.verification?.status === "REQUESTED" && segment.run_pos === null;
      if (waits && found.length < most) found.push(segment);
    }
    if (found.length === most || page.length < PAGE_SIZE) break;
    after = page.at(-1)?.segment_index ?? after;
  }
  return found.map((segment) => runOfSegment(sync, segment, definition, "verify", context));
}

/** The request of the run of a segment: one task, under the generation that the segment has. */
function runOfSegment(
  sync: SyncRow,
  { segment_index, generation, kind }: SegmentRow,
  { spec, spec_hash }: PinnedSync,
  purpose: SegmentPurpose,
  context: Context,
): NewEvent {
  const { sync_id, name } = sync;
  const isLive = purpose === "fetch" && kind === "tail";
  return singleTaskRun(
    {
      run_key:
        purpose === "fetch"
          ? segmentRunKey(sync_id, segment_index, generation)
          : verifyRunKey(sync_id, segment_index, generation, sync.verifications),
      asset_key: workNameOf(name),
      spec_hash,
      code_version: spec.code_version,
      pool: spec.pool,
      trigger: { type: "sync", sync_id, segment_index, generation, purpose },
      class: isLive ? RUN_CLASS.live : RUN_CLASS.backfill,
      priority: sync.priority ?? spec.priority,
      retry: null,
    },
    context,
  );
}

/**
 * Which runs of segments may start: only so many of a sync at once, none while it stands still, and
 * nothing that is not safe.
 */
export class SyncSlots implements StartLimit {
  readonly #rows: Rows;
  /** Segments that the current claim has taken, by sync. */
  readonly #taken = new Map<string, number>();

  constructor(rows: Rows) {
    this.#rows = rows;
  }

  /** Has loaded what those of these assets are about that are segments. */
  need(assets: readonly RunAssetRow[]): void {
    const own = assets.filter(isOfSync);
    if (own.length === 0) return;
    this.#rows.runs.need(own.map(({ run_pos }): Key => [run_pos]));
    const found = own.map((asset) => ({ ref: this.#ref(asset), spec_hash: asset.spec_hash }));
    this.#rows.syncs.need(found.map(({ ref }): Key => [ref.sync_id]));
    this.#rows.segments.need(
      found.map(({ ref: { sync_id, segment_index } }): Key => [sync_id, segment_index]),
    );
    const syncs = found.map(({ ref }) => this.#sync(ref));
    this.#rows.syncSources.need(syncs.map(({ name, source }): Key => [name, source]));
    const names = new Set(syncs.map(({ name }) => name));
    this.#rows.definitions.need([...names].map((name): Key => ["sync", name]));
    const current = [...names].flatMap(
      (name) => this.#rows.definitions.get("sync", name)?.spec_hash ?? [],
    );
    const pinned = found.map(({ spec_hash }) => spec_hash);
    this.#rows.specs.need([...current, ...pinned].map((hash): Key => [hash]));
  }

  /** Whether a task of this asset of a run may start, as far as its sync is concerned. */
  isFree(asset: RunAssetRow): boolean {
    if (!isOfSync(asset)) return true;
    const ref = this.#ref(asset);
    const sync = this.#sync(ref);
    const segment = segmentOf(this.#rows, ref);
    if (segment === null) return false;
    if (ref.purpose === "verify") return sync.state !== "REMOVED";
    if (sync.state !== "RUNNING" && sync.state !== "FOLLOWING") return false;
    const pinned = pinnedSync(this.#rows, asset.spec_hash);
    const spec = currentSync(this.#rows, sync.name)?.spec ?? pinned;
    // The head of a source that rewrote its blocks may be lower than when the run was asked for; by
    // what is safe, the run goes by the spec that it was asked for under.
    const safe = safeEnd(pinned, this.#rows.syncSources.get(sync.name, sync.source));
    if (safe === null || segment.to_block > safe) return false;
    const running = sync.segments_running + (this.#taken.get(ref.sync_id) ?? 0);
    return running < parallelOf(sync, spec);
  }

  /** Counts a task of the run as started. */
  take(run: RunRow): void {
    const ref = segmentOfRun(run);
    if (ref === null || ref.purpose === "verify") return;
    this.#taken.set(ref.sync_id, (this.#taken.get(ref.sync_id) ?? 0) + 1);
  }

  #ref({ run_pos }: RunAssetRow): SegmentRef {
    const run = present(this.#rows.runs.get(run_pos), "an asset has its run");
    return present(segmentOfRun(run), "the run of a sync's work is about a segment");
  }

  #sync({ sync_id }: SegmentRef): SyncRow {
    return present(this.#rows.syncs.get(sync_id), "a segment's run has its sync");
  }
}

/** Whether a run's asset is the work of a sync, whose name no asset can have. */
function isOfSync({ asset_key }: RunAssetRow): boolean {
  return asset_key.startsWith(workNameOf(""));
}

/** The segment of a run, if it is still the one that the run is about. */
function segmentOf(rows: Rows, ref: SegmentRef): SegmentRow | null {
  const segment = rows.segments.get(ref.sync_id, ref.segment_index);
  return segment?.generation === ref.generation ? segment : null;
}

/** What a worker is told of the segment of a run; null when the segment has become another since. */
export function claimedSegment(rows: Rows, run: RunRow, asset: RunAssetRow): ClaimedSegment | null {
  const ref = present(segmentOfRun(run), "the run is about a segment");
  const segment = segmentOf(rows, ref);
  if (segment === null) return null;
  const sync = present(rows.syncs.get(ref.sync_id), "a segment's run has its sync");
  return described(
    sync,
    segment,
    ref,
    pinnedSync(rows, asset.spec_hash),
    anchorOf(rows, sync, segment),
  );
}

/** The lowest known hash that a rewrite of the segment would change, while somebody looks for rewrites. */
function anchorOf(rows: Rows, sync: SyncRow, { to_block }: SegmentRow): Anchor | undefined {
  if (!seesRewrites(rows, sync.name)) return undefined;
  const known = rows.syncSources.get(sync.name, sync.source);
  return known?.anchors.find(({ block }) => block >= to_block);
}

function described(
  { name, target, source }: SyncRow,
  segment: SegmentRow,
  { purpose }: SegmentRef,
  spec: SyncSpec,
  anchor: Anchor | undefined,
): ClaimedSegment {
  const { sync_id, segment_index, generation, from_block, to_block } = segment;
  const isFetch = purpose === "fetch";
  const last_processed_block = isFetch ? resumePoint(segment) : null;
  const { end_hash, rows_stored: rows } = segment;
  return {
    sync_id,
    sync: name,
    target,
    source,
    segment_index,
    generation,
    purpose,
    from_block,
    to_block,
    last_processed_block,
    ...(last_processed_block === null ? {} : { end_hash, rows }),
    ...(isFetch && anchor !== undefined ? { anchor } : {}),
    undo: isFetch && segment.undo === 1,
    is_live: segment.kind === "tail",
    splittable: spec.splittable,
    was_quarantined: segment.was_quarantined === 1,
    quarantine_after: spec.quarantine_after,
    request_size: spec.request_size,
    requests_per_second: spec.requests_per_second,
  };
}
