import { present } from "../core/assert.ts";
import { PawlError } from "../core/errors.ts";
import { isTerminalBackfill } from "../core/fold/fold-backfills.ts";
import {
  type Interval,
  intervalsOf,
  mergeIntervals,
  subtractIntervals,
  uniteIntervals,
} from "../core/intervals.ts";
import type { Selector } from "../core/partitions/selector.ts";
import type { BackfillRow, ChunkPart, OrdinalsByAsset } from "../core/rows/backfill-rows.ts";
import type { Rows } from "../core/rows/rows.ts";
import type { Condition } from "../core/rows/table.ts";
import { type BackfillPlan, backfillPlan, surveyedParts } from "./backfill-plan.ts";
import { knownBackfill } from "./change-backfill.ts";
import { intervalsFrom, intervalsUpTo, partsByAsset } from "./chunk-parts.ts";
import { failedUnderWay } from "./settle-run.ts";

/** Most rows that one survey reads. */
const ROWS_READ_MAX = 5_000_000;

type OutcomeSelector = Extract<Selector, { type: "outcome" }>;
type MissingSelector = Extract<Selector, { type: "missing" }>;
/** Selects by what became of an earlier backfill. */
export type SurveyedSelector = OutcomeSelector | MissingSelector;

/** Whether the selector is about what became of an earlier backfill. */
export function isSurveyed(selector: Selector): selector is SurveyedSelector {
  return selector.type === "outcome" || selector.type === "missing";
}

/** What was found of an earlier backfill: the ordinals by asset, under its plan. */
export type OutcomeSurvey = { parent: BackfillRow; plan: BackfillPlan; parts: ChunkPart[] };

/** The ordinals, by asset, that an earlier backfill left in some outcome or did not materialize. */
export function surveyOutcomes(rows: Rows, selector: SurveyedSelector): OutcomeSurvey {
  const parent = knownBackfill(rows, selector.backfill_id);
  if (!isTerminalBackfill(parent.state)) {
    throw new PawlError(
      "STATE_ILLEGAL",
      `Backfill ${parent.backfill_id} is ${parent.state}; wait until it has ended, or cancel it, ` +
        "before you retry what it left.",
      { details: { backfill_id: parent.backfill_id, state: parent.state } },
    );
  }
  const plan = backfillPlan(rows, parent);
  const byAsset =
    selector.type === "missing"
      ? missing(rows, parent, plan)
      : outcomes(rows, parent, plan, new Set(selector.outcomes));
  const parts = partsByAsset(byAsset);
  if (parts.length > 0) return { parent, plan, parts };
  throw nothingLeft(parent, selector);
}

/**
 * What a retry takes of a backfill, also of one that goes on: what failed for good and no other retry
 * has taken on or made. `related` are the backfills that have nothing of it left to do.
 */
export function surveyRetry(
  rows: Rows,
  selector: SurveyedSelector,
): OutcomeSurvey & { related: ReadonlySet<string> } {
  const parent = knownBackfill(rows, selector.backfill_id);
  const hasEnded = isTerminalBackfill(parent.state);
  if (!hasEnded) refuseUnsettled(parent, selector);
  const related = new Set(ancestorsOf(rows, parent).map(({ backfill_id }) => backfill_id));
  if (selector.type === "missing") return { ...surveyOutcomes(rows, selector), related };

  const plan = backfillPlan(rows, parent);
  const wanted = new Set<string>(selector.outcomes);
  const found = outcomes(rows, parent, plan, wanted);
  if (!hasEnded) addUnderWay(rows, parent, found);
  const retried = retriedOf(rows, parent, wanted);
  for (const id of [parent.backfill_id, ...retried.ids]) related.add(id);
  const parts = partsByAsset(minus(found, retried.byAsset));
  if (parts.length > 0) return { parent, plan, parts, related };
  throw nothingLeft(parent, selector, retried.ids);
}

/** What a backfill that goes on does not make is not known yet, but for what failed. */
function refuseUnsettled(parent: BackfillRow, selector: SurveyedSelector): void {
  const { backfill_id, state } = parent;
  if (selector.type === "outcome" && selector.outcomes.every((each) => each === "FAILED")) return;
  throw new PawlError(
    "STATE_ILLEGAL",
    `Backfill ${backfill_id} is ${state}: only what failed can be retried now. Wait until it has ` +
      "ended, or cancel it, before you retry what else it left.",
    { details: { backfill_id, state } },
  );
}

/** The backfills that this one retries something of, the nearest first. */
function ancestorsOf(rows: Rows, backfill: BackfillRow): BackfillRow[] {
  const ancestors: BackfillRow[] = [];
  let { parent_backfill_id: id } = backfill;
  while (id !== null) {
    const parent = knownBackfill(rows, id);
    ancestors.push(parent);
    id = parent.parent_backfill_id;
  }
  return ancestors;
}

/** Most retries of one backfill that are looked at. */
const RETRIES_READ_MAX = 10_000;

type Retried = { byAsset: Interval[][]; ids: string[] };

/**
 * What other retries have taken on: those of the backfill, and later ones of those it came from,
 * which may have taken what it left.
 */
