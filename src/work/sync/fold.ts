import { assert, present } from "../../kernel/errors.ts";
import { type SyncSourceRow, NEW_SEGMENT, type SegmentRow, type SyncRow } from "./rows.ts";
import type { Folding, Recorded, Touch } from "../fold.ts";
import type { EventData } from "../events.ts";
import type { Rows } from "../rows.ts";
import { entitySubject } from "../keys.ts";
import { putSync, replaceSegment, shareOfRows, syncOf } from "./fold-segments.ts";

/** Most hashes of blocks that are kept of a source, and most rewrites. */
const ANCHORS_MAX = 128;
const REWRITES_KEPT = 32;

const syncHeadMoved: Folding<"SyncHeadMoved"> = {
  subject: () => 0,
  touches: ({ name, source }) => [["syncSources", [name, source]]],
  apply(rows, { data, pos, occurred_at }) {
    const { name, source, n, head, anchor } = data;
    const before = rows.syncSources.get(name, source);
    assert(n === (before?.moves ?? 0) + 1, "moves of a head are numbered");
    // Where less finality is asked for since, more is safe under the same head.
    assert(before === null || head >= before.head, "a head that moves moves on");
    rows.syncSources.put({
      name,
      source,
      head,
      head_at: occurred_at,
      moves: n,
      anchors: withAnchor(before?.anchors ?? [], anchor),
      rewrites: before?.rewrites ?? 0,
      recent_rewrites: before?.recent_rewrites ?? [],
      row_version: pos,
    });
  },
};

/** The anchors with one more, if it is newer than all of them. */
function withAnchor(
  anchors: SyncSourceRow["anchors"],
  anchor: SyncSourceRow["anchors"][number] | null,
): SyncSourceRow["anchors"] {
  const isNewer = anchor !== null && anchor.block > (anchors.at(-1)?.block ?? -1);
  return isNewer ? thinned([...anchors, anchor]) : anchors;
}

/**
 * Leaves out an anchor when there are too many: of the older half the one that is missed least, so
 * that they lie the closer the newer they are, and however deep a fork is, one is not far below it.
 */
function thinned(anchors: SyncSourceRow["anchors"]): SyncSourceRow["anchors"] {
  if (anchors.length <= ANCHORS_MAX) return anchors;
  const newest = blockAt(anchors, anchors.length - 1);
  let least = Number.POSITIVE_INFINITY;
  let at = 1;
  for (let index = 1; index < ANCHORS_MAX / 2; index++) {
    const below = blockAt(anchors, index - 1);
    const missed = (blockAt(anchors, index + 1) - below) / (newest - below);
    if (missed < least) [least, at] = [missed, index];
  }
  return anchors.filter((_, index) => index !== at);
}

function blockAt(anchors: SyncSourceRow["anchors"], index: number): number {
  return present(anchors[index], "the place is among the anchors").block;
}

const syncRewritten: Folding<"SyncRewritten"> = {
  subject: () => 0,
  touches: ({ name, source }) => [["syncSources", [name, source]]],
  apply(rows, { data, pos, occurred_at }) {
    const { name, source, n, fork_block, head, anchor } = data;
    const before = present(rows.syncSources.get(name, source), "what is rewritten was seen before");
    assert(n === before.rewrites + 1, "rewrites are numbered");
    const rewrite = { n, fork_block, at: occurred_at };
    const anchors = before.anchors.filter(({ block }) => block <= fork_block);
    rows.syncSources.put({
      ...before,
      head,
      head_at: occurred_at,
      anchors: withAnchor(anchors, anchor ?? null),
      rewrites: n,
      recent_rewrites: [...before.recent_rewrites, rewrite].slice(-REWRITES_KEPT),
      row_version: pos,
    });
  },
};

const syncHeadSet: Folding<"SyncHeadSet"> = {
  subject: () => 0,
  touches: ({ name, source }) => [["syncSources", [name, source]]],
  apply(rows, { data, pos, occurred_at }) {
    const { name, source, n, head, cut } = data;
    const before = rows.syncSources.get(name, source);
    assert(n === (before?.moves ?? 0) + 1, "moves of a head are numbered");
    const rewrites = before?.rewrites ?? 0;
    assert(cut === null || cut.rewrite === rewrites + 1, "rewrites are numbered");
    const recent = before?.recent_rewrites ?? [];
    const added =
      cut === null
        ? []
        : [{ n: cut.rewrite, fork_block: head, at: occurred_at, cut_from: cut.from }];
    rows.syncSources.put({
      name,
      source,
      head,
      head_at: occurred_at,
      moves: n,
      anchors: (before?.anchors ?? []).filter(({ block }) => block <= head),
      rewrites: cut?.rewrite ?? rewrites,
      recent_rewrites: [...recent, ...added].slice(-REWRITES_KEPT),
      row_version: pos,
    });
  },
};

