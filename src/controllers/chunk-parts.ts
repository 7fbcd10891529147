import type { NewEvent } from "../core/events/index.ts";
import type { Interval } from "../core/intervals.ts";
import { IDEMPOTENCY_KEYS } from "../core/keys.ts";
import type { ChunkPart } from "../core/rows/backfill-rows.ts";

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
