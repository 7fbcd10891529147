import type { NewEvent } from "../core/events/index.ts";
import type { BackfillRow } from "../core/rows/backfill-rows.ts";
import type { Rows } from "../core/rows/rows.ts";
import { cancelEvents } from "./cancel-run.ts";
import { type Context, DECISION_EVENTS_MAX, RoomUsed } from "./decision.ts";

/** Most runs that one decision looks at: the row of a run holds all keys of its partitions. */
const RUNS_READ_MAX = 100;

/**
 * Cancels runs of a backfill that nobody has cancelled yet, as many as one decision may hold; the
 * rest is for the next ones.
 */
export function cancelActiveRuns(rows: Rows, backfill: BackfillRow, context: Context): NewEvent[] {
  const where = [
    { cell: "backfill_id", is: "=", value: backfill.backfill_id },
    { cell: "state", is: "in", values: ["PENDING", "RUNNING"] },
    { cell: "cancel_requested_at", is: "null" },
  ] as const;
  const runs = rows.runs.find(where, [{ cell: "run_pos" }], RUNS_READ_MAX);
  const used = new RoomUsed(context.room);
  const reason = `backfill ${backfill.backfill_id} was cancelled`;
  const events: NewEvent[] = [];
  for (const run of runs) {
    if (!used.take(run.tasks_total, 0)) break;
    const cancelled = cancelEvents(rows, run, reason, context);
    // One place is left for the change of state that may come first.
    if (events.length + cancelled.length > DECISION_EVENTS_MAX - 1) break;
    events.push(...cancelled);
  }
  return events;
}
