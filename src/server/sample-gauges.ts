import { setImmediate as nextTurn } from "node:timers/promises";
import type { Condition } from "../core/rows/table.ts";
import { RUNS } from "../core/rows/run-rows.ts";
import { type SplitRow, SPLITS } from "../core/rows/split-rows.ts";
import { type SyncRow, SYNCS } from "../core/rows/sync-rows.ts";
import type { Reader } from "../store/store.ts";
import { liveSplits } from "./split-document.ts";
import { knownSyncs, lagBlocks } from "./sync-document.ts";

/** Most splits and syncs that one look goes through. */
const SPLITS_MAX = 100;
const SYNCS_MAX = 200;

/** Unfinished runs that are read between two turns of the process. */
const PAGE_RUNS = 5_000;

/** Runs that have not ended. */
const UNFINISHED: Condition = { cell: "state", is: "in", values: ["PENDING", "RUNNING"] };

const COUNTED = ["tasks_waiting", "tasks_ready", "tasks_retry_wait", "tasks_running"] as const;

/** Tasks of the runs that have not ended, by state, and how many such runs there are. */
export type OpenTasks = {
  runs: number;
  /** The same by state; what there is none of is left out. */
  runsByState: Record<string, number>;
} & Record<(typeof COUNTED)[number], number>;

/** Counts the tasks of unfinished runs by what the runs say of them, without reading the tasks. */
export async function openTasks(reader: Reader): Promise<OpenTasks> {
  const sum: OpenTasks = {
    runs: 0,
    runsByState: {},
    tasks_waiting: 0,
    tasks_ready: 0,
    tasks_retry_wait: 0,
    tasks_running: 0,
  };
  for (let after = 0; ; ) {
    const where = [UNFINISHED, { cell: "run_pos", is: ">", value: after } as const];
    const find = { table: RUNS, where, order: [{ cell: "run_pos" }], limit: PAGE_RUNS };
    const page = await reader.findCells(find, ["run_pos", "state", ...COUNTED]);
    for (const [, state, ...counts] of page) {
      sum.runs += 1;
      sum.runsByState[String(state)] = (sum.runsByState[String(state)] ?? 0) + 1;
      for (const [at, cell] of COUNTED.entries()) sum[cell] += Number(counts[at]);
    }
    const last = page.at(-1);
    if (last === undefined || page.length < PAGE_RUNS) return sum;
    after = Number(last[0]);
    await nextTurn();
  }
}

const FOLLOWING_PHASES = ["backfill", "tailing", "cutover_pending", "reversible"];

/** How far the targets of splits that follow their source are behind it, by series. */
export async function splitLags(reader: Reader): Promise<Map<string, number>> {
  const rows = (await reader.find({
    table: SPLITS,
    where: [{ cell: "phase", is: "in", values: FOLLOWING_PHASES }],
    order: [{ cell: "split_id" }],
    limit: SPLITS_MAX,
  })) as SplitRow[];
  const lags = new Map<string, number>();
  for (const { row } of await liveSplits(reader, rows)) {
    const { split_id, tail_lag_ms, tail_lag_events } = row;
    if (tail_lag_ms !== null) lags.set(`split_lag_ms:${split_id}`, tail_lag_ms);
    if (tail_lag_events !== null) lags.set(`split_lag_events:${split_id}`, tail_lag_events);
  }
  return lags;
}

/**
 * How far syncs that follow their head are behind it, by series: those after an id, and the last of
 * them, from which the next look goes on; an empty id when there are no more.
 */
export async function syncLags(
  reader: Reader,
  after: string,
): Promise<{ lags: Map<string, number>; last: string }> {
  const rows = (await reader.find({
    table: SYNCS,
    where: [
      { cell: "state", is: "=", value: "FOLLOWING" },
      { cell: "sync_id", is: ">", value: after },
    ],
    order: [{ cell: "sync_id" }],
    limit: SYNCS_MAX,
  })) as SyncRow[];
  const lags = new Map<string, number>();
  for (const known of await knownSyncs(reader, rows)) {
    const lag = lagBlocks(known);
    if (lag !== null) lags.set(`sync_lag_blocks:${known.row.sync_id}`, lag);
  }
  return { lags, last: rows.length < SYNCS_MAX ? "" : (rows.at(-1)?.sync_id ?? "") };
}
