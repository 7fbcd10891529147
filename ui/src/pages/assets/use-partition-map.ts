import { useAnswer } from "../../api/use-answer.ts";
import { mergedMaps } from "./merged-maps.ts";
import type { Stretch } from "./use-seen-stretch.ts";

/** The most partitions of which the map also says which are stale. */
export const STALE_SHOWN_MAX = 20_000;

/**
 * The map of an asset's partitions from an ordinal on. What is stale depends on everything upstream:
 * a small map says it of all partitions, a large one of those that are seen, where these are few.
 */
export function usePartitionMap(
  assetKey: string,
  { from, limit, seen }: { from: number; limit: number; seen: Stretch | null },
) {
  const params = { asset_key: assetKey };
  const plain = useAnswer(
    "mapPartitions",
    { params, query: { from, limit } },
    { keepPrevious: true },
  );
  const isSmall = (plain.data?.total ?? Infinity) <= STALE_SHOWN_MAX;
  const asked = isSmall ? { from: 0, through: STALE_SHOWN_MAX } : seen;
  const query = { from: asked?.from, limit: asked === null ? 1 : asked.through - asked.from };
  const exact = useAnswer(
    "mapPartitions",
    { params, query: { ...query, stale: "true" } },
    { enabled: asked !== null, keepPrevious: true },
  );
  const told = asked === null ? undefined : exact.data;
  const data = plain.data && told ? mergedMaps(told, plain.data) : plain.data;
  return { ...plain, data, stale: { asked, told: data === plain.data ? undefined : told } };
}
