import { PawlError } from "../../kernel/errors.ts";
import { expandIntervals } from "../../kernel/intervals.ts";
import type { Key } from "../../kernel/table.ts";
import { isMadeInOrder } from "../asset/lineage.ts";
import { pinnedSpec } from "../asset/look-up.ts";
import { needPartitions, partitionAt } from "../asset/partition-blocks.ts";
import type { AssetSpec } from "../definition/spec.ts";
import type { Rows } from "../rows.ts";
import { backfillPlan } from "./plan.ts";
import type { BackfillRow, ChunkRow } from "./rows.ts";

/*
 * Backfills of assets that are made from their own earlier partitions: oldest first, one chunk at a
 * time, and none while a partition of an earlier one was not made.
 */

type Target = { readonly assets: readonly { readonly spec: AssetSpec }[] };

/** The first asset that is made from its own earlier partitions; null when there is none. */
function firstInOrder({ assets }: Target): AssetSpec | null {
  return assets.find(({ spec }) => isMadeInOrder(spec))?.spec ?? null;
}

/** How many chunks of a target may be active at once. */
export function concurrencyOf(
  { max_concurrent_runs: asked }: { max_concurrent_runs: number },
  target: Target,
): number {
  return firstInOrder(target) === null ? asked : 1;
}

/** Refuses to begin with the newest of what is made from its own earlier partitions. */
export function refuseNewestFirst({ order }: Pick<BackfillRow, "order">, target: Target): void {
  const asset = order === "descending" ? firstInOrder(target) : null;
  if (asset === null) return;
  throw new PawlError(
    "INPUT_INVALID",
    `${asset.asset_key} is made from its own earlier partitions, so the newest cannot be made first. ` +
      "Leave the order out, or set it to ascending.",
    { details: { asset_key: asset.asset_key, order } },
  );
}

/** The assets of a backfill that are made from their own earlier partitions, by place. */
export function assetsInOrder(rows: Rows, { spec_hashes }: BackfillRow): number[] {
  rows.specs.need(spec_hashes.map((hash): Key => [hash]));
  return [...spec_hashes.keys()].filter((at) =>
    isMadeInOrder(pinnedSpec(rows, spec_hashes[at] ?? "")),
  );
}

/** Refuses more than one chunk at once where each waits for the one before. */
export function refuseSeveralAtOnce(rows: Rows, backfill: BackfillRow, asked: number): void {
  const [place] = asked > 1 ? assetsInOrder(rows, backfill) : [];
  if (place === undefined) return;
  const asset_key = backfill.asset_selection[place] ?? "";
  throw new PawlError(
    "INPUT_INVALID",
    `${asset_key} is made from its own earlier partitions, so its chunks run one after the other; ` +
      `${asked} at once cannot be.`,
    { details: { asset_key, max_concurrent_runs: asked } },
  );
}

/** The tile that has the oldest partitions; null when there is none. */
export function firstTile(rows: Rows, { backfill_id, pending_tiles }: BackfillRow): number | null {
  rows.chunks.need(pending_tiles.map((index): Key => [backfill_id, index]));
  const oldest = (index: number): number =>
    rows.chunks.get(backfill_id, index)?.parts[0]?.from ?? 0;
  return pending_tiles.toSorted((one, other) => oldest(one) - oldest(other))[0] ?? null;
}

/** Why no later chunk may be planned: a partition of the last one was not made, nor since. */
export function heldBack(
  rows: Rows,
  backfill: BackfillRow,
  inOrder: readonly number[],
): string | null {
  if (backfill.partitions_failed + backfill.partitions_cancelled === 0) return null;
  const ended = endedChunks(rows, backfill, backfill.next_chunk - 1);
  for (const place of inOrder) {
    const asset = backfill.asset_selection[place] ?? "";
    const missing = ended.flatMap((chunk) => notMade(rows, backfill, chunk, place, asset));
    const [first] = missing;
    if (first === undefined) continue;
    const more = missing.length > 1 ? ` and ${missing.length - 1} after it` : "";
    return (
      `${asset} ${first}${more} failed, and later partitions are made from what is before them. ` +
      "Retry what failed, then resume"
    );
  }
  return null;
}

/** A chunk that has ended, or the tiles that it was split into. */
function endedChunks(rows: Rows, { backfill_id }: BackfillRow, index: number): ChunkRow[] {
  const ended: ChunkRow[] = [];
  const open = [index];
  for (let at = open.pop(); at !== undefined; at = open.pop()) {
    const chunk = rows.chunks.get(backfill_id, at);
    if (chunk?.state === "SPLIT") open.push(...(chunk.split_into ?? []));
    else if (chunk !== null && chunk.run_pos !== null) ended.push(chunk);
  }
  return ended.toSorted((one, other) => (one.parts[0]?.from ?? 0) - (other.parts[0]?.from ?? 0));
}

/** The partitions of an asset that a chunk did not make, and nothing made since. */
function notMade(
  rows: Rows,
  backfill: BackfillRow,
  { failed, cancelled, run_pos }: ChunkRow,
  place: number,
  asset: string,
): string[] {
  const lists = [...(failed ?? []), ...(cancelled ?? [])].filter((each) => each.asset === place);
  const ordinals = lists
    .flatMap((each) => expandIntervals(each.ordinals))
    .toSorted((a, b) => a - b);
  if (ordinals.length === 0) return [];
  const keys = backfillPlan(rows, backfill).partitions?.keyspace.keysAt(ordinals) ?? [];
  needPartitions(
    rows,
    keys.map((key): Key => [asset, key]),
  );
  return keys.filter((key) => {
    const row = partitionAt(rows, asset, key);
    const isSkipped = row?.last_attempt_outcome === "SKIPPED";
    const made = isSkipped ? row?.last_attempt_start_pos : row?.last_materialization_start_pos;
    return (made ?? 0) <= (run_pos ?? 0);
  });
}
