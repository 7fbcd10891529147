import { pinnedSpec } from "../asset/look-up.ts";
import type { Context, Controller } from "../decision.ts";
import type { NewEvent } from "../events.ts";
import type { Rows } from "../rows.ts";
import { cancelEvents } from "../run/cancel.ts";
import { partRequested } from "../step-runs.ts";
import type { CountRow, CountState } from "./rows.ts";
import { sizeOf } from "./fold.ts";

/** Most chunks under way at once. */
const CONCURRENCY = 2;

/** The event that brings a count to another state. */
export function stateChanged(
  { count_id, state_version }: CountRow,
  to_state: CountState,
  {
    reason = null,
    retries = false,
  }: { reason?: string | null | undefined; retries?: boolean } = {},
): NewEvent {
  const version = state_version + 1;
  return {
    type: "CountStateChanged",
    idempotency_key: `count_state:${count_id}:${version}`,
    data: { count_id, to_state, state_version: version, reason, retries },
  };
}

/** Asks for runs of chunks until all are counted; stops those of a count that was cancelled. */
export const advanceCount: Controller<CountRow> = (rows, row, context) => {
  if (row.state === "CANCELLED") return stopRuns(rows, row, context);
  if (row.state !== "RUNNING") return [];
  const chunks = Math.ceil(row.to / row.chunk_size);
  const fresh = Array.from({ length: chunks - row.next }, (_, more) => row.next + more);
  const open = [...row.again, ...fresh];
  if (open.length > 0) return requests(rows, row, open, context);
  if (row.runs.length > 0) return [];
  return [stateChanged(row, row.failed.length > 0 ? "FAILED" : "COMPLETE")];
};

function requests(
  rows: Rows,
  row: CountRow,
  open: readonly number[],
  context: Context,
): NewEvent[] {
  const { count_id: id, asset_key, spec_hash, chunk_size, requested, runs } = row;
  const asset = { spec: pinnedSpec(rows, spec_hash), spec_hash };
  return open.slice(0, Math.max(0, CONCURRENCY - runs.length)).map((index, more) => {
    const from = index * chunk_size;
    const config = { asset_key, from, below: from + sizeOf(row, index) };
    return partRequested(context, { kind: "count", id, index, n: requested + more }, asset, config);
  });
}

function stopRuns(rows: Rows, { runs, count_id }: CountRow, context: Context): NewEvent[] {
  return runs.flatMap((runPos) => {
    const run = rows.runs.get(runPos);
    if (run === null || run.cancel_requested_at !== null) return [];
    return cancelEvents(rows, run, `count ${count_id} was cancelled`, context);
  });
}
