import { present } from "../core/assert.ts";
import type { Instant } from "../core/instant.ts";
import type { Rows } from "../core/rows/rows.ts";
import type { RunAssetRow, TaskRow } from "../core/rows/run-rows.ts";
import { afterRow, type Condition, compareRows, type Key, type Order } from "../core/rows/table.ts";
import { canWaitAlone, isSuspect } from "./retry-policy.ts";
import type { SyncSlots } from "./sync-slots.ts";

/** How many candidates one look-up brings. */
export const PAGE_SIZE = 200;
/** Most assets of runs, and most tasks to be tried again, that one claim looks at. */
export const CANDIDATES_MAX = 2_000;
/** What a page of tasks that all wait for a slot of their sync counts of those. */
const BLOCKED_PAGE_COST = PAGE_SIZE / 5;

/** The order in which assets of runs are served. */
export const URGENCY: readonly Order[] = [
  { cell: "class" },
  { cell: "priority", descending: true },
  { cell: "run_pos" },
  { cell: "asset_index" },
];
const RETRY_ORDER: readonly Order[] = [
  { cell: "retry_at" },
  { cell: "run_pos" },
  { cell: "task_key" },
];

/** Tasks that are to be tried again, by asset of a run; the most urgent first. */
export type Retries = Map<string, { asset: RunAssetRow; tasks: TaskRow[] }>;

/** What is known of the claim that tasks are found for. */
type RetrySearch = {
  now: Instant;
  heardPos: number;
  slots: SyncSlots;
  /** Whether the worker can run a suspect alone. */
  knowsSuspects: boolean;
  /** Has loaded what the pools of these assets have room for. */
  needPools(assets: readonly RunAssetRow[]): void;
  isFull(asset: RunAssetRow): boolean;
  /** The assets that are asked for, without these. */
  assetsBut(full: ReadonlySet<string>): Condition;
};

/**
 * Finds the tasks whose time to be tried again has come, but for those of a full pool or sync; those
 * that are to run alone apart, as far as the worker knows of that.
 */
export function findRetries(
  rows: Rows,
  search: RetrySearch,
): { retries: Retries; suspects: Retries; isUnheard: boolean } {
  const { slots, heardPos } = search;
  const retries: Retries = new Map();
  const suspects: Retries = new Map();
  const due: Condition[] = [
    { cell: "state", is: "=", value: "RETRY_WAIT" },
    { cell: "retry_at", is: "<=", value: search.now },
  ];
  const full = new Set<string>();
  let isUnheard = false;
  let after: Condition[] = [];
  for (let looked = 0; looked < CANDIDATES_MAX; ) {
    const page = rows.tasks.find(
      [...due, search.assetsBut(full), ...after],
      RETRY_ORDER,
      PAGE_SIZE,
    );
    const assets = assetsOf(rows, page, slots);
    search.needPools(assets);
    rows.runs.need(page.filter(isSuspect).map(({ run_pos }): Key => [run_pos]));
    const before = retries.size + suspects.size;
    for (const [index, task] of page.entries()) {
      const asset = present(assets[index], "a task that waits has its asset");
      if (search.isFull(asset)) full.add(asset.asset_key);
      else if ((task.lost_pos ?? 0) > heardPos) isUnheard = true;
      else if (slots.isFree(asset)) {
        const among = search.knowsSuspects && goesAlone(rows, task) ? suspects : retries;
        const own = among.get(assetName(asset)) ?? { asset, tasks: [] };
        own.tasks.push(task);
        among.set(assetName(asset), own);
      }
    }
    if (page.length < PAGE_SIZE) break;
    after = [afterRow(page.at(-1), RETRY_ORDER)];
    // Others must not starve behind the many that wait for a slot of their sync.
    looked += retries.size + suspects.size === before ? BLOCKED_PAGE_COST : PAGE_SIZE;
  }
  return { retries: byUrgency(retries), suspects: byUrgency(suspects), isUnheard };
}

/** The assets of tasks, with what their slots depend on loaded at once. */
function assetsOf(rows: Rows, tasks: readonly TaskRow[], slots: SyncSlots): RunAssetRow[] {
  rows.runAssets.need(tasks.map(({ run_pos, asset_index }) => [run_pos, asset_index]));
  const assets = tasks.flatMap(
    ({ run_pos, asset_index }) => rows.runAssets.get(run_pos, asset_index) ?? [],
  );
  slots.need(assets);
  return assets;
}

function goesAlone(rows: Rows, task: TaskRow): boolean {
  return isSuspect(task) && canWaitAlone(present(rows.runs.get(task.run_pos), "it has its run"));
}

function byUrgency(retries: Retries): Retries {
  const sorted = [...retries].toSorted(([, a], [, b]) => compareRows(a.asset, b.asset, URGENCY));
  return new Map(sorted);
}

/** One asset of one run, as a text. */
export function assetName({ run_pos, asset_index }: RunAssetRow): string {
  return `${run_pos}/${asset_index}`;
}
