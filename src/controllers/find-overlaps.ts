import { PawlError } from "../core/errors.ts";
import { selectionOfScattered } from "../core/partitions/selection.ts";
import {
  type SelectedPartitions,
  selectionsOverlap,
} from "../core/partitions/selections-overlap.ts";
import { mergeIntervals, type Interval } from "../core/intervals.ts";
import type { BackfillRow, ChunkPart } from "../core/rows/backfill-rows.ts";
import type { Rows } from "../core/rows/rows.ts";
import { backfillPlan, surveyedParts } from "./backfill-plan.ts";
import type { BackfillTarget } from "./resolve-targets.ts";

/** An active backfill that touches the same partitions, and through which assets. */
export type Overlap = { backfill_id: string; asset_keys: string[] };

/** Most active backfills that are compared. */
const BACKFILLS_COMPARED_MAX = 10_000;
/** Surveyed selections with more partitions are taken to overlap without a look. */
const SURVEYED_COMPARED_MAX = 1_000_000;

/**
 * Active backfills that work on partitions of the targets; conservative, so it may name too many.
 * Those of `apart` are known to do nothing with them.
 */
export function findOverlaps(
  rows: Rows,
  targets: readonly BackfillTarget[],
  apart: ReadonlySet<string> = new Set(),
): Overlap[] {
  const active = rows.backfills.find(
    [{ cell: "state", is: "in", values: ["PENDING", "RUNNING", "PAUSED", "CANCELLING"] }],
    [{ cell: "created_pos" }],
    BACKFILLS_COMPARED_MAX,
  );
  return active.flatMap((backfill) => {
    if (apart.has(backfill.backfill_id)) return [];
    const asset_keys = targets.flatMap((target) => sharedAssets(rows, backfill, target));
    return asset_keys.length === 0 ? [] : [{ backfill_id: backfill.backfill_id, asset_keys }];
  });
}

function sharedAssets(rows: Rows, backfill: BackfillRow, target: BackfillTarget): string[] {
  const shared = target.assets
    .map(({ spec }) => spec.asset_key)
    .filter((key) => backfill.asset_selection.includes(key));
  if (shared.length === 0) return [];
  const other = selectedBy(rows, backfill);
  if (other === "unknown") return shared;
  return selectionsOverlap(selectedIn(target), other) ? shared : [];
}

function selectedIn({ partitions, selection, parts }: BackfillTarget): SelectedPartitions {
  if (partitions === null) return null;
  return { ...partitions, selection: selection ?? scattered(parts ?? []) };
}

function selectedBy(rows: Rows, backfill: BackfillRow): SelectedPartitions | "unknown" {
  const plan = backfillPlan(rows, backfill);
  if (plan.partitions === null) return null;
  if (plan.selection !== null) return { ...plan.partitions, selection: plan.selection };
  if (backfill.total_partitions > SURVEYED_COMPARED_MAX) return "unknown";
  const parts = surveyedParts(rows, backfill, 0, backfill.total_partitions);
  return { ...plan.partitions, selection: scattered(parts) };
}

function scattered(parts: readonly ChunkPart[]) {
  return selectionOfScattered(mergeIntervals(parts.map(({ from, to }): Interval => [from, to])));
}

/** Refuses a backfill that would work on partitions of an active one. */
export function refuseOverlaps(overlaps: readonly Overlap[]): void {
  const [first] = overlaps;
  if (first === undefined) return;
  throw new PawlError(
    "BACKFILL_OVERLAPS",
    `Backfill ${first.backfill_id} is active and may touch the same partitions of ` +
      `${first.asset_keys.join(", ")}. Wait for it, cancel it, or allow the overlap.`,
    { details: { overlaps } },
  );
}
