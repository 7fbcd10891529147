import { present } from "../core/assert.ts";
import type { EventData } from "../core/events/index.ts";
import type { AnyRecorded } from "../core/fold/fold.ts";
import type { RunAssetRow, RunRow, TaskRow } from "../core/rows/run-rows.ts";
import { WorkingSet } from "../core/rows/working-set.ts";
import type { Reader } from "../store/store.ts";
import { eventPages } from "./ledger-pages.ts";
import { foldAlone, folded, mayBePassedOver } from "./refold.ts";

/** Everything that a run's events say of what it is part of. */
type PartOf = Required<Omit<EventData<"RunStarted">, "run_id" | "run_pos">>;

/**
 * Part of nothing: only the run itself is of interest, not what it means for its chunk, its segment
 * or its step. A kind of work that is left out here does not compile.
 */
const PART_OF_NOTHING: { [Field in keyof PartOf]: null | undefined } = {
  backfill_id: null,
  chunk_index: null,
  segment: undefined,
  shard_work: undefined,
};

/** The assets and tasks of a run that has ended, as they were when it did. Rows of ended runs go; the events stay. */
export async function refoldRun(
  reader: Reader,
  run: RunRow,
): Promise<{ assets: RunAssetRow[]; tasks: TaskRow[] }> {
  const set = new WorkingSet();
  for await (const event of eventsOfRun(reader, run.run_pos)) foldAlone(set, event);
  const assets = run.asset_selection.map((_, index) =>
    present(set.rows.runAssets.get(run.run_pos, index), "a run has its assets"),
  );
  const tasks = Array.from({ length: run.tasks_total }, (_, task) =>
    present(set.rows.tasks.get(run.run_pos, task), "a run has its tasks"),
  );
  return { assets, tasks };
}

/** The events of a run before its end, as those of a run that is part of nothing. */
async function* eventsOfRun(reader: Reader, runPos: number): AsyncGenerator<AnyRecorded> {
  const alone = { ...PART_OF_NOTHING, trigger_source_ref: { type: "manual" } };
  for await (const page of eventPages(reader, { after: 0, subjects: [runPos] })) {
    for (const event of page) {
      if (event.type === "RunFinished") return;
      if (mayBePassedOver(event)) continue;
      const known = folded(event);
      yield { ...known, data: { ...known.data, ...alone } } as AnyRecorded;
    }
  }
}
