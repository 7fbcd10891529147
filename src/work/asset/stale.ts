import {
  type Only,
  type Selector,
  type StaleReason,
  type StaleReasons,
  NO_STALE_REASONS,
  type StaleSelector,
  addStaleReasons,
  onlyOf,
  selectorAsOf,
} from "../../kernel/keyspace/selector.ts";
import type { Selection } from "../../kernel/keyspace/selection.ts";
import { keysInBlock, needPartitions, partitionAt } from "./partition-blocks.ts";
import type { Rows } from "../rows.ts";
import type { PartitionRow } from "../run/rows.ts";
import type { Condition, Key } from "../../kernel/table.ts";
import type { Context, Decide } from "../decision.ts";
import {
  type AssetView,
  assetViews,
  countOf,
  isFailed,
  keysFrom,
  loadUpstream,
  type LookedAt,
  type Place,
  staleness,
} from "./partition-status.ts";
import { canonicalJson } from "../../kernel/canonical.ts";
import { assert, PawlError, present, unreachable } from "../../kernel/errors.ts";
import type { Instant } from "../../kernel/instant.ts";
import { type Interval, intervalsOf } from "../../kernel/intervals.ts";
import { boundOf, type Keyspace, removedIn } from "../../kernel/keyspace/keyspace.ts";
import { keyspaceOf } from "../../kernel/keyspace/keyspace-of.ts";
import type { AssetSpec } from "../definition/spec.ts";
import { currentAssets, dynamicKeysOf, type PinnedAsset } from "./look-up.ts";
import { ordinalsIn, pairsOf, partsByAsset } from "../backfill/plan.ts";
import type { BackfillTarget } from "../backfill/targets.ts";

/** Assets that one search goes through. */
const ASSETS_MAX = 100;

/**
 * Where a search for stale partitions goes on: an asset of the list, and an ordinal of it; within a
 * selection, a place of that.
 */
export type StalePlace = { asset_index: number; ordinal: number };

/** A partition that was looked for; why it is stale, where that is what was looked for. */
export type FoundStale = {
  asset_key: string;
  ordinal: number;
  key: string;
  reason: StaleReason | null;
};

/** How far a search goes, and what it is for. */
export type CollectStaleOptions = {
  /** Partitions that are looked at, those upstream included. */
  budget: number;
  /** Partitions that are found. */
  limit: number;
  /** Only what is stale for one of these reasons; for any when left out. */
  reasons?: readonly StaleReason[] | undefined;
  /** What is looked for; what is stale unless it says so. */
  only?: Only | undefined;
  /** The partitions of an asset that are looked at; all where it has none here. */
  within?: ReadonlyMap<string, Selection> | undefined;
  /** Where the search before this one ended. */
  from?: StalePlace | undefined;
};

/** What a search found, and where the next one goes on; null when there is nothing more. */
export type CollectedStale = {
  found: FoundStale[];
  reasons: StaleReasons;
  /** How many of those that were never materialized were tried and failed. */
  failed: number;
  next: StalePlace | null;
  looked: number;
};

/** Partitions of one asset that are to be looked at, and the ordinal after the last of them. */
type Stretch = {
  view: AssetView;
  index: number;
  places: readonly Unread[];
  end: number;
  /** How many there are to be looked at in all. */
  count: number;
};
/** `at` is its place among those that are looked at. */
type Unread = { key: string; ordinal: number; at: number };

/**
 * The partitions of the assets that are stale now and that no task works on, in the order of the
 * assets and ordinals, as far as budget and limit go. It looks at one partition at least, so that a
 * search which goes on where the one before ended comes to an end.
 */
export function collectStale(
  rows: Rows,
  assetKeys: readonly string[],
  context: Pick<Context, "now">,
  options: CollectStaleOptions,
): CollectedStale {
  const { limit, reasons, only = "stale" } = options;
  const stretches = stretchesFrom(rows, assetKeys, context, options);
  const lookedAt = lookAtAll(rows, stretches, options);
  const found: FoundStale[] = [];
  const counts: StaleReasons = { ...NO_STALE_REASONS };
  let failed = 0;
  let looked = 0;
  let index = 0;
  for (const each of lookedAt) {
    if (found.length === limit) break;
    index++;
    looked += 1 + each.above.length;
    const { view, key, ordinal } = each;
    if (view.running.has(key)) continue;
    const reason = only === "stale" ? (staleness(rows, each, context.now)?.reason ?? null) : null;
    if (reason === null ? !isMeant(only, each.row) : reasons?.includes(reason) === false) continue;
    const asset_key = view.spec.asset_key;
    found.push({ asset_key, ordinal: present(ordinal, "it was asked for"), key, reason });
    if (reason !== null) counts[reason] += 1;
    if (isFailed(each.row)) failed += 1;
  }
  const next = placeAfter(stretches, index, assetKeys.length);
  return { found, reasons: counts, failed, next, looked };
}

