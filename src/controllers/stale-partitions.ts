import { present } from "../core/assert.ts";
import type { StaleReason, StaleReasons } from "../core/partitions/stale-reason.ts";
import { NO_STALE_REASONS } from "../core/partitions/stale-reason.ts";
import type { PartitionRow } from "../core/rows/partition-rows.ts";
import type { Rows } from "../core/rows/rows.ts";
import type { Key } from "../core/rows/table.ts";
import type { Context } from "./decision.ts";
import { lookAt } from "./look-upstream.ts";
import {
  type AssetView,
  assetViews,
  countOf,
  isFailed,
  keysFrom,
  type LookedAt,
  type Place,
  staleness,
} from "./partition-status.ts";

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

/**
 * All partitions of an asset that were ever tried, by ordinal, when they are few: a keyspace of a
 * billion may have a hundred. Null when they are not.
 */
function triedFrom(rows: Rows, view: AssetView, most: number): Unread[] | null {
  const where = [{ cell: "asset_key", is: "=", value: view.spec.asset_key }] as const;
  const tried: PartitionRow[] = rows.partitions.find(where, [{ cell: "partition_key" }], most + 1);
  if (tried.length > most) return null;
  const keys = tried.map(({ partition_key }) => partition_key);
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
  rows.partitions.need(keys);
  const places = stretches.flatMap(({ view, places: unread }) =>
    unread.map(({ key, ordinal }): Place => {
      return { view, key, ordinal, row: rows.partitions.get(view.spec.asset_key, key) };
    }),
  );
  return lookAt(rows, places, budget);
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
