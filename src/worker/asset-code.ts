import type { Project } from "../define/define-pawl.ts";
import { partitionReaderOf } from "./partition-reader.ts";
import type { AssetCode } from "./task-attempt.ts";

/** The code of each asset that the project has a function for. */
export function assetCodeOf({ specs, functions }: Project): ReadonlyMap<string, AssetCode> {
  const codes = new Map<string, AssetCode>();
  for (const spec of specs) {
    if (spec.kind !== "asset") continue;
    const materialize = functions.get(spec.asset_key);
    if (materialize === undefined) continue;
    const reader =
      spec.partitions === null ? null : partitionReaderOf(spec.asset_key, spec.partitions);
    codes.set(spec.asset_key, { materialize, reader });
  }
  return codes;
}
