import { assert, PawlError, present } from "../../kernel/errors.ts";
import { expandIntervals, type Interval, intervalsOf } from "../../kernel/intervals.ts";
import type { DynamicKeys, Keyspace } from "../../kernel/keyspace/keyspace.ts";
import { pinnedKeyspace } from "../../kernel/keyspace/keyspace-of.ts";
import type { PartitionDefinition } from "../../kernel/keyspace/definition.ts";
import { resolveSelector } from "../../kernel/keyspace/resolve-selector.ts";
import type { Selection } from "../../kernel/keyspace/selection.ts";
import type { BackfillRow, ChunkPart, SurveyPageRow } from "./rows.ts";
import type { Rows } from "../rows.ts";
import { dynamicKeysOf, type PinnedAsset, pinnedSpec } from "../asset/look-up.ts";
import type { RunPartitions } from "../run/request.ts";
import type { NewEvent } from "../events.ts";
import { IDEMPOTENCY_KEYS } from "../keys.ts";
import { DECISION_EVENTS_MAX } from "../decision.ts";

/** A backfill's selection as it was pinned at its creation; never resolved anew. */
export type BackfillPlan = {
  assets: readonly PinnedAsset[];
  /** Null for assets without partitions. */
  partitions: { definition: PartitionDefinition; keyspace: Keyspace } | null;
  /** Null when the ordinals were surveyed, and stand in pages. */
  selection: Selection | null;
};

/** Plans in memory, so that a selector is resolved once and not for every chunk. */
const PLANS_KEPT_MAX = 200;
const plansOf = new WeakMap<Rows, Map<string, BackfillPlan>>();

/** The plan of a backfill, from the specs that it pinned. */
export function backfillPlan(rows: Rows, backfill: BackfillRow): BackfillPlan {
  const plans = plansOf.get(rows) ?? new Map<string, BackfillPlan>();
  plansOf.set(rows, plans);
  const known = plans.get(backfill.backfill_id);
  if (known !== undefined) return known;
  const plan = planWith(rows, backfill, dynamicKeysOf(rows));
  if (plans.size >= PLANS_KEPT_MAX) plans.clear();
  plans.set(backfill.backfill_id, plan);
  return plan;
}

/** The plan of a backfill, with the dynamic keys read in some way; not kept in memory. */
export function planWith(
  rows: Rows,
  backfill: BackfillRow,
  dynamicKeys: DynamicKeys,
): BackfillPlan {
  rows.specs.need(backfill.spec_hashes.map((hash) => [hash]));
  const assets = backfill.spec_hashes.map((spec_hash) => ({
    spec: pinnedSpec(rows, spec_hash),
    spec_hash,
  }));
  const definition = present(assets[0], "a backfill has an asset").spec.partitions;
  const { bound, removed } = backfill;
  const keyspace =
    definition === null ? null : pinnedKeyspace(definition, dynamicKeys, bound, removed);
  const partitions = definition === null || keyspace === null ? null : { definition, keyspace };
  const arithmetic = backfill.survey_pages === 0 && partitions !== null;
  const selection = arithmetic
    ? resolveSelector(partitions.definition, partitions.keyspace, backfill.partition_selector)
    : null;
  return { assets, partitions, selection };
}

/** Keys that are looked up at once. */
const KEYS_LOOKED_UP = 100_000;

/** The ordinals of those keys that a plan has, ascending. */
export function ordinalsOfKeys({ partitions }: BackfillPlan, keys: readonly string[]): number[] {
  if (partitions === null) return keys.map(() => 0);
  const ordinals: number[] = [];
  for (let at = 0; at < keys.length; at += KEYS_LOOKED_UP) {
    for (const ordinal of partitions.keyspace.indexesOf(keys.slice(at, at + KEYS_LOOKED_UP))) {
      if (ordinal !== null) ordinals.push(ordinal);
    }
  }
  return ordinals.toSorted((one, other) => one - other);
}

/** The partitions of a chunk, by arithmetic or from the surveyed pages. */
export function chunkParts(
  rows: Rows,
  backfill: BackfillRow,
  plan: BackfillPlan,
  chunkIndex: number,
): ChunkPart[] {
  if (backfill.survey_pages === 0 && plan.partitions === null) return [{ from: 0, to: 0 }];
  const { start, end } = placesOfChunk(backfill, chunkIndex);
  if (plan.selection === null) return surveyedParts(rows, backfill, start, end - start);
  return intervalsOf(plan.selection.ordinals(start, end - start)).map(([from, to]) => ({
    from,
    to,
  }));
}

