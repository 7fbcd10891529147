import { assert, present } from "../../kernel/errors.ts";
import type { EventData } from "../events.ts";
import { type MoveRow, type MoveSegmentRow, NEW_MOVE_SEGMENT } from "./rows.ts";
import type { ShardKey } from "../shard/step-protocol.ts";
import { entitySubject } from "../keys.ts";
import { moveOf, moveSegmentOf, putMove, replaceMoveSegment, withLane } from "./fold-steps.ts";
import type { Folding, Recorded, Touch } from "../fold.ts";

const NO_COUNTS = {
  lanes_sealed: 0,
  next_segment: 0,
  segments_total: 0,
  segments_pending: 0,
  segments_active: 0,
  segments_copied: 0,
  segments_removed: 0,
  segments_poisoned: 0,
  segments_excluded: 0,
  segments_discarding: 0,
  rows_estimated: 0,
  rows_copied: 0,
  bytes_copied: 0,
  rows_removed: 0,
  retries: 0,
  retries_counted: 0,
  work_ms: 0,
  verifications: 0,
  verify_waiting: 0,
  verify_failed: 0,
  verify_next: 0,
  checks: 0,
  checked_n: 0,
};

/** What the survey of a lane begins with. */
const NOT_SURVEYED = {
  after: null,
  pages: 0,
  sealed: false,
  run_pos: null,
  runs: 0,
  report: null,
} as const;

const movePlanned: Folding<"MovePlanned"> = {
  subject: ({ move_id }) => entitySubject(move_id),
  touches: ({ move_id }) => [["moves", [move_id]]],
  apply(rows, { data, pos, occurred_at }) {
    const { move_id, name, plan, spec_hash, changed_by: planned_by } = data;
    assert(rows.moves.get(move_id) === null, "a move is planned once");
    rows.moves.put({
      ...NO_COUNTS,
      move_id,
      name,
      plan,
      dry_run: data.dry_run ? 1 : 0,
      spec_hash,
      state: "PLANNED",
      state_version: 1,
      reason: null,
      lanes: data.lanes.map((lane) => ({ ...lane, ...NOT_SURVEYED })),
      segment_concurrency: plan.segment_concurrency,
      rows_per_second: plan.rows_per_second,
      last_error: null,
      last_error_at: null,
      check_run_pos: null,
      check_ok: null,
      check_report: null,
      planned_by,
      created_at: occurred_at,
      created_pos: pos,
      started_at: null,
      finished_at: null,
      row_version: pos,
    });
  },
};

const moveStateChanged: Folding<"MoveStateChanged"> = {
  subject: ({ move_id }) => entitySubject(move_id),
  touches: ({ move_id }) => [["moves", [move_id]]],
  apply(rows, { data, pos, occurred_at }) {
    const move = moveOf(rows, data.move_id);
    const { from_state, to_state, state_version, reason } = data;
    assert(move.state === from_state, `${data.move_id} is ${from_state}`);
    assert(state_version === move.state_version + 1, "state versions grow by one");
    if (to_state === "COMPLETE") assertComplete(move);
    const isOn = to_state === "RUNNING" || to_state === "PLANNED";
    const after: MoveRow = {
      ...move,
      state: to_state,
      state_version,
      reason,
      // Whoever lets it go on has seen what went wrong.
      retries_counted: isOn ? 0 : move.retries_counted,
      check_ok: isOn ? null : move.check_ok,
      started_at: move.started_at ?? (to_state === "RUNNING" ? occurred_at : null),
      finished_at: to_state === "COMPLETE" || to_state === "CANCELLED" ? occurred_at : null,
    };
    putMove(rows, after, pos);
  },
};

function assertComplete(move: MoveRow): void {
  assert(move.lanes_sealed === move.lanes.length, "what is complete is surveyed");
  assert(move.segments_pending === 0 && move.segments_poisoned === 0, "nothing is left to copy");
  assert(move.segments_copied === 0 || move.plan.keep_source, "nothing is left to remove");
  assert(move.segments_active === 0 && move.segments_discarding === 0, "nothing is under way");
  assert(move.check_ok === 1, "it was looked at where all rows are");
}

const moveRetuned: Folding<"MoveRetuned"> = {
  subject: ({ move_id }) => entitySubject(move_id),
  touches: ({ move_id }) => [["moves", [move_id]]],
  apply(rows, { data, pos }) {
    const move = moveOf(rows, data.move_id);
    const { state_version, segment_concurrency, rows_per_second } = data;
    assert(state_version === move.state_version + 1, "state versions grow by one");
    putMove(rows, { ...move, state_version, segment_concurrency, rows_per_second }, pos);
  },
};

