import type { AssetDocument } from "../../../../src/work/asset/api.ts";
import { type ListAnswer, useWholeList } from "../../api/use-answer.ts";

/** Assets that are looked at together; beyond it a page says so. */
export const ASSETS_MAX = 2_000;

/** All assets, so that they can be searched and drawn. */
export function useAllAssets(): ListAnswer<AssetDocument> {
  return useWholeList("listAssets", { query: { limit: 200 } }, ASSETS_MAX);
}
