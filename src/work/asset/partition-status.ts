import { PawlError, present, unreachable } from "../../kernel/errors.ts";
import { addMs, type Instant } from "../../kernel/instant.ts";
import {
  countIntervals,
  expandIntervals,
  type Interval,
  mergeIntervals,
} from "../../kernel/intervals.ts";
import { ONE_DIMENSION } from "../../kernel/keyspace/definition.ts";
import { type Keyspace, partitionInvalid } from "../../kernel/keyspace/keyspace.ts";
import { upstreamOrdinals } from "../../kernel/keyspace/map-partitions.ts";
import type { PartitionMapping } from "../../kernel/keyspace/mapping.ts";
import type { StaleReason } from "../../kernel/keyspace/selector.ts";
import { suggestion } from "../../kernel/message-text.ts";
import { type Key, keyText } from "../../kernel/table.ts";
import type { Context } from "../decision.ts";
import type { DefinitionRow } from "../definition/rows.ts";
import type { AssetSpec } from "../definition/spec.ts";
import type { Rows } from "../rows.ts";
import { needPartitions, partitionAt } from "./partition-blocks.ts";
import type { PartitionRow } from "../run/rows.ts";
import { keysOfTask, runningTasks } from "../run/tasks.ts";
import { currentAsset, currentAssets, currentKeyspace, needAssets } from "./look-up.ts";

/** Upstream assets that a refusal names. */
const NAMES_SHOWN = 10;

/** Most runs with running tasks that are looked through. */
const RUNS_MAX = 10_000;

/** An asset that another is made from. */
export type Upstream = {
  asset_key: string;
  mapping: PartitionMapping;
  /** Null where its partitions do not count one by one: each is made from all of them. */
  keyspace: Keyspace | null;
};

/** An asset and everything that the status of its partitions follows from. */
export type AssetView = {
  spec: AssetSpec;
  definition: DefinitionRow;
  /** Null for an asset without partitions. */
  keyspace: Keyspace | null;
  upstream: readonly Upstream[];
  /** Keys of the partitions that a task works on right now. */
  running: ReadonlySet<string>;
};

/** Looks an asset up; refuses an unknown one. */
export function assetView(rows: Rows, assetKey: string, context: Pick<Context, "now">): AssetView {
  const [view] = assetViews(rows, [assetKey], context);
  return present(view, "an asset has its view");
}

/** Looks assets up, with few loads for all of them; refuses unknown ones. */
export function assetViews(
  rows: Rows,
  assetKeys: readonly string[],
  context: Pick<Context, "now">,
): AssetView[] {
  const assets = currentAssets(rows, assetKeys);
  const above = assets.flatMap(({ spec }) => spec.upstream.map(({ asset_key }) => asset_key));
  needAssets(rows, above);
  const running = runningKeys(rows, assetKeys);
  return assets.map(({ spec }) => {
    const own = running.get(spec.asset_key);
    return { ...viewAtRest(rows, spec, context), ...(own === undefined ? {} : { running: own }) };
  });
}

const NONE_RUNNING: ReadonlySet<string> = new Set();

/** An asset that is defined, but for what tasks work on right now. */
export function viewAtRest(rows: Rows, spec: AssetSpec, context: Pick<Context, "now">): AssetView {
  const keyspace = currentKeyspace(rows, spec, context);
  return {
    spec,
    definition: present(rows.definitions.get("asset", spec.asset_key), "an asset is defined"),
    keyspace,
    upstream: upstreamOf(rows, spec, keyspace, context),
    running: NONE_RUNNING,
  };
}

/** What is no longer defined is not made again, and makes nothing stale. */
function upstreamOf(
  rows: Rows,
  spec: AssetSpec,
  keyspace: Keyspace | null,
  context: Pick<Context, "now">,
): Upstream[] {
  return spec.upstream.flatMap(({ asset_key, mapping }): Upstream[] => {
    if (rows.definitions.get("asset", asset_key) === null) return [];
    const above = currentKeyspace(rows, currentAsset(rows, asset_key).spec, context);
    const isAll = keyspace === null || above === null || mapping.type === "all";
    return [{ asset_key, mapping, keyspace: isAll ? null : above }];
  });
}