/** Whether a partition is what is looked for, by what became of it alone. */
function isMeant(only: Only, row: PartitionRow | null): boolean {
  const isMissing = row === null || row.last_materialization_at === null;
  const hasFailed = row?.last_attempt_outcome === "FAILED";
  switch (only) {
    case "missing":
      return isMissing;
    case "failed":
      return hasFailed;
    case "missing_or_failed":
      return isMissing || hasFailed;
    case "stale":
      return false;
    default:
      return unreachable(only);
  }
}

/** Whether what was never tried is not looked for. */
function isAboutTried({ reasons, only }: CollectStaleOptions): boolean {
  return only === "failed" || reasons?.includes("NEVER_MATERIALIZED") === false;
}

/** What is to be looked at: as many partitions as the budget has, from however many assets. */
function stretchesFrom(
  rows: Rows,
  assetKeys: readonly string[],
  context: Pick<Context, "now">,
  options: CollectStaleOptions,
): Stretch[] {
  const { budget, within, from = { asset_index: 0, ordinal: 0 } } = options;
  const isTried = isAboutTried(options);
  const stretches: Stretch[] = [];
  let left = Math.max(1, budget);
  const keys = assetKeys.slice(from.asset_index, from.asset_index + Math.min(left, ASSETS_MAX));
  if (keys.length === 0) return [];
  for (const [at, view] of assetViews(rows, keys, context).entries()) {
    if (left <= 0) break;
    const first = at === 0 ? from.ordinal : 0;
    const selection = within?.get(view.spec.asset_key);
    const count = selection?.count ?? countOf(view);
    const looks = looksFor(view, options);
    const isFew = isTried && selection === undefined && count - first > left;
    const tried = isFew ? triedFrom(rows, view, left) : null;
    const places =
      tried?.filter((each) => each.at >= first) ??
      inOrder(view, selection, first, Math.ceil(left / looks));
    const end = tried === null ? first + places.length : count;
    stretches.push({ view, index: from.asset_index + at, places, end, count });
    left -= Math.max(1, places.length * looks);
  }
  return stretches;
}

/** What a partition costs at least when its upstream is looked at too; more would be read in vain. */
function looksFor({ upstream }: AssetView, { only = "stale" }: CollectStaleOptions): number {
  if (only !== "stale") return 1;
  return 1 + upstream.filter(({ keyspace }) => keyspace !== null).length;
}

function inOrder(
  view: AssetView,
  selection: Selection | undefined,
  from: number,
  limit: number,
): Unread[] {
  if (selection === undefined || view.keyspace === null) {
    const keys = keysFrom(view, from, limit);
    return keys.map((key, index) => ({ key, ordinal: from + index, at: from + index }));
  }
  const ordinals = selection.ordinals(from, limit);
  if ((ordinals.at(-1) ?? 0) >= view.keyspace.count) throw changedMeanwhile(view.spec);
  const keys = view.keyspace.keysAt(ordinals);
  return ordinals.map((ordinal, index) => ({ key: keys[index] ?? "", ordinal, at: from + index }));
}

/** Blocks that are read first, then twice as many: there may be a hundred partitions in each, or one. */
const BLOCKS_READ_FIRST = 50;

/**
 * All partitions of an asset that were ever tried, by ordinal, when they are few: a keyspace of a
 * billion may have a hundred. Null when they are not.
 */
