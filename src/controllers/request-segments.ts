import type { NewEvent } from "../core/events/index.ts";
import { segmentRunKey, verifyRunKey } from "../core/keys.ts";
import type { Rows } from "../core/rows/rows.ts";
import type { SegmentRow, SyncRow, SyncSourceRow } from "../core/rows/sync-rows.ts";
import type { Condition, Order } from "../core/rows/table.ts";
import type { SegmentPurpose } from "../core/segment-protocol.ts";
import { workNameOf } from "../core/sync-spec.ts";
import type { Context } from "./decision.ts";
import { RUN_CLASS } from "./request-run.ts";
import { limitOf, parallelOf, type PinnedSync, safeEnd } from "./sync-lookup.ts";
import { workRun } from "./work-run.ts";

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
  return workRun(
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
