import { present } from "../core/assert.ts";
import type { Rows } from "../core/rows/rows.ts";
import type { RunAssetRow, RunRow, TaskRow } from "../core/rows/run-rows.ts";
import { compareText } from "../core/rows/table.ts";
import { keysOfTask, needTasks, tasksOfAsset } from "./run-lookup.ts";

/** Most runs of one asset that are looked through for holders. */
const RUNS_MAX = 10_000;

/**
 * Which partitions are being materialized right now. A running task holds its partitions; that is
 * read from the task rows, so a hold cannot be leaked or forgotten. Runs whose keys lie apart are
 * told apart by their first and last key alone.
 */
export class PartitionHolders {
  readonly #rows: Rows;
  /** Keys held by tasks of other runs, by asset of a run; only what was asked for. */
  readonly #heldFrom = new Map<RunAssetRow, Set<string>>();
  /** Tasks that the current claim has taken, by asset. */
  readonly #takenOf = new Map<string, Map<RunAssetRow, { run: RunRow; tasks: TaskRow[] }>>();

  constructor(rows: Rows) {
    this.#rows = rows;
  }

  /** Whether a running task of another run works on one of the task's partitions. */
  isHeld(run: RunRow, asset: RunAssetRow, task: TaskRow): boolean {
    const held = this.#heldKeys(asset);
    return held.size > 0 && keysOfTask(run, asset, task).some((key) => held.has(key));
  }

  /** Remembers that the task is about to start. */
  hold(run: RunRow, asset: RunAssetRow, task: TaskRow): void {
    const taken = this.#takenOf.get(asset.asset_key) ?? new Map();
    this.#takenOf.set(asset.asset_key, taken);
    const own = taken.get(asset) ?? { run, tasks: [] };
    taken.set(asset, own);
    own.tasks.push(task);
    for (const [other, held] of this.#heldFrom) {
      if (mayMeet(other, asset)) addAll(held, keysOfTask(run, asset, task));
    }
  }

  #heldKeys(asset: RunAssetRow): ReadonlySet<string> {
    const known = this.#heldFrom.get(asset);
    if (known !== undefined) return known;
    const where = [
      { cell: "asset_key", is: "=", value: asset.asset_key },
      { cell: "running", is: ">", value: 0 },
    ] as const;
    const held = new Set<string>();
    const running = this.#rows.runAssets.find(where, [{ cell: "run_pos" }], RUNS_MAX);
    const others = running.filter((other) => mayMeet(other, asset));
    needTasks(this.#rows, others);
    for (const other of others) {
      const run = present(this.#rows.runs.get(other.run_pos), "an asset has its run");
      for (const task of tasksOfAsset(this.#rows, other)) {
        if (task.state === "RUNNING") addAll(held, keysOfTask(run, other, task));
      }
    }
    for (const [other, { run, tasks }] of this.#takenOf.get(asset.asset_key) ?? []) {
      if (!mayMeet(other, asset)) continue;
      for (const task of tasks) addAll(held, keysOfTask(run, other, task));
    }
    this.#heldFrom.set(asset, held);
    return held;
  }
}

function addAll(set: Set<string>, keys: readonly string[]): void {
  for (const key of keys) set.add(key);
}

/** Tasks of one run never share a partition; runs whose keys lie apart do not either. */
function mayMeet(one: RunAssetRow, other: RunAssetRow): boolean {
  return (
    one.asset_key === other.asset_key && one.run_pos !== other.run_pos && !liesApart(one, other)
  );
}

function liesApart(one: RunAssetRow, other: RunAssetRow): boolean {
  return (
    compareText(one.last_key, other.first_key) < 0 || compareText(other.last_key, one.first_key) < 0
  );
}
