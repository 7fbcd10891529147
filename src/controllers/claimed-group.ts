import { present } from "../core/assert.ts";
import type { ClaimedGroup, ClaimFound, TaskRef } from "../core/protocol.ts";
import type { Rows } from "../core/rows/rows.ts";
import type { RunAssetRow, RunRow, TaskRow } from "../core/rows/run-rows.ts";
import type { Key } from "../core/rows/table.ts";
import { pinnedWork } from "./asset-lookup.ts";
import { claimedStep } from "./claimed-step.ts";
import type { Decision } from "./decision.ts";
import { aloneMs, canWaitAlone, isSuspect } from "./retry-policy.ts";
import { keysOfTask } from "./run-lookup.ts";
import { claimedSegment, SyncSlots } from "./sync-slots.ts";

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

/** The tasks that a lease still holds, for a worker that did not get the answer to its claim. */
export function repeatClaim(held: readonly TaskRef[]) {
  return (rows: Rows): Decision<ClaimFound> => {
    rows.tasks.need(held.map(({ run_pos, task_key }) => [run_pos, task_key]));
    rows.runs.need(held.map(({ run_pos }) => [run_pos]));
    needAssetsHeld(rows, held);
    const result: ClaimFound = { groups: [] };
    for (const ref of held) {
      const task = rows.tasks.get(ref.run_pos, ref.task_key);
      if (task?.state !== "RUNNING" || task.attempt !== ref.attempt) continue;
      const run = present(rows.runs.get(ref.run_pos), "a running task has its run");
      const asset = present(rows.runAssets.get(ref.run_pos, task.asset_index), "and its asset");
      // What was opened again meanwhile is cancelled: nobody needs to begin with it.
      const group = claimedGroup(rows, run, asset, [task], 0);
      if (group === null) continue;
      result.groups.push(group);
      // Which is all that its claim got.
      const isAlone = held.length === 1 && isSuspect(task) && canWaitAlone(run);
      if (isAlone) result.alone_ms = aloneMs(run, task);
    }
    return { events: [], result };
  };
}

/** Has loaded what the held tasks belong to, with one load of each kind for all of them. */
function needAssetsHeld(rows: Rows, held: readonly TaskRef[]): void {
  const keys = held.flatMap(({ run_pos, task_key }): Key[] => {
    const task = rows.tasks.get(run_pos, task_key);
    return task === null ? [] : [[run_pos, task.asset_index]];
  });
  rows.runAssets.need(keys);
  new SyncSlots(rows).need(keys.flatMap((key) => rows.runAssets.get(...key) ?? []));
}
