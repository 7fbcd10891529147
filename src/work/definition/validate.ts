import { PawlError } from "../../kernel/errors.ts";
import { upstreamCycle } from "../asset/lineage.ts";
import { suggestion } from "../../kernel/message-text.ts";
import { mappingFault } from "../../kernel/keyspace/mapping.ts";
import type { EntitySpec, Spec } from "./published-spec.ts";
import type { AssetSpec } from "./spec.ts";
import type { MoveSpec } from "../move/spec.ts";
import { type ShardsSpec, validateMove, validateShards } from "../shard/spec.ts";
import { type SyncSpec, validateSync } from "../sync/spec.ts";
import { validateEntity } from "./validate-automation.ts";

/**
 * Checks what only all specs together can show: no name twice, every upstream asset and pool known,
 * every mapping possible, no cycle, and whatever acts by itself able to. Throws DEFINITION_INVALID.
 */
export function validateSpecs(specs: readonly Spec[]): void {
  const assets = new Map<string, AssetSpec>();
  const pools = new Set<string>();
  const entities = new Map<string, EntitySpec>();
  const syncs = new Map<string, SyncSpec>();
  const moves = new Map<string, MoveSpec>();
  let shards: ShardsSpec | null = null;
  for (const spec of specs) {
    if (spec.kind === "asset") {
      if (assets.has(spec.asset_key)) throw twice("asset", spec.asset_key);
      assets.set(spec.asset_key, spec);
    } else if (spec.kind === "pool") {
      if (pools.has(spec.pool)) throw twice("pool", spec.pool);
      pools.add(spec.pool);
    } else if (spec.kind === "sync") {
      if (syncs.has(spec.name)) throw twice("sync", spec.name);
      syncs.set(spec.name, spec);
    } else if (spec.kind === "shards") {
      if (shards !== null) throw twice("set of", spec.kind);
      shards = spec;
    } else if (spec.kind === "move") {
      if (moves.has(spec.name)) throw twice("move", spec.name);
      moves.set(spec.name, spec);
    } else {
      const name = `${spec.kind} ${spec.name}`;
      if (entities.has(name)) throw twice(spec.kind, spec.name);
      entities.set(name, spec);
    }
  }
  for (const asset of assets.values()) checkReferences(asset, assets, pools);
  const catalogue = {
    get: (key: string) => assets.get(key) ?? null,
    names: () => [...assets.keys()],
  };
  for (const entity of entities.values()) validateEntity(entity, catalogue);
  for (const sync of syncs.values()) validateSync(sync, pools);
  if (shards !== null) validateShards(shards);
  for (const move of moves.values()) validateMove(move, shards);

  const cycle = upstreamCycle([...assets.values()]);
  if (cycle === null) return;
  throw new PawlError(
    "DEFINITION_INVALID",
    `Assets depend on each other in a circle: ${cycle.join(" is made from ")}.`,
    { details: { cycle } },
  );
}

function checkReferences(
  asset: AssetSpec,
  assets: ReadonlyMap<string, AssetSpec>,
  pools: ReadonlySet<string>,
): void {
  const seen = new Set<string>();
  for (const { asset_key, mapping } of asset.upstream) {
    const upstream = assets.get(asset_key);
    if (upstream === undefined) {
      throw invalid(
        asset,
        `names the upstream asset ${JSON.stringify(asset_key)}, which is not ` +
          `defined${suggestion(asset_key, [...assets.keys()])}.`,
        { upstream: asset_key },
      );
    }
    if (seen.has(asset_key)) {
      throw invalid(asset, `names the upstream asset ${asset_key} twice.`, { upstream: asset_key });
    }
    seen.add(asset_key);
    const fault = mappingFault(mapping, asset.partitions, upstream.partitions);
    if (fault === null) continue;
    throw invalid(asset, `cannot be mapped to its upstream asset ${asset_key}: ${fault}`, {
      upstream: asset_key,
      mapping,
    });
  }
  if (asset.pool === null || pools.has(asset.pool)) return;
  throw invalid(
    asset,
    `uses the pool ${JSON.stringify(asset.pool)}, which is not ` +
      `defined${suggestion(asset.pool, [...pools])}.`,
    { pool: asset.pool },
  );
}

function invalid(asset: AssetSpec, fault: string, details: Record<string, unknown>): PawlError {
  return new PawlError("DEFINITION_INVALID", `The asset ${asset.asset_key} ${fault}`, {
    details: { asset_key: asset.asset_key, ...details },
  });
}

function twice(kind: string, name: string): PawlError {
  return new PawlError("DEFINITION_INVALID", `The ${kind} ${name} is defined twice.`, {
    details: { [kind]: name },
  });
}