function retriedOf(rows: Rows, backfill: BackfillRow, wanted: ReadonlySet<string>): Retried {
  const retried = takenOn(rows, backfill, -1, wanted);
  let after = backfill.created_pos;
  for (const ancestor of ancestorsOf(rows, backfill)) {
    unite(retried, takenOn(rows, ancestor, after, wanted));
    after = ancestor.created_pos;
  }
  return retried;
}

function takenOn(
  rows: Rows,
  backfill: BackfillRow,
  after: number,
  wanted: ReadonlySet<string>,
): Retried {
  const taken: Retried = { byAsset: backfill.asset_selection.map(() => []), ids: [] };
  const where = [
    { cell: "parent_backfill_id", is: "=", value: backfill.backfill_id },
    { cell: "created_pos", is: ">", value: after },
  ] as const;
  const retries = rows.backfills.find(where, [{ cell: "created_pos" }], RETRIES_READ_MAX);
  for (const retry of retries) unite(taken, heldBy(rows, retry, wanted));
  return taken;
}

/** What a retry works on or has made; what it left when it ended can be retried again. */
function heldBy(rows: Rows, retry: BackfillRow, wanted: ReadonlySet<string>): Retried {
  const plan = backfillPlan(rows, retry);
  const all = target(rows, retry, plan, 0, retry.total_partitions).map(mergeIntervals);
  const own = { byAsset: all, ids: [retry.backfill_id] };
  if (!isTerminalBackfill(retry.state)) return own;
  const isLeft = (outcome: Unsuccessful) => outcome !== "SKIPPED" || wanted.has(outcome);
  const left = endedAs(rows, retry, plan, UNSUCCESSFUL.filter(isLeft));
  const again = takenOn(rows, retry, -1, wanted);
  own.byAsset = minus(all, minus(left, again.byAsset));
  own.ids.push(...again.ids);
  return own;
}

function unite(into: Retried, { byAsset, ids }: Retried): void {
  into.byAsset = into.byAsset.map((own, asset) => uniteIntervals(own, byAsset[asset] ?? []));
  into.ids.push(...ids);
}

function minus(one: readonly Interval[][], other: readonly Interval[][]): Interval[][] {
  return one.map((own, asset) => subtractIntervals(own, other[asset] ?? []));
}

/** Adds what has failed for good in runs that go on; the ended ones have it in their chunks. */
function addUnderWay(rows: Rows, parent: BackfillRow, found: Interval[][]): void {
  const where: Condition[] = [
    { cell: "backfill_id", is: "=", value: parent.backfill_id },
    { cell: "state", is: "in", values: ["PENDING", "RUNNING"] },
    { cell: "tasks_failed", is: ">", value: 0 },
  ];
  const active = parent.chunks_planned + parent.chunks_running;
  const runs = active === 0 ? [] : rows.runs.find(where, [{ cell: "run_pos" }], active);
  addParts(found, failedUnderWay(rows, parent, runs));
  for (const [asset, intervals] of found.entries()) found[asset] = mergeIntervals(intervals);
}

function nothingLeft(
  parent: BackfillRow,
  selector: SurveyedSelector,
  retries: readonly string[] = [],
): PawlError {
  const { backfill_id, partitions_cancelled } = parent;
  const asked = selector.type === "missing" ? ["missing"] : selector.outcomes;
  const details = { backfill_id, partitions_cancelled, retries: retries.slice(0, RETRIES_NAMED) };
  if (retries.length > 0) {
    return new PawlError(
      "SELECTION_EMPTY",
      `Backfill ${backfill_id} has no partition that is ${asked.join(" or ")} and not retried ` +
        `already, by ${retries.slice(0, RETRIES_NAMED).join(", ")}. To make them once more, create ` +
        "a backfill with a selector of the type outcome.",
      { details },
    );
  }
  const left = isTerminalBackfill(parent.state) ? "left" : "has";
  const others =
    selector.type === "outcome" && !asked.includes("CANCELLED") && partitions_cancelled > 0
      ? `${partitions_cancelled} of its partitions were cancelled: retry those with ` +
        "`--missing`, or with the outcome CANCELLED."
      : "There is nothing to retry.";
  return new PawlError(
    "SELECTION_EMPTY",
    `Backfill ${backfill_id} ${left} no partition that is ${asked.join(" or ")}. ${others}`,
    { details },
  );
}

/** Retries that a refusal names. */
const RETRIES_NAMED = 5;

const CELLS = { FAILED: "failed", CANCELLED: "cancelled", SKIPPED: "skipped" } as const;
type Unsuccessful = keyof typeof CELLS;
const UNSUCCESSFUL = Object.keys(CELLS) as Unsuccessful[];