/** The partitions of chunks that follow each other, with few look-ups for all of them. */
export function partsOfChunks(
  rows: Rows,
  backfill: BackfillRow,
  plan: BackfillPlan,
  chunkIndexes: readonly number[],
): ChunkPart[][] {
  const [first] = chunkIndexes;
  const last = chunkIndexes.at(-1);
  if (first === undefined || last === undefined) return [];
  if (backfill.survey_pages === 0) {
    return chunkIndexes.map((index) => chunkParts(rows, backfill, plan, index));
  }
  const ends = [first, last].map((index) => placesOfChunk(backfill, index));
  const start = Math.min(...ends.map((each) => each.start));
  const end = Math.max(...ends.map((each) => each.end));
  const pages = pagesHolding(rows, backfill, start, end);
  return chunkIndexes.map((index) => {
    const own = placesOfChunk(backfill, index);
    const onPages = pages.filter(
      ({ first_index, count }) => first_index < own.end && first_index + count > own.start,
    );
    return partsOnPages(onPages, own.start, own.end - own.start);
  });
}

/** Which of the selected partitions a chunk has, by their place; `end` does not belong to it. */
function placesOfChunk(backfill: BackfillRow, index: number): { start: number; end: number } {
  const { total_partitions, chunk_size, order } = backfill;
  if (order === "descending") {
    const end = total_partitions - index * chunk_size;
    return { start: Math.max(0, end - chunk_size), end };
  }
  const start = index * chunk_size;
  return { start, end: Math.min(total_partitions, start + chunk_size) };
}

/** The part of the surveyed ordinals from the one at `start` on. */
export function surveyedParts(
  rows: Rows,
  backfill: BackfillRow,
  start: number,
  count: number,
): ChunkPart[] {
  if (count <= 0) return [];
  return partsOnPages(pagesHolding(rows, backfill, start, start + count), start, count);
}

/** The pages that hold the surveyed ordinals from the one at `start` up to the one before `end`. */
function pagesHolding(
  rows: Rows,
  backfill: BackfillRow,
  start: number,
  end: number,
): readonly SurveyPageRow[] {
  const where = [
    { cell: "backfill_id", is: "=", value: backfill.backfill_id },
    { cell: "first_index", is: "<=", value: start },
  ] as const;
  const order = [{ cell: "page", descending: true }] as const;
  const first = rows.surveyPages.find(where, order, 1)[0];
  assert(first !== undefined, `the survey of ${backfill.backfill_id} begins at its first page`);
  return pagesFrom(rows, first, end);
}

/** The ordinals from the one at `start` on, of pages that hold all of them. */
export function partsOnPages(
  pages: readonly SurveyPageRow[],
  start: number,
  count: number,
): ChunkPart[] {
  const parts: ChunkPart[] = [];
  let skip = start - (pages[0]?.first_index ?? 0);
  let left = count;
  for (const page of pages) {
    for (const part of page.parts) {
      if (left <= 0) return parts;
      const size = part.to - part.from + 1;
      if (skip >= size) {
        skip -= size;
        continue;
      }
      const from = part.from + skip;
      const to = Math.min(part.to, from + left - 1);
      parts.push({ ...part, from, to });
      left -= to - from + 1;
      skip = 0;
    }
  }
  assert(left <= 0, "a survey has all its pages");
  return parts;
}

/** The page and, with one look-up, those after it that begin before the index. */
function pagesFrom(rows: Rows, first: SurveyPageRow, end: number): readonly SurveyPageRow[] {
  if (first.first_index + first.count >= end) return [first];
  const where = [
    { cell: "backfill_id", is: "=", value: first.backfill_id },
    { cell: "page", is: ">", value: first.page },
    { cell: "first_index", is: "<", value: end },
  ] as const;
  // A page holds at least one partition.
  const most = end - first.first_index;
  return [first, ...rows.surveyPages.find(where, [{ cell: "page" }], most)];
}

/** Most survey pages of several backfills that are read at once. */
const PAGES_READ_MAX = 100_000;

/** All pages of several surveys, by backfill, with one look-up: of the small ones, as many as can be read. */
export function surveyPagesOf(
  rows: Rows,
  backfills: readonly BackfillRow[],
): Map<string, SurveyPageRow[]> {
  const values: string[] = [];
  let count = 0;
  for (const { backfill_id, survey_pages } of backfills.toSorted(
    (one, other) => one.survey_pages - other.survey_pages,
  )) {
    if (survey_pages === 0) continue;
    if (count + survey_pages > PAGES_READ_MAX) break;
    count += survey_pages;
    values.push(backfill_id);
  }
  if (count === 0) return new Map();
  const order = [{ cell: "backfill_id" }, { cell: "page" }] as const;
  const pages = rows.surveyPages.find([{ cell: "backfill_id", is: "in", values }], order, count);
  return Map.groupBy(pages, ({ backfill_id }) => backfill_id);
}

/** The assets that take part in a chunk, by their place in the selection. */
export function assetsOfParts(parts: readonly ChunkPart[], assetCount: number): number[] {
  const every = Array.from({ length: assetCount }, (_, index) => index);
  return every.filter((asset) =>
    parts.some(({ assets }) => assets === undefined || assets.includes(asset)),
  );
}

