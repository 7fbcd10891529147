import {
  countIntervals,
  expandIntervals,
  type Interval,
  mergeIntervals,
} from "../../kernel/intervals.ts";
import {
  type Keyspace,
  type Partitioned,
  boundOf,
  removedIn,
} from "../../kernel/keyspace/keyspace.ts";
import { resolveSelector, withExactKeys } from "../../kernel/keyspace/resolve-selector.ts";
import type { Selection } from "../../kernel/keyspace/selection.ts";
import {
  EXPLICIT_KEYS_MAX,
  type Only,
  onlyOf,
  type Pattern,
  type Selector,
  selectorOfOnly,
  type StaleReasons,
  wholeSelector,
} from "../../kernel/keyspace/selector.ts";
import { canonicalJson } from "../../kernel/canonical.ts";
import { PawlError, present } from "../../kernel/errors.ts";
import { groupByDefinition } from "../asset/lineage.ts";
import { keyspaceOf } from "../../kernel/keyspace/keyspace-of.ts";
import { mapSelectionDownstream } from "../../kernel/keyspace/map-partitions.ts";
import type { PartitionDefinition } from "../../kernel/keyspace/definition.ts";
import type { ChunkPart } from "./rows.ts";
import type { Rows } from "../rows.ts";
import type { AssetSpec } from "../definition/spec.ts";
import {
  assetsToMake,
  dynamicKeysOf,
  type PinnedAsset,
  refuseMadeElsewhere,
} from "../asset/look-up.ts";
import { ordinalsIn, pairsOf } from "./plan.ts";
import type { Context, Decide } from "../decision.ts";
import { beginStaleSurvey, foundTarget, staleTargets, type StaleSurvey } from "../asset/stale.ts";
import { isSurveyed, type OutcomeSurvey, surveyOutcomes } from "./survey.ts";

/**
 * A selector of everything that any of the selectors selects: exactly that where a range or a list
 * of keys can say it, else the least range around it, never less.
 */
export function uniteSelectors(selectors: readonly Selector[], partitions: Partitioned): Selector {
  const [only] = selectors;
  if (only !== undefined && selectors.length === 1) return only;
  if (selectors.some(({ type }) => type === "all")) return { type: "all" };
  const { definition, keyspace } = partitions;
  const selections = selectors.map((each) => resolveSelector(definition, keyspace, each));
  const single = keyspace.dimensions.length === 1;
  const united = ordinalsOf(selections);
  if (united !== null) {
    const [whole] = united;
    if (single && whole !== undefined && united.length === 1) return rangeOf(keyspace, whole);
    if (countIntervals(united) <= EXPLICIT_KEYS_MAX) {
      return { type: "explicit", partition_keys: keysOf(keyspace, united) };
    }
    if (single) return rangeOf(keyspace, covering(united));
  }
  return coveringFilter(keyspace, selections);
}

/** All that is selected, when it can be held as intervals. */
function ordinalsOf(selections: readonly Selection[]): Interval[] | null {
  const all: Interval[] = [];
  for (const selection of selections) {
    const { intervals, count } = selection;
    if (intervals === null && count > EXPLICIT_KEYS_MAX) return null;
    const own = intervals ?? selection.ordinals(0, count).map((at): Interval => [at, at]);
    for (const interval of own) all.push(interval);
  }
  return mergeIntervals(all);
}

/** In each dimension the range around all that is selected there; all where that is not known. */
function coveringFilter(keyspace: Keyspace, selections: readonly Selection[]): Selector {
  const patterns: Record<string, Pattern> = {};
  for (const [at, dimension] of keyspace.dimensions.entries()) {
    const selected: Interval[] = [];
    for (const { product } of selections) {
      if (product === null) return { type: "all" };
      for (const interval of product[at] ?? []) selected.push(interval);
    }
    const { start, end } = rangeOf(dimension.keyspace, covering(mergeIntervals(selected)));
    patterns[dimension.name] = { start, end };
  }
  return { type: "filter", dimensions: patterns };
}

function covering(intervals: readonly Interval[]): Interval {
  const first = present(intervals[0], "a selection is not empty");
  return [first[0], (intervals.at(-1) ?? first)[1]];
}

function rangeOf(keyspace: Keyspace, [from, to]: Interval) {
  return { type: "range" as const, start: keyspace.keyAt(from), end: keyspace.keyAt(to) };
}

function keysOf(keyspace: Keyspace, intervals: readonly Interval[]): string[] {
  return keyspace.keysAt(expandIntervals(intervals));
}

