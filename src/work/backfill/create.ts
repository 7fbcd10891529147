import { canonicalJson, type Json } from "../../kernel/canonical.ts";
import { PawlError, present } from "../../kernel/errors.ts";
import { type Instant, msBetween } from "../../kernel/instant.ts";
import { expandIntervals, type Interval, intervalsOf } from "../../kernel/intervals.ts";
import type { Selector, StaleReasons } from "../../kernel/keyspace/selector.ts";
import type { StaleSurvey } from "../asset/stale.ts";
import { type Context, type Decide } from "../decision.ts";
import { stretchPairs } from "../definition/partition-keys.ts";
import { CONFIG_LENGTH_SHARED_MAX, type RetryPolicy } from "../definition/spec.ts";
import { eventBody } from "../envelope.ts";
import type { EventData, NewEvent } from "../events.ts";
import { IDEMPOTENCY_KEYS } from "../keys.ts";
import type { Rows } from "../rows.ts";
import {
  type BackfillRequest,
  backfillRequest,
  madeBefore,
  RUN_CLASS,
  RUN_TASKS_MAX,
  type RunOptions,
  refuseLongOptions,
  refuseTakenId,
  runRequested,
} from "../run/request.ts";
import { knownBackfill } from "./commands.ts";
import { timingOf } from "./window.ts";
import { isTerminalBackfill } from "./fold.ts";
import { concurrencyOf, refuseNewestFirst } from "./in-order.ts";
import { findOverlaps, type Overlap, refuseOverlaps } from "./overlaps.ts";
import { pagesOf, pairsOf, refuseTooScattered, runPartitions, surveyedPages } from "./plan.ts";
import type { BackfillRow, BackfillState, FailureLimit } from "./rows.ts";
import { isSurveyed, type SurveyedSelector, surveyRetry } from "./survey.ts";
import {
  type BackfillTarget,
  isLookedFor,
  resolveTargets,
  selectedPairs,
  surveyedTarget,
} from "./targets.ts";

/** A wish for a backfill, as the API takes it. */
export type CreateBackfillInput = {
  client_request_id: string;
  /** The id of the first backfill that is made; a fresh one when it is left out. */
  backfill_id?: string | undefined;
  assets: readonly string[];
  selector: Selector;
  chunk_size: number;
  max_concurrent_runs: number;
  order: "ascending" | "descending";
  priority: number;
  retry?: RetryPolicy | undefined;
  failure_limit?: FailureLimit | undefined;
  allow_overlap: boolean;
  continue_on_failure: boolean;
  after_backfill_id?: string | undefined;
  plan_hash?: string | undefined;
  labels?: Record<string, string> | undefined;
  config?: Json | undefined;
  code_version?: string | undefined;
  /** No chunk is planned before. */
  start_at?: Instant | undefined;
  /** The time of the day in which chunks are planned, such as `22:00-06:00 Europe/Berlin`. */
  window?: string | undefined;
};

/** One of the backfills that a request made. */
export type MadeBackfill = {
  backfill_id: string;
  asset_selection: string[];
  /** Keys of partitions, and partitions of all assets. */
  total_partitions: number;
  partitions_total: number;
  total_chunks: number;
  stale_reasons: StaleReasons | null;
};

/** What a request made: one backfill for each partition definition, the first one first. */
export type CreatedBackfills = {
  backfill_id: string;
  state: BackfillState;
  state_version: number;
  asset_selection: string[];
  selector: Selector;
  total_partitions: number;
  partitions_total: number;
  total_chunks: number;
  stale_reasons: StaleReasons | null;
  backfills: MadeBackfill[];
};

/** Most parts on one survey page. */
const PARTS_ON_PAGE_MAX = 1_000;

/**
 * Creates a backfill, or several that follow each other when the selection crosses definitions. For
 * a selector whose partitions have to be looked for, `survey` is what was found before. What a schedule
 * gives its runs was taken when that was published.
 */