const segmentsPlanned: Folding<"MoveSegmentsPlanned"> = {
  subject: ({ move_id }) => entitySubject(move_id),
  touches: ({ move_id }) => [["moves", [move_id]]],
  apply(rows, { data, pos, occurred_at }) {
    const { move_id, lane: index, page, first_index, segments, sealed } = data;
    let move = moveOf(rows, move_id);
    const lane = present(move.lanes[index], "the move has the lane");
    assert(!lane.sealed && page === lane.pages, "pages of a lane are numbered");
    assert(first_index === move.next_segment, "segments get the next indexes");
    let lower = lane.after;
    for (const [offset, segment] of segments.entries()) {
      assert(isSameKey(segment.lower, lower), "segments tile the keys of their lane");
      const isLast = offset === segments.length - 1;
      assert((segment.upper === null) === (isLast && sealed), "only the last one has no end");
      move = replaceMoveSegment(rows, move, null, {
        ...NEW_MOVE_SEGMENT,
        move_id,
        segment_index: first_index + offset,
        segment_id: segment.segment_id,
        lane: index,
        table_name: lane.table.table,
        table_order: lane.order,
        lower: segment.lower,
        upper: segment.upper,
        rows_estimated: segment.rows,
        created_at: occurred_at,
        row_version: pos,
      });
      lower = segment.upper;
    }
    const surveyed = { after: lower, pages: page + 1, sealed };
    const after = {
      ...withLane(move, index, surveyed),
      lanes_sealed: move.lanes_sealed + (sealed ? 1 : 0),
      next_segment: first_index + segments.length,
    };
    putMove(rows, after, pos);
  },
};

function isSameKey(a: ShardKey | null, b: ShardKey | null): boolean {
  if (a === null || b === null) return a === b;
  return a.length === b.length && a.every((part, index) => part === b[index]);
}

const segmentSplit: Folding<"MoveSegmentSplit"> = {
  subject: ({ move_id }) => entitySubject(move_id),
  touches: ({ move_id, segment_index }) => touchesOf({ move_id, segment_index }),
  apply(rows, { data, pos, occurred_at }) {
    const { move_id, segment_index, generation, split_at, rest } = data;
    const move = moveOf(rows, move_id);
    const segment = moveSegmentOf(rows, move_id, segment_index);
    assert(segment.state === "PENDING", "only what is being copied is split");
    assert(segment.generation === generation, "the segment is the one that was meant");
    assert(rest.segment_index === move.next_segment, "the rest gets the next index");
    const first: MoveSegmentRow = {
      ...segment,
      upper: split_at,
      rows_estimated: Math.max(0, segment.rows_estimated - rest.rows),
      row_version: pos,
    };
    const second: MoveSegmentRow = {
      ...NEW_MOVE_SEGMENT,
      move_id,
      segment_index: rest.segment_index,
      segment_id: rest.segment_id,
      lane: segment.lane,
      table_name: segment.table_name,
      table_order: segment.table_order,
      lower: split_at,
      upper: segment.upper,
      rows_estimated: rest.rows,
      created_at: occurred_at,
      row_version: pos,
    };
    const shortened = replaceMoveSegment(rows, move, segment, first);
    const after = replaceMoveSegment(rows, shortened, null, second);
    putMove(rows, { ...after, next_segment: after.next_segment + 1 }, pos);
  },
};

type Change = EventData<"MoveSegmentChanged">;

function touchesOf(data: { move_id: string; segment_index: number | null }): Touch[] {
  const { move_id, segment_index } = data;
  const move = ["moves", [move_id]] as const;
  return segment_index === null ? [move] : [move, ["moveSegments", [move_id, segment_index]]];
}

const segmentChanged: Folding<"MoveSegmentChanged"> = {
  subject: ({ move_id }) => entitySubject(move_id),
  touches: touchesOf,
  apply(rows, event) {
    const { data, pos, occurred_at } = event;
    const move = moveOf(rows, data.move_id);
    const segment = moveSegmentOf(rows, data.move_id, data.segment_index);
    assert(segment.run_pos === null, "a segment is changed by nobody but its run while it has one");
    assert(data.n === segment.changes + 1, "changes of a segment are numbered");
    const step = data.generation - segment.generation;
    assert(step === 0 || (step === 1 && data.becomes === "pending"), "generations grow by one");
    const changed = { ...becoming(move, segment, event), changes: data.n, row_version: pos };
    const isCounted = data.error !== null && data.becomes === "pending";
    const after: MoveRow = {
      ...move,
      check_ok: null,
      rows_removed:
        move.rows_removed + (data.becomes === "removed" ? (data.report?.rows_removed ?? 0) : 0),
      retries_counted: move.retries_counted + (isCounted ? 1 : 0),
      ...(data.error === null ? {} : { last_error: data.error, last_error_at: occurred_at }),
    };
    putMove(rows, replaceMoveSegment(rows, after, segment, changed), pos);
  },
};