/** The foldings of heads of sources. */
export const HEAD_FOLDS = {
  SyncHeadMoved: syncHeadMoved,
  SyncHeadSet: syncHeadSet,
  SyncRewritten: syncRewritten,
};

const NO_COUNTS = {
  segments_total: 0,
  segments_pending: 0,
  segments_queued: 0,
  segments_running: 0,
  segments_failed: 0,
  segments_complete: 0,
  segments_quarantined: 0,
  blocks_complete: 0,
  rows_stored: 0,
  retry_count: 0,
  work_blocks: 0,
  work_ms: 0,
  reopenings: 0,
  verifications: 0,
  verify_waiting: 0,
  verify_active: 0,
  next_segment: 0,
};

const syncsAdded: Folding<"SyncsAdded"> = {
  subject: ({ syncs: [first, second] }) =>
    first === undefined || second !== undefined ? 0 : entitySubject(first.sync_id),
  touches: ({ name, syncs }) =>
    syncs.flatMap(({ sync_id, source }) => [
      ["syncs", [sync_id]] as const,
      ["syncSources", [name, source]] as const,
    ]),
  apply(rows, { data, pos, occurred_at }) {
    for (const added of data.syncs) {
      assert(rows.syncs.get(added.sync_id) === null, "a sync is added once");
      rows.syncs.put({
        ...NO_COUNTS,
        ...added,
        name: data.name,
        origin: data.origin,
        state: "PENDING",
        status: "PENDING",
        state_version: 1,
        reason: null,
        planned_to: null,
        segment_size: null,
        synced_to: added.from_block - 1,
        last_error: null,
        last_error_at: null,
        // What the source rewrote before is nothing to a sync that has fetched nothing.
        rewrites_seen: rows.syncSources.get(data.name, added.source)?.rewrites ?? 0,
        created_at: occurred_at,
        created_pos: pos,
        started_at: null,
        completed_at: null,
        row_version: pos,
      });
    }
  },
};

const syncStateChanged: Folding<"SyncStateChanged"> = {
  subject: ({ sync_id }) => entitySubject(sync_id),
  touches: ({ sync_id }) => [["syncs", [sync_id]]],
  apply(rows, { data, pos, occurred_at }) {
    const sync = syncOf(rows, data.sync_id);
    const { from_state, to_state, state_version, reason } = data;
    assert(sync.state === from_state, `${data.sync_id} is ${from_state}`);
    assert(state_version === sync.state_version + 1, "state versions grow by one");
    const isWhole = to_state === "COMPLETE" || to_state === "FOLLOWING";
    if (isWhole) {
      assert(sync.segments_complete === sync.segments_total, "what is whole has no open segment");
      assert(sync.synced_to === sync.planned_to, "what is whole is synced to the end of its plan");
    }
    const after = {
      ...sync,
      state: to_state,
      state_version,
      reason,
      started_at: sync.started_at ?? (to_state === "RUNNING" ? occurred_at : null),
      completed_at: isWhole ? occurred_at : sync.completed_at,
    };
    putSync(rows, after, pos);
  },
};

const syncRetuned: Folding<"SyncRetuned"> = {
  subject: ({ sync_id }) => entitySubject(sync_id),
  touches: ({ sync_id }) => [["syncs", [sync_id]]],
  apply(rows, { data, pos }) {
    const sync = syncOf(rows, data.sync_id);
    const { state_version, max_parallel, priority } = data;
    assert(state_version === sync.state_version + 1, "state versions grow by one");
    putSync(rows, { ...sync, state_version, max_parallel, priority }, pos);
  },
};

