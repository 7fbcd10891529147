import { present } from "../core/assert.ts";
import type { NewEvent } from "../core/events/index.ts";
import type { Rows } from "../core/rows/rows.ts";
import type { RunRow } from "../core/rows/run-rows.ts";
import type { SegmentRow } from "../core/rows/sync-rows.ts";
import type { Condition, Key } from "../core/rows/table.ts";
import { cancelEvents, needForCancel } from "./cancel-run.ts";
import { type Context, DECISION_EVENTS_MAX } from "./decision.ts";
import { segmentOfRun } from "./run-lookup.ts";

/** Segments that one look-up brings. */
const PAGE_SIZE = 500;

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

/** What an attempt may go on behind: before the first block that was set aside, which is tried again. */
export function resumePoint(segment: SegmentRow): number | null {
  const { last_processed_block: done, set_aside, from_block } = segment;
  if (done === null || set_aside === null) return done;
  const first = set_aside.reduce((least, { block }) => Math.min(least, block), done + 1);
  return first - 1 < from_block ? null : first - 1;
}
