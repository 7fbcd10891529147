import type { AttentionDocument } from "../core/api/overview-documents.ts";
import { failurePattern } from "../core/failure-pattern.ts";
import type { Instant } from "../core/instant.ts";
import { type PartitionRow, PARTITIONS } from "../core/rows/partition-rows.ts";
import { type RunRow, RUNS } from "../core/rows/run-rows.ts";
import type { Key } from "../core/rows/table.ts";
import type { Reader } from "../store/store.ts";
import { because, counted, namesText, OF_A_KIND_MAX } from "./overview-item.ts";

/** Partitions that are looked at for whether a later run has made them good, in all. */
const PARTITIONS_LOOKED_AT_MAX = 5_000;

/** Who asked for a run that stands for itself: work of syncs and shards is shown there. */
const OWN_TRIGGERS: ReadonlySet<string> = new Set(["manual", "schedule", "sensor"]);

/**
 * Failed runs of no backfill whose partitions no later run has dealt with; those of the same assets
 * and for the same cause are one, by the newest.
 */
export async function failedRuns(reader: Reader, since: Instant): Promise<AttentionDocument[]> {
  const found = (await reader.find({
    table: RUNS,
    where: [
      { cell: "state", is: "=", value: "FAILED" },
      { cell: "backfill_id", is: "null" },
      { cell: "finished_at", is: ">=", value: since },
    ],
    order: [{ cell: "run_pos", descending: true }],
    limit: OF_A_KIND_MAX,
  })) as RunRow[];
  const runs = found.filter(({ trigger_source_ref: { type } }) => OWN_TRIGGERS.has(type));
  const unmended: RunRow[] = [];
  let left = PARTITIONS_LOOKED_AT_MAX;
  for (const run of runs) {
    const keys = pairsOf(run);
    if (keys.length <= left) {
      left -= keys.length;
      if (await isMadeGood(reader, run, keys)) continue;
    }
    unmended.push(run);
  }
  const alike = Map.groupBy(unmended, causeOf);
  return [...alike.values()].flatMap(([newest, ...others]) =>
    newest === undefined ? [] : [failedRun(newest, others.length)],
  );
}

function causeOf({ asset_selection, partition_keys, first_error }: RunRow): string {
  const message = first_error?.message ?? "";
  return JSON.stringify([
    asset_selection,
    first_error?.class,
    failurePattern(message, partition_keys ?? []),
  ]);
}

function pairsOf({ asset_selection, partition_keys }: RunRow): Key[] {
  const keys = partition_keys ?? [""];
  return asset_selection.flatMap((asset) => keys.map((key): Key => [asset, key]));
}

/** Whether some run has tried again all that this one left: what it has not is still this one's. */
async function isMadeGood(reader: Reader, run: RunRow, keys: readonly Key[]): Promise<boolean> {
  const rows = (await reader.load(PARTITIONS, keys)) as PartitionRow[];
  if (rows.length === 0) return false;
  return !rows.some(
    ({ last_attempt_run_id, last_attempt_outcome }) =>
      last_attempt_run_id === run.run_id && last_attempt_outcome !== "SUCCEEDED",
  );
}

function failedRun(run: RunRow, othersAlike: number): AttentionDocument {
  const { run_id, tasks_failed, tasks_total, partition_keys } = run;
  const of = partition_keys === null ? "" : ` of ${namesText(partition_keys)}`;
  return {
    kind: "run",
    id: run_id,
    name: namesText(run.asset_selection),
    what: "failed",
    since: run.finished_at,
    text:
      (othersAlike === 0 ? "" : `${counted(othersAlike + 1, "run")} failed alike; of the last, `) +
      `${tasks_failed.toLocaleString("en")} of ${counted(tasks_total, "task")}${of} failed` +
      because(run.first_error),
  };
}
