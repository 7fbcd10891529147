import {
  type StaleReason,
  type StaleReasons,
  NO_STALE_REASONS,
  type StaleSelector,
  addStaleReasons,
} from "../../kernel/keyspace/selector.ts";
import { keysInBlock, needPartitions, partitionAt } from "./partition-blocks.ts";
import type { Rows } from "../rows.ts";
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
import { assert, PawlError, present } from "../../kernel/errors.ts";
import type { Instant } from "../../kernel/instant.ts";
import { type Interval, intervalsOf } from "../../kernel/intervals.ts";
import { boundOf, type Keyspace } from "../../kernel/keyspace/keyspace.ts";
import { keyspaceOf } from "../../kernel/keyspace/keyspace-of.ts";
import type { AssetSpec } from "../definition/spec.ts";
import { currentAssets, dynamicKeysOf, type PinnedAsset } from "./look-up.ts";
import { ordinalsIn, pairsOf, partsByAsset } from "../backfill/plan.ts";
import type { BackfillTarget } from "../backfill/targets.ts";

/** Assets that one search goes through. */
const ASSETS_MAX = 100;

/** Where a search for stale partitions goes on: an asset of the list, and an ordinal of it. */
export type StalePlace = { asset_index: number; ordinal: number };

/** A partition that is stale, and why. */
export type FoundStale = { asset_key: string; ordinal: number; key: string; reason: StaleReason };

/** How far a search goes, and what it is for. */
export type CollectStaleOptions = {
  /** Partitions that are looked at, those upstream included. */
  budget: number;
  /** Partitions that are found. */
  limit: number;
  /** Only what is stale for one of these reasons; for any when left out. */
  reasons?: readonly StaleReason[] | undefined;
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
type Stretch = { view: AssetView; index: number; places: readonly Unread[]; end: number };
type Unread = { key: string; ordinal: number };

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
  const { budget, limit, reasons, from = { asset_index: 0, ordinal: 0 } } = options;
  const isTried = reasons !== undefined && !reasons.includes("NEVER_MATERIALIZED");
  const stretches = stretchesFrom(rows, assetKeys, context, { budget, from, isTried });
  const lookedAt = lookAtAll(rows, stretches, budget);
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
    const reason = staleness(rows, each, context.now)?.reason;
    if (reason === undefined || reasons?.includes(reason) === false) continue;
    const asset_key = view.spec.asset_key;
    found.push({ asset_key, ordinal: present(ordinal, "it was asked for"), key, reason });
    counts[reason] += 1;
    if (isFailed(each.row)) failed += 1;
  }
  const next = placeAfter(stretches, index, assetKeys.length);
  return { found, reasons: counts, failed, next, looked };
}

/** What is to be looked at: as many partitions as the budget has, from however many assets. */
function stretchesFrom(
  rows: Rows,
  assetKeys: readonly string[],
  context: Pick<Context, "now">,
  { budget, from, isTried }: { budget: number; from: StalePlace; isTried: boolean },
): Stretch[] {
  const stretches: Stretch[] = [];
  let left = Math.max(1, budget);
  const keys = assetKeys.slice(from.asset_index, from.asset_index + Math.min(left, ASSETS_MAX));
  if (keys.length === 0) return [];
  for (const [at, view] of assetViews(rows, keys, context).entries()) {
    if (left <= 0) break;
    const first = at === 0 ? from.ordinal : 0;
    const tried = isTried && countOf(view) - first > left ? triedFrom(rows, view, left) : null;
    const places =
      tried?.filter(({ ordinal }) => ordinal >= first) ??
      inOrder(view, first, Math.ceil(left / looksFor(view)));
    const end = tried === null ? first + places.length : countOf(view);
    stretches.push({ view, index: from.asset_index + at, places, end });
    left -= Math.max(1, places.length * looksFor(view));
  }
  return stretches;
}

/** What a partition costs at least when its upstream is looked at too; more would be read in vain. */
function looksFor({ upstream }: AssetView): number {
  return 1 + upstream.filter(({ keyspace }) => keyspace !== null).length;
}

function inOrder(view: AssetView, from: number, limit: number): Unread[] {
  return keysFrom(view, from, limit).map((key, index) => ({ key, ordinal: from + index }));
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
    return ordinal === null ? [] : [{ key, ordinal }];
  });
  return places.toSorted((one, other) => one.ordinal - other.ordinal);
}

