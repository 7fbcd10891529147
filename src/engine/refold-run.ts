import { present } from "../core/assert.ts";
import type { RunAssetRow, RunRow, TaskRow } from "../core/rows/run-rows.ts";
import type { AnyRecorded } from "../core/fold/fold.ts";
import { WorkingSet } from "../core/rows/working-set.ts";
import type { Reader } from "../store/store.ts";
import { foldAlone, folded } from "./refold.ts";

/** Most events of one run that are read. */
const EVENTS_READ_MAX = 100_000;

/** The assets and tasks of a run that has ended, as they were when it did. Rows of ended runs go; the events stay. */
export async function refoldRun(
  reader: Reader,
  run: RunRow,
): Promise<{ assets: RunAssetRow[]; tasks: TaskRow[] }> {
  const events = await reader.events({ after: 0, subjects: [run.run_pos], limit: EVENTS_READ_MAX });
  const set = new WorkingSet();
  for (const event of events) {
    if (event.type === "RunFinished") break;
    const known = folded(event);
    // Only the run itself is of interest, not what it means for its backfill or its schedule.
    const nobody = { backfill_id: null, chunk_index: null, trigger_source_ref: { type: "manual" } };
    const alone = { ...known, data: { ...known.data, ...nobody } };
    foldAlone(set, alone as AnyRecorded);
  }
  const assets = run.asset_selection.map((_, index) =>
    present(set.rows.runAssets.get(run.run_pos, index), "a run has its assets"),
  );
  const tasks = Array.from({ length: run.tasks_total }, (_, task) =>
    present(set.rows.tasks.get(run.run_pos, task), "a run has its tasks"),
  );
  return { assets, tasks };
}