/** What one backfill would work on: assets of one definition and a resolved selection. */
export type BackfillTarget = {
  assets: readonly PinnedAsset[];
  partitions: { definition: PartitionDefinition; keyspace: Keyspace } | null;
  selector: Selector;
  /** Null when the ordinals were surveyed, or there are no partitions. */
  selection: Selection | null;
  /** The surveyed ordinals. */
  parts: ChunkPart[] | null;
  bound: number[];
  /** The numbers of dynamic keys that each dimension leaves out; null where none does. */
  removed: readonly (readonly Interval[])[] | null;
  total_partitions: number;
  total_pairs: number;
  /** Why its partitions are stale, when that is what they were selected by. */
  stale_reasons: StaleReasons | null;
};

/** Assets and which of their partitions are meant. */
export type Wish = { assets: readonly string[]; selector: Selector };

/**
 * The backfills that a request stands for: one for each partition definition, upstream first. What
 * has to be looked for, partition by partition, was looked for before and is handed in.
 */
export function resolveTargets(
  rows: Rows,
  input: Wish,
  context: Pick<Context, "now">,
  survey?: StaleSurvey,
): BackfillTarget[] {
  const { selector } = input;
  if (isSurveyed(selector)) return [surveyedTarget(rows, surveyOutcomes(rows, selector), input)];
  const groups = groupsOf(rows, input.assets);
  if (selector.type === "stale") return staleTargets(rows, groups, selector, lookedFor(survey));
  const only = onlyOf(selector);
  if (only !== undefined) return narrowTargets(rows, groups, selector, only, lookedFor(survey));
  return selectedTargets(rows, groups, selector, context);
}

function lookedFor(survey: StaleSurvey | undefined): StaleSurvey {
  return present(survey, "what has to be looked for was looked for");
}

/** Whether a request has to be looked for, partition by partition, before it can be decided. */
export function isLookedFor(selector: Selector): boolean {
  return selector.type === "stale" || onlyOf(selector) !== undefined;
}

/** Begins to look for what a request means: among what it selects as it is now. */
export function beginSurvey({ assets, selector }: Wish): Decide<StaleSurvey> {
  return (rows, context) => {
    // Before anything is looked for: what is made elsewhere is refused.
    const groups = groupsOf(rows, assets);
    // In the order of the request: a limit takes what comes first.
    const keys = assetsToMake(rows, assets).map(({ spec }) => spec.asset_key);
    const { events, result } = beginStaleSurvey(keys)(rows, context);
    if (onlyOf(selector) === undefined) return { events, result };
    const within = new Map<string, Selection>();
    for (const target of selectedTargets(rows, groups, wholeSelector(selector), context)) {
      const { selection, partitions } = target;
      // All of them can be gone through without a list, and what was never tried may be passed by.
      if (selection === null || selection.count === partitions?.keyspace.count) continue;
      for (const { spec } of target.assets) within.set(spec.asset_key, selection);
    }
    return { events, result: { ...result, within } };
  };
}

/** How many pairs a request selects before only some of them are taken; null where all of them are. */
export function selectedPairs(
  rows: Rows,
  { assets, selector }: Wish,
  context: Pick<Context, "now">,
): number | null {
  if (onlyOf(selector) === undefined) return null;
  const groups = groupsOf(rows, assets);
  const targets = selectedTargets(rows, groups, wholeSelector(selector), context);
  return targets.reduce((sum, { total_pairs }) => sum + total_pairs, 0);
}

/** What the selector says of each group, and what is made from that in the later ones. */
function selectedTargets(
  rows: Rows,
  groups: readonly (readonly PinnedAsset[])[],
  selector: Selector,
  context: Pick<Context, "now">,
): BackfillTarget[] {
  const targets: BackfillTarget[] = [];
  for (const assets of groups) targets.push(targetOf(rows, assets, selector, targets, context));
  return targets;
}

/** Of what is selected, what was found. */
function narrowTargets(
  rows: Rows,
  groups: readonly (readonly PinnedAsset[])[],
  selector: Selector,
  only: Only,
  survey: StaleSurvey,
): BackfillTarget[] {
  const all = selectedTargets(rows, groups, wholeSelector(selector), { now: survey.as_of });
  const found = all.flatMap((target) =>
    foundTarget({ ...target, selector: selectorOfOnly(target.selector, only) }, survey),
  );
  if (found.length > 0) return found;
  const assets = groups.flat().map(({ spec }) => spec.asset_key);
  const selected = all.reduce((sum, { total_pairs }) => sum + total_pairs, 0);
  throw new PawlError(
    "SELECTION_EMPTY",
    `None of the ${selected} selected partitions of ${assets.join(", ")} is ${ONLY_TEXTS[only]}, so ` +
      "there is nothing to fill. What a task works on right now is not counted.",
    { details: { assets, only, partitions_selected: selected } },
  );
}

/** What only some of a selection is, in words. */
const ONLY_TEXTS: Readonly<Record<Only, string>> = {
  missing: "missing",
  failed: "failed",
  missing_or_failed: "missing or failed",
  stale: "stale",
};

