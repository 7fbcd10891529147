import { present } from "../core/assert.ts";
import type { SegmentRef } from "../core/events/run-events.ts";
import type { Rows } from "../core/rows/rows.ts";
import type { RunAssetRow, RunRow } from "../core/rows/run-rows.ts";
import type { SegmentRow, SyncRow } from "../core/rows/sync-rows.ts";
import type { Key } from "../core/rows/table.ts";
import type { ClaimedSegment } from "../core/segment-protocol.ts";
import type { Anchor } from "../core/source-protocol.ts";
import { type SyncSpec, workNameOf } from "../core/sync-spec.ts";
import { pinnedSync } from "./asset-lookup.ts";
import { segmentOfRun } from "./run-lookup.ts";
import { resumePoint } from "./segment-lookup.ts";
import { currentSync, parallelOf, safeEnd, seesRewrites } from "./sync-lookup.ts";

/**
 * Which runs of segments may start: only so many of a sync at once, none while it stands still, and
 * nothing that is not safe.
 */
export class SyncSlots {
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

/**
 * What a worker is told of the segment of a run; undefined for a run of assets, null when the segment
 * has become another since.
 */
export function claimedSegment(
  rows: Rows,
  run: RunRow,
  asset: RunAssetRow,
): ClaimedSegment | null | undefined {
  const ref = segmentOfRun(run);
  if (ref === null) return undefined;
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
