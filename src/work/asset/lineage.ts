import { assert } from "../../kernel/errors.ts";
import { canonicalJson } from "../../kernel/canonical.ts";
import { isEarlier, isOneToOne } from "../../kernel/keyspace/mapping.ts";
import type { AssetSpec } from "../definition/spec.ts";

/** Whether the asset is made from its own earlier partitions, so that the oldest have to be made first. */
export function isMadeInOrder(asset: AssetSpec): boolean {
  return asset.upstream.some((upstream) => isOwnPast(asset, upstream));
}

function isOwnPast(
  { asset_key }: Pick<AssetSpec, "asset_key">,
  upstream: AssetSpec["upstream"][number],
): boolean {
  return upstream.asset_key === asset_key && isEarlier(upstream.mapping);
}

/**
 * The assets so that each comes after those of them it is made from, otherwise by key. Upstream
 * assets that are not among them are ignored; cycles must have been refused before.
 */
export function topologicalOrder(assets: readonly AssetSpec[]): AssetSpec[] {
  const sorted = assets.toSorted((one, other) => (one.asset_key < other.asset_key ? -1 : 1));
  const byKey = new Map(sorted.map((asset) => [asset.asset_key, asset]));
  const cycle = upstreamCycle(sorted);
  assert(cycle === null, `assets have no cycle: ${cycle?.join(" → ")}`);
  const ordered = new Set<AssetSpec>();
  // A stack of our own: a chain of assets may be longer than the call stack is deep.
  for (const asset of sorted) {
    const stack = [asset];
    for (let top = stack.at(-1); top !== undefined; top = stack.at(-1)) {
      const waiting = upstreamAmong(top, byKey).find((upstream) => !ordered.has(upstream));
      if (waiting === undefined) {
        ordered.add(top);
        stack.pop();
      } else {
        stack.push(waiting);
      }
    }
  }
  return [...ordered];
}

/** The keys along a cycle of upstream assets, ending with the one it began with, or null. */
export function upstreamCycle(assets: readonly AssetSpec[]): string[] | null {
  const byKey = new Map(assets.map((asset) => [asset.asset_key, asset]));
  const finished = new Set<AssetSpec>();
  for (const asset of assets) {
    const path = new Map<AssetSpec, number>();
    const stack = [asset];
    for (let top = stack.at(-1); top !== undefined; top = stack.at(-1)) {
      const upstream = upstreamAmong(top, byKey);
      const next = path.get(top) ?? 0;
      const candidate = finished.has(top) ? undefined : upstream[next];
      if (candidate === undefined) {
        finished.add(top);
        path.delete(top);
        stack.pop();
        continue;
      }
      path.set(top, next + 1);
      if (path.has(candidate)) {
        const keys = stack.slice(stack.indexOf(candidate)).map((each) => each.asset_key);
        return [...keys, candidate.asset_key];
      }
      if (!finished.has(candidate)) stack.push(candidate);
    }
  }
  return null;
}

/**
 * The assets in groups that one backfill each can hold, in the order the backfills must go: in a
 * group all share one definition, and what depends on what in it does so one to one.
 */
export function groupByDefinition(assets: readonly AssetSpec[]): AssetSpec[][] {
  const byKey = new Map(assets.map((asset) => [asset.asset_key, asset]));
  const levels = new Map<AssetSpec, number>();
  const groups = new Map<string, { level: number; assets: AssetSpec[] }>();
  for (const asset of topologicalOrder(assets)) {
    let level = 0;
    for (const { asset_key, mapping } of asset.upstream) {
      const upstream = byKey.get(asset_key);
      if (upstream === undefined || upstream === asset) continue;
      const together = isOneToOne(mapping, asset.partitions, upstream.partitions);
      level = Math.max(level, (levels.get(upstream) ?? 0) + (together ? 0 : 1));
    }
    levels.set(asset, level);
    const name = `${level} ${canonicalJson(asset.partitions)}`;
    const group = groups.get(name) ?? { level, assets: [] };
    group.assets.push(asset);
    groups.set(name, group);
  }
  return [...groups.values()]
    .toSorted((one, other) => one.level - other.level)
    .map((group) => group.assets);
}

function upstreamAmong(asset: AssetSpec, byKey: ReadonlyMap<string, AssetSpec>): AssetSpec[] {
  return asset.upstream
    .filter((upstream) => !isOwnPast(asset, upstream))
    .map(({ asset_key }) => byKey.get(asset_key))
    .filter((upstream) => upstream !== undefined);
}