export function createBackfill(
  input: CreateBackfillInput,
  survey?: StaleSurvey,
  isOfSchedule = false,
): Decide<CreatedBackfills> {
  return (rows, context) => {
    const request = requestOf(input, context);
    const before = madeBefore(rows, request, input.client_request_id);
    if (before !== null) return { events: [], result: resultOf(asCreated(before)) };

    if (!isOfSchedule) refuseLongOptions(input, CONFIG_LENGTH_SHARED_MAX);
    refuseTakenId(rows, input.backfill_id);
    const targets = resolveTargets(rows, input, context, survey);
    if (input.plan_hash !== undefined) refuseChangedPlan(input, targets, context);
    if (input.after_backfill_id !== undefined) knownBackfill(rows, input.after_backfill_id);
    if (!input.allow_overlap) refuseOverlaps(findOverlaps(rows, targets));

    const parent = isSurveyed(input.selector) ? input.selector.backfill_id : null;
    return createdEvents(input, targets, parent, request, context);
  };
}

function requestOf(input: CreateBackfillInput, context: Context): BackfillRequest {
  const { client_request_id, ...wish } = input;
  const key = IDEMPOTENCY_KEYS.backfillCreate(context.principal, client_request_id);
  return backfillRequest(key, wish, context);
}

/** Whether the same request was made before, so that nothing need be looked for. */
export function isCreatedBefore(input: CreateBackfillInput): Decide<boolean> {
  return (rows, context) => {
    const before = madeBefore(rows, requestOf(input, context), input.client_request_id);
    return { events: [], result: before !== null };
  };
}

/** What to retry of an earlier backfill. */
export type RetryBackfillInput = {
  backfill_id: string;
  retry_request_id: string;
  missing: boolean;
  outcomes?: readonly ("FAILED" | "CANCELLED" | "SKIPPED")[] | undefined;
  allow_overlap?: boolean | undefined;
};

/**
 * Makes a new backfill of what an earlier one left, per partition, and of what failed so far in one
 * that goes on, without what another retry has taken on; the old one stays as it is. Asked again with
 * the same request id, by whomever, it is the same retry.
 */
export function retryBackfill(input: RetryBackfillInput): Decide<CreatedBackfills> {
  return (rows, context) => {
    const parent = knownBackfill(rows, input.backfill_id);
    const { backfill_id, retry_request_id, ...wish } = input;
    const key = IDEMPOTENCY_KEYS.backfillRetry(backfill_id, retry_request_id);
    const request = backfillRequest(key, wish, context);
    const before = madeBefore(rows, request, retry_request_id);
    if (before !== null) return { events: [], result: resultOf(asCreated(before)) };

    const selector: SurveyedSelector = input.missing
      ? { type: "missing", backfill_id }
      : { type: "outcome", backfill_id, outcomes: [...(input.outcomes ?? outcomesOf(parent))] };
    const retry: CreateBackfillInput = {
      ...inheritedFrom(parent),
      client_request_id: retry_request_id,
      allow_overlap: input.allow_overlap === true,
      selector,
    };
    const survey = surveyRetry(rows, selector);
    const targets = [surveyedTarget(rows, survey, retry)];
    if (!retry.allow_overlap) refuseOverlaps(findOverlaps(rows, targets, survey.related));
    return createdEvents(retry, targets, backfill_id, request, context);
  };
}

/** What failed; or, when nothing did to the end, what was skipped. */
function outcomesOf(parent: BackfillRow): ("FAILED" | "SKIPPED")[] {
  const { partitions_failed, partitions_skipped, state } = parent;
  const onlySkipped = partitions_failed === 0 && partitions_skipped > 0;
  return onlySkipped && isTerminalBackfill(state) ? ["SKIPPED"] : ["FAILED"];
}

function inheritedFrom(
  parent: BackfillRow,
): Omit<CreateBackfillInput, "client_request_id" | "selector" | "allow_overlap"> {
  return {
    assets: parent.asset_selection,
    chunk_size: parent.chunk_size,
    max_concurrent_runs: parent.max_concurrent_runs,
    order: parent.order,
    priority: parent.priority,
    retry: parent.retry ?? undefined,
    failure_limit: parent.failure_limit ?? undefined,
    continue_on_failure: false,
    labels: parent.labels,
    config: parent.config,
    code_version: parent.code_version ?? undefined,
    window: parent.window ?? undefined,
  };
}

