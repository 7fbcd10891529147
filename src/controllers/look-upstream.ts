import { upstreamOrdinals } from "../core/partitions/upstream-ordinals.ts";
import type { Rows } from "../core/rows/rows.ts";
import { type Key, keyText } from "../core/rows/table.ts";
import { type AssetView, type LookedAt, ownReason, type Place } from "./partition-status.ts";

/** Upstream partitions that are loaded at once. */
const UPSTREAM_BATCH = 100_000;

/**
 * Looks at partitions and at all that is upstream of them, from the first on and as far as the
 * budget goes: each partition of either kind costs one. The first is looked at whatever it costs,
 * so that a list always gets on; none is ever looked at in part.
 */
export function lookAt(rows: Rows, places: readonly Place[], budget: number): LookedAt[] {
  const lookedAt: (Place & { above: Key[] })[] = [];
  // Many partitions may be made from one and the same: it is read once.
  const known = new Map<string, Key>();
  let spent = 0;
  for (const place of places) {
    const mapped = ownReason(place) === null ? mappedUpstream(place) : [];
    spent += 1 + mapped.reduce((sum, { size }) => sum + size, 0);
    if (spent > budget && lookedAt.length > 0) break;
    const above: Key[] = [];
    for (const { asset_key, keys } of mapped) {
      for (const key of keys()) above.push(keyIn(known, [asset_key, key]));
    }
    lookedAt.push({ ...place, above });
  }
  const keys = [...known.values()];
  for (let at = 0; at < keys.length; at += UPSTREAM_BATCH) {
    rows.partitions.need(keys.slice(at, at + UPSTREAM_BATCH));
  }
  const views = new Map(lookedAt.map(({ view }) => [view, wholesOf(view)]));
  rows.assetStatus.need([...views.values()].flat().map((assetKey): Key => [assetKey]));
  return lookedAt.map((each) => ({ ...each, wholes: views.get(each.view) ?? [] }));
}

/** The same key as before, when it was there before. */
function keyIn(known: Map<string, Key>, key: Key): Key {
  const text = keyText(key);
  const before = known.get(text);
  if (before === undefined) known.set(text, key);
  return before ?? key;
}

type Mapped = { asset_key: string; size: number; keys: () => string[] };

/** How many upstream partitions of each asset one partition is made from, and which. */
function mappedUpstream({ view, ordinal }: Place): Mapped[] {
  const { keyspace } = view;
  if (keyspace === null || ordinal === null) return [];
  return view.upstream.flatMap(({ asset_key, mapping, keyspace: above }): Mapped[] => {
    if (above === null) return [];
    const stretches = upstreamOrdinals(mapping, keyspace, above, ordinal);
    const size = stretches.reduce((sum, [from, to]) => sum + to - from + 1, 0);
    const keys = () => stretches.flatMap(([from, to]) => above.slice(from, to - from + 1));
    return [{ asset_key, size, keys }];
  });
}

/** The assets of which each partition is made from everything. */
function wholesOf({ upstream }: AssetView): string[] {
  return upstream.flatMap(({ asset_key, keyspace }) => (keyspace === null ? [asset_key] : []));
}
