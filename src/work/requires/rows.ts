import { int, json, type RowIn, defineTable, text } from "../../kernel/table.ts";

/*
 * Tasks that wait for what they are made from. Each waits for one partition at a time, the last of those
 * that are not there; when that is made, it is judged again. Where nothing waits there are no rows.
 */

/** The table of tasks that wait for a partition of another asset. */
export const WAITING_TASKS = defineTable("waiting_tasks", ["run_pos", "task_key"], {
  run_pos: int,
  task_key: int,
  asset_index: int,
  asset_key: text,
  awaited_asset: text,
  awaited_key: text,
  /** Where it began to wait: only what is made later is news to it. */
  deferred_pos: int,
});

/** A task that waits for a partition of another asset. */
export type WaitingTaskRow = RowIn<typeof WAITING_TASKS>;

/** Every partition that there is of an asset. */
export const EVERY = "every";

/** The table of assets of which something is waited for, or that something waits of. */
export const AWAITED_ASSETS = defineTable("awaited_assets", ["asset_key"], {
  asset_key: text,
  /** The partitions that tasks may wait for; any when there were too many. */
  awaited: json<string[] | typeof EVERY>(),
  /** Those of them that were made, so that whoever waits is to be judged again; null when none was. */
  arrived: json<string[] | typeof EVERY | null>(),
  /** Where the last of those was made. */
  arrived_pos: int,
});

/** What is waited for of an asset. It goes once nothing is. */
export type AwaitedAssetRow = RowIn<typeof AWAITED_ASSETS>;
