import type { SegmentRow } from "../core/rows/sync-rows.ts";

/** The bounds of a segment. */
type Tile = Pick<SegmentRow, "segment_index" | "from_block" | "to_block">;

/**
 * What is wrong with segments, in order of their first block, that should tile a range exactly; null
 * when nothing is. A range that ends at null is one that nothing is planned of.
 */
export function tilingFault(
  segments: readonly Tile[],
  from: number,
  to: number | null,
): string | null {
  let next = from;
  for (const { segment_index, from_block, to_block } of segments) {
    const name = `segment ${segment_index} (${from_block} to ${to_block})`;
    if (from_block > next) return `${name} leaves a gap: ${next} to ${from_block - 1} is nobody's`;
    if (from_block < next) return `${name} begins before ${next}, where its neighbour ends`;
    if (to_block < from_block) return `${name} ends before it begins`;
    next = to_block + 1;
  }
  const end = to ?? from - 1;
  if (next - 1 === end) return null;
  return `the segments end at ${next - 1} and not at ${end}`;
}