function triedFrom(rows: Rows, view: AssetView, most: number): Unread[] | null {
  const where = [{ cell: "asset_key", is: "=", value: view.spec.asset_key }] as const;
  const keys: string[] = [];
  let after: Condition[] = [];
  for (let limit = BLOCKS_READ_FIRST; ; limit *= 2) {
    const page = rows.partitionBlocks.find([...where, ...after], [{ cell: "block" }], limit);
    for (const key of page.flatMap(keysInBlock)) keys.push(key);
    if (keys.length > most) return null;
    const last = page.at(-1);
    if (last === undefined || page.length < limit) break;
    after = [{ cell: "block", is: ">", value: last.block }];
  }
  const ordinals = view.keyspace?.indexesOf(keys) ?? keys.map(() => 0);
  const places = keys.flatMap((key, at): Unread[] => {
    const ordinal = ordinals[at] ?? null;
    return ordinal === null ? [] : [{ key, ordinal, at: ordinal }];
  });
  return places.toSorted((one, other) => one.ordinal - other.ordinal);
}

/** Reads all rows at once, then all that is upstream of them, where that makes a difference. */
function lookAtAll(
  rows: Rows,
  stretches: readonly Stretch[],
  { budget, only = "stale" }: CollectStaleOptions,
): LookedAt[] {
  const keys: Key[] = [];
  for (const { view, places } of stretches) {
    for (const { key } of places) keys.push([view.spec.asset_key, key]);
  }
  needPartitions(rows, keys);
  const places = stretches.flatMap(({ view, places: unread }) =>
    unread.map(({ key, ordinal }): Place => {
      return { view, key, ordinal, row: partitionAt(rows, view.spec.asset_key, key) };
    }),
  );
  if (only === "stale") return loadUpstream(rows, places, budget);
  return places.map((place) => ({ ...place, above: [], wholes: [] }));
}

/** Where to go on when so many of the places were gone through. */
function placeAfter(
  stretches: readonly Stretch[],
  count: number,
  assetCount: number,
): StalePlace | null {
  let left = count;
  for (const { index, places, end, count: all } of stretches) {
    const next = places[left];
    if (next !== undefined) return { asset_index: index, ordinal: next.at };
    left -= places.length;
    if (end < all) return { asset_index: index, ordinal: end };
  }
  const after = (stretches.at(-1)?.index ?? assetCount) + 1;
  return after < assetCount ? { asset_index: after, ordinal: 0 } : null;
}

/** What was found of one asset, and the partitions that it was looked for among. */
type SurveyedAsset = { keyspace: string; ordinals: number[]; reasons: StaleReasons };

/** What was found, as of one moment: stale, or what else was looked for. */
export type StaleSurvey = {
  readonly as_of: Instant;
  readonly assets: ReadonlyMap<string, SurveyedAsset>;
  /** The partitions that it was looked for among, by asset; all where there are none here. */
  readonly within?: ReadonlyMap<string, Selection> | undefined;
};

/** Begins a survey of what is stale: from here on the partitions are those there are now. */
export function beginStaleSurvey(assetKeys: readonly string[]): Decide<StaleSurvey> {
  return (rows, context) => {
    const assets = currentAssets(rows, assetKeys).map(({ spec }): [string, SurveyedAsset] => {
      const keyspace = fingerprintOf(spec, keyspaceAt(rows, spec, context));
      return [spec.asset_key, { keyspace, ordinals: [], reasons: { ...NO_STALE_REASONS } }];
    });
    return { events: [], result: { as_of: context.now, assets: new Map(assets) } };
  };
}

function keyspaceAt(rows: Rows, { partitions }: AssetSpec, { now }: Pick<Context, "now">) {
  return partitions === null ? null : keyspaceOf(partitions, dynamicKeysOf(rows), now);
}

/**
 * Tells whether ordinals still mean the same partitions. Keys that come to one dimension are added
 * at its end; among several dimensions they shift all others, and so do keys that are removed.
 */
function fingerprintOf({ partitions }: AssetSpec, keyspace: Keyspace | null): string {
  const bound = partitions?.type === "multi" && keyspace !== null ? boundOf(keyspace) : [];
  const removed = keyspace === null ? null : removedIn(keyspace);
  return canonicalJson({ partitions, bound, removed });
}

/**
 * A page of a survey, judged by the time it began at. Refuses where ordinals mean others than when it
 * began: at its end they may mean the same again, as a key that is removed can be added again.
 */
