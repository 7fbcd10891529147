import type { MapDimension } from "../../../../src/work/asset/api.ts";
import { type MapSelection, selectedRange, selectedRectangle } from "../../parts/map-geometry.ts";

/** What was chosen on a map, as a selector of a backfill; values are still ordinals. */
export type Chosen =
  | { type: "range"; from: number; to: number; count: number }
  | { type: "filter"; ranges: readonly Ordinals[]; count: number }
  | { type: "unclear"; why: string };

/** A stretch of the values of one dimension, both ends included. */
export type Ordinals = { dimension: string; from: number; to: number };

/** Says what a stretch of partitions in one dimension is. */
export function chosenRange(selection: MapSelection, total: number): Chosen {
  const { from, to } = selectedRange(selection);
  const last = Math.min(to, total - 1);
  return { type: "range", from, to: last, count: last - from + 1 };
}

/**
 * Says what a rectangle on a grid is: the columns are values of the last dimension, the rows go
 * through all the others together.
 */
export function chosenRectangle(
  selection: MapSelection,
  dimensions: readonly MapDimension[],
): Chosen {
  const last = dimensions.at(-1);
  if (last === undefined) return { type: "unclear", why: "Nothing is chosen." };
  const { fromRow, toRow, fromColumn, toColumn } = selectedRectangle(selection, last.count);
  const rows = rowRanges(dimensions.slice(0, -1), fromRow, toRow, last.count);
  if (rows === null) {
    const outer = dimensions[0]?.name ?? "";
    return {
      type: "unclear",
      why: `Choose rows within one ${outer}, or all rows of each: a backfill takes one stretch of each dimension.`,
    };
  }
  const columns = { dimension: last.name, from: fromColumn, to: toColumn };
  const count = (toRow - fromRow + 1) * (toColumn - fromColumn + 1);
  return { type: "filter", ranges: [...rows, columns], count };
}

/** The stretch of each dimension that rows are; null when they are none. */
function rowRanges(
  dimensions: readonly MapDimension[],
  fromRow: number,
  toRow: number,
  columns: number,
): Ordinals[] | null {
  const ranges: Ordinals[] = [];
  let [from, to] = [fromRow, toRow];
  for (const { name, stride } of dimensions) {
    const size = stride / columns;
    const [first, last] = [Math.floor(from / size), Math.floor(to / size)];
    // Past the first dimension that differs, all others have to be there in full.
    if (first !== last && (from % size !== 0 || (to + 1) % size !== 0)) return null;
    ranges.push({ dimension: name, from: first, to: last });
    [from, to] = first === last ? [from - first * size, to - first * size] : [0, size - 1];
  }
  return ranges;
}
