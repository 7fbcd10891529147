import { present } from "../core/assert.ts";
import type { Rows } from "../core/rows/rows.ts";
import type { RunAssetRow, RunRow, TaskRow } from "../core/rows/run-rows.ts";
import { compareText } from "../core/rows/table.ts";
import { keysOfTask, tasksOfAsset } from "./run-lookup.ts";

/** Most runs of one asset that are looked through for holders. */
const RUNS_MAX = 10_000;

/**
 * Which partitions are being materialized right now. A running task holds its partitions; that is
 * read from the task rows, so a hold cannot be leaked or forgotten. Runs whose keys lie apart are
 * told apart by their first and last key alone.
 */
export class PartitionHolders {
  readonly #rows: Rows;
  /** Keys held by running tasks of other runs, by asset of a run. */
  readonly #heldBy = new Map<RunAssetRow, ReadonlySet<string>>();
  /** Keys held by tasks that the current claim has taken, by asset. */
  readonly #takenOf = new Map<string, Map<string, number>>();

  constructor(rows: Rows) {
    this.#rows = rows;
  }

  /** Whether a running task of another run works on one of the task's partitions. */
  isHeld(run: RunRow, asset: RunAssetRow, task: TaskRow): boolean {
    const taken = this.#takenOf.get(asset.asset_key);
    const held = this.#heldKeys(asset);
    if (held.size === 0 && taken === undefined) return false;
    return keysOfTask(run, asset, task).some((key) => {
      const holder = taken?.get(key);
      return held.has(key) || (holder !== undefined && holder !== run.run_pos);
    });
  }

  /** Remembers that the task is about to start. */
  hold(run: RunRow, asset: RunAssetRow, task: TaskRow): void {
    const taken = this.#takenOf.get(asset.asset_key) ?? new Map<string, number>();
    this.#takenOf.set(asset.asset_key, taken);
    for (const key of keysOfTask(run, asset, task)) taken.set(key, run.run_pos);
  }

  #heldKeys(asset: RunAssetRow): ReadonlySet<string> {
    const known = this.#heldBy.get(asset);
    if (known !== undefined) return known;
    const where = [
      { cell: "asset_key", is: "=", value: asset.asset_key },
      { cell: "running", is: ">", value: 0 },
    ] as const;
    const held = new Set<string>();
    for (const other of this.#rows.runAssets.find(where, [{ cell: "run_pos" }], RUNS_MAX)) {
      if (other.run_pos === asset.run_pos || liesApart(other, asset)) continue;
      const run = present(this.#rows.runs.get(other.run_pos), "an asset has its run");
      for (const task of tasksOfAsset(this.#rows, other)) {
        if (task.state !== "RUNNING") continue;
        for (const key of keysOfTask(run, other, task)) held.add(key);
      }
    }
    this.#heldBy.set(asset, held);
    return held;
  }
}

function liesApart(one: RunAssetRow, other: RunAssetRow): boolean {
  return (
    compareText(one.last_key, other.first_key) < 0 || compareText(other.last_key, one.first_key) < 0
  );
}
