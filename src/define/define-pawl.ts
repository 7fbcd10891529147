import { PawlError } from "../core/errors.ts";
import { defaultMapping } from "../core/partitions/mapping-fault.ts";
import type { Spec } from "../core/published-spec.ts";
import { AssetSpec, type PoolSpec } from "../core/spec.ts";
import { validateSpecs } from "../core/validate-specs.ts";
import type { Asset } from "./asset.ts";
import { parseDefinition, refuseUnknownOptions } from "./parse-definition.ts";
import type { Materialize } from "./task-context.ts";

/** Everything a project defines: specs to publish, and the functions that only workers have. */
export type Project = {
  readonly specs: readonly Spec[];
  readonly functions: ReadonlyMap<string, Materialize>;
};

/** Puts a project together and checks it as a whole. Throws DEFINITION_INVALID. */
export function definePawl(options: {
  assets: readonly Asset[];
  pools?: readonly PoolSpec[];
}): Project {
  refuseUnknownOptions("definePawl()", options, ["assets", "pools"]);
  const byKey = new Map(options.assets.map((asset) => [asset.key, asset]));
  const assets = options.assets.map((asset) => completed(asset, byKey));
  const specs = [...assets, ...(options.pools ?? [])];
  validateSpecs(specs);
  return Object.freeze({
    specs: Object.freeze(specs),
    functions: new Map(options.assets.map((asset) => [asset.key, asset.materialize])),
  });
}

/** The asset's spec with a mapping to every upstream asset. */
function completed(asset: Asset, byKey: ReadonlyMap<string, Asset>): AssetSpec {
  const upstream = asset.upstream.map(({ asset_key, mapping }) => {
    if (mapping !== null) return { asset_key, mapping };
    const other = byKey.get(asset_key);
    // An asset that is not defined is reported with all other references, whatever the mapping.
    if (other === undefined) return { asset_key, mapping: { type: "all" as const } };
    const meant = defaultMapping(asset.spec.partitions, other.spec.partitions);
    if (meant !== null) return { asset_key, mapping: meant };
    throw new PawlError(
      "DEFINITION_INVALID",
      `The asset ${asset.key} does not say how its partitions map to those of ${asset_key}; name ` +
        "a mapping such as dimension(), table() or allPartitions().",
      { details: { asset_key: asset.key, upstream: asset_key } },
    );
  });
  const subject = `The asset ${JSON.stringify(asset.key)}`;
  return Object.freeze(parseDefinition(subject, AssetSpec, { ...asset.spec, upstream }));
}
