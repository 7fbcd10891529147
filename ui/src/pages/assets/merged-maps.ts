import type { PartitionMap } from "../../../../src/work/asset/api.ts";

/** What one map says of its stretch, and the other of all before and after it. */
export function mergedMaps(exact: PartitionMap, plain: PartitionMap): PartitionMap {
  if (exact.from < plain.from || exact.through > plain.through) return plain;
  const before = lengthsBetween(plain, plain.from, exact.from);
  const after = lengthsBetween(plain, exact.through, plain.through);
  return { ...plain, lengths: [...before, ...exact.lengths, ...after] };
}

function lengthsBetween(map: PartitionMap, from: number, through: number): number[] {
  const lengths: number[] = [];
  let at = map.from;
  for (let index = 0; index + 1 < map.lengths.length; index += 2) {
    const end = at + (map.lengths[index + 1] ?? 0);
    const within = Math.min(end, through) - Math.max(at, from);
    if (within > 0) lengths.push(map.lengths[index] ?? 0, within);
    at = end;
  }
  return lengths;
}
