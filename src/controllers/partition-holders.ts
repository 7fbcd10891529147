import { present } from "../core/assert.ts";
import { findAll, type Rows } from "../core/rows/rows.ts";
import type { RunAssetRow, RunRow, TaskRow } from "../core/rows/run-rows.ts";
import { compareText, type Condition } from "../core/rows/table.ts";
import { keysOfTask, runningTasks } from "./run-lookup.ts";

/** Runs that are looked through for holders at once; none is left out. */
const RUNS_READ = 10_000;

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

  /** Reads who holds partitions of these assets of runs, with few look-ups however many they are. */
  need(assets: readonly RunAssetRow[]): void {
    this.#begin(assets);
    const near = new Map<string, RunAssetRow>();
    for (const asset of assets) {
      for (const other of this.#holders(asset).unread) {
        if (mayMeet(other, asset)) near.set(nameOf(other), other);
      }
    }
    if (near.size === 0) return;
    for (const task of runningTasks(this.#rows, [...near.values()])) {
      const run = present(this.#rows.runs.get(task.run_pos), "a task has its run");
      const other = present(near.get(nameOf(task)), "a task has its asset");
      const { runOf } = this.#holders(other);
      for (const key of keysOfTask(run, other, task)) runOf.set(key, task.run_pos);
    }
    for (const asset_key of new Set(assets.map((asset) => asset.asset_key))) {
      const holders = this.#holders({ asset_key });
      holders.unread = holders.unread.filter((other) => !near.has(nameOf(other)));
    }
  }

  #holders({ asset_key }: Pick<RunAssetRow, "asset_key">): Holders {
    return present(this.#holdersOf.get(asset_key), "the holders were looked up");
  }

  /** The holders of the asset's partitions, of all runs whose keys may meet those of this one. */
  #holdersNear(asset: RunAssetRow): Holders {
    this.need([asset]);
    return this.#holders(asset);
  }

  #begin(assets: readonly RunAssetRow[]): void {
    const keys = new Set(assets.map(({ asset_key }) => asset_key));
    const values = [...keys].filter((key) => !this.#holdersOf.has(key));
    if (values.length === 0) return;
    const where: Condition[] = [
      { cell: "asset_key", is: "in", values },
      { cell: "running", is: ">", value: 0 },
    ];
    const order = [{ cell: "run_pos" }, { cell: "asset_index" }];
    const found = findAll(this.#rows.runAssets, where, order, RUNS_READ);
    const unread = Map.groupBy(found, ({ asset_key }) => asset_key);
    for (const key of values) {
      this.#holdersOf.set(key, { unread: unread.get(key) ?? [], runOf: new Map() });
    }
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
