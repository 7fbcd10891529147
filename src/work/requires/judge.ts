import {
  expandIntervals,
  countIntervals,
  type Interval,
  mergeIntervals,
} from "../../kernel/intervals.ts";
import type { Keyspace } from "../../kernel/keyspace/keyspace.ts";
import type { Key } from "../../kernel/table.ts";
import { present } from "../../kernel/errors.ts";
import type { Context } from "../decision.ts";
import { currentAsset, needAssets } from "../asset/look-up.ts";
import { needPartitions, partitionAt } from "../asset/partition-blocks.ts";
import {
  type AssetView,
  loadUpstream,
  madeFromEach,
  type Place,
  staleness,
  viewAtRest,
} from "../asset/partition-status.ts";
import type { Requirement } from "../definition/spec.ts";
import type { Rows } from "../rows.ts";
import type { UnmetReason } from "./events.ts";

/** Most upstream partitions that are looked at before one task starts, and for all tasks of one look. */
export const REQUIRED_MAX = 10_000;

/** What a task lacks: the last of the partitions that are not there, and how many others are not. */
export type Unmet = {
  asset_key: string;
  partition_key: string;
  reason: UnmetReason;
  others: number;
};

/** That a task requires more than can be looked at. */
export type TooMany = { asset_key: string; count: number };

/** What is so of one task: null when nothing is lacking. */
export type Judgement = Unmet | TooMany | null;

/** Whether a task requires more than can be looked at. */
export function isTooMany(judgement: Unmet | TooMany): judgement is TooMany {
  return "count" in judgement;
}

/** The judged tasks, from the first on as far as there was room; what is required of them now. */
export type Judged = { requires: Requirement | null; judgements: Judgement[]; looked: number };

/** The partitions of one upstream asset that one task is made from; `ordinals` is null for one without partitions. */
type Needed = { upstream: AssetView; ordinals: readonly Interval[] | null };

/**
 * What tasks of one asset, each by the keys of its partitions, lack of what the asset requires as it is
 * defined now. Partitions that the definition no longer has require nothing.
 */
export function judgeTasks(
  rows: Rows,
  assetKey: string,
  tasks: readonly (readonly string[])[],
  context: Pick<Context, "now">,
  looksMax = REQUIRED_MAX,
): Judged {
  if (rows.definitions.get("asset", assetKey) === null) return nothingRequired(tasks);
  const { spec } = currentAsset(rows, assetKey);
  const { requires = null } = spec;
  if (requires === null) return nothingRequired(tasks);
  needAssets(
    rows,
    spec.upstream.map(({ asset_key }) => asset_key),
  );
  const neededOf = neededBy(rows, viewAtRest(rows, spec, context), tasks, context);
  const taken: { keys: ReadonlySet<string>; needed: Needed[]; count: number }[] = [];
  let looked = 0;
  for (const keys of tasks) {
    const needed = neededOf(keys);
    const count = needed.reduce((sum, { ordinals }) => sum + countOf(ordinals), 0);
    looked += 1 + Math.min(count, REQUIRED_MAX);
    if (looked > looksMax && taken.length > 0) break;
    taken.push({ keys: new Set(keys), needed, count });
  }
  const reasonOf = reasonsFor(
    rows,
    taken.filter(({ count }) => count <= REQUIRED_MAX).flatMap(({ needed }) => needed),
    requires,
    context,
  );
  const judgements = taken.map(({ keys, needed, count }): Judgement => {
    if (count > REQUIRED_MAX) return tooMany(needed, count);
    let unmet: Unmet | null = null;
    for (const { upstream, ordinals } of needed) {
      const { asset_key } = upstream.spec;
      for (const { key, reason } of reasonOf(asset_key, ordinals)) {
        // What one task makes together is not there before it.
        if (reason === null || (asset_key === assetKey && keys.has(key))) continue;
        unmet = {
          asset_key,
          partition_key: key,
          reason,
          others: unmet === null ? 0 : unmet.others + 1,
        };
      }
    }
    return unmet;
  });
  return { requires, judgements, looked };
}

function nothingRequired(tasks: readonly unknown[]): Judged {
  return { requires: null, judgements: tasks.map(() => null), looked: 0 };
}

function countOf(ordinals: readonly Interval[] | null): number {
  return ordinals === null ? 1 : countIntervals(ordinals);
}

