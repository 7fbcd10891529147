import { useQueries } from "@tanstack/react-query";
import { call } from "../../../api/call.ts";
import type { Asset } from "./asset-fit.ts";

/** The assets that are listed, and those that are chosen although the list does not reach them. */
export function useChosenAssets(
  listed: readonly Asset[],
  chosen: readonly string[],
  isMore: boolean,
): readonly Asset[] {
  const known = new Set(listed.map(({ asset_key }) => asset_key));
  const further = isMore ? chosen.filter((key) => !known.has(key)) : [];
  const answers = useQueries({
    queries: further.map((asset_key) => ({
      queryKey: ["getAsset", { params: { asset_key } }],
      queryFn: ({ signal }: { signal: AbortSignal }): Promise<Asset> =>
        call("getAsset", { params: { asset_key }, signal }),
    })),
  });
  const found = answers.flatMap(({ data }) => data ?? []);
  return found.length === 0 ? listed : [...found, ...listed];
}
