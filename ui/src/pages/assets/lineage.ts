import type { AssetDocument } from "../../../../src/work/asset/api.ts";

/** A line from what something is made from to what is made from it. */
export type LineageEdge = readonly [from: string, to: string];

/** All lines between assets. */
export function lineageEdges(
  assets: readonly { spec: Pick<AssetDocument["spec"], "asset_key" | "upstream"> }[],
): LineageEdge[] {
  return assets.flatMap(({ spec }) =>
    spec.upstream.flatMap(({ asset_key }): LineageEdge[] =>
      // Its own earlier partitions are a fact about it, and no line of the drawing.
      asset_key === spec.asset_key ? [] : [[asset_key, spec.asset_key]],
    ),
  );
}

/** Everything that an asset is made from, directly or not, all that is made from it, and itself. */
export function lineageOf(assetKey: string, edges: readonly LineageEdge[]): Set<string> {
  return new Set([...reached(assetKey, edges, 0), ...reached(assetKey, edges, 1)]);
}

function reached(assetKey: string, edges: readonly LineageEdge[], end: 0 | 1): Set<string> {
  const next = Map.groupBy(edges, (edge) => edge[1 - end] ?? "");
  const found = new Set([assetKey]);
  for (const key of found) for (const edge of next.get(key) ?? []) found.add(edge[end]);
  return found;
}
