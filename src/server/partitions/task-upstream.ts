import { PawlError, present } from "../../kernel/errors.ts";
import { needAssets } from "../../work/asset/look-up.ts";
import { upstreamOfKeys } from "../../work/asset/partition-status.ts";
import type { UpstreamAnswer, UpstreamRequest } from "../../work/asset/upstream-protocol.ts";
import type { Context } from "../../work/decision.ts";
import type { Rows } from "../../work/rows.ts";
import { PAGE_LIMIT_MAX } from "../../work/operation.ts";
import { taskOf } from "../../work/run/task-blocks.ts";
import { isHeldBy, keysOfTask } from "../../work/run/tasks.ts";
import { pageOfUpstream } from "./pages.ts";

/** A page of what the partitions of a task are made from, for the attempt that holds the task. */
export function upstreamOfTask(
  rows: Rows,
  { limit = PAGE_LIMIT_MAX, cursor, ...request }: UpstreamRequest,
  context: Context,
): Omit<UpstreamAnswer, "pos"> {
  const { asset_key } = request;
  const ordinals = upstreamOfKeys(rows, askedFor(rows, request, context), asset_key, context);
  const made = [{ asset_key, ordinals }];
  const { items, ...page } = pageOfUpstream(rows, made, { limit, cursor }, context);
  return { ...page, items: items.map(itemOf) };
}

/** The asset and the partitions of the task that are meant. */
function askedFor(
  rows: Rows,
  { run_pos, task_key, attempt, partition_key: key }: UpstreamRequest,
  { holder }: Context,
): { assetKey: string; keys: string[] } {
  const task = taskOf(rows, run_pos, task_key);
  const run = rows.runs.get(run_pos);
  if (!isHeldBy(task, attempt, holder) || run === null) {
    throw new PawlError(
      "LEASE_LOST",
      `Attempt ${attempt} at task ${task_key} of run ${run_pos} does not hold the task any more.`,
      { details: { run_pos, task_key, attempt } },
    );
  }
  const asset = present(
    rows.runAssets.get(run_pos, task.asset_index),
    "a running task has its asset",
  );
  needAssets(rows, [asset.asset_key]);
  const keys = keysOfTask(run, asset, task);
  if (key === undefined || keys.includes(key)) {
    return { assetKey: asset.asset_key, keys: key === undefined ? keys : [key] };
  }
  throw new PawlError(
    "INPUT_INVALID",
    `${JSON.stringify(key)} is not one of this task's partitions` +
      `${(keys[0] ?? "") === "" ? ": it has none" : `, such as ${keys[0]}`}.`,
    { details: { partition_key: key } },
  );
}

function itemOf({
  partition_key,
  status,
  last_materialization_at,
  last_materialization_run_id,
  last_materialization_code_version,
  metadata,
}: ReturnType<typeof pageOfUpstream>["items"][number]): UpstreamAnswer["items"][number] {
  return {
    partition_key,
    status,
    last_materialization_at,
    last_materialization_run_id,
    last_materialization_code_version,
    metadata,
  };
}
