import { PawlError, present } from "../../kernel/errors.ts";
import { isGlob } from "../../kernel/keyspace/selector.ts";
import type { DynamicKeys } from "../../kernel/keyspace/keyspace.ts";
import {
  dimensionsOf,
  isSameDefinition,
  type PartitionDefinition,
} from "../../kernel/keyspace/definition.ts";
import {
  type SelectedPartitions,
  selectionOfScattered,
  selectionsOverlap,
} from "../../kernel/keyspace/selection.ts";
import { mergeIntervals, type Interval } from "../../kernel/intervals.ts";
import { type BackfillRow, type ChunkPart, OPEN_BACKFILLS, type SurveyPageRow } from "./rows.ts";
import type { Rows } from "../rows.ts";
import { dynamicKeysOf, pinnedSpec } from "../asset/look-up.ts";
import { backfillPlan, partsOnPages, planWith, surveyPagesOf } from "./plan.ts";
import type { BackfillTarget } from "./targets.ts";

/** An active backfill that touches the same partitions, and through which assets. */
export type Overlap = { backfill_id: string; asset_keys: string[] };

/** Most active backfills that are compared. */
const BACKFILLS_COMPARED_MAX = 10_000;
/** Most dynamic keys that active backfills name which are looked up at once. */
const KEYS_LOOKED_UP_MAX = 100_000;
/** Look-ups of dynamic keys for other selections, one by one; what needs more is taken to overlap. */
const LOOKED_UP_MAX = 200;
/** Keys that patterns of active backfills are compared with; what needs more is taken to overlap. */
const KEYS_MATCHED_MAX = 20_000_000;
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
    [OPEN_BACKFILLS],
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
  const pages = surveyPagesOf(rows, small);
  const named = new NamedKeys(rows, near);
  const used = { lookUps: 0, matched: 0 };
  return near.flatMap((backfill) => {
    const lookUps = lookUpsFor(rows, backfill, targets, named);
    const matched = keysMatched(rows, backfill);
    used.lookUps += lookUps;
    used.matched += matched;
    const isDear =
      (lookUps > 0 && used.lookUps > LOOKED_UP_MAX) ||
      (matched > 0 && used.matched > KEYS_MATCHED_MAX);
    const other: Selected = isDear
      ? "unknown"
      : selectedBy(rows, backfill, pages.get(backfill.backfill_id) ?? [], named);
    const asset_keys = targets.flatMap((target) => sharedAssets(backfill, other, target));
    return asset_keys.length === 0 ? [] : [{ backfill_id: backfill.backfill_id, asset_keys }];
  });
}

/** The definition of a backfill's partitions; null without partitions. */
function definitionOf(rows: Rows, { spec_hashes }: BackfillRow): PartitionDefinition | null {
  return pinnedSpec(rows, present(spec_hashes[0], "a backfill has an asset")).partitions;
}

/** How many dimensions have their keys looked up to compare what a backfill selects with the targets. */
function lookUpsFor(
  rows: Rows,
  backfill: BackfillRow,
  targets: readonly BackfillTarget[],
  named: NamedKeys,
): number {
  const definition = definitionOf(rows, backfill);
  if (definition === null) return 0;
  let lookUps = named.has(backfill) ? 0 : dimensionsLookedUp(definition, backfill);
  for (const target of targets) {
    const now = target.partitions?.definition ?? null;
    if (now === null || isSameDefinition(definition, now)) continue;
    // Where the definition was another one, keys tell what is the same partition, and not places.
    if (sharedWith(backfill, target).length === 0) continue;
    lookUps += dynamicIn(definition).length + dynamicIn(now).length;
  }
  return lookUps;
}

/** The dimensions of which dynamic keys are looked up to resolve the selection of a backfill. */
function dimensionsLookedUp(
  definition: PartitionDefinition,
  { survey_pages, partition_selector: selector }: BackfillRow,
): number {
  if (survey_pages > 0 || selector.type === "all") return 0;
  const names = dynamicIn(definition);
  if (selector.type !== "filter") return names.length;
  return names.filter((name) => (selector.dimensions[name] ?? "*") !== "*").length;
}

/** How many keys the patterns of a backfill's selection are compared with. */
function keysMatched(rows: Rows, backfill: BackfillRow): number {
  const { survey_pages, partition_selector: selector, bound } = backfill;
  const definition = definitionOf(rows, backfill);
  if (definition === null || survey_pages > 0 || selector.type !== "filter") return 0;
  let matched = 0;
  for (const [at, { name }] of dimensionsOf(definition).entries()) {
    const pattern = selector.dimensions[name];
    if (typeof pattern !== "string" || pattern === "*" || !isGlob(pattern)) continue;
    matched += bound[at] ?? 0;
  }
  return matched;
}

/** The names of the dimensions whose keys are added at run time. */
function dynamicIn(definition: PartitionDefinition): string[] {
  return dimensionsOf(definition).flatMap(({ name, definition: { type } }) =>
    type === "dynamic" ? [name] : [],
  );
}

/** The dynamic keys that several backfills name, looked up at once. */
class NamedKeys {
  readonly keys: DynamicKeys;
  readonly #of = new Set<string>();

  constructor(rows: Rows, backfills: readonly BackfillRow[]) {
    const namedIn = new Map<string, Set<string>>();
    let count = 0;
    for (const backfill of backfills) {
      const { backfill_id, partition_selector: selector } = backfill;
      if (selector.type !== "explicit" || backfill.survey_pages > 0) continue;
      const definition = definitionOf(rows, backfill);
      if (definition?.type !== "dynamic") continue;
      count += selector.partition_keys.length;
      if (count > KEYS_LOOKED_UP_MAX) break;
      const named = namedIn.get(definition.name) ?? new Set();
      for (const key of selector.partition_keys) named.add(key);
      namedIn.set(definition.name, named);
      this.#of.add(backfill_id);
    }
    const all = dynamicKeysOf(rows);
    const ordinals = new Map<string, Map<string, number | null>>();
    for (const [name, named] of namedIn) {
      const found = all.indexesOf(name, [...named]);
      ordinals.set(name, new Map([...named].map((key, at) => [key, found[at] ?? null])));
    }
    this.keys = {
      ...all,
      indexesOf(name, keys) {
        const known = ordinals.get(name);
        if (!keys.every((key) => known?.has(key))) return all.indexesOf(name, keys);
        return keys.map((key) => known?.get(key) ?? null);
      },
    };
  }

  /** Whether all keys that the backfill names are among them. */
  has({ backfill_id }: BackfillRow): boolean {
    return this.#of.has(backfill_id);
  }
}

type Selected = SelectedPartitions | "unknown";

function sharedAssets(backfill: BackfillRow, other: Selected, target: BackfillTarget): string[] {
  const shared = sharedWith(backfill, target);
  if (shared.length === 0) return [];
  if (other === "unknown") return shared;
  return selectionsOverlap(selectedIn(target), other) ? shared : [];
}

function sharedWith({ asset_selection }: BackfillRow, { assets }: BackfillTarget): string[] {
  return assets.map(({ spec }) => spec.asset_key).filter((key) => asset_selection.includes(key));
}

function selectedIn({ partitions, selection, parts }: BackfillTarget): SelectedPartitions {
  if (partitions === null) return null;
  return { ...partitions, selection: selection ?? scattered(parts ?? []) };
}

function selectedBy(
  rows: Rows,
  backfill: BackfillRow,
  pages: readonly SurveyPageRow[],
  named: NamedKeys,
): Selected {
  const plan = named.has(backfill)
    ? planWith(rows, backfill, named.keys)
    : backfillPlan(rows, backfill);
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