/**
 * The fingerprint of what would be done: the same while the same request means the same work. The count
 * and the ends tell whether any keys came to the selection, as those that come are new ones at the end
 * or were removed before.
 */
export function planHashOf(
  input: CreateBackfillInput,
  targets: readonly BackfillTarget[],
  context: Context,
): string {
  const plan = targets.map((target) => ({
    spec_hashes: target.assets.map(({ spec_hash }) => spec_hash),
    selector: withoutTime(target.selector),
    parts: target.parts,
    ends: endsOf(target),
    ...(target.removed === null ? {} : { removed: target.removed }),
    total_partitions: target.total_partitions,
    chunk_size: input.chunk_size,
    order: input.order,
  }));
  return context.hash.sha256(canonicalJson(plan));
}

/** The parts say what was found; when it was looked for changes nothing. */
function withoutTime(selector: Selector): Selector {
  if (!isLookedFor(selector)) return selector;
  const { as_of: _, ...rest } = { as_of: undefined, ...selector };
  return rest;
}

/** The first and the last partition of an arithmetic selection. */
function endsOf({ partitions, selection, total_partitions }: BackfillTarget): string[] {
  if (partitions === null || selection === null) return [];
  return [0, total_partitions - 1].map((at) => partitions.keyspace.keyAt(selection.ordinalAt(at)));
}

function refuseChangedPlan(
  input: CreateBackfillInput,
  targets: readonly BackfillTarget[],
  context: Context,
): void {
  const plan_hash = planHashOf(input, targets, context);
  if (input.plan_hash === plan_hash) return;
  throw new PawlError(
    "PLAN_CHANGED",
    `The plan is no longer the one that was previewed: its hash is ${plan_hash}, ` +
      `not ${input.plan_hash}. Preview it again.`,
    { details: { plan_hash, expected_plan_hash: input.plan_hash } },
  );
}

function createdEvents(
  input: CreateBackfillInput,
  targets: readonly BackfillTarget[],
  parent: string | null,
  request: BackfillRequest,
  context: Context,
) {
  const events: NewEvent[] = [];
  const backfill_ids = targets.map((_, index) =>
    index === 0 && input.backfill_id !== undefined ? input.backfill_id : context.newId(),
  );
  const made = targets.map((target, index): CreatedData => {
    refuseNewestFirst(input, target);
    refuseLargeChunks(input, target, context);
    const backfill_id = present(backfill_ids[index], "each target has its id");
    const pages = target.parts === null ? [] : pagesOf(target.parts, PARTS_ON_PAGE_MAX);
    const backfill_pos = context.nextPos + events.length;
    const data: CreatedData = {
      backfill_id,
      client_request_id: input.client_request_id,
      request: index === 0 ? { ...request, backfill_ids } : null,
      created_by: context.principal,
      asset_selection: target.assets.map(({ spec }) => spec.asset_key),
      spec_hashes: target.assets.map(({ spec_hash }) => spec_hash),
      partition_selector: target.selector,
      bound: target.bound,
      ...(target.removed === null ? {} : { removed: target.removed.map(stretchPairs) }),
      total_partitions: target.total_partitions,
      total_pairs: target.total_pairs,
      survey_pages: pages.length,
      stale_reasons: target.stale_reasons,
      total_chunks: chunksOf(input, target),
      chunk_size: input.chunk_size,
      max_concurrent_runs: concurrencyOf(input, target),
      order: input.order,
      priority: input.priority,
      retry: input.retry ?? null,
      failure_limit: input.failure_limit ?? null,
      parent_backfill_id: parent,
      after_backfill_id: backfill_ids[index - 1] ?? input.after_backfill_id ?? null,
      continue_on_failure: input.continue_on_failure,
      code_version: input.code_version ?? null,
      labels: input.labels ?? {},
      config: input.config ?? null,
      ...timingOf(input, index > 0 || input.after_backfill_id !== undefined, context),
    };
    const idempotency_key =
      index === 0
        ? request.request_key
        : IDEMPOTENCY_KEYS.backfillFollower(present(backfill_ids[0], "there is a first"), index);
    events.push({ type: "BackfillCreated", idempotency_key, data });
    for (const page of surveyedPages(backfill_id, backfill_pos, pages)) events.push(page);
    return data;
  });
  refuseTooScattered(events.length);
  return { events, result: resultOf(made) };
}

