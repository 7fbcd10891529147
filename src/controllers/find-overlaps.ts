import { present } from "../core/assert.ts";
import { PawlError } from "../core/errors.ts";
import { dimensionsOf } from "../core/partitions/partition-definition.ts";
import { selectionOfScattered } from "../core/partitions/selection.ts";
import {
  type SelectedPartitions,
  selectionsOverlap,
} from "../core/partitions/selections-overlap.ts";
import { mergeIntervals, type Interval } from "../core/intervals.ts";
import type { BackfillRow, ChunkPart, SurveyPageRow } from "../core/rows/backfill-rows.ts";
import type { Rows } from "../core/rows/rows.ts";
import { pinnedSpec } from "./asset-lookup.ts";
import { backfillPlan, partsOnPages, surveyPagesOf } from "./backfill-plan.ts";
import type { BackfillTarget } from "./resolve-targets.ts";

/** An active backfill that touches the same partitions, and through which assets. */
export type Overlap = { backfill_id: string; asset_keys: string[] };

/** Most active backfills that are compared. */
const BACKFILLS_COMPARED_MAX = 10_000;
/** Selections of dynamic keys, each looked up for itself, that are compared; more are taken to overlap. */
const LOOKED_UP_MAX = 200;
/** Surveyed selections with more partitions, or all when they are too many, are taken to overlap. */
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
  const wanted = new Set(targets.flatMap(({ assets }) => assets.map(({ spec }) => spec.asset_key)));
  const near = active.filter(
    ({ backfill_id, asset_selection }) =>
      !apart.has(backfill_id) && asset_selection.some((key) => wanted.has(key)),
  );
  // What all of them need is read at once, so that many cost as few look-ups as one.
  rows.specs.need(near.flatMap(({ spec_hashes }) => spec_hashes.map((hash) => [hash])));
  const small = near.filter(({ total_partitions }) => total_partitions <= SURVEYED_COMPARED_MAX);
  const pages = surveyPagesOf(rows, small) ?? new Map<string, SurveyPageRow[]>();
  let looked = 0;
  return near.flatMap((backfill) => {
    if (isLookedUp(rows, backfill) && ++looked > LOOKED_UP_MAX) {
      const asset_keys = backfill.asset_selection.filter((key) => wanted.has(key));
      return [{ backfill_id: backfill.backfill_id, asset_keys }];
    }
    const own = pages.get(backfill.backfill_id) ?? [];
    const asset_keys = targets.flatMap((target) => sharedAssets(rows, backfill, own, target));
    return asset_keys.length === 0 ? [] : [{ backfill_id: backfill.backfill_id, asset_keys }];
  });
}

/** Whether a backfill's selection is resolved by looking up dynamic keys, each time for itself. */
function isLookedUp(rows: Rows, { survey_pages, partition_selector, spec_hashes }: BackfillRow) {
  if (survey_pages > 0 || partition_selector.type === "all") return false;
  const { partitions } = pinnedSpec(rows, present(spec_hashes[0], "a backfill has an asset"));
  if (partitions === null) return false;
  return dimensionsOf(partitions).some(({ definition }) => definition.type === "dynamic");
}

function sharedAssets(
  rows: Rows,
  backfill: BackfillRow,
  pages: readonly SurveyPageRow[],
  target: BackfillTarget,
): string[] {
  const shared = target.assets
    .map(({ spec }) => spec.asset_key)
    .filter((key) => backfill.asset_selection.includes(key));
  if (shared.length === 0) return [];
  const other = selectedBy(rows, backfill, pages);
  if (other === "unknown") return shared;
  return selectionsOverlap(selectedIn(target), other) ? shared : [];
}

function selectedIn({ partitions, selection, parts }: BackfillTarget): SelectedPartitions {
  if (partitions === null) return null;
  return { ...partitions, selection: selection ?? scattered(parts ?? []) };
}

function selectedBy(
  rows: Rows,
  backfill: BackfillRow,
  pages: readonly SurveyPageRow[],
): SelectedPartitions | "unknown" {
  const plan = backfillPlan(rows, backfill);
  if (plan.partitions === null) return null;
  if (plan.selection !== null) return { ...plan.partitions, selection: plan.selection };
  if (pages.length === 0) return "unknown";
  const parts = partsOnPages(pages, 0, backfill.total_partitions);
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
