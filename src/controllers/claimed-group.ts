import type { ClaimedGroup } from "../core/protocol.ts";
import type { Rows } from "../core/rows/rows.ts";
import type { RunAssetRow, RunRow, TaskRow } from "../core/rows/run-rows.ts";
import { pinnedWork } from "./asset-lookup.ts";
import { claimedStep } from "./claimed-step.ts";
import { keysOfTask } from "./run-lookup.ts";
import { claimedSegment } from "./sync-slots.ts";

/** What a worker needs to run tasks of one asset of one run; null when its segment or step is no more. */
export function claimedGroup(
  rows: Rows,
  run: RunRow,
  asset: RunAssetRow,
  tasks: readonly TaskRow[],
  attemptsAhead: 0 | 1,
): ClaimedGroup | null {
  const spec = pinnedWork(rows, asset.spec_hash);
  const segment = claimedSegment(rows, run, asset);
  const step = claimedStep(rows, run);
  if (segment === null || step === null) return null;
  return {
    run_id: run.run_id,
    run_pos: run.run_pos,
    run_key: run.run_key,
    backfill_id: run.backfill_id,
    asset_key: asset.asset_key,
    spec_hash: asset.spec_hash,
    batch: spec.batch,
    config: run.config,
    labels: run.labels,
    timeout_ms: spec.timeout_ms,
    stall_after_ms: spec.stall_after_ms,
    ...(segment === undefined ? {} : { segment }),
    ...(step === undefined ? {} : { step }),
    tasks: tasks.map((task) => ({
      task_key: task.task_key,
      attempt: task.attempt + attemptsAhead,
      partition_keys: run.partition_keys === null ? [] : keysOfTask(run, asset, task),
      checkpoint: null,
    })),
  };
}
