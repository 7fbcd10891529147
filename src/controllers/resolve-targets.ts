import { present } from "../core/assert.ts";
import { canonicalJson } from "../core/canonical.ts";
import { PawlError } from "../core/errors.ts";
import { groupByDefinition } from "../core/lineage.ts";
import { boundOf, type Keyspace, type Partitioned } from "../core/partitions/keyspace.ts";
import { keyspaceOf } from "../core/partitions/keyspace-of.ts";
import { mapSelectionDownstream } from "../core/partitions/map-selection-downstream.ts";
import type { PartitionDefinition } from "../core/partitions/partition-definition.ts";
import { resolveSelector } from "../core/partitions/resolve-selector.ts";
import type { Selection } from "../core/partitions/selection.ts";
import type { Selector } from "../core/partitions/selector.ts";
import type { StaleReasons } from "../core/partitions/stale-reason.ts";
import type { ChunkPart } from "../core/rows/backfill-rows.ts";
import type { Rows } from "../core/rows/rows.ts";
import type { AssetSpec } from "../core/spec.ts";
import { currentAssets, dynamicKeysOf, type PinnedAsset } from "./asset-lookup.ts";
import { ordinalsIn, pairsOf } from "./chunk-parts.ts";
import type { Context } from "./decision.ts";
import { staleTargets, type StaleSurvey } from "./stale-targets.ts";
import { isSurveyed, type OutcomeSurvey, surveyOutcomes } from "./survey-outcomes.ts";
import { uniteSelectors } from "./unite-selectors.ts";

/** What one backfill would work on: assets of one definition and a resolved selection. */
export type BackfillTarget = {
  assets: readonly PinnedAsset[];
  partitions: { definition: PartitionDefinition; keyspace: Keyspace } | null;
  selector: Selector;
  /** Null when the ordinals were surveyed, or there are no partitions. */
  selection: Selection | null;
  /** The surveyed ordinals. */
  parts: ChunkPart[] | null;
  bound: number[];
  total_partitions: number;
  total_pairs: number;
  /** Why its partitions are stale, when that is what they were selected by. */
  stale_reasons: StaleReasons | null;
};

/**
 * The backfills that a request stands for: one for each partition definition, upstream first. What
 * is stale was looked for before, and is handed in.
 */
export function resolveTargets(
  rows: Rows,
  input: { assets: readonly string[]; selector: Selector },
  context: Context,
  stale?: StaleSurvey,
): BackfillTarget[] {
  const { selector } = input;
  if (isSurveyed(selector)) return [surveyedTarget(surveyOutcomes(rows, selector), input)];
  const groups = groupsOf(rows, input.assets);
  if (selector.type === "stale") {
    return staleTargets(rows, groups, selector, present(stale, "what is stale was looked for"));
  }
  const targets: BackfillTarget[] = [];
  for (const assets of groups) targets.push(targetOf(rows, assets, selector, targets, context));
  return targets;
}

function groupsOf(rows: Rows, assetKeys: readonly string[]): PinnedAsset[][] {
  const assets = currentAssets(rows, assetKeys);
  const pinned = new Map(assets.map((asset) => [asset.spec.asset_key, asset]));
  const groups = groupByDefinition([...pinned.values()].map(({ spec }) => spec));
  return groups.map((group) =>
    group.map((spec) => present(pinned.get(spec.asset_key), "a group's asset")),
  );
}

function targetOf(
  rows: Rows,
  assets: readonly PinnedAsset[],
  asked: Selector,
  earlier: readonly BackfillTarget[],
  context: Context,
): BackfillTarget {
  const definition = present(assets[0], "a group has an asset").spec.partitions;
  if (definition === null) {
    if (earlier.length === 0) refusePicking(assets, asked);
    return wholeTarget(assets);
  }
  const keyspace = keyspaceOf(definition, dynamicKeysOf(rows), context.now);
  const partitions = { definition, keyspace };
  const selector = mappedSelector(assets, partitions, earlier) ?? asked;
  const selection = resolveSelector(definition, keyspace, selector);
  return {
    assets,
    partitions,
    selector,
    selection,
    parts: null,
    bound: boundOf(keyspace),
    total_partitions: selection.count,
    total_pairs: selection.count * assets.length,
    stale_reasons: null,
  };
}

/** Of an asset without partitions there is nothing to pick. */
function refusePicking(assets: readonly PinnedAsset[], asked: Selector): void {
  if (asked.type === "all") return;
  const keys = assets.map(({ spec }) => spec.asset_key);
  throw new PawlError(
    "INPUT_INVALID",
    `${keys.join(", ")} has no partitions, so a selector of the type ${asked.type} selects ` +
      "nothing of it. Use the selector of the type all, or leave the asset out.",
    { details: { assets: keys, selector: asked } },
  );
}

/** An asset without partitions is one thing to make. */
function wholeTarget(assets: readonly PinnedAsset[]): BackfillTarget {
  return {
    assets,
    partitions: null,
    selector: { type: "all" },
    selection: null,
    parts: null,
    bound: [],
    total_partitions: 1,
    total_pairs: assets.length,
    stale_reasons: null,
  };
}

/** The partitions that are made from what the earlier targets make, or null when nothing is. */
function mappedSelector(
  assets: readonly PinnedAsset[],
  downstream: Partitioned,
  earlier: readonly BackfillTarget[],
): Selector | null {
  const selectors = new Map<string, Selector>();
  let nothing: PawlError | null = null;
  for (const { asset_key, mapping } of assets.flatMap(({ spec }) => spec.upstream)) {
    const upstream = earlier.find((target) => hasAsset(target, asset_key));
    if (upstream === undefined) continue;
    if (upstream.partitions === null || upstream.selection === null) return { type: "all" };
    const { selector, selection } = upstream;
    const selected = { ...upstream.partitions, selector, selection };
    try {
      const mapped = mapSelectionDownstream(mapping, selected, downstream);
      selectors.set(canonicalJson(mapped), mapped);
    } catch (error) {
      // Nothing is made from this one; from another upstream there may be something.
      if (!(error instanceof PawlError) || error.code !== "SELECTION_EMPTY") throw error;
      nothing = error;
    }
  }
  if (selectors.size === 0 && nothing !== null) throw nothing;
  return selectors.size === 0 ? null : uniteSelectors([...selectors.values()], downstream);
}

function hasAsset(target: BackfillTarget, assetKey: string): boolean {
  return target.assets.some(({ spec }: { spec: AssetSpec }) => spec.asset_key === assetKey);
}

/** What was found of an earlier backfill, as a target of its own assets. */
export function surveyedTarget(
  { parent, plan, parts }: OutcomeSurvey,
  { selector, assets }: { selector: Selector; assets: readonly string[] },
): BackfillTarget {
  const other = assets.find((asset) => !parent.asset_selection.includes(asset));
  if (other !== undefined || assets.length !== parent.asset_selection.length) {
    throw new PawlError(
      "INPUT_INVALID",
      `A retry of backfill ${parent.backfill_id} is about its own assets: ` +
        `${parent.asset_selection.join(", ")}.`,
      { details: { assets, expected: parent.asset_selection } },
    );
  }
  return {
    assets: plan.assets,
    partitions: plan.partitions,
    selector,
    selection: null,
    parts,
    bound: parent.bound,
    total_partitions: ordinalsIn(parts),
    total_pairs: pairsOf(parts, plan.assets.length),
    stale_reasons: null,
  };
}