const planCut: Folding<"SyncPlanCut"> = {
  subject: ({ sync_id }) => entitySubject(sync_id),
  touches: ({ sync_id, removed, shortened }) => [
    ["syncs", [sync_id]],
    ...[...removed, ...(shortened === null ? [] : [shortened])].map(
      (index) => ["segments", [sync_id, index]] as const,
    ),
  ],
  apply(rows, event) {
    const { data, pos } = event;
    const { sync_id, n, removed, shortened, planned_to, rewrites_seen } = data;
    let sync = syncOf(rows, sync_id);
    assert(n === sync.reopenings + 1, "cuts are numbered with reopenings");
    const idle = (index: number): SegmentRow => {
      const segment = present(rows.segments.get(sync_id, index), "the segment exists");
      assert(segment.status === "PENDING" && segment.run_pos === null, "what is cut is at rest");
      return segment;
    };
    for (const index of removed) {
      const segment = idle(index);
      assert(segment.from_block > planned_to, "what goes lies behind the plan");
      sync = replaceSegment(rows, sync, segment, null, event);
    }
    if (shortened !== null) {
      const segment = idle(shortened);
      assert(segment.from_block <= planned_to, "what is shortened keeps a block");
      const after = { ...segment, to_block: planned_to, row_version: pos };
      sync = replaceSegment(rows, sync, segment, after, event);
    }
    const size = planned_to - sync.from_block + 1;
    const after = {
      ...sync,
      reopenings: n,
      planned_to,
      segment_size: Math.max(1, Math.min(sync.segment_size ?? 1, size)),
      rewrites_seen: rewrites_seen ?? sync.rewrites_seen,
    };
    putSync(rows, after, pos);
  },
};

const segmentsPlanned: Folding<"SyncSegmentsPlanned"> = {
  subject: ({ sync_id }) => entitySubject(sync_id),
  touches: ({ sync_id }) => [["syncs", [sync_id]]],
  apply(rows, { data, pos, occurred_at }) {
    const sync = syncOf(rows, data.sync_id);
    const { sync_id, segment_kind: kind, first_index, from_block, ends } = data;
    assert(first_index === sync.next_segment, "segments get the next indexes");
    assert(
      from_block === (sync.planned_to === null ? sync.from_block : sync.planned_to + 1),
      "segments begin where the plan ends",
    );
    let from = from_block;
    let largest = sync.segment_size ?? 0;
    for (const [offset, to_block] of ends.entries()) {
      assert(to_block >= from, "a segment has at least one block");
      rows.segments.insert({
        ...NEW_SEGMENT,
        sync_id,
        segment_index: first_index + offset,
        kind,
        from_block: from,
        to_block,
        undo: data.undo === true ? 1 : 0,
        created_at: occurred_at,
        updated_at: occurred_at,
        row_version: pos,
      });
      if (sync.segment_size === null) largest = Math.max(largest, to_block - from + 1);
      from = to_block + 1;
    }
    const after = {
      ...sync,
      planned_to: from - 1,
      segment_size: largest,
      next_segment: first_index + ends.length,
      segments_total: sync.segments_total + ends.length,
      segments_pending: sync.segments_pending + ends.length,
    };
    putSync(rows, after, pos);
  },
};

type Reopening = EventData<"SyncSegmentsReopened">;

function touchesOfReopening({ sync_id, splits, segments }: Reopening): Touch[] {
  return [
    ["syncs", [sync_id]],
    ...splits.flatMap(({ segment_index, tiles }) => [
      ["segments", [sync_id, segment_index]] as const,
      ...tiles.map((tile) => ["segments", [sync_id, tile.segment_index]] as const),
    ]),
    ...segments.map(({ segment_index }) => ["segments", [sync_id, segment_index]] as const),
  ];
}

const segmentsReopened: Folding<"SyncSegmentsReopened"> = {
  subject: ({ sync_id }) => entitySubject(sync_id),
  touches: touchesOfReopening,
  apply(rows, event) {
    const { data, pos } = event;
    let sync = syncOf(rows, data.sync_id);
    assert(data.n === sync.reopenings + 1, "reopenings are numbered");
    sync = {
      ...sync,
      reopenings: data.n,
      synced_to: data.synced_to,
      rewrites_seen: data.rewrites_seen ?? sync.rewrites_seen,
    };
    for (const split of data.splits) sync = splitComplete(rows, sync, split, event);
    for (const { segment_index, generation } of data.segments) {
      const segment = present(rows.segments.get(data.sync_id, segment_index), "the segment exists");
      assert(generation === segment.generation + 1, "generations grow by one");
      sync = replaceSegment(rows, sync, segment, openAgain(segment, generation, event), event);
    }
    putSync(rows, sync, pos);
  },
};

