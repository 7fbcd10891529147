import { PawlError, present } from "../../kernel/errors.ts";
import type { Interval } from "../../kernel/intervals.ts";
import type { DynamicKeys, Keyspace } from "../../kernel/keyspace/keyspace.ts";
import { keyspaceOf } from "../../kernel/keyspace/keyspace-of.ts";
import type { Rows } from "../rows.ts";
import type { Condition, Key } from "../../kernel/table.ts";
import { RowsMissing } from "../working-set.ts";
import type { AssetSpec } from "../definition/spec.ts";
import { isAssetSelection, selectAssets, wordsText } from "./select-assets.ts";
import type { SyncSpec } from "../sync/spec.ts";
import type { Context } from "../decision.ts";

/** An asset's spec and the hash that pins it. */
export type PinnedAsset = { spec: AssetSpec; spec_hash: string };

/** The current spec of an asset; refuses an unknown one. */
export function currentAsset(rows: Rows, assetKey: string): PinnedAsset {
  const definition = rows.definitions.get("asset", assetKey);
  if (definition === null) throw assetNotFound(assetKey);
  return { spec: pinnedSpec(rows, definition.spec_hash), spec_hash: definition.spec_hash };
}

/** The current specs of assets, with few loads for all of them; refuses unknown ones. */
export function currentAssets(rows: Rows, assetKeys: readonly string[]): PinnedAsset[] {
  needAssets(rows, assetKeys);
  return assetKeys.map((key) => currentAsset(rows, key));
}

/**
 * The current specs of assets that are to be made, named by key or selected as `selectAssets` takes it;
 * refuses unknown ones, and those made elsewhere.
 */
export function assetsToMake(rows: Rows, words: readonly string[]): PinnedAsset[] {
  const assets = currentAssets(rows, words.some(isAssetSelection) ? selected(rows, words) : words);
  refuseExternal(assets);
  return assets;
}

/** Refuses what is made elsewhere now, of assets that are to be made as they were once. */
export function refuseMadeElsewhere(rows: Rows, assetKeys: readonly string[]): void {
  needAssets(rows, assetKeys);
  const known = assetKeys.filter((key) => rows.definitions.get("asset", key) !== null);
  refuseExternal(known.map((key) => currentAsset(rows, key)));
}

function refuseExternal(assets: readonly PinnedAsset[]): void {
  const external = assets.find(({ spec }) => spec.external === true);
  if (external === undefined) return;
  const { asset_key } = external.spec;
  throw new PawlError(
    "INPUT_INVALID",
    `${asset_key} is external: it is made elsewhere and never run here. Leave it out, or record what ` +
      `was made with \`pawl partitions report ${asset_key}\`.`,
    { details: { asset_key } },
  );
}

/** Most assets that one request may be about, and that there may be for it to select them by other things than keys. */
const ASSETS_OF_REQUEST_MAX = 1_000;
const ASSETS_SEARCHED_MAX = 10_000;

function selected(rows: Rows, words: readonly string[]): string[] {
  const where: Condition[] = [{ cell: "kind", is: "=", value: "asset" }];
  const names = rows.definitions.find(where, [{ cell: "name" }], ASSETS_SEARCHED_MAX + 1);
  if (names.length > ASSETS_SEARCHED_MAX) {
    throw new PawlError(
      "SELECTION_TOO_LARGE",
      `There are more than ${ASSETS_SEARCHED_MAX} assets, too many to be searched for ${wordsText(words)}; ` +
        "name them by key.",
      { details: { selection: words } },
    );
  }
  const all = currentAssets(
    rows,
    names.map(({ name }) => name),
  );
  const keys = selectAssets(
    all.map(({ spec }) => spec),
    words,
  );
  if (keys.length <= ASSETS_OF_REQUEST_MAX) return keys;
  throw new PawlError(
    "SELECTION_TOO_LARGE",
    `${wordsText(words)} select ${keys.length} assets, more than the ${ASSETS_OF_REQUEST_MAX} that one ` +
      "request may be about; select fewer.",
    { details: { selection: words, assets: keys.length } },
  );
}

/** Has the definitions and the specs of all these assets loaded, as far as there are any. */
export function needAssets(rows: Rows, assetKeys: readonly string[]): void {
  rows.definitions.need(assetKeys.map((key): Key => ["asset", key]));
  const hashes = assetKeys.flatMap((key): Key[] => {
    const definition = rows.definitions.get("asset", key);
    return definition === null ? [] : [[definition.spec_hash]];
  });
  rows.specs.need(hashes);
}