function runningKeys(rows: Rows, assetKeys: readonly string[]): Map<string, Set<string>> {
  const where = [
    { cell: "asset_key", is: "in", values: assetKeys },
    { cell: "running", is: ">", value: 0 },
  ] as const;
  const assets = rows.runAssets.find(where, [{ cell: "run_pos" }], RUNS_MAX);
  const assetOf = new Map(assets.map((each) => [keyText([each.run_pos, each.asset_index]), each]));
  const running = new Map<string, Set<string>>();
  for (const task of runningTasks(rows, assets)) {
    const run = present(rows.runs.get(task.run_pos), "a task has its run");
    const name = keyText([task.run_pos, task.asset_index]);
    const asset = present(assetOf.get(name), "only tasks of these assets were asked for");
    const keys = running.get(asset.asset_key) ?? new Set();
    running.set(asset.asset_key, keys);
    for (const key of keysOfTask(run, asset, task)) keys.add(key);
  }
  return running;
}

/** One partition of an asset; `row` is null when it was never tried. */
export type Place = {
  view: AssetView;
  key: string;
  /** Null when the definition no longer has the partition. */
  ordinal: number | null;
  row: PartitionRow | null;
};

/** How many partitions an asset has; one when it has none. */
export function countOf({ keyspace }: AssetView): number {
  return keyspace?.count ?? 1;
}

/** Keys of an asset's partitions from an ordinal on. */
export function keysFrom(view: AssetView, from: number, limit: number): string[] {
  if (from >= countOf(view)) return [];
  return view.keyspace?.slice(from, limit) ?? [""];
}

/** A partition with everything that its status follows from. */
export type LookedAt = Place & {
  /** Keys of all the upstream partitions that it is made from, where they count one by one. */
  above: readonly Key[];
  /** Assets of which it is made from everything. */
  wholes: readonly string[];
};

/** Why a partition is stale, and since when; never materialized is since no time. */
export type Stale = { reason: StaleReason; since: Instant | null };

/**
 * Why a partition is stale at `now`, by the first reason that applies; null when it is not. One that the
 * definition no longer has is never stale: it is not made again.
 */
export function staleness(rows: Rows, lookedAt: LookedAt, now: Instant): Stale | null {
  if (lookedAt.ordinal === null) return null;
  const own = ownReason(lookedAt);
  if (own !== null) return own;
  const row = present(lookedAt.row, "what is not stale by itself was materialized");
  const changed = upstreamChange(rows, lookedAt, row);
  if (changed !== null) return { reason: "UPSTREAM_CHANGED", since: changed };
  const { freshness } = lookedAt.view.spec;
  if (freshness === null || row.last_materialization_at === null) return null;
  const deadline = addMs(row.last_materialization_at, freshness.maximum_lag_minutes * 60_000);
  return now > deadline ? { reason: "FRESHNESS_POLICY", since: deadline } : null;
}

/** Why a partition is stale whatever is upstream of it; these reasons come first. */
export function ownReason({ view, row }: Place): Stale | null {
  if (row === null || row.last_materialization_at === null) {
    return { reason: "NEVER_MATERIALIZED", since: null };
  }
  const { code_version, code_version_at } = view.definition;
  const made = row.last_materialization_code_version;
  const isOld = code_version !== null && made !== null && code_version !== made;
  return isOld ? { reason: "CODE_CHANGED", since: code_version_at } : null;
}

type Made = Pick<PartitionRow, "last_materialization_at" | "last_materialization_pos">;

/**
 * When the first of the upstream partitions was materialized after the attempt had started that made
 * this one: by position, never by the clock, as it cannot be known to have seen it. Of assets that
 * count as a whole only what was made last is known, so there it is that time.
 */
function upstreamChange(
  rows: Rows,
  { above, wholes }: LookedAt,
  row: PartitionRow,
): Instant | null {
  const startPos = row.last_materialization_start_pos ?? 0;
  let since: Instant | null = null;
  const consider = (made: Made | null): void => {
    const at = made?.last_materialization_at ?? null;
    if (at === null || (made?.last_materialization_pos ?? 0) <= startPos) return;
    if (since === null || at < since) since = at;
  };
  for (const assetKey of wholes) consider(rows.assetStatus.get(assetKey));
  for (const [assetKey, key] of above) {
    consider(partitionAt(rows, String(assetKey), String(key)));
  }
  return since;
}

