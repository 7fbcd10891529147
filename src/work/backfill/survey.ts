import { materializedIn } from "../asset/partition-blocks.ts";
import { ACTIVE_RUNS } from "../run/rows.ts";
import { PawlError, present } from "../../kernel/errors.ts";
import { isTerminalBackfill } from "./fold.ts";
import {
  type Interval,
  intervalsOf,
  mergeIntervals,
  subtractIntervals,
  uniteIntervals,
} from "../../kernel/intervals.ts";
import type { Selector } from "../../kernel/keyspace/selector.ts";
import type { BackfillRow, ChunkPart, ChunkRow, OrdinalsByAsset } from "./rows.ts";
import type { Rows } from "../rows.ts";
import type { Condition } from "../../kernel/table.ts";
import {
  type BackfillPlan,
  backfillPlan,
  ordinalsOfKeys,
  partsOnPages,
  surveyedParts,
  surveyPagesOf,
  intervalsFrom,
  intervalsUpTo,
  partsByAsset,
} from "./plan.ts";
import { knownBackfill } from "./commands.ts";
import { failedUnderWay } from "./advance.ts";

/** Most rows that one survey reads. */
const ROWS_READ_MAX = 5_000_000;
/** The same for blocks of partitions, of which few are full. */
const BLOCKS_READ_MAX = 1_000_000;

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

/** Most generations of retries of retries, and most retries of one backfill, that are looked at. */
const GENERATIONS_MAX = 200;
const RETRIES_READ_MAX = 10_000;

/** The backfills that this one retries something of, the nearest first. */
function ancestorsOf(rows: Rows, backfill: BackfillRow): BackfillRow[] {
  const ancestors: BackfillRow[] = [];
  let { parent_backfill_id: id } = backfill;
  while (id !== null) {
    if (ancestors.length === GENERATIONS_MAX) throw tooManyRetries(backfill);
    const parent = knownBackfill(rows, id);
    ancestors.push(parent);
    id = parent.parent_backfill_id;
  }
  return ancestors;
}

function tooManyRetries({ backfill_id }: BackfillRow): PawlError {
  return new PawlError(
    "SELECTION_TOO_LARGE",
    `Backfill ${backfill_id} has more retries than can be looked through: at most ${RETRIES_READ_MAX}, ` +
      `${GENERATIONS_MAX} of them one after another, in not too many pieces. Create a backfill instead.`,
    { details: { backfill_id } },
  );
}

type Retried = { byAsset: Interval[][]; ids: string[] };

/**
 * What other retries have taken on: those of the backfill, and later ones of those it came from,
 * which may have taken what it left.
 */
function retriedOf(rows: Rows, backfill: BackfillRow, wanted: ReadonlySet<string>): Retried {
  const line = [backfill, ...ancestorsOf(rows, backfill)];
  const family = familyOf(rows, line);
  const retried: Retried = { byAsset: backfill.asset_selection.map(() => []), ids: [] };
  const all = [...family.values()].flat();
  if (all.length === 0) return retried;

  const pages = surveyPagesOf(rows, all);
  if (all.some(({ backfill_id }) => !pages.has(backfill_id))) throw tooManyRetries(backfill);
  const target: Target = (retry, start, count) => {
    const byAsset = retry.asset_selection.map((): Interval[] => []);
    addParts(byAsset, partsOnPages(pages.get(retry.backfill_id) ?? [], start, count));
    return byAsset;
  };
  const isLeft = (outcome: Unsuccessful) => outcome !== "SKIPPED" || wanted.has(outcome);
  const ended = all.filter(({ state }) => isTerminalBackfill(state));
  const left = endedAs(rows, ended, target, UNSUCCESSFUL.filter(isLeft));

  const addRetriesOf = (id: string, into: Retried): Retried => {
    for (const retry of family.get(id) ?? []) {
      const { byAsset, ids } = heldBy(retry);
      into.byAsset.forEach((list, asset) => addAll(list, byAsset[asset]));
      into.ids.push(...ids);
    }
    into.byAsset = into.byAsset.map(mergeIntervals);
    return into;
  };
  /** What a retry works on or has made; what it left when it ended can be retried again. */
  const heldBy = (retry: BackfillRow): Retried => {
    const { backfill_id } = retry;
    const own = target(retry, 0, retry.total_partitions).map(mergeIntervals);
    const leftByIt = left.get(backfill_id);
    if (leftByIt === undefined) return { byAsset: own, ids: [backfill_id] };
    const again = addRetriesOf(backfill_id, { byAsset: own.map(() => []), ids: [] });
    const byAsset = minus(own, minus(leftByIt, again.byAsset));
    return { byAsset, ids: [backfill_id, ...again.ids] };
  };
  for (const { backfill_id } of line) addRetriesOf(backfill_id, retried);
  return retried;
}