/** Reads all rows at once, then all that is upstream of them. */
function lookAtAll(rows: Rows, stretches: readonly Stretch[], budget: number): LookedAt[] {
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
  return loadUpstream(rows, places, budget);
}

/** Where to go on when so many of the places were gone through. */
function placeAfter(
  stretches: readonly Stretch[],
  count: number,
  assetCount: number,
): StalePlace | null {
  let left = count;
  for (const { view, index, places, end } of stretches) {
    const next = places[left];
    if (next !== undefined) return { asset_index: index, ordinal: next.ordinal };
    left -= places.length;
    if (end < countOf(view)) return { asset_index: index, ordinal: end };
  }
  const after = (stretches.at(-1)?.index ?? assetCount) + 1;
  return after < assetCount ? { asset_index: after, ordinal: 0 } : null;
}

/** What was found stale of one asset, and the partitions that it was looked for among. */
type SurveyedAsset = { keyspace: string; ordinals: number[]; reasons: StaleReasons };

/** What was found stale, as of one moment. */
export type StaleSurvey = {
  readonly as_of: Instant;
  readonly assets: ReadonlyMap<string, SurveyedAsset>;
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
 * at its end; among several dimensions they shift all others.
 */
function fingerprintOf({ partitions }: AssetSpec, keyspace: Keyspace | null): string {
  const bound = partitions?.type === "multi" && keyspace !== null ? boundOf(keyspace) : [];
  return canonicalJson({ partitions, bound });
}

/** Adds a page of what was found, which comes after all that was added before. */
export function addToSurvey(survey: StaleSurvey, { found }: CollectedStale): void {
  for (const { asset_key, ordinal, reason } of found) {
    const asset = present(survey.assets.get(asset_key), "what was found was looked for");
    asset.ordinals.push(ordinal);
    asset.reasons[reason] += 1;
  }
}

/** The backfills of what was found: for each group the assets of which anything is stale. */
export function staleTargets(
  rows: Rows,
  groups: readonly (readonly PinnedAsset[])[],
  selector: StaleSelector,
  survey: StaleSurvey,
): BackfillTarget[] {
  const targets = groups.flatMap((group): BackfillTarget[] => {
    const assets = group.filter(({ spec }) => foundOf(survey, spec).ordinals.length > 0);
    return assets.length === 0 ? [] : [targetOf(rows, assets, selector, survey)];
  });
  if (targets.length > 0) return targets;
  throw nothingStale(
    groups.flat().map(({ spec }) => spec.asset_key),
    selector,
  );
}

function foundOf({ assets }: StaleSurvey, { asset_key }: AssetSpec): SurveyedAsset {
  return present(assets.get(asset_key), "each asset was surveyed");
}

function targetOf(
  rows: Rows,
  assets: readonly PinnedAsset[],
  selector: StaleSelector,
  survey: StaleSurvey,
): BackfillTarget {
  const { spec: first } = present(assets[0], "a group has an asset");
  const keyspace = keyspaceAt(rows, first, { now: survey.as_of });
  let stale_reasons = NO_STALE_REASONS;
  const byAsset = assets.map(({ spec }): Interval[] => {
    const found = foundOf(survey, spec);
    if (found.keyspace !== fingerprintOf(spec, keyspace)) throw changedMeanwhile(spec);
    stale_reasons = addStaleReasons(stale_reasons, found.reasons);
    return intervalsOf(found.ordinals);
  });
  const parts = partsByAsset(byAsset);
  assert(parts.length > 0, "something was found");
  const { partitions: definition } = first;
  return {
    assets,
    partitions: definition === null || keyspace === null ? null : { definition, keyspace },
    selector: { ...selector, as_of: survey.as_of },
    selection: null,
    parts,
    bound: keyspace === null ? [] : boundOf(keyspace),
    total_partitions: ordinalsIn(parts),
    total_pairs: pairsOf(parts, assets.length),
    stale_reasons,
  };
}

function changedMeanwhile({ asset_key }: AssetSpec): PawlError {
  return new PawlError(
    "PLAN_CHANGED",
    `The partitions of ${asset_key} changed while it was looked which of them are stale. ` +
      "Ask again.",
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
