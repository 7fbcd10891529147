import { type Instant, msBetween } from "../../kernel/instant.ts";
import type { Failure } from "../backfill/rows.ts";
import { CRASH_CLASS } from "./protocol.ts";
import type { RunRow, TaskRow, RunAssetRow } from "./rows.ts";
import { DURATION_MS_MAX, type RetryPolicy } from "../definition/spec.ts";
import { present } from "../../kernel/errors.ts";
import type { Rows } from "../rows.ts";
import { needTasksAt, taskOf } from "./task-blocks.ts";
import { afterRow, type Condition, compareRows, type Key, type Order } from "../../kernel/table.ts";
import type { StartLimit } from "../kind.ts";
import { kindOf } from "../kinds.ts";

/** How long an attempt at a run that never ends by itself has to last to begin a row of lost ones anew. */
const ENDLESS_LASTED_MS = 600_000;
/** Attempts in a row that are lost with their worker before the task itself is suspected. */
const SUSPECT_AFTER = 2;
/** How long a suspect is alone at first, and at most. */
const ALONE_MS = 60_000;
const ALONE_MS_MAX = 3_600_000;

/** The wait before the next attempt: exponential, capped, with jitter around it. */
export function retryDelayMs(policy: RetryPolicy, failures: number, random: number): number {
  // Kept finite: no delay at all, times infinity, would be no number.
  const growth = Math.min(policy.factor ** (failures - 1), DURATION_MS_MAX);
  const delay = Math.min(policy.max_delay_ms, policy.delay_ms * growth);
  return Math.round(delay * (1 + policy.jitter * (2 * random - 1)));
}

/** Why a task is not tried again after so many attempts that were lost. */
export function givenUp({ class: name, message }: Failure, lost: number): Failure {
  if (lost === 1) return { class: name, message };
  const row = `${lost} attempts in a row were lost with their worker`;
  return { class: name, message: `${row}; the last: ${message}` };
}

/**
 * How many attempts in a row were lost before this one. What follows writes goes on for days: an
 * attempt at it that lasted is no part of a row in which each kills its worker.
 */
export function lostInARow(
  run: RunRow,
  { lost_attempts, started_at }: TaskRow,
  now: Instant,
): number {
  const lasted = started_at === null ? 0 : msBetween(started_at, now);
  return isEndless(run) && lasted >= ENDLESS_LASTED_MS ? 0 : lost_attempts;
}

/** Whether a run never ends by itself. */
function isEndless(run: RunRow): boolean {
  return kindOf(run)?.runs.isEndless?.(run) === true;
}

/** Whether a task may be what takes its processes down: the last one crashed, or several were lost. */
export function isSuspect({ error, lost_attempts }: TaskRow): boolean {
  return error?.class === CRASH_CLASS || lost_attempts >= SUSPECT_AFTER;
}

/** Whether a suspect can wait until it is alone. */
export function canWaitAlone(run: RunRow): boolean {
  return kindOf(run)?.runs.isAwaited?.(run) !== true;
}

/**
 * How long nothing is to begin beside a suspect: twice as long after each crash, so that one that takes
 * its time to crash is found too.
 */
export function aloneMs(run: RunRow, { failures, lost_attempts }: TaskRow): number {
  const most = isEndless(run) ? ENDLESS_LASTED_MS : ALONE_MS_MAX;
  return Math.min(most, ALONE_MS * 2 ** Math.max(0, Math.min(failures + lost_attempts, 20) - 1));
}

/** How many candidates one look-up brings. */
export const PAGE_SIZE = 200;
/** Most assets of runs, and most tasks to be tried again, that one claim looks at. */
export const CANDIDATES_MAX = 2_000;
/** What a page of tasks that a limit holds back counts of those. */
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

/** So many tasks that wait to be tried again can be known without a look into the database. */
const FEW_RETRIES = 20;

/**
 * When the first of all tasks that wait to be tried again is due; null when none waits. Mostly few do, and
 * asked like this, without a time, what is known of them is kept from commit to commit.
 */
export function soonestRetry(rows: Rows): Instant | null {
  return rows.taskRetries.find([], RETRY_ORDER, FEW_RETRIES)[0]?.retry_at ?? null;
}

/** What is known of the claim that tasks are found for. */
type RetrySearch = {
  now: Instant;
  heardPos: number;
  limits: StartLimit;
  /** Whether the worker can run a suspect alone. */
  knowsSuspects: boolean;
  /** Has loaded what the pools of these assets have room for. */
  needPools(assets: readonly RunAssetRow[]): void;
  isFull(asset: RunAssetRow): boolean;
  /** The assets that are asked for, without these. */
  assetsBut(full: ReadonlySet<string>): Condition;
};

/**
 * Finds the tasks whose time to be tried again has come, but for those that a limit holds back; those
 * that are to run alone apart, as far as the worker knows of that.
 */
export function findRetries(
  rows: Rows,
  search: RetrySearch,
): { retries: Retries; suspects: Retries; isUnheard: boolean } {
  const { limits, heardPos } = search;
  const retries: Retries = new Map();
  const suspects: Retries = new Map();
  const due: Condition[] = [{ cell: "retry_at", is: "<=", value: search.now }];
  const full = new Set<string>();
  let isUnheard = false;
  const soonest = soonestRetry(rows);
  if (soonest === null || soonest > search.now) return { retries, suspects, isUnheard };
  let after: Condition[] = [];
  for (let looked = 0; looked < CANDIDATES_MAX; ) {
    const waiting = rows.taskRetries.find(
      [...due, search.assetsBut(full), ...after],
      RETRY_ORDER,
      PAGE_SIZE,
    );
    needTasksAt(rows, waiting);
    const page = waiting.map(({ run_pos, task_key }) =>
      present(taskOf(rows, run_pos, task_key), "what is to be tried again is there"),
    );
    const assets = assetsOf(rows, page, limits);
    search.needPools(assets);
    rows.runs.need(page.filter(isSuspect).map(({ run_pos }): Key => [run_pos]));
    const before = retries.size + suspects.size;
    for (const [index, task] of page.entries()) {
      const asset = present(assets[index], "a task that waits has its asset");
      if (search.isFull(asset)) full.add(asset.asset_key);
      else if ((task.lost_pos ?? 0) > heardPos) isUnheard = true;
      else if (limits.isFree(asset)) {
        const among = search.knowsSuspects && goesAlone(rows, task) ? suspects : retries;
        const own = among.get(assetName(asset)) ?? { asset, tasks: [] };
        own.tasks.push(task);
        among.set(assetName(asset), own);
      }
    }
    if (page.length < PAGE_SIZE) break;
    after = [afterRow(page.at(-1), RETRY_ORDER)];
    // Others must not starve behind the many that a limit holds back.
    looked += retries.size + suspects.size === before ? BLOCKED_PAGE_COST : PAGE_SIZE;
  }
  return { retries: byUrgency(retries), suspects: byUrgency(suspects), isUnheard };
}

/** The assets of tasks, with what their limits depend on loaded at once. */
function assetsOf(rows: Rows, tasks: readonly TaskRow[], limits: StartLimit): RunAssetRow[] {
  rows.runAssets.need(tasks.map(({ run_pos, asset_index }) => [run_pos, asset_index]));
  const assets = tasks.flatMap(
    ({ run_pos, asset_index }) => rows.runAssets.get(run_pos, asset_index) ?? [],
  );
  limits.need(assets);
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