function tooMany(needed: readonly Needed[], count: number): TooMany {
  const [most] = needed.toSorted((one, other) => countOf(other.ordinals) - countOf(one.ordinals));
  return { asset_key: present(most, "many are required").upstream.spec.asset_key, count };
}

/** A function that says what a task is made from, with few look-ups for all tasks. */
function neededBy(
  rows: Rows,
  view: AssetView,
  tasks: readonly (readonly string[])[],
  context: Pick<Context, "now">,
): (keys: readonly string[]) => Needed[] {
  const keys = [...new Set(tasks.flat())];
  const ordinals = view.keyspace?.indexesOf(keys) ?? keys.map(() => null);
  const places = keys.map((key, at) => ({ key, ordinal: ordinals[at] ?? null }));
  const placeOf = new Map(places.map((place) => [place.key, place]));
  const madeFrom = madeFromEach(view, places);
  const upstream = view.upstream.map(({ asset_key }) =>
    viewAtRest(rows, currentAsset(rows, asset_key).spec, context),
  );
  return (own) => {
    // One that the definition no longer has.
    const known = own.flatMap((key) => placeOf.get(key) ?? []);
    const there = view.keyspace === null ? known : known.filter(({ ordinal }) => ordinal !== null);
    const each = there.map(madeFrom);
    return upstream.flatMap((above, at): Needed[] => {
      const from = each.map((made) => made[at]?.ordinals ?? null);
      if (from.length === 0) return [];
      const { keyspace } = above;
      if (keyspace === null) return [{ upstream: above, ordinals: null }];
      const stretches = from.flatMap((one): readonly Interval[] => one ?? wholeOf(keyspace));
      return [{ upstream: above, ordinals: mergeIntervals(stretches) }];
    });
  };
}

function wholeOf({ count }: Keyspace): Interval[] {
  return count === 0 ? [] : [[0, count - 1]];
}

type Found = { key: string; reason: UnmetReason | null };

/** A function that says why partitions do not count as there, with few look-ups for all of them. */
function reasonsFor(
  rows: Rows,
  all: readonly Needed[],
  { upstream: demand }: Requirement,
  context: Pick<Context, "now">,
): (assetKey: string, ordinals: readonly Interval[] | null) => Found[] {
  const byAsset = Map.groupBy(all, ({ upstream }) => upstream.spec.asset_key);
  const found = [...byAsset].map(([asset_key, needed]) => {
    const view = present(needed[0], "a group has one").upstream;
    const stretches = mergeIntervals(
      needed.flatMap(({ ordinals }) => ordinals ?? [[0, 0] as const]),
    );
    const ordinals = expandIntervals(stretches);
    const keys = view.keyspace?.keysAt(ordinals) ?? [""];
    return { asset_key, view, ordinals, keys };
  });
  needPartitions(
    rows,
    found.flatMap(({ asset_key, keys }) => keys.map((key): Key => [asset_key, key])),
  );
  const reasons = new Map(
    found.map(({ asset_key, view, ordinals, keys }) => {
      const places = keys.map((key, at): Place => {
        return { view, key, ordinal: ordinals[at] ?? 0, row: partitionAt(rows, asset_key, key) };
      });
      const of = demand === "fresh" ? staleOf(rows, places, context) : places.map(missing);
      const each = places.map(({ key, row }, at): [number, Found] => {
        const isBlocked = row?.last_materialization_checks === "BLOCKED";
        return [ordinals[at] ?? 0, { key, reason: of[at] ?? (isBlocked ? "CHECK_FAILED" : null) }];
      });
      return [asset_key, new Map(each)];
    }),
  );
  return (assetKey, ordinals) => {
    const own = reasons.get(assetKey);
    return expandIntervals(ordinals ?? [[0, 0]]).flatMap((ordinal) => own?.get(ordinal) ?? []);
  };
}

function missing({ row }: Place): UnmetReason | null {
  return row === null || row.last_materialization_at === null ? "NEVER_MATERIALIZED" : null;
}

function staleOf(
  rows: Rows,
  places: readonly Place[],
  context: Pick<Context, "now">,
): (UnmetReason | null)[] {
  const reasons: (UnmetReason | null)[] = [];
  while (reasons.length < places.length) {
    for (const each of loadUpstream(rows, places.slice(reasons.length), REQUIRED_MAX)) {
      reasons.push(staleness(rows, each, context.now)?.reason ?? null);
    }
  }
  return reasons;
}