/**
 * The retries of a line of backfills, each the parent of the one before it, by whom they retry: of
 * each of the line those that came after its own next, and of those that ended all, generation by
 * generation, so that many cost few look-ups.
 */
function familyOf(rows: Rows, line: readonly BackfillRow[]): Map<string, BackfillRow[]> {
  const family = new Map<string, BackfillRow[]>();
  const nextOf = new Map(line.map((one, index) => [one.backfill_id, line[index - 1]?.created_pos]));
  let parents = line.map(({ backfill_id }) => backfill_id);
  let read = 0;
  for (let generation = 0; parents.length > 0; generation++) {
    const where = [{ cell: "parent_backfill_id", is: "in", values: parents }] as const;
    const found = rows.backfills.find(where, [{ cell: "created_pos" }], RETRIES_READ_MAX + 1);
    read += found.length;
    if (read > RETRIES_READ_MAX || generation === GENERATIONS_MAX) {
      throw tooManyRetries(present(line[0], "a line has a backfill"));
    }
    parents = [];
    for (const retry of found) {
      const { backfill_id, parent_backfill_id, created_pos, state } = retry;
      const parent = present(parent_backfill_id, "a retry has a parent");
      if (created_pos <= (nextOf.get(parent) ?? -1)) continue;
      const retries = family.get(parent) ?? [];
      retries.push(retry);
      family.set(parent, retries);
      if (isTerminalBackfill(state)) parents.push(backfill_id);
    }
  }
  return family;
}

function minus(one: readonly Interval[][], other: readonly Interval[][]): Interval[][] {
  return one.map((own, asset) => subtractIntervals(own, other[asset] ?? []));
}

/** Adds what has failed for good in runs that go on; the ended ones have it in their chunks. */
function addUnderWay(rows: Rows, parent: BackfillRow, found: Interval[][]): void {
  const where: Condition[] = [
    { cell: "backfill_id", is: "=", value: parent.backfill_id },
    ACTIVE_RUNS,
  ];
  const active = parent.chunks_planned + parent.chunks_running;
  const runs = active === 0 ? [] : rows.runs.find(where, [{ cell: "run_pos" }], active);
  // What waited for a task that failed, or that its worker gave up, was skipped, and is left as well.
  const left = runs.filter((run) => run.tasks_failed + run.tasks_skipped > 0);
  addParts(found, failedUnderWay(rows, parent, left));
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
  const of: Target = (...asked) => targetOf(rows, plan, ...asked);
  const became = (each: readonly Unsuccessful[]) =>
    endedAs(rows, [parent], of, each).get(parent.backfill_id) ?? [];
  const found = became(named);
  if (!wanted.has("SUCCEEDED")) return found;
  // Successes are written down nowhere: they are what nothing else became of.
  const others = became(UNSUCCESSFUL);
  return of(parent, 0, parent.total_partitions).map((intervals, asset) => {
    const succeeded = subtractIntervals(mergeIntervals(intervals), others[asset] ?? []);
    return uniteIntervals(found[asset] ?? [], succeeded);
  });
}

/** What a backfill was for, by asset: `count` partitions from the one at `start` on. */
type Target = (backfill: BackfillRow, start: number, count: number) => Interval[][];

