import { upstreamOrdinals } from "../core/partitions/upstream-ordinals.ts";
import type { PartitionRow } from "../core/rows/partition-rows.ts";
import type { Rows } from "../core/rows/rows.ts";
import { type Condition, type Key, keyText } from "../core/rows/table.ts";
import { type AssetView, type LookedAt, ownReason, type Place } from "./partition-status.ts";

/** Upstream partitions that are loaded at once. */
const UPSTREAM_BATCH = 10_000;

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
  const newest = newestByView(rows, lookedAt);
  return lookedAt.map((each) => ({ ...each, newest: newest.get(each.view) ?? [] }));
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

/** What was made last of the assets that count as a whole, where any of the places asks for it. */
function newestByView(rows: Rows, places: readonly Place[]): Map<AssetView, PartitionRow[]> {
  const startedAt = new Map<AssetView, number>();
  for (const place of places) {
    const { view, row } = place;
    const asksForAll = view.upstream.some(({ keyspace }) => keyspace === null);
    if (!asksForAll || ownReason(place) !== null) continue;
    const startPos = row?.last_materialization_start_pos ?? 0;
    startedAt.set(view, Math.min(startPos, startedAt.get(view) ?? startPos));
  }
  const newest = new Map<AssetView, PartitionRow[]>();
  for (const [view, pos] of startedAt) {
    const wholes = view.upstream.filter(({ keyspace }) => keyspace === null);
    newest.set(
      view,
      wholes.flatMap(({ asset_key }) => newestAfter(rows, asset_key, pos)),
    );
  }
  return newest;
}

/**
 * The partition of an asset that was made last, where anything was made after the position. No
 * index leads there: this goes through the rows of the asset, which is why it is asked with a
 * position, that most rows fall behind, and only when an answer depends on it.
 */
function newestAfter(rows: Rows, assetKey: string, pos: number): PartitionRow[] {
  const ofAsset: Condition = { cell: "asset_key", is: "=", value: assetKey };
  const last = lastOf(rows, [ofAsset], "row_version", pos);
  // Whatever was made after the position was written after it.
  if (last === null) return [];
  if (last.last_attempt_outcome === "SUCCEEDED") return [last];
  // The last attempt failed: then what it left counts by where it was started.
  const succeeded: Condition = { cell: "last_attempt_outcome", is: "=", value: "SUCCEEDED" };
  const others: Condition = { cell: "last_attempt_outcome", is: "<>", value: "SUCCEEDED" };
  const made = lastOf(rows, [ofAsset, succeeded], "row_version", pos);
  const kept = lastOf(rows, [ofAsset, others], "last_materialization_start_pos", pos);
  return [made, kept].filter((row) => row !== null);
}

function lastOf(
  rows: Rows,
  conditions: readonly Condition[],
  cell: "row_version" | "last_materialization_start_pos",
  pos: number,
): PartitionRow | null {
  const where: Condition[] = [...conditions, { cell, is: ">", value: pos }];
  return rows.partitions.find(where, [{ cell, descending: true }], 1)[0] ?? null;
}