/** Cuts a complete segment into complete pieces, so that only some of it is opened again. */
function splitComplete(
  rows: Rows,
  sync: SyncRow,
  { segment_index, tiles }: Reopening["splits"][number],
  event: Recorded<"SyncSegmentsReopened">,
): SyncRow {
  const { pos, occurred_at } = event;
  const segment = present(rows.segments.get(sync.sync_id, segment_index), "the segment exists");
  assert(segment.status === "COMPLETE", "only what is complete is cut");
  let after = replaceSegment(rows, sync, segment, null, event);
  let next = segment.from_block;
  for (const tile of tiles) {
    assert(tile.from_block === next && tile.to_block >= next, "the pieces tile the segment");
    assert(tile.segment_index === after.next_segment, "pieces get the next indexes");
    next = tile.to_block + 1;
    after = { ...after, next_segment: after.next_segment + 1 };
    const piece: SegmentRow = {
      ...segment,
      ...tile,
      generation: 0,
      // A verification that still runs was of the whole, which is no more.
      run_pos: null,
      rows_stored: shareOfRows(segment, tile),
      end_hash: tile.to_block === segment.to_block ? segment.end_hash : null,
      last_processed_block: tile.to_block,
      verification: null,
      created_at: occurred_at,
      row_version: pos,
    };
    after = replaceSegment(rows, after, null, piece, event);
  }
  assert(next === segment.to_block + 1, "the pieces tile the segment to its end");
  return after;
}

/** A run that is still going keeps its place until it has ended; only then may another begin. */
function openAgain(
  segment: SegmentRow,
  generation: number,
  { data, pos }: Recorded<"SyncSegmentsReopened">,
): SegmentRow {
  return {
    ...segment,
    status: "PENDING",
    generation,
    last_processed_block: null,
    error_class: null,
    error_message: null,
    next_retry_at: null,
    set_aside: null,
    undo: data.undo ? 1 : segment.undo,
    end_hash: null,
    verification: null,
    reason: data.reason,
    excluded: null,
    finished_at: null,
    row_version: pos,
  };
}

const segmentExcluded: Folding<"SyncSegmentExcluded"> = {
  subject: ({ sync_id }) => entitySubject(sync_id),
  touches: ({ sync_id, segment_index }) => [
    ["syncs", [sync_id]],
    ["segments", [sync_id, segment_index]],
  ],
  apply(rows, event) {
    const { data, pos, occurred_at } = event;
    const sync = syncOf(rows, data.sync_id);
    const segment = present(
      rows.segments.get(data.sync_id, data.segment_index),
      "the segment exists",
    );
    assert(segment.status === "QUARANTINED", "only what was quarantined is excluded");
    assert(segment.generation === data.generation, "the segment is the one that was meant");
    const after: SegmentRow = {
      ...segment,
      status: "COMPLETE",
      excluded: { by: data.changed_by, reason: data.reason, at: occurred_at },
      finished_at: occurred_at,
      row_version: pos,
    };
    const moved = { ...sync, synced_to: data.synced_to };
    putSync(rows, replaceSegment(rows, moved, segment, after, event), pos);
  },
};

const verifyRequested: Folding<"SyncVerifyRequested"> = {
  subject: ({ sync_id }) => entitySubject(sync_id),
  touches: ({ sync_id, segments }) => [
    ["syncs", [sync_id]],
    ...segments.map((index) => ["segments", [sync_id, index]] as const),
  ],
  apply(rows, event) {
    const { data, pos, occurred_at } = event;
    let sync = syncOf(rows, data.sync_id);
    assert(data.n === sync.verifications + 1, "verifications are numbered");
    sync = { ...sync, verifications: data.n };
    for (const index of data.segments) {
      const segment = present(rows.segments.get(data.sync_id, index), "the segment exists");
      assert(segment.status === "COMPLETE", "only what is complete is verified");
      const { repair } = data;
      const verification = { status: "REQUESTED", repair, note: null, at: occurred_at } as const;
      const after = { ...segment, verification, row_version: pos };
      sync = replaceSegment(rows, sync, segment, after, event);
    }
    putSync(rows, sync, pos);
  },
};

/** The foldings of syncs and their segments. */
export const SYNC_FOLDS = {
  SyncsAdded: syncsAdded,
  SyncStateChanged: syncStateChanged,
  SyncRetuned: syncRetuned,
  ...HEAD_FOLDS,
  SyncPlanCut: planCut,
  SyncSegmentsPlanned: segmentsPlanned,
  SyncSegmentsReopened: segmentsReopened,
  SyncSegmentExcluded: segmentExcluded,
  SyncVerifyRequested: verifyRequested,
};
