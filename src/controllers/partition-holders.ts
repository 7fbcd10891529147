import { present } from "../core/assert.ts";
import type { Rows } from "../core/rows/rows.ts";
import type { RunAssetRow, RunRow, TaskRow } from "../core/rows/run-rows.ts";
import { compareText } from "../core/rows/table.ts";
import { keysOfTask, runningTasks } from "./run-lookup.ts";

/** Most runs of one asset that are looked through for holders. */
const RUNS_MAX = 10_000;

/** What is known of the running tasks of an asset. */
type Holders = {
  /** Assets of runs with a running task that were not looked at yet. */
  unread: RunAssetRow[];
  /** The run that holds a key: no two runs hold the same. */
  runOf: Map<string, number>;
};

/**
 * Which partitions are being materialized right now. A running task holds its partitions; that is
 * read from the task rows, so a hold cannot be leaked or forgotten. Runs whose keys lie apart are
 * told apart by their first and last key alone.
 */
export class PartitionHolders {
  readonly #rows: Rows;
  readonly #holdersOf = new Map<string, Holders>();

  constructor(rows: Rows) {
    this.#rows = rows;
  }

  /** Whether a running task of another run works on one of the task's partitions. */
  isHeld(run: RunRow, asset: RunAssetRow, task: TaskRow): boolean {
    const { runOf } = this.#holdersNear(asset);
    if (runOf.size === 0) return false;
    return keysOfTask(run, asset, task).some((key) => {
      const holder = runOf.get(key);
      // Tasks of one run never share a partition.
      return holder !== undefined && holder !== run.run_pos;
    });
  }

  /** Remembers that the task is about to start. */
  hold(run: RunRow, asset: RunAssetRow, task: TaskRow): void {
    const { runOf } = this.#holdersNear(asset);
    for (const key of keysOfTask(run, asset, task)) runOf.set(key, run.run_pos);
  }

  /** The holders of the asset's partitions, of all runs whose keys may meet those of this one. */
  #holdersNear(asset: RunAssetRow): Holders {
    const holders = this.#holdersOf.get(asset.asset_key) ?? this.#begin(asset.asset_key);
    const near = holders.unread.filter((other) => mayMeet(other, asset));
    if (near.length === 0) return holders;
    const assetOf = new Map(near.map((other) => [nameOf(other), other]));
    for (const task of runningTasks(this.#rows, near)) {
      const run = present(this.#rows.runs.get(task.run_pos), "a task has its run");
      const other = present(assetOf.get(nameOf(task)), "a task has its asset");
      for (const key of keysOfTask(run, other, task)) holders.runOf.set(key, task.run_pos);
    }
    holders.unread = holders.unread.filter((other) => !assetOf.has(nameOf(other)));
    return holders;
  }

  #begin(assetKey: string): Holders {
    const where = [
      { cell: "asset_key", is: "=", value: assetKey },
      { cell: "running", is: ">", value: 0 },
    ] as const;
    const unread = this.#rows.runAssets.find(where, [{ cell: "run_pos" }], RUNS_MAX);
    const holders = { unread, runOf: new Map<string, number>() };
    this.#holdersOf.set(assetKey, holders);
    return holders;
  }
}

function nameOf({ run_pos, asset_index }: { run_pos: number; asset_index: number }): string {
  return `${run_pos}/${asset_index}`;
}

/** Tasks of one run never share a partition; runs whose keys lie apart do not either. */
function mayMeet(one: RunAssetRow, other: RunAssetRow): boolean {
  return one.run_pos !== other.run_pos && !liesApart(one, other);
}

function liesApart(one: RunAssetRow, other: RunAssetRow): boolean {
  return (
    compareText(one.last_key, other.first_key) < 0 || compareText(other.last_key, one.first_key) < 0
  );
}