export function pageOfSurvey(
  rows: Rows,
  survey: StaleSurvey,
  options: CollectStaleOptions,
): CollectedStale {
  const assetKeys = [...survey.assets.keys()];
  const then = { now: survey.as_of };
  const page = collectStale(rows, assetKeys, then, options);
  const first = options.from?.asset_index ?? 0;
  const last = page.next?.asset_index ?? assetKeys.length - 1;
  for (const { spec } of currentAssets(rows, assetKeys.slice(first, last + 1))) {
    refuseChanged(survey, spec, keyspaceAt(rows, spec, then));
  }
  return page;
}

/** Adds a page of what was found, which comes after all that was added before. */
export function addToSurvey(survey: StaleSurvey, { found }: CollectedStale): void {
  for (const { asset_key, ordinal, reason } of found) {
    const asset = present(survey.assets.get(asset_key), "what was found was looked for");
    asset.ordinals.push(ordinal);
    if (reason !== null) asset.reasons[reason] += 1;
  }
}

/** The backfills of what is stale: for each group the assets of which anything is. */
export function staleTargets(
  rows: Rows,
  groups: readonly (readonly PinnedAsset[])[],
  selector: StaleSelector,
  survey: StaleSurvey,
): BackfillTarget[] {
  const targets = groups.flatMap((assets): BackfillTarget[] => {
    const { spec } = present(assets[0], "a group has an asset");
    const keyspace = keyspaceAt(rows, spec, { now: survey.as_of });
    const { partitions: definition } = spec;
    const partitions = definition === null || keyspace === null ? null : { definition, keyspace };
    return foundTarget({ assets, partitions, selector }, survey);
  });
  if (targets.length > 0) return targets;
  throw nothingStale(
    groups.flat().map(({ spec }) => spec.asset_key),
    selector,
  );
}

/** The backfill of what was found of some assets; none where nothing was. */
export function foundTarget(
  of: Pick<BackfillTarget, "assets" | "partitions"> & { selector: Selector },
  survey: StaleSurvey,
): BackfillTarget[] {
  const assets = of.assets.filter(({ spec }) => foundOf(survey, spec).ordinals.length > 0);
  if (assets.length === 0) return [];
  const keyspace = of.partitions?.keyspace ?? null;
  let reasons = NO_STALE_REASONS;
  const byAsset = assets.map(({ spec }): Interval[] => {
    const found = foundOf(survey, spec);
    refuseChanged(survey, spec, keyspace);
    reasons = addStaleReasons(reasons, found.reasons);
    return intervalsOf(found.ordinals);
  });
  const parts = partsByAsset(byAsset);
  assert(parts.length > 0, "something was found");
  const only = of.selector.type === "stale" ? "stale" : onlyOf(of.selector);
  return [
    {
      assets,
      partitions: of.partitions,
      selector: selectorAsOf(of.selector, survey.as_of),
      selection: null,
      parts,
      bound: keyspace === null ? [] : boundOf(keyspace),
      removed: keyspace === null ? null : removedIn(keyspace),
      total_partitions: ordinalsIn(parts),
      total_pairs: pairsOf(parts, assets.length),
      stale_reasons: only === "stale" ? reasons : null,
    },
  ];
}

function foundOf({ assets }: StaleSurvey, spec: AssetSpec): SurveyedAsset {
  const found = assets.get(spec.asset_key);
  // What is selected by lineage or labels may grow by an asset meanwhile.
  if (found === undefined) throw changedMeanwhile(spec);
  return found;
}

function refuseChanged(survey: StaleSurvey, spec: AssetSpec, keyspace: Keyspace | null): void {
  if (foundOf(survey, spec).keyspace !== fingerprintOf(spec, keyspace)) {
    throw changedMeanwhile(spec);
  }
}

function changedMeanwhile({ asset_key }: AssetSpec): PawlError {
  return new PawlError(
    "PLAN_CHANGED",
    `The partitions of ${asset_key} changed while it was looked which of them to take. Ask again.`,
    { details: { asset_key } },
  );
}

function nothingStale(assets: readonly string[], { reasons }: StaleSelector): PawlError {
  const why = reasons === undefined ? "" : ` for the reason ${reasons.join(" or ")}`;
  return new PawlError(
    "SELECTION_EMPTY",
    `Nothing of ${assets.join(", ")} is stale${why}, so there is nothing to fill. ` +
      "What a task works on right now is not counted.",
    { details: { assets, reasons: reasons ?? null } },
  );
}
