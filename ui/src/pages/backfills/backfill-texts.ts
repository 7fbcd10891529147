import type { AnswerOf } from "../../../../src/work/operations.ts";
import type { Pairs } from "../../../../src/kernel/keyspace/pairs-text.ts";
import type { ProgressPart } from "../../parts/progress.tsx";
import { countText } from "../../parts/time-text.ts";

/** A backfill as the API shows it. */
export type Backfill = AnswerOf<"getBackfill">;

/** A chunk as the API lists it. */
export type Chunk = AnswerOf<"listChunks">["items"][number];

/** Where the page of a backfill is. */
export function backfillHref(backfillId: string): string {
  return `/backfills/${encodeURIComponent(backfillId)}`;
}

/** Whether a backfill has ended. */
export function hasEnded({ finished_at }: Backfill): boolean {
  return finished_at !== null;
}

/** What the partitions of a backfill, or of a plan of one, are of. */
export function pairsIn(
  made: Pick<Backfill, "asset_selection" | "total_partitions" | "partitions_total">,
): Pairs {
  const { asset_selection, total_partitions: keys, partitions_total: pairs } = made;
  return { pairs, keys, assets: asset_selection.length };
}

/** Partitions of the assets by where they stand, those that are settled first. */
export function partitionParts(backfill: Backfill): ProgressPart[] {
  return [
    { state: "SUCCEEDED", count: backfill.partitions_succeeded },
    { state: "FAILED", count: backfill.partitions_failed },
    { state: "CANCELLED", count: backfill.partitions_cancelled },
    { state: "RUNNING", count: backfill.partitions_running },
    { state: "PLANNED", count: backfill.partitions_planned },
    { state: "PENDING", count: backfill.partitions_pending },
  ];
}

/** How many pairs of asset and partition were worked through; what was cancelled was not. */
export function donePartitions({ partitions_succeeded, partitions_failed }: Backfill): number {
  return partitions_succeeded + partitions_failed;
}

/** How far a backfill is, in percent without decimals: 100 only when all was worked through. */
export function percentText(backfill: Backfill): string {
  const share = donePartitions(backfill) / Math.max(1, backfill.partitions_total);
  return `${Math.floor(share * 100)} %`;
}

/** Which partitions a backfill is for, in words. */
export function selectorText(selector: Backfill["partition_selector"]): string {
  const only = "only" in selector ? selector.only : undefined;
  const all = wholeText(selector);
  return only === undefined ? all : `${all}, only ${only.replaceAll("_", " ")}`;
}

function wholeText(selector: Backfill["partition_selector"]): string {
  switch (selector.type) {
    case "all":
      return "all partitions";
    case "range":
      return `${selector.start} to ${selector.end}`;
    case "explicit":
      return selector.partition_keys.length > 3
        ? `${selector.partition_keys.slice(0, 2).join(", ")} and ` +
            `${countText(selector.partition_keys.length - 2)} more`
        : selector.partition_keys.join(", ");
    case "filter":
      return Object.entries(selector.dimensions)
        .map(([dimension, pattern]) => `${dimension}: ${patternText(pattern)}`)
        .join(", ");
    case "outcome":
      return `what was ${selector.outcomes.map((text) => text.toLowerCase()).join(" or ")}`;
    case "missing":
      return "what was missing";
    case "stale":
      return "what was stale";
  }
}

function patternText(pattern: string | string[] | { start: string; end: string }): string {
  if (typeof pattern === "string") return pattern;
  if (Array.isArray(pattern)) return pattern.join(" or ");
  return `${pattern.start} to ${pattern.end}`;
}

/** The partitions of a chunk, from the first to the last. */
export function chunkKeys({ first_partition_key: first, last_partition_key: last }: Chunk): string {
  if (first === null) return "–";
  return last === null || last === first ? first : `${first} … ${last}`;
}
