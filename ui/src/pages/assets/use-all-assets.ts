import { useEffect } from "react";
import type { AssetDocument } from "../../../../src/core/api/asset-documents.ts";
import { type ListAnswer, useList } from "../../api/use-answer.ts";

/** Assets that are looked at together; beyond it a page says so. */
export const ASSETS_MAX = 2_000;

/** All assets, page after page, so that they can be searched and drawn. */
export function useAllAssets(): ListAnswer<AssetDocument> {
  const list = useList("listAssets", { query: { limit: 200 } });
  const { hasNextPage, isFetchingNextPage, fetchNextPage } = list;
  const isMore = hasNextPage && !isFetchingNextPage && (list.data?.items.length ?? 0) < ASSETS_MAX;
  useEffect(() => {
    if (isMore) void fetchNextPage();
  }, [isMore, fetchNextPage]);
  return list;
}