type CreatedData = EventData<"BackfillCreated">;

/** Rows as they were created: with the chunks there were before any was split. */
function asCreated(rows: readonly BackfillRow[]): (BackfillRow & { total_pairs: number })[] {
  return rows.map((row) => ({
    ...row,
    total_pairs: row.partitions_total,
    total_chunks: row.base_chunks,
  }));
}

/** What the request was answered at first, from what it made. */
function resultOf(
  backfills: readonly (Pick<
    BackfillRow,
    "backfill_id" | "asset_selection" | "partition_selector" | "total_partitions" | "stale_reasons"
  > & { total_pairs: number; total_chunks: number })[],
): CreatedBackfills {
  const made = backfills.map(
    (backfill): MadeBackfill => ({
      backfill_id: backfill.backfill_id,
      asset_selection: backfill.asset_selection,
      total_partitions: backfill.total_partitions,
      partitions_total: backfill.total_pairs,
      total_chunks: backfill.total_chunks,
      stale_reasons: backfill.stale_reasons,
    }),
  );
  return {
    ...present(made[0], "a request makes a backfill"),
    selector: present(backfills[0], "a request makes a backfill").partition_selector,
    state: "PENDING",
    state_version: 1,
    backfills: made,
  };
}

/** How many chunks a target has; refuses chunks that would be more tasks than a run may have. */
export function chunksOf(input: CreateBackfillInput, target: BackfillTarget): number {
  const tasks = target.assets.reduce(
    (sum, { spec }) => sum + (spec.batch ? 1 : Math.min(input.chunk_size, target.total_partitions)),
    0,
  );
  if (tasks > RUN_TASKS_MAX) {
    throw new PawlError(
      "INPUT_INVALID",
      `Chunks of ${input.chunk_size} partitions of ${target.assets.length} assets would be ` +
        `${tasks} tasks each; a run may have ${RUN_TASKS_MAX}. Choose a smaller chunk size.`,
      { details: { chunk_size: input.chunk_size, tasks, tasks_max: RUN_TASKS_MAX } },
    );
  }
  return Math.ceil(target.total_partitions / input.chunk_size);
}

/** Partitions of all assets in a chunk up to which none can be larger than what is recorded. */
const PAIRS_SAFE = 1_000;

/**
 * Refuses chunks that nothing could record: keys that are too long together, too many edges. Looks at
 * the first chunk, the last and one between; another that is larger pauses the backfill.
 */
export function refuseLargeChunks(
  input: CreateBackfillInput,
  { assets, partitions, selection, total_partitions }: BackfillTarget,
  context: Context,
): void {
  const { chunk_size } = input;
  if (selection === null || chunk_size * assets.length <= PAIRS_SAFE) return;
  const every = assets.map((_, index) => index);
  const last = Math.ceil(total_partitions / chunk_size) - 1;
  for (const chunk of new Set([0, Math.floor(last / 2), last])) {
    const start = chunk * chunk_size;
    const ordinals = selection.ordinals(start, Math.min(chunk_size, total_partitions - start));
    const parts = intervalsOf(ordinals).map(([from, to]) => ({ from, to }));
    const run = runPartitions({ assets, partitions, selection }, parts, every);
    eventBody(runRequested(context, "", assets, run, { ...TRIAL, config: input.config ?? null }));
  }
}

/** What the request of a run says that is made only to see how large it is. */
const TRIAL: Omit<RunOptions, "config"> = {
  labels: {},
  code_version: null,
  priority: 0,
  class: RUN_CLASS.backfill,
  retry: null,
  trigger_source_ref: { type: "backfill", backfill_id: "", chunk_id: "", generation: 0 },
  backfill_id: null,
  chunk_index: null,
};