/** What a partition is shown as: the first that applies. */
export type DisplayStatus =
  | "IN_PROGRESS"
  | "FAILED"
  | "NEVER_MATERIALIZED"
  | "MATERIALIZED_LAST_ATTEMPT_FAILED"
  | "STALE"
  | "MATERIALIZED";

/** What the partition is shown as; `isStale` as `staleness` found it. */
export function displayStatus({ view, key, row }: Place, isStale: boolean): DisplayStatus {
  if (view.running.has(key)) return "IN_PROGRESS";
  if (isFailed(row)) return "FAILED";
  if (row === null || row.last_materialization_at === null) return "NEVER_MATERIALIZED";
  if (row.last_attempt_outcome === "FAILED") return "MATERIALIZED_LAST_ATTEMPT_FAILED";
  return isStale ? "STALE" : "MATERIALIZED";
}

/** Whether the partition was tried and failed, and there is nothing of it from before. */
export function isFailed(
  row: Pick<PartitionRow, "last_materialization_at" | "last_attempt_outcome"> | null,
): boolean {
  return row?.last_materialization_at === null && row.last_attempt_outcome === "FAILED";
}

/** Upstream partitions that are loaded at once. */
const UPSTREAM_BATCH = 100_000;

/**
 * Looks at partitions and at all that is upstream of them, from the first on and as far as the
 * budget goes: each partition of either kind costs one. The first is looked at whatever it costs,
 * so that a list always gets on; none is ever looked at in part.
 */
export function loadUpstream(rows: Rows, places: readonly Place[], budget: number): LookedAt[] {
  const mappedOf = upstreamMapper(places);
  const taken: { place: Place; mapped: readonly Mapped[] }[] = [];
  let spent = 0;
  for (const place of places) {
    const mapped = mappedOf(place);
    spent += 1 + mapped.reduce((sum, { stretches }) => sum + countIntervals(stretches), 0);
    if (spent > budget && taken.length > 0) break;
    taken.push({ place, mapped });
  }
  // Many partitions may be made from one and the same: it is read once.
  const known = new Map<string, Key>();
  const keysOf = upstreamKeys(taken.flatMap(({ mapped }) => mapped));
  const lookedAt = taken.map(({ place, mapped }) => {
    const above = mapped.flatMap((each) => keysOf(each).map((key) => keyIn(known, key)));
    return { ...place, above };
  });
  const keys = [...known.values()];
  for (let at = 0; at < keys.length; at += UPSTREAM_BATCH) {
    needPartitions(rows, keys.slice(at, at + UPSTREAM_BATCH));
  }
  const views = new Map(lookedAt.map(({ view }) => [view, wholesOf(view)]));
  rows.assetStatus.need([...views.values()].flat().map((assetKey): Key => [assetKey]));
  return lookedAt.map((each) => ({ ...each, wholes: views.get(each.view) ?? [] }));
}

/** The same key as before, when it was there before. */
function keyIn(known: Map<string, Key>, key: Key): Key {
  const text = keyText(key);
  const before = known.get(text);
  if (before === undefined) known.set(text, key);
  return before ?? key;
}

/** Upstream partitions of one asset that a partition is made from. */
type Mapped = { upstream: Upstream; stretches: readonly Interval[] };

/** A function that says what places are made from, with few look-ups for all of them. */
function upstreamMapper(places: readonly Place[]): (place: Place) => Mapped[] {
  const isMapped = (place: Place): boolean => ownReason(place) === null && place.ordinal !== null;
  const byView = Map.groupBy(places.filter(isMapped), ({ view }) => view);
  const sides = new Map([...byView].map(([view, own]) => [view, sidesOf(view, own)]));
  return (place) => {
    const { ordinal } = place;
    if (ordinal === null || !isMapped(place)) return [];
    // Its own earlier partitions make none stale: each of them would be so after every one before it.
    const others = (sides.get(place.view) ?? []).filter(
      ({ upstream }) => upstream.asset_key !== place.view.spec.asset_key,
    );
    return others.map(({ upstream, below, above }) => {
      return { upstream, stretches: upstreamOrdinals(upstream.mapping, below, above, ordinal) };
    });
  };
}