/** The refusal of an asset that is not defined. */
export function assetNotFound(assetKey: string): PawlError {
  return new PawlError(
    "ASSET_NOT_FOUND",
    `There is no asset ${JSON.stringify(assetKey)}. ` +
      "`pawl asset list` shows those that are published; `pawl deploy` publishes new ones.",
    { details: { asset_key: assetKey } },
  );
}

/** The asset spec under a hash that some row pinned. */
export function pinnedSpec(rows: Rows, specHash: string): AssetSpec {
  const { body } = present(
    rows.specs.get(specHash),
    () => `spec ${specHash} is kept while referenced`,
  );
  if (body.kind !== "asset") throw new PawlError("ASSET_NOT_FOUND", `${specHash} is no asset.`);
  return body;
}

/** What every kind of task is tried by. */
export type WorkSpec = Pick<
  AssetSpec,
  "retry" | "timeout_ms" | "stall_after_ms" | "code_version" | "batch"
>;

/** The spec of a task of an asset, a sync or a step on shards, under a hash that some row pinned. */
export function pinnedWork(rows: Rows, specHash: string): WorkSpec {
  const { body } = present(
    rows.specs.get(specHash),
    () => `spec ${specHash} is kept while referenced`,
  );
  if (body.kind === "sync") return { ...body, retry: boundedRetry(body), batch: false };
  return body.kind === "shards" ? { ...body, batch: false } : pinnedSpec(rows, specHash);
}

/** The retry policy of a sync, which ends where its segments are abandoned. */
function boundedRetry({ retry, abandon_after: most }: SyncSpec): SyncSpec["retry"] {
  if (most === undefined) return retry;
  return { ...retry, max_attempts: Math.min(most, retry.max_attempts ?? most) };
}

/** The spec of a sync under a hash that some row pinned. */
export function pinnedSync(rows: Rows, specHash: string): SyncSpec {
  const { body } = present(
    rows.specs.get(specHash),
    () => `spec ${specHash} is kept while referenced`,
  );
  if (body.kind !== "sync") throw new PawlError("SYNC_NOT_FOUND", `${specHash} is no sync.`);
  return body;
}

function ordinalsOf(rows: Rows, name: string, keys: readonly string[]): (number | null)[] {
  const [only] = keys;
  if (only === undefined) return [];
  const where: Condition[] = [
    { cell: "definition", is: "=", value: name },
    // One key is the usual case, and a plain comparison is the faster look-up.
    keys.length === 1
      ? { cell: "partition_key", is: "=", value: only }
      : { cell: "partition_key", is: "in", values: keys },
  ];
  const found = rows.dynamicKeys.find(where, [], keys.length + 1);
  const ordinals = new Map(found.map(({ partition_key, ordinal }) => [partition_key, ordinal]));
  return keys.map((key) => ordinals.get(key) ?? null);
}

/** Dynamic keys that are loaded together with one that is asked for: its neighbours come next. */
const KEYS_LOADED = 500;

function keyAt(rows: Rows, name: string, ordinal: number): string {
  try {
    const row = rows.dynamicKeys.get(name, ordinal);
    return present(row, () => `${name} has the key ${ordinal}`).partition_key;
  } catch (error) {
    if (error instanceof RowsMissing) needNeighbours(rows, name, ordinal);
    throw error;
  }
}

function needNeighbours(rows: Rows, name: string, ordinal: number): void {
  const count = rows.dynamicDefinitions.get(name)?.key_count ?? 0;
  const from = ordinal - (ordinal % KEYS_LOADED);
  const length = Math.max(0, Math.min(KEYS_LOADED, count - from));
  rows.dynamicKeys.need(Array.from({ length }, (_, index): Key => [name, from + index]));
}

const NONE: readonly Interval[] = [];

/** The keys of dynamic partition definitions, read from rows. */
export function dynamicKeysOf(rows: Rows): Required<DynamicKeys> {
  return {
    count: (name) => rows.dynamicDefinitions.get(name)?.key_count ?? 0,
    removed: (name) => rows.dynamicDefinitions.get(name)?.removed ?? NONE,
    keyAt: (name, ordinal) => keyAt(rows, name, ordinal),
    indexOf: (name, key) => ordinalsOf(rows, name, [key])[0] ?? null,
    indexesOf: (name, keys) => ordinalsOf(rows, name, keys),
    prefetch: (name, ordinals) =>
      rows.dynamicKeys.need(ordinals.map((ordinal): Key => [name, ordinal])),
  };
}

/** The partitions an asset has now; null when it has none. */
export function currentKeyspace(
  rows: Rows,
  spec: AssetSpec,
  { now }: Pick<Context, "now">,
): Keyspace | null {
  if (spec.partitions === null) return null;
  return keyspaceOf(spec.partitions, dynamicKeysOf(rows), now);
}