/** What a backfill would be. */
export type PreviewedBackfill = {
  asset_selection: string[];
  selector: Selector;
  total_partitions: number;
  partitions_total: number;
  /** Partitions of all assets that the selector names, of all backfills, before `only` leaves any out. */
  partitions_selected: number | null;
  /** When it may plan its first chunk, where that is not at once. */
  opens_at: Instant | null;
  total_chunks: number;
  stale_reasons: StaleReasons | null;
  estimated_runs: number;
  first_chunk_partitions: string[];
  overlaps: Overlap[];
  estimated_seconds: number | null;
  plan_hash: string;
  backfills: Omit<MadeBackfill, "backfill_id">[];
};

/** How many past runs an estimate looks at. */
const PAST_RUNS_READ = 200;

/** Shows what a backfill would do; records nothing. */
export function previewBackfill(
  input: CreateBackfillInput,
  survey?: StaleSurvey,
): Decide<PreviewedBackfill> {
  return (rows, context) => {
    refuseLongOptions(input, CONFIG_LENGTH_SHARED_MAX);
    const opening = timingOf(input, false, context).timing;
    const targets = resolveTargets(rows, input, context, survey);
    for (const target of targets) {
      refuseNewestFirst(input, target);
      refuseLargeChunks(input, target, context);
    }
    const backfills = targets.map((target) => ({
      asset_selection: target.assets.map(({ spec }) => spec.asset_key),
      total_partitions: target.total_partitions,
      partitions_total: target.total_pairs,
      total_chunks: chunksOf(input, target),
      stale_reasons: target.stale_reasons,
    }));
    const first = present(backfills[0], "a request has a target");
    const target = present(targets[0], "a request has a target");
    const result: PreviewedBackfill = {
      ...first,
      selector: target.selector,
      partitions_selected: selectedPairs(rows, input, context),
      opens_at: opening?.is_open === false ? opening.changes_at : null,
      estimated_runs: backfills.reduce((sum, { total_chunks }) => sum + total_chunks, 0),
      first_chunk_partitions: firstChunk(input, target),
      overlaps: findOverlaps(rows, targets),
      estimated_seconds: estimatedSeconds(rows, input, targets),
      plan_hash: planHashOf(input, targets, context),
      backfills,
    };
    return { events: [], result };
  };
}

function firstChunk(input: CreateBackfillInput, target: BackfillTarget): string[] {
  if (target.partitions === null) return [];
  const { keyspace } = target.partitions;
  const count = Math.min(input.chunk_size, target.total_partitions);
  const start = input.order === "ascending" ? 0 : target.total_partitions - count;
  const parts = (target.parts ?? []).map(({ from, to }): Interval => [from, to]);
  return keyspace.keysAt(
    target.selection?.ordinals(start, count) ?? expandIntervals(parts, start, count),
  );
}

/** From the pace of past runs of the same assets; null when there are none. */
function estimatedSeconds(
  rows: Rows,
  input: CreateBackfillInput,
  targets: readonly BackfillTarget[],
): number | null {
  const past = rows.runs.find(
    [{ cell: "state", is: "=", value: "SUCCEEDED" }],
    [{ cell: "run_pos", descending: true }],
    PAST_RUNS_READ,
  );
  let seconds = 0;
  for (const target of targets) {
    const keys = new Set(target.assets.map(({ spec }) => spec.asset_key));
    let ms = 0;
    let pairs = 0;
    for (const run of past) {
      if (run.started_at === null || run.finished_at === null) continue;
      if (!run.asset_selection.some((key) => keys.has(key))) continue;
      ms += msBetween(run.started_at, run.finished_at);
      const count = run.partition_keys?.length ?? 1;
      pairs += pairsOf([{ from: 1, to: count }], run.asset_selection.length);
    }
    if (pairs === 0) return null;
    seconds += (target.total_pairs * ms) / pairs / concurrencyOf(input, target) / 1000;
  }
  return Math.round(seconds * 10) / 10;
}
