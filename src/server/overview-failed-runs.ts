import { setImmediate as nextTurn } from "node:timers/promises";
import type { AttentionDocument } from "../core/api/overview-documents.ts";
import { failurePattern } from "../core/failure-pattern.ts";
import type { Instant } from "../core/instant.ts";
import { type PartitionRow, PARTITIONS } from "../core/rows/partition-rows.ts";
import { type RunRow, RUNS } from "../core/rows/run-rows.ts";
import type { Condition, Key } from "../core/rows/table.ts";
import type { Reader } from "../store/store.ts";
import { because, counted, namesText, OF_A_KIND_MAX } from "./overview-item.ts";

/** Partitions that are looked at for whether a later run has made them good, in all. */
const PARTITIONS_LOOKED_AT_MAX = 5_000;

/** Runs that are read between two turns of the process: each may have thousands of partitions. */
const PAGE_RUNS = 20;

/** Partition keys of a run that are looked for in its message. */
const KEYS_MAX = 1_000;

/** Who asked for a run that stands for itself: work of syncs and shards is shown there. */
const OWN_TRIGGERS: ReadonlySet<string> = new Set(["manual", "schedule", "sensor"]);

/**
 * Failed runs of no backfill whose partitions no later run has dealt with; those of the same assets
 * and for the same cause are one, by the newest.
 */
export async function failedRuns(reader: Reader, since: Instant): Promise<AttentionDocument[]> {
  const alike = new Map<string, { newest: RunRow; others: number }>();
  let left = PARTITIONS_LOOKED_AT_MAX;
  for await (const run of runsFailed(reader, since)) {
    if (!OWN_TRIGGERS.has(run.trigger_source_ref.type)) continue;
    const pairs = run.asset_selection.length * (run.partition_keys?.length ?? 1);
    if (pairs <= left) {
      left -= pairs;
      if (await isMadeGood(reader, run, pairsOf(run))) continue;
    }
    const cause = causeOf(run);
    const known = alike.get(cause);
    if (known === undefined) alike.set(cause, { newest: run, others: 0 });
    else known.others += 1;
  }
  return [...alike.values()].map(({ newest, others }) => failedRun(newest, others));
}

/** The failed runs of no backfill, the newest first; others have their turn in between. */
async function* runsFailed(reader: Reader, since: Instant): AsyncGenerator<RunRow> {
  const where: Condition[] = [
    { cell: "state", is: "=", value: "FAILED" },
    { cell: "backfill_id", is: "null" },
    { cell: "finished_at", is: ">=", value: since },
  ];
  const order = [{ cell: "run_pos", descending: true }];
  let before: Condition[] = [];
  for (let seen = 0; seen < OF_A_KIND_MAX; seen += PAGE_RUNS) {
    const find = { table: RUNS, where: [...where, ...before], order, limit: PAGE_RUNS };
    const page = (await reader.find(find)) as RunRow[];
    yield* page;
    const last = page.at(-1);
    if (last === undefined || page.length < PAGE_RUNS) return;
    before = [{ cell: "run_pos", is: "<", value: last.run_pos }];
    await nextTurn();
  }
}

function causeOf({ asset_selection, partition_keys, first_error }: RunRow): string {
  const message = first_error?.message ?? "";
  const keys = partition_keys?.slice(0, KEYS_MAX) ?? [];
  return JSON.stringify([asset_selection, first_error?.class, failurePattern(message, keys)]);
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
