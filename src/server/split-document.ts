import { SPLIT_FIELDS, type SplitDocument } from "../core/api/split-documents.ts";
import { reported } from "../core/fold/fold-split-steps.ts";
import type { Instant } from "../core/instant.ts";
import { type TaskRow, TASKS } from "../core/rows/run-rows.ts";
import type { SplitRow } from "../core/rows/split-rows.ts";
import type { Key } from "../core/rows/table.ts";
import { StepReport } from "../core/step-protocol.ts";
import type { Reader } from "../store/store.ts";
import { pickFields } from "./pick-fields.ts";
import { nextOfSplit } from "./split-next.ts";

/** A split with what its running step last said laid over it, and the task that the step is. */
export type LiveSplit = { row: SplitRow; task: TaskRow | null; reportedAt: Instant | null };

/** Splits as they are now: how far a running step is only its checkpoint knows. */
export async function liveSplits(reader: Reader, rows: readonly SplitRow[]): Promise<LiveSplit[]> {
  const active = rows.flatMap(({ run_pos }) => (run_pos === null ? [] : [run_pos]));
  if (active.length === 0) return rows.map((row) => ({ row, task: null, reportedAt: null }));
  const tasks = await reader.load(
    TASKS,
    active.map((run_pos): Key => [run_pos, 0]),
  );
  const taskOf = new Map((tasks as TaskRow[]).map((task) => [task.run_pos, task]));
  const kept = await reader.checkpoints(active.map((run_pos) => ({ run_pos, task_key: 0 })));
  const checkpointOf = new Map(kept.map((checkpoint) => [checkpoint.run_pos, checkpoint]));
  return rows.map((row) => {
    const task = taskOf.get(row.run_pos ?? -1) ?? null;
    const checkpoint = checkpointOf.get(row.run_pos ?? -1);
    const report = StepReport.safeParse(checkpoint?.value).data;
    if (checkpoint === undefined || report?.work !== "split")
      return { row, task, reportedAt: null };
    const { work: _, ...said } = report;
    const checks = row.step === "check" ? (said.checks ?? row.checks) : row.checks;
    const live = { ...row, ...reported(row, said), checks };
    return { row: live, task, reportedAt: checkpoint.saved_at };
  });
}

/** Splits as the API shows them. */
export async function splitDocuments(
  reader: Reader,
  rows: readonly SplitRow[],
  claimed: ReadonlySet<string>,
  now: Instant,
): Promise<SplitDocument[]> {
  return (await liveSplits(reader, rows)).map((live) => documentOf(live, claimed, now));
}

function documentOf(live: LiveSplit, claimed: ReadonlySet<string>, now: Instant): SplitDocument {
  const { row } = live;
  const { armed, auto_cutover, write_pause_us, error, split_id } = row;
  const step = stepOf(live, claimed, now);
  return {
    id: split_id,
    ...pickFields(row, SPLIT_FIELDS),
    auto_cutover: auto_cutover === 1,
    armed: armed === 1,
    backfill: {
      status: row.backfill_status,
      started_at: row.backfill_started_at,
      completed_at: row.backfill_completed_at,
      total_rows_copied: row.total_rows_copied,
      tables: tablesOf(row),
      tenants: row.tenant_rows,
    },
    tail: {
      status: row.tail_status,
      last_event_id: row.last_event_id,
      last_event_ts: row.last_event_ts,
      lag_events: row.tail_lag_events,
      lag_ms: row.tail_lag_ms,
    },
    verification: row.verification,
    checks: row.checks ?? null,
    error_message: error?.message ?? null,
    write_pause_ms: write_pause_us === null ? null : write_pause_us / 1_000,
    step,
    next: nextOfSplit(row, step),
  };
}

/** All tables of the split, also those that nobody has begun with. */
function tablesOf({ tables, table_progress }: SplitRow): SplitDocument["backfill"]["tables"] {
  const known = new Map(table_progress.map((progress) => [progress.table, progress]));
  return tables.map(
    ({ table }) => known.get(table) ?? { table, rows: 0, cursor: null, done: false },
  );
}

function stepOf(
  { row, task, reportedAt }: LiveSplit,
  claimed: ReadonlySet<string>,
  now: Instant,
): SplitDocument["step"] {
  if (row.step === null) return null;
  const isWaiting = task?.state === "READY" || task?.state === "RETRY_WAIT";
  const isLater = task?.state === "RETRY_WAIT" && (task.retry_at ?? now) > now;
  return {
    n: row.steps,
    step: row.step,
    // An attempt that was given back or failed has left the row as it was.
    state: isWaiting ? "QUEUED" : row.step_state,
    run_id: row.run_id,
    worker_id: isWaiting ? null : row.worker_id,
    attempt: task?.attempt ?? 0,
    retry_at: isLater ? task.retry_at : null,
    reported_at: reportedAt,
    lacks_worker: isWaiting && !isLater && !claimed.has(task.asset_key),
  };
}