type Sides = { upstream: Upstream; below: Keyspace; above: Keyspace };

/** The ordinals of one asset that a partition is made from; null where it is made from everything there is of it. */
export type MadeFrom = { asset_key: string; ordinals: readonly Interval[] | null };

/** What a partition is made from, asset by asset. */
export function madeFrom(place: Place): MadeFrom[] {
  return madeFromEach(place.view, [place])(place);
}

/** A function that says what partitions of one asset are made from, with few look-ups for all of them. */
export function madeFromEach(
  { keyspace, upstream }: Pick<AssetView, "keyspace" | "upstream">,
  places: readonly Pick<Place, "key" | "ordinal">[],
): (place: Pick<Place, "ordinal">) => MadeFrom[] {
  const known = places.filter(({ ordinal }) => ordinal !== null);
  const sides = known.length === 0 ? [] : sidesOf({ keyspace, upstream }, known);
  return ({ ordinal }) =>
    upstream.map((each) => {
      const side = sides.find((one) => one.upstream === each);
      const { asset_key, mapping } = each;
      if (side === undefined || ordinal === null) return { asset_key, ordinals: null };
      return { asset_key, ordinals: upstreamOrdinals(mapping, side.below, side.above, ordinal) };
    });
}

/** Separate stretches that partitions of one task may be made from; more are asked for one by one. */
const STRETCHES_MAX = 200_000;

/**
 * The ordinals of one upstream asset that partitions of an asset are made from together; null where
 * that is everything there is of it. Refuses what is not upstream of it, and keys that it does not have.
 */
export function upstreamOfKeys(
  rows: Rows,
  { assetKey, keys }: { assetKey: string; keys: readonly string[] },
  upstreamKey: string,
  context: Pick<Context, "now">,
): readonly Interval[] | null {
  const { spec } = currentAsset(rows, assetKey);
  needAssets(rows, [upstreamKey]);
  const named = spec.upstream.filter(({ asset_key }) => asset_key === upstreamKey);
  const keyspace = currentKeyspace(rows, spec, context);
  const upstream = upstreamOf(rows, { ...spec, upstream: named }, keyspace, context);
  if (upstream.length === 0) throw notUpstream(spec, upstreamKey);
  const ordinals = keyspace?.indexesOf(keys) ?? [];
  const places = ordinals.map((ordinal, at) => ({ ordinal, key: keys[at] ?? "" }));
  const gone = places.find(({ ordinal }) => ordinal === null);
  if (gone !== undefined && keyspace !== null && spec.partitions !== null) {
    throw partitionInvalid(spec.partitions, keyspace, gone.key);
  }
  const [side] = sidesOf({ keyspace, upstream }, places);
  if (side === undefined) return null;
  const stretches: Interval[] = [];
  for (const { ordinal } of places) {
    const own = upstreamOrdinals(side.upstream.mapping, side.below, side.above, ordinal ?? 0);
    if (stretches.length + own.length > STRETCHES_MAX) throw tooScattered(spec, upstreamKey, keys);
    for (const stretch of own) stretches.push(stretch);
  }
  return mergeIntervals(stretches);
}

function notUpstream({ asset_key, upstream }: AssetSpec, upstreamKey: string): PawlError {
  const keys = upstream.map((each) => each.asset_key);
  const known = keys.length === 0 ? "it has no upstream assets" : `those are ${listed(keys)}`;
  const meant = suggestion(upstreamKey, keys);
  return new PawlError(
    "INPUT_INVALID",
    `${JSON.stringify(upstreamKey)} is not an upstream asset of ${asset_key}${meant}: ${known}.`,
    { details: { asset_key, upstream: upstreamKey } },
  );
}

/** Names in one sentence: the first ones of many. */
function listed(names: readonly string[]): string {
  const rest = names.length - NAMES_SHOWN;
  return names.slice(0, NAMES_SHOWN).join(", ") + (rest > 0 ? ` and ${rest} more` : "");
}

function tooScattered(
  { asset_key }: AssetSpec,
  upstreamKey: string,
  keys: readonly string[],
): PawlError {
  return new PawlError(
    "SELECTION_TOO_LARGE",
    `The ${keys.length} partitions of ${asset_key} in this task are made from more than ` +
      `${STRETCHES_MAX} separate stretches of ${upstreamKey}; ask for each partition by itself.`,
    { details: { asset_key, upstream: upstreamKey, partitions: keys.length } },
  );
}