/** What several backfills left in some outcomes, by backfill and asset; read for all at once. */
function endedAs(
  rows: Rows,
  backfills: readonly BackfillRow[],
  target: Target,
  named: readonly Unsuccessful[],
): Map<string, Interval[][]> {
  const found = new Map(
    backfills.map((each) => [each.backfill_id, each.asset_selection.map((): Interval[] => [])]),
  );
  if (backfills.length === 0) return found;
  const own: Condition = { cell: "backfill_id", is: "in", values: [...found.keys()] };
  for (const outcome of named) {
    const cell = CELLS[outcome];
    for (const chunk of chunksWith(rows, own, cell))
      addTo(found.get(chunk.backfill_id), chunk[cell]);
  }
  if (named.includes("CANCELLED")) {
    const waiting: Condition = { cell: "state", is: "=", value: "PENDING" };
    for (const tile of readAll(rows, [own, waiting])) {
      addParts(found.get(tile.backfill_id) ?? [], tile.parts);
    }
    for (const backfill of backfills) {
      const intervals = unplanned(backfill, target);
      found.get(backfill.backfill_id)?.forEach((list, asset) => addAll(list, intervals[asset]));
    }
  }
  for (const [id, byAsset] of found) found.set(id, byAsset.map(mergeIntervals));
  return found;
}

/** One by one: a call takes only so many arguments, and these lists have no bound. */
function addAll(list: Interval[] | undefined, intervals: readonly Interval[] = []): void {
  for (const interval of intervals) list?.push(interval);
}

function readAll(rows: Rows, where: readonly Condition[]): ChunkRow[] {
  const order = [{ cell: "backfill_id" }, { cell: "chunk_index" }] as const;
  const found = rows.chunks.find(where, order, ROWS_READ_MAX + 1);
  refuseHuge(found.length);
  return found;
}

function chunksWith(rows: Rows, own: Condition, cell: "failed" | "cancelled" | "skipped") {
  const where: Condition[] = [own, { cell, is: "not null" }];
  // What failed in a split chunk is in its tiles; what was skipped there is nowhere else.
  if (cell === "failed") where.push({ cell: "state", is: "<>", value: "SPLIT" });
  return readAll(rows, where);
}

function addTo(found: Interval[][] | undefined, lists: OrdinalsByAsset | null): void {
  for (const { asset, ordinals } of lists ?? []) addAll(found?.[asset], ordinals);
}

/** What was never planned before the backfill was cancelled, by asset. */
function unplanned(backfill: BackfillRow, target: Target): Interval[][] {
  const { total_partitions, next_chunk, chunk_size, order } = backfill;
  const planned = Math.min(total_partitions, next_chunk * chunk_size);
  return target(backfill, order === "ascending" ? planned : 0, total_partitions - planned);
}

function addParts(byAsset: Interval[][], parts: readonly ChunkPart[]): void {
  for (const { from, to, assets } of parts) {
    for (const asset of assets ?? byAsset.keys()) byAsset[asset]?.push([from, to]);
  }
}

/** What the backfill was for, by asset, under its plan. */
function targetOf(
  rows: Rows,
  plan: BackfillPlan,
  parent: BackfillRow,
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
    `${count} scattered partitions or chunks are more than the ${ROWS_READ_MAX} that can be looked through. ` +
      "Create a backfill with a selector for a part of them.",
  );
}

/** What the backfill was for and has no materialization, by asset. */
function missing(rows: Rows, parent: BackfillRow, plan: BackfillPlan): Interval[][] {
  return targetOf(rows, plan, parent, 0, parent.total_partitions).map((intervals, asset) => {
    const where = [
      { cell: "asset_key", is: "=", value: present(parent.asset_selection[asset], "an asset") },
      { cell: "materialized", is: ">", value: 0 },
    ] as const;
    const blocks = rows.partitionBlocks.find(where, [{ cell: "block" }], BLOCKS_READ_MAX);
    refuseHuge(blocks.reduce((sum, { materialized }) => sum + materialized, 0));
    const keys = blocks.flatMap(materializedIn);
    return subtractIntervals(mergeIntervals(intervals), intervalsOf(ordinalsOfKeys(plan, keys)));
  });
}
