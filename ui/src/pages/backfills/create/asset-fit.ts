import type { AnswerOf } from "../../../../../src/work/operations.ts";
import { canonicalJson } from "../../../../../src/kernel/canonical.ts";
import type {
  PartitionDefinition,
  SingleDefinition,
} from "../../../../../src/kernel/keyspace/definition.ts";
import { downstreamOf, upstreamOf } from "../../../../../src/work/asset/select-assets.ts";
import { type CreateForm, EMPTY_FORM, type SelectorKind } from "./create-form.ts";

/** An asset as the API shows it. */
export type Asset = AnswerOf<"listAssets">["items"][number];

/** How partitions of an asset can be chosen, the most usual way first. */
export function kindsOf(definition: PartitionDefinition | null): SelectorKind[] {
  switch (definition?.type) {
    case undefined:
      return ["all"];
    case "multi":
      return ["filter", "keys", "all", "stale", "left"];
    case "static":
    case "dynamic":
      return ["filter", "keys", "all", "stale", "left"];
    default:
      return ["range", "keys", "filter", "all", "stale", "left"];
  }
}

/** The form with the way to choose that is shown: the one that was chosen, or the usual one. */
export function withKind(form: CreateForm, definition: PartitionDefinition | null): CreateForm {
  // Of an asset without partitions there is nothing to choose.
  if (definition === null && form.kind !== "stale") return { ...form, kind: "all" };
  return { ...form, kind: form.kind ?? kindsOf(definition)[0] ?? "all" };
}

/** The asset whose partitions are chosen; what is made from it follows. */
export function leadingAsset(chosen: readonly Asset[]): Asset | null {
  const keys = new Set(chosen.map(({ asset_key }) => asset_key));
  const first = chosen.find(
    ({ spec }) =>
      !spec.upstream.some(({ asset_key }) => asset_key !== spec.asset_key && keys.has(asset_key)),
  );
  return first ?? chosen[0] ?? null;
}

/**
 * What changes when other assets are chosen: a selection that was made for one way to be cut means
 * nothing, or something else, for another.
 */
export function choosing(
  form: CreateForm,
  chosen: readonly string[],
  assets: readonly Asset[],
): Partial<CreateForm> {
  const leadOf = (keys: readonly string[]): Asset | null =>
    leadingAsset(keys.flatMap((key) => assets.find((each) => each.asset_key === key) ?? []));
  const before = leadOf(form.assets)?.spec.partitions ?? null;
  const after = leadOf(chosen);
  if (after !== null && isSame(before, after.spec.partitions)) return { assets: chosen };
  const { kind, start, end, keys, filter, of, outcomes } = EMPTY_FORM;
  const isAny = after !== null && (form.kind === "all" || form.kind === "stale");
  return isAny
    ? { assets: chosen }
    : { assets: chosen, kind, start, end, keys, filter, of, outcomes };
}

/** What chosen assets are made from, or what is made from them, of the assets that are made here. */
export function linked(
  assets: readonly Asset[],
  chosen: readonly string[],
  direction: "upstream" | "downstream",
): string[] {
  const specs = assets.map(({ spec }) => spec);
  const reach = direction === "upstream" ? upstreamOf : downstreamOf;
  const made = new Set(specs.flatMap((spec) => (spec.external === true ? [] : [spec.asset_key])));
  const keys = new Set(chosen.flatMap((key) => reach(specs, key)));
  return [...keys].filter((key) => made.has(key));
}

/** How an asset would go together with those that are chosen. */
export type Fit = "first" | "same" | "downstream" | "upstream" | "other";

/** How an asset would go together with the one whose partitions are chosen. */
export function fitOf(asset: Asset, lead: Asset | null): Fit {
  if (lead === null || asset.asset_key === lead.asset_key) return "first";
  if (isSame(asset.spec.partitions, lead.spec.partitions)) return "same";
  if (asset.spec.upstream.some(({ asset_key }) => asset_key === lead.asset_key))
    return "downstream";
  if (lead.spec.upstream.some(({ asset_key }) => asset_key === asset.asset_key)) return "upstream";
  return "other";
}

/** What going together means, in words. */
export const FIT_TEXTS: Readonly<Record<Fit, string>> = {
  first: "",
  same: "same partitions: same backfill",
  downstream: "downstream: a backfill that runs after",
  upstream: "upstream: a backfill that runs first",
  other: "different partitions: separate backfill",
};

const FITS: readonly Fit[] = ["first", "upstream", "same", "downstream", "other"];

/** Those that are chosen first, then those that go together with them best. */
export function byFit(
  assets: readonly Asset[],
  chosen: readonly string[],
  lead: Asset | null,
): Asset[] {
  const placeOf = (asset: Asset): number =>
    chosen.includes(asset.asset_key) ? -1 : FITS.indexOf(fitOf(asset, lead));
  return assets.toSorted((one, other) => placeOf(one) - placeOf(other));
}

function isSame(one: PartitionDefinition | null, other: PartitionDefinition | null): boolean {
  return canonicalJson(one) === canonicalJson(other);
}

/** How an asset is cut, in a few words. */
export function definitionText(definition: PartitionDefinition | null): string {
  if (definition === null) return "no partitions";
  if (definition.type !== "multi") return singleText(definition);
  return Object.entries(definition.dimensions)
    .map(([name, single]) => `${name} (${singleText(single)})`)
    .join(" × ");
}

function singleText(definition: SingleDefinition): string {
  switch (definition.type) {
    case "static":
      return `${definition.keys.length} fixed`;
    case "dynamic":
      return "grows";
    case "integers":
      return definition.size === 1 ? "integers" : `ranges of ${definition.size}`;
    case "cron":
      return definition.expression;
    default:
      return definition.type;
  }
}