/** Both sides of each mapping, with what it asks about the places known. */
function sidesOf(
  { keyspace, upstream: every }: Pick<AssetView, "keyspace" | "upstream">,
  places: readonly Pick<Place, "key" | "ordinal">[],
): Sides[] {
  if (keyspace === null) return [];
  const keyOf = new Map(places.map(({ ordinal, key }) => [ordinal, key]));
  const below = {
    ...keyspace,
    keyAt: (ordinal: number) => keyOf.get(ordinal) ?? keyspace.keyAt(ordinal),
  };
  return every.flatMap((upstream): Sides[] => {
    if (upstream.keyspace === null) return [];
    return [
      { upstream, below, above: aboveOf(upstream.keyspace, upstream.mapping, below, places) },
    ];
  });
}

/** The upstream keyspace with the ordinals of all keys and values that a mapping will ask for. */
function aboveOf(
  above: Keyspace,
  mapping: PartitionMapping,
  below: Keyspace,
  places: readonly Pick<Place, "key" | "ordinal">[],
): Keyspace {
  switch (mapping.type) {
    case "all":
    case "time_window":
      return above;
    case "identity":
    case "offset":
      return withOrdinals(
        above,
        places.map(({ key }) => key),
      );
    case "table":
      return withOrdinals(
        above,
        places.flatMap(({ key }) => mapping.map[key] ?? []),
      );
    case "dimension": {
      const values = valuesIn(below, mapping.dimension, places);
      if (above.dimensions.length === 1) return withOrdinals(above, values);
      const dimensions = above.dimensions.map(({ name, keyspace }) => {
        const isMeant = name === mapping.dimension;
        return { name, keyspace: isMeant ? withOrdinals(keyspace, values) : keyspace };
      });
      return { ...above, dimensions };
    }
    default:
      return unreachable(mapping);
  }
}

/** The values of places in one dimension. */
function valuesIn(
  keyspace: Keyspace,
  dimension: string,
  places: readonly Pick<Place, "ordinal">[],
): string[] {
  const ordinals = places.map(({ ordinal }) => ordinal ?? 0);
  // Has the values of all dimensions loaded at once.
  keyspace.keysAt(ordinals);
  return ordinals.flatMap((ordinal) => {
    const values = keyspace.valuesAt(ordinal);
    return values[dimension] ?? values[ONE_DIMENSION] ?? [];
  });
}

/** The keyspace with the ordinals of some keys looked up at once. */
function withOrdinals(keyspace: Keyspace, keys: readonly string[]): Keyspace {
  const distinct = [...new Set(keys)];
  const ordinals = keyspace.indexesOf(distinct);
  const ordinalOf = new Map(distinct.map((key, at) => [key, ordinals[at] ?? null]));
  const indexOf = (key: string): number | null => {
    const known = ordinalOf.get(key);
    return known === undefined ? keyspace.indexOf(key) : known;
  };
  return { ...keyspace, indexOf };
}

/** A function that says which rows the stretches stand for, with one look-up for each upstream. */
function upstreamKeys(all: readonly Mapped[]): (mapped: Mapped) => Key[] {
  const byUpstream = Map.groupBy(all, ({ upstream }) => upstream);
  const known = new Map(
    [...byUpstream].map(([upstream, mapped]) => {
      const stretches = mergeIntervals(mapped.flatMap(({ stretches: own }) => own));
      const ordinals = expandIntervals(stretches);
      const keys = upstream.keyspace?.keysAt(ordinals) ?? [];
      return [upstream, new Map(ordinals.map((ordinal, at) => [ordinal, keys[at] ?? ""]))];
    }),
  );
  return ({ upstream, stretches }) =>
    expandIntervals(stretches).map((ordinal): Key => {
      return [upstream.asset_key, known.get(upstream)?.get(ordinal) ?? ""];
    });
}

/** The assets of which each partition is made from everything. */
function wholesOf({ upstream }: AssetView): string[] {
  return upstream.flatMap(({ asset_key, keyspace }) => (keyspace === null ? [asset_key] : []));
}