function groupsOf(rows: Rows, assetKeys: readonly string[]): PinnedAsset[][] {
  const assets = assetsToMake(rows, assetKeys);
  const pinned = new Map(assets.map((asset) => [asset.spec.asset_key, asset]));
  const groups = groupByDefinition([...pinned.values()].map(({ spec }) => spec));
  return groups.map((group) =>
    group.map((spec) => present(pinned.get(spec.asset_key), "a group's asset")),
  );
}

function targetOf(
  rows: Rows,
  assets: readonly PinnedAsset[],
  asked: Selector,
  earlier: readonly BackfillTarget[],
  context: Pick<Context, "now">,
): BackfillTarget {
  const definition = present(assets[0], "a group has an asset").spec.partitions;
  if (definition === null) {
    if (earlier.length === 0) refusePicking(assets, asked);
    return wholeTarget(assets);
  }
  const keyspace = keyspaceOf(definition, dynamicKeysOf(rows), context.now);
  const partitions = { definition, keyspace };
  const selector =
    mappedSelector(assets, partitions, earlier) ?? withExactKeys(definition, keyspace, asked);
  const selection = resolveSelector(definition, keyspace, selector);
  return {
    assets,
    partitions,
    selector,
    selection,
    parts: null,
    bound: boundOf(keyspace),
    removed: removedIn(keyspace),
    total_partitions: selection.count,
    total_pairs: selection.count * assets.length,
    stale_reasons: null,
  };
}

/** Of an asset without partitions there is nothing to pick. */
function refusePicking(assets: readonly PinnedAsset[], asked: Selector): void {
  if (asked.type === "all") return;
  const keys = assets.map(({ spec }) => spec.asset_key);
  throw new PawlError(
    "INPUT_INVALID",
    `${keys.join(", ")} has no partitions, so a selector of the type ${asked.type} selects ` +
      "nothing of it. Use the selector of the type all, or leave the asset out.",
    { details: { assets: keys, selector: asked } },
  );
}

/** An asset without partitions is one thing to make. */
function wholeTarget(assets: readonly PinnedAsset[]): BackfillTarget {
  return {
    assets,
    partitions: null,
    selector: { type: "all" },
    selection: null,
    parts: null,
    bound: [],
    removed: null,
    total_partitions: 1,
    total_pairs: assets.length,
    stale_reasons: null,
  };
}

/** The partitions that are made from what the earlier targets make, or null when nothing is. */
function mappedSelector(
  assets: readonly PinnedAsset[],
  downstream: Partitioned,
  earlier: readonly BackfillTarget[],
): Selector | null {
  const selectors = new Map<string, Selector>();
  let nothing: PawlError | null = null;
  for (const { asset_key, mapping } of assets.flatMap(({ spec }) => spec.upstream)) {
    const upstream = earlier.find((target) => hasAsset(target, asset_key));
    if (upstream === undefined) continue;
    if (upstream.partitions === null || upstream.selection === null) return { type: "all" };
    const { selector, selection } = upstream;
    const selected = { ...upstream.partitions, selector, selection };
    try {
      const mapped = mapSelectionDownstream(mapping, selected, downstream);
      selectors.set(canonicalJson(mapped), mapped);
    } catch (error) {
      // Nothing is made from this one; from another upstream there may be something.
      if (!(error instanceof PawlError) || error.code !== "SELECTION_EMPTY") throw error;
      nothing = error;
    }
  }
  if (selectors.size === 0 && nothing !== null) throw nothing;
  return selectors.size === 0 ? null : uniteSelectors([...selectors.values()], downstream);
}

function hasAsset(target: BackfillTarget, assetKey: string): boolean {
  return target.assets.some(({ spec }: { spec: AssetSpec }) => spec.asset_key === assetKey);
}

/** What was found of an earlier backfill, as a target of its own assets. */
export function surveyedTarget(
  rows: Rows,
  { parent, plan, parts }: OutcomeSurvey,
  { selector, assets }: { selector: Selector; assets: readonly string[] },
): BackfillTarget {
  const other = assets.find((asset) => !parent.asset_selection.includes(asset));
  if (other !== undefined || assets.length !== parent.asset_selection.length) {
    throw new PawlError(
      "INPUT_INVALID",
      `A retry of backfill ${parent.backfill_id} is about its own assets: ` +
        `${parent.asset_selection.join(", ")}.`,
      { details: { assets, expected: parent.asset_selection } },
    );
  }
  refuseMadeElsewhere(rows, assets);
  return {
    assets: plan.assets,
    partitions: plan.partitions,
    selector,
    selection: null,
    parts,
    bound: parent.bound,
    removed: parent.removed,
    total_partitions: ordinalsIn(parts),
    total_pairs: pairsOf(parts, plan.assets.length),
    stale_reasons: null,
  };
}
