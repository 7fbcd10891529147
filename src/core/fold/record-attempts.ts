import { present } from "../assert.ts";
import type { TaskResultField } from "../events/run-events.ts";
import type { Instant } from "../instant.ts";
import { decodeMultiKey } from "../partitions/multi-key.ts";
import type { Rows } from "../rows/rows.ts";
import type { RunRow, TaskRow } from "../rows/run-rows.ts";

/** What the attempts of an event have in common. */
type AttemptChange = {
  readonly rows: Rows;
  readonly run: RunRow;
  readonly pos: number;
  readonly at: Instant;
  /** Assets of which something was materialized. */
  readonly made: Set<string>;
};

/** Every attempt is remembered on its partitions; only a success moves the materialization. */
export function recordAttempts(
  change: AttemptChange,
  task: TaskRow,
  result: TaskResultField,
  exceptions: ReadonlyMap<number, { outcome: "FAILED" | "SKIPPED" }>,
): void {
  const startPos = present(task.started_pos, "a running task has started");
  for (const [index, key] of result.partition_keys.entries()) {
    const outcome = exceptions.get(index)?.outcome ?? result.outcome;
    const before = change.rows.partitions.get(result.asset_key, key);
    if (before !== null && before.last_attempt_start_pos > startPos) continue;
    // Spelt out: this runs for every partition, and copying objects is most of its cost.
    const made = outcome === "SUCCEEDED";
    if (made) change.made.add(result.asset_key);
    const { run_id } = change.run;
    change.rows.partitions.put({
      asset_key: result.asset_key,
      partition_key: key,
      partition_values: before === null ? decodeMultiKey(key) : before.partition_values,
      last_materialization_run_id: made ? run_id : (before?.last_materialization_run_id ?? null),
      last_materialization_at: made ? change.at : (before?.last_materialization_at ?? null),
      last_materialization_code_version: made
        ? result.code_version
        : (before?.last_materialization_code_version ?? null),
      last_materialization_start_pos: made
        ? startPos
        : (before?.last_materialization_start_pos ?? null),
      last_materialization_pos: made ? change.pos : (before?.last_materialization_pos ?? null),
      metadata: made ? (result.metadata ?? null) : (before?.metadata ?? null),
      last_attempt_run_id: run_id,
      last_attempt_at: change.at,
      last_attempt_outcome: outcome,
      last_attempt_start_pos: startPos,
      row_version: change.pos,
    });
  }
}