/** The partitions of a chunk's run, with who has which. */
export function runPartitions(
  plan: BackfillPlan,
  parts: readonly ChunkPart[],
  assets: readonly number[],
): RunPartitions | null {
  if (plan.partitions === null) return null;
  const { keyspace } = plan.partitions;
  const ordinals = expandIntervals(parts.map(({ from, to }): Interval => [from, to]));
  const keys = keyspace.keysAt(ordinals);
  const whole = parts.every((part) => part.assets === undefined);
  const indexes = whole ? assets.map(() => null) : assets.map((asset) => placesFor(parts, asset));
  return { keyspace, ordinals, keys, indexes };
}

function placesFor(parts: readonly ChunkPart[], asset: number): Interval[] | null {
  const places: number[] = [];
  let place = 0;
  for (const { from, to, assets } of parts) {
    const takes = assets === undefined || assets.includes(asset);
    for (let ordinal = from; ordinal <= to; ordinal++, place++) if (takes) places.push(place);
  }
  return places.length === place ? null : intervalsOf(places);
}

/** How many pairs of asset and partition the parts stand for. */
export function pairsOf(parts: readonly ChunkPart[], assetCount: number): number {
  return parts.reduce(
    (sum, { from, to, assets }) => sum + (to - from + 1) * (assets?.length ?? assetCount),
    0,
  );
}

/** How many partitions the parts hold. */
export function ordinalsIn(parts: readonly ChunkPart[]): number {
  return parts.reduce((sum, { from, to }) => sum + to - from + 1, 0);
}

/**
 * The ordinals that any asset has, cut wherever the set of assets that have them changes. By
 * boundaries, never by listing: an interval of a billion ordinals is one part.
 */
export function partsByAsset(byAsset: readonly (readonly Interval[])[]): ChunkPart[] {
  const changes: { at: number; asset: number; enters: boolean }[] = [];
  for (const [asset, intervals] of byAsset.entries()) {
    for (const [from, to] of intervals) {
      changes.push({ at: from, asset, enters: true }, { at: to + 1, asset, enters: false });
    }
  }
  changes.sort((a, b) => a.at - b.at);
  const parts: ChunkPart[] = [];
  const inside = new Set<number>();
  for (const [index, change] of changes.entries()) {
    if (change.enters) inside.add(change.asset);
    else inside.delete(change.asset);
    const next = changes[index + 1];
    if (next === undefined || next.at === change.at || inside.size === 0) continue;
    addPart(parts, change.at, next.at - 1, inside, byAsset.length);
  }
  return parts;
}

function addPart(
  parts: ChunkPart[],
  from: number,
  to: number,
  inside: ReadonlySet<number>,
  assetCount: number,
): void {
  const assets = inside.size === assetCount ? undefined : [...inside].toSorted((a, b) => a - b);
  const last = parts.at(-1);
  if (last !== undefined && last.to === from - 1 && String(last.assets) === String(assets)) {
    last.to = to;
  } else parts.push(assets === undefined ? { from, to } : { from, to, assets });
}

/** The ordinals from the one at place `start` on, as intervals. */
export function intervalsFrom(intervals: readonly Interval[], start: number): Interval[] {
  const rest: Interval[] = [];
  let skip = start;
  for (const [from, to] of intervals) {
    const size = to - from + 1;
    if (skip < size) rest.push([from + skip, to]);
    skip = Math.max(0, skip - size);
  }
  return rest;
}

/** The first ordinals, up to `count` of them, as intervals. */
export function intervalsUpTo(intervals: readonly Interval[], count: number): Interval[] {
  const first: Interval[] = [];
  let room = count;
  for (const [from, to] of intervals) {
    if (room <= 0) break;
    first.push([from, Math.min(to, from + room - 1)]);
    room -= to - from + 1;
  }
  return first;
}

/** Parts cut into pages of at most `size`. */
export function pagesOf(parts: readonly ChunkPart[], size: number): ChunkPart[][] {
  const count = Math.ceil(parts.length / size);
  return Array.from({ length: count }, (_, page) => parts.slice(page * size, (page + 1) * size));
}

/** The events that hold surveyed parts, page by page. */
export function surveyedPages(
  backfillId: string,
  backfillPos: number,
  pages: readonly (readonly ChunkPart[])[],
): NewEvent[] {
  let first_index = 0;
  return pages.map((parts, page): NewEvent => {
    const count = ordinalsIn(parts);
    const event: NewEvent = {
      type: "KeysSurveyed",
      idempotency_key: IDEMPOTENCY_KEYS.surveyPage(backfillId, page),
      data: {
        backfill_id: backfillId,
        backfill_pos: backfillPos,
        page,
        first_index,
        count,
        parts: [...parts],
      },
    };
    first_index += count;
    return event;
  });
}

/** Refuses more pages of surveyed parts than one decision may record. */
export function refuseTooScattered(events: number): void {
  if (events <= DECISION_EVENTS_MAX) return;
  throw new PawlError(
    "SELECTION_TOO_LARGE",
    `What is selected is too scattered to be written down at once (${events} pages, ` +
      `at most ${DECISION_EVENTS_MAX}). Create backfills with selectors for parts of it.`,
  );
}
