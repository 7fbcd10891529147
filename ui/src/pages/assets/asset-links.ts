import type { PartitionDocument } from "../../../../src/work/asset/api.ts";

/** The address of an asset, and of one of its partitions there. */
export function assetHref(assetKey: string, partitionKey?: string): string {
  const path = `/assets/${encodeURIComponent(assetKey)}`;
  return partitionKey === undefined
    ? path
    : `${path}?${new URLSearchParams({ partition: partitionKey }).toString()}`;
}

/** Where a partition's story is told: its events, or why it is as it is. */
export function partitionStoryHref(
  assetKey: string,
  partitionKey: string,
  view: "history" | "why",
): string {
  const entity = partitionKey === "" ? assetKey : `${assetKey}@${partitionKey}`;
  return `/ledger/${encodeURIComponent(entity)}?view=${view}`;
}

/** Where the log of the last attempt at a partition is, where that failed. */
export function logHref(partition: PartitionDocument): string | null {
  const { last_attempt_run_id: run, last_attempt_error: error } = partition;
  if (run === null || error === null) return null;
  return `/runs/${encodeURIComponent(run)}/tasks/${error.task_key}`;
}

/** Where a backfill is made, with what is known of it filled in. */
export function newBackfillHref(
  assetKey: string,
  chosen: Readonly<Record<string, string>>,
): string {
  return `/backfills/new?${new URLSearchParams({ asset: assetKey, ...chosen }).toString()}`;
}
