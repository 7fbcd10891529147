/** What became of one pair of asset and partition. */
export type PairState =
  | "pending"
  | "planned"
  | "running"
  | "succeeded"
  | "skipped"
  | "failed"
  | "cancelled";

/** The name of a pair; the key is empty for an asset without partitions. */
export function pairOf(assetKey: string, partitionKey: string): string {
  return `${assetKey}\n${partitionKey}`;
}
