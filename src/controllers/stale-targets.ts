import { assert, present } from "../core/assert.ts";
import { canonicalJson } from "../core/canonical.ts";
import { PawlError } from "../core/errors.ts";
import type { Instant } from "../core/instant.ts";
import { type Interval, intervalsOf } from "../core/intervals.ts";
import { boundOf, type Keyspace } from "../core/partitions/keyspace.ts";
import { keyspaceOf } from "../core/partitions/keyspace-of.ts";
import type { StaleSelector } from "../core/partitions/selector.ts";
import {
  addStaleReasons,
  NO_STALE_REASONS,
  type StaleReasons,
} from "../core/partitions/stale-reason.ts";
import type { Rows } from "../core/rows/rows.ts";
import type { AssetSpec } from "../core/spec.ts";
import { currentAssets, dynamicKeysOf, type PinnedAsset } from "./asset-lookup.ts";
import { ordinalsIn, pairsOf, partsByAsset } from "./chunk-parts.ts";
import type { Context, Decide } from "./decision.ts";
import type { BackfillTarget } from "./resolve-targets.ts";
import type { CollectedStale } from "./stale-partitions.ts";

/** What was found stale of one asset, and the partitions that it was looked for among. */
type SurveyedAsset = { keyspace: string; ordinals: number[]; reasons: StaleReasons };

/** What was found stale, as of one moment. */
export type StaleSurvey = {
  readonly as_of: Instant;
  readonly assets: ReadonlyMap<string, SurveyedAsset>;
};

/** Begins a survey of what is stale: from here on the partitions are those there are now. */
export function beginStaleSurvey(assetKeys: readonly string[]): Decide<StaleSurvey> {
  return (rows, context) => {
    const assets = currentAssets(rows, assetKeys).map(({ spec }): [string, SurveyedAsset] => {
      const keyspace = fingerprintOf(spec, keyspaceAt(rows, spec, context));
      return [spec.asset_key, { keyspace, ordinals: [], reasons: { ...NO_STALE_REASONS } }];
    });
    return { events: [], result: { as_of: context.now, assets: new Map(assets) } };
  };
}

function keyspaceAt(rows: Rows, { partitions }: AssetSpec, { now }: Pick<Context, "now">) {
  return partitions === null ? null : keyspaceOf(partitions, dynamicKeysOf(rows), now);
}

/**
 * Tells whether ordinals still mean the same partitions. Keys that come to one dimension are added
 * at its end; among several dimensions they shift all others.
 */
function fingerprintOf({ partitions }: AssetSpec, keyspace: Keyspace | null): string {
  const bound = partitions?.type === "multi" && keyspace !== null ? boundOf(keyspace) : [];
  return canonicalJson({ partitions, bound });
}

/** Adds a page of what was found, which comes after all that was added before. */
export function addToSurvey(survey: StaleSurvey, { found }: CollectedStale): void {
  for (const { asset_key, ordinal, reason } of found) {
    const asset = present(survey.assets.get(asset_key), "what was found was looked for");
    asset.ordinals.push(ordinal);
    asset.reasons[reason] += 1;
  }
}

/** The backfills of what was found: for each group the assets of which anything is stale. */
export function staleTargets(
  rows: Rows,
  groups: readonly (readonly PinnedAsset[])[],
  selector: StaleSelector,
  survey: StaleSurvey,
): BackfillTarget[] {
  const targets = groups.flatMap((group): BackfillTarget[] => {
    const assets = group.filter(({ spec }) => foundOf(survey, spec).ordinals.length > 0);
    return assets.length === 0 ? [] : [targetOf(rows, assets, selector, survey)];
  });
  if (targets.length > 0) return targets;
  throw nothingStale(
    groups.flat().map(({ spec }) => spec.asset_key),
    selector,
  );
}

function foundOf({ assets }: StaleSurvey, { asset_key }: AssetSpec): SurveyedAsset {
  return present(assets.get(asset_key), "each asset was surveyed");
}

function targetOf(
  rows: Rows,
  assets: readonly PinnedAsset[],
  selector: StaleSelector,
  survey: StaleSurvey,
): BackfillTarget {
  const { spec: first } = present(assets[0], "a group has an asset");
  const keyspace = keyspaceAt(rows, first, { now: survey.as_of });
  let stale_reasons = NO_STALE_REASONS;
  const byAsset = assets.map(({ spec }): Interval[] => {
    const found = foundOf(survey, spec);
    if (found.keyspace !== fingerprintOf(spec, keyspace)) throw changedMeanwhile(spec);
    stale_reasons = addStaleReasons(stale_reasons, found.reasons);
    return intervalsOf(found.ordinals);
  });
  const parts = partsByAsset(byAsset);
  assert(parts.length > 0, "something was found");
  const { partitions: definition } = first;
  return {
    assets,
    partitions: definition === null || keyspace === null ? null : { definition, keyspace },
    selector: { ...selector, as_of: survey.as_of },
    selection: null,
    parts,
    bound: keyspace === null ? [] : boundOf(keyspace),
    total_partitions: ordinalsIn(parts),
    total_pairs: pairsOf(parts, assets.length),
    stale_reasons,
  };
}

function changedMeanwhile({ asset_key }: AssetSpec): PawlError {
  return new PawlError(
    "PLAN_CHANGED",
    `The partitions of ${asset_key} changed while it was looked which of them are stale. ` +
      "Ask again.",
    { details: { asset_key } },
  );
}

function nothingStale(assets: readonly string[], { reasons }: StaleSelector): PawlError {
  const why = reasons === undefined ? "" : ` for the reason ${reasons.join(" or ")}`;
  return new PawlError(
    "SELECTION_EMPTY",
    `Nothing of ${assets.join(", ")} is stale${why}, so there is nothing to fill. ` +
      "What a task works on right now is not counted.",
    { details: { assets, reasons: reasons ?? null } },
  );
}