function becoming(
  move: MoveRow,
  segment: MoveSegmentRow,
  { data, occurred_at }: Recorded<"MoveSegmentChanged">,
): MoveSegmentRow {
  switch (data.becomes) {
    case "pending":
      return pending(segment, data);
    case "copied":
      return copied(move, segment, data, occurred_at);
    case "removed":
      assert(segment.state === "COPIED", "only what was copied is removed");
      return { ...segment, state: "REMOVED", error: null, finished_at: occurred_at };
    case "poisoned":
      assert(
        segment.state === "PENDING" || segment.state === "COPIED",
        "only open work is poisoned",
      );
      return { ...segment, state: "POISONED", error: data.error, finished_at: occurred_at };
    case "excluded": {
      assert(segment.state === "POISONED", "only what was quarantined is excluded");
      const excluded = {
        by: data.changed_by ?? "pawl",
        reason: data.reason ?? "",
        at: occurred_at,
      };
      return { ...segment, state: "EXCLUDED", excluded, digest: null, finished_at: occurred_at };
    }
  }
}

function pending(
  segment: MoveSegmentRow,
  { generation, error, changed_by }: Change,
): MoveSegmentRow {
  const { state } = segment;
  assert(state !== "REMOVED" && state !== "EXCLUDED", "what is gone is not copied again");
  const isAgain = generation !== segment.generation;
  assert(isAgain || state === "POISONED", "only what was quarantined goes on where it was");
  return {
    ...segment,
    state: "PENDING",
    generation,
    // Whoever asks for it has seen what went wrong.
    failures: changed_by === null ? segment.failures + (error === null ? 0 : 1) : 0,
    error: error ?? segment.error,
    finished_at: null,
    ...(isAgain
      ? { rows_copied: 0, bytes_copied: 0, digest: null, cursor: null, position: null }
      : {}),
  };
}

function copied(
  move: MoveRow,
  segment: MoveSegmentRow,
  { report }: Change,
  finished_at: MoveSegmentRow["finished_at"],
): MoveSegmentRow {
  if (segment.state === "POISONED") {
    assert(segment.digest !== null, "what was not verified is not called copied");
    return { ...segment, state: "COPIED", failures: 0, error: null };
  }
  assert(segment.state === "PENDING", "only what is pending is copied");
  return {
    ...segment,
    state: "COPIED",
    rows_copied: present(report?.rows, "a copy counts its rows"),
    digest: present(report?.digest, "a copy is verified"),
    failures: 0,
    error: null,
    verify_n: move.verifications,
    verify_ok: 1,
    verify_note: null,
    verified_at: finished_at,
    finished_at,
  };
}

const verifyRequested: Folding<"MoveVerifyRequested"> = {
  subject: ({ move_id }) => entitySubject(move_id),
  touches: ({ move_id }) => [["moves", [move_id]]],
  apply(rows, { data, pos }) {
    const move = moveOf(rows, data.move_id);
    assert(data.n === move.verifications + 1, "verifications are numbered");
    const asked = { verifications: data.n, verify_waiting: move.segments_copied };
    putMove(rows, { ...move, ...asked, verify_failed: 0, verify_next: 0 }, pos);
  },
};

const moveChecked: Folding<"MoveChecked"> = {
  subject: ({ move_id }) => entitySubject(move_id),
  touches: touchesOf,
  apply(rows, { data, pos, occurred_at }) {
    const { move_id, segment_index, n, ok, report } = data;
    const move = moveOf(rows, move_id);
    if (segment_index === null) {
      assert(n === move.checks, "the last look is the one that counts");
      const found = { check_ok: ok ? 1 : 0, check_report: report, checked_n: move.verifications };
      putMove(rows, { ...move, ...found }, pos);
      return;
    }
    const segment = moveSegmentOf(rows, move_id, segment_index);
    assert(segment.state === "COPIED", "only what was copied is compared");
    assert(segment.verify_n < n && n <= move.verifications, "a request compares a segment once");
    const after: MoveSegmentRow = {
      ...segment,
      verify_n: n,
      verify_ok: ok ? 1 : 0,
      verify_note: report.note ?? null,
      verified_at: occurred_at,
      row_version: pos,
    };
    const told = { ...move, verify_failed: move.verify_failed + (ok ? 0 : 1) };
    putMove(rows, replaceMoveSegment(rows, told, segment, after), pos);
  },
};

/** The foldings of moves and their segments. */
export const MOVE_FOLDS = {
  MovePlanned: movePlanned,
  MoveStateChanged: moveStateChanged,
  MoveRetuned: moveRetuned,
  MoveSegmentsPlanned: segmentsPlanned,
  MoveSegmentSplit: segmentSplit,
  MoveSegmentChanged: segmentChanged,
  MoveVerifyRequested: verifyRequested,
  MoveChecked: moveChecked,
};
