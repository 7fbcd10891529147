/** How a range may be cut. */
export type SegmentLimits = { max: number; min_size: number };

/**
 * The last block of each segment of a plan: at most `max` of them, none smaller than `min_size`
 * unless the whole range is, and no two that differ by more than one block.
 */
export function planSegments(from: number, to: number, limits: SegmentLimits): number[] {
  const size = to - from + 1;
  const count = Math.min(limits.max, Math.max(1, Math.floor(size / limits.min_size)));
  const least = Math.floor(size / count);
  const larger = size - least * count;
  const ends: number[] = [];
  let end = from - 1;
  for (let index = 0; index < count; index++) {
    end += index < larger ? least + 1 : least;
    ends.push(end);
  }
  return ends;
}
