import { present } from "../assert.ts";
import type { TaskResultField } from "../events/run-events.ts";
import type { Instant } from "../instant.ts";
import { decodeMultiKey } from "../partitions/multi-key.ts";
import type { PartitionRow } from "../rows/partition-rows.ts";
import type { Rows } from "../rows/rows.ts";
import type { RunRow, TaskRow } from "../rows/run-rows.ts";

/** What the attempts of an event have in common. */
type AttemptChange = {
  readonly rows: Rows;
  readonly run: RunRow;
  readonly pos: number;
  readonly at: Instant;
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
    const succeeded = outcome === "SUCCEEDED";
    const attempt = {
      last_attempt_run_id: change.run.run_id,
      last_attempt_at: change.at,
      last_attempt_outcome: outcome,
      last_attempt_start_pos: startPos,
      row_version: change.pos,
    };
    const materialization = succeeded
      ? {
          last_materialization_run_id: change.run.run_id,
          last_materialization_at: change.at,
          last_materialization_code_version: result.code_version,
          last_materialization_start_pos: startPos,
          metadata: result.metadata ?? null,
        }
      : null;
    change.rows.partitions.put(
      before === null
        ? { ...newPartition(result.asset_key, key), ...materialization, ...attempt }
        : { ...before, ...materialization, ...attempt },
    );
  }
}

function newPartition(
  assetKey: string,
  partitionKey: string,
): Omit<PartitionRow, `last_attempt_${string}` | "row_version"> {
  return {
    asset_key: assetKey,
    partition_key: partitionKey,
    partition_values: decodeMultiKey(partitionKey),
    last_materialization_run_id: null,
    last_materialization_at: null,
    last_materialization_code_version: null,
    last_materialization_start_pos: null,
    metadata: null,
  };
}