function outcomes(
  rows: Rows,
  parent: BackfillRow,
  plan: BackfillPlan,
  wanted: ReadonlySet<string>,
): Interval[][] {
  const named = UNSUCCESSFUL.filter((outcome) => wanted.has(outcome));
  const found = endedAs(rows, parent, plan, named);
  if (!wanted.has("SUCCEEDED")) return found;
  // Successes are written down nowhere: they are what nothing else became of.
  const others = endedAs(rows, parent, plan, UNSUCCESSFUL);
  return target(rows, parent, plan, 0, parent.total_partitions).map((intervals, asset) => {
    const succeeded = subtractIntervals(mergeIntervals(intervals), others[asset] ?? []);
    return uniteIntervals(found[asset] ?? [], succeeded);
  });
}

function endedAs(
  rows: Rows,
  parent: BackfillRow,
  plan: BackfillPlan,
  named: readonly Unsuccessful[],
): Interval[][] {
  const found = parent.asset_selection.map((): Interval[] => []);
  for (const outcome of named) {
    const cell = CELLS[outcome];
    for (const chunk of chunksWith(rows, parent, cell)) addTo(found, chunk[cell]);
  }
  if (named.includes("CANCELLED")) {
    for (const [asset, intervals] of unplanned(rows, parent, plan).entries()) {
      addAll(found[asset], intervals);
    }
  }
  return found.map((intervals) => mergeIntervals(intervals));
}

/** One by one: a call takes only so many arguments, and these lists have no bound. */
function addAll(list: Interval[] | undefined, intervals: readonly Interval[]): void {
  for (const interval of intervals) list?.push(interval);
}

function chunksWith(rows: Rows, parent: BackfillRow, cell: "failed" | "cancelled" | "skipped") {
  const where: Condition[] = [
    { cell: "backfill_id", is: "=", value: parent.backfill_id },
    { cell, is: "not null" },
  ];
  // What failed in a split chunk is in its tiles; what was skipped there is nowhere else.
  if (cell === "failed") where.push({ cell: "state", is: "<>", value: "SPLIT" });
  return rows.chunks.find(where, [{ cell: "chunk_index" }], ROWS_READ_MAX);
}

function addTo(found: Interval[][], lists: OrdinalsByAsset | null): void {
  for (const { asset, ordinals } of lists ?? []) addAll(found[asset], ordinals);
}

/** What was never planned before the backfill was cancelled, by asset. */
function unplanned(rows: Rows, parent: BackfillRow, plan: BackfillPlan): Interval[][] {
  const planned = Math.min(parent.total_partitions, parent.next_chunk * parent.chunk_size);
  const left = parent.total_partitions - planned;
  const start = parent.order === "ascending" ? planned : 0;
  const byAsset = target(rows, parent, plan, start, left);
  const where = [
    { cell: "backfill_id", is: "=", value: parent.backfill_id },
    { cell: "state", is: "=", value: "PENDING" },
  ] as const;
  for (const tile of rows.chunks.find(where, [{ cell: "chunk_index" }], ROWS_READ_MAX)) {
    addParts(byAsset, tile.parts);
  }
  return byAsset;
}

function addParts(byAsset: Interval[][], parts: readonly ChunkPart[]): void {
  for (const { from, to, assets } of parts) {
    for (const asset of assets ?? byAsset.keys()) byAsset[asset]?.push([from, to]);
  }
}

/** What the backfill was for, by asset: `count` partitions from the one at `start` on. */
function target(
  rows: Rows,
  parent: BackfillRow,
  plan: BackfillPlan,
  start: number,
  count: number,
): Interval[][] {
  const byAsset = parent.asset_selection.map((): Interval[] => []);
  if (count === 0) return byAsset;
  if (parent.survey_pages > 0) addParts(byAsset, surveyedParts(rows, parent, start, count));
  else if (plan.selection === null) addParts(byAsset, [{ from: 0, to: 0 }]);
  else {
    const { selection } = plan;
    const intervals =
      selection.intervals === null
        ? intervalsOf(selection.ordinals(start, refuseHuge(count)))
        : intervalsUpTo(intervalsFrom(selection.intervals, start), count);
    for (const own of byAsset) addAll(own, intervals);
  }
  return byAsset;
}

function refuseHuge(count: number): number {
  if (count <= ROWS_READ_MAX) return count;
  throw new PawlError(
    "SELECTION_TOO_LARGE",
    `${count} scattered partitions are more than the ${ROWS_READ_MAX} that can be looked through. ` +
      "Create a backfill with a selector for a part of them.",
  );
}

/** What the backfill was for and has no materialization, by asset. */
function missing(rows: Rows, parent: BackfillRow, plan: BackfillPlan): Interval[][] {
  return target(rows, parent, plan, 0, parent.total_partitions).map((intervals, asset) => {
    const where = [
      { cell: "asset_key", is: "=", value: present(parent.asset_selection[asset], "an asset") },
      { cell: "last_materialization_at", is: "not null" },
    ] as const;
    const order = [{ cell: "partition_key" }] as const;
    const made = rows.partitions.find(where, order, ROWS_READ_MAX).flatMap((partition) => {
      const ordinal = plan.partitions?.keyspace.indexOf(partition.partition_key) ?? null;
      return ordinal === null ? (plan.partitions === null ? [0] : []) : [ordinal];
    });
    made.sort((a, b) => a - b);
    return subtractIntervals(mergeIntervals(intervals), intervalsOf(made));
  });
}
