import { useAnswer } from "../../api/use-answer.ts";
import { mergedMaps } from "./merged-maps.ts";

/** The most partitions of which the map also says which are stale. */
export const STALE_SHOWN_MAX = 20_000;

/**
 * The map of an asset's partitions from an ordinal on. A small one says what is stale; a large one
 * would have to look at everything upstream, and leaves that out.
 */
export function usePartitionMap(assetKey: string, from: number, limit: number) {
  const params = { asset_key: assetKey };
  const plain = useAnswer(
    "mapPartitions",
    { params, query: { from, limit } },
    { keepPrevious: true },
  );
  const total = plain.data?.total ?? Infinity;
  const exact = useAnswer(
    "mapPartitions",
    { params, query: { limit: STALE_SHOWN_MAX, stale: "true" } },
    { enabled: total <= STALE_SHOWN_MAX, keepPrevious: true },
  );
  const data = plain.data && exact.data ? mergedMaps(exact.data, plain.data) : plain.data;
  // Null while that is being looked for.
  const found = data === plain.data ? null : (exact.data?.through ?? null);
  /** How far the map says what is stale. */
  const staleThrough = total > STALE_SHOWN_MAX ? 0 : found;
  return { ...plain, data, staleThrough };
}
