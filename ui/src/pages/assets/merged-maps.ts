import type { PartitionMap } from "../../../../src/core/api/asset-documents.ts";

/** What one map says as far as it goes, and the other from there on. */
export function mergedMaps(exact: PartitionMap, plain: PartitionMap): PartitionMap {
  if (exact.from !== plain.from || exact.through > plain.through) return plain;
  const lengths = [...exact.lengths];
  let at = plain.from;
  for (let index = 0; index + 1 < plain.lengths.length; index += 2) {
    const end = at + (plain.lengths[index + 1] ?? 0);
    const left = end - Math.max(at, exact.through);
    if (left > 0) lengths.push(plain.lengths[index] ?? 0, left);
    at = end;
  }
  return { ...plain, lengths };
}
