import { currentAsset, currentKeyspace } from "../controllers/asset-lookup.ts";
import type { Context } from "../controllers/decision.ts";
import { keysOfTask, tasksOfAsset } from "../controllers/run-lookup.ts";
import type { PartitionDocument, StaleReason } from "../core/api/asset-documents.ts";
import { present } from "../core/assert.ts";
import { addMs, type Instant } from "../core/instant.ts";
import type { Keyspace } from "../core/partitions/keyspace.ts";
import type { PartitionMapping } from "../core/partitions/partition-mapping.ts";
import { upstreamOrdinals } from "../core/partitions/upstream-ordinals.ts";
import type { DefinitionRow } from "../core/rows/definition-rows.ts";
import type { PartitionRow } from "../core/rows/partition-rows.ts";
import type { Rows } from "../core/rows/rows.ts";
import type { Key } from "../core/rows/table.ts";
import type { AssetSpec } from "../core/spec.ts";

/** Most runs of one asset that are looked through for running tasks. */
const RUNS_MAX = 10_000;

/** Upstream partitions that are loaded at once. */
const UPSTREAM_BATCH = 10_000;

type Upstream = {
  asset_key: string;
  mapping: PartitionMapping;
  keyspace: Keyspace | null;
  /** What was materialized last, where every partition is made from all of the upstream ones. */
  newest: PartitionRow | null;
};

/** An asset and everything that the status of its partitions follows from. */
export type AssetView = {
  spec: AssetSpec;
  definition: DefinitionRow;
  /** Null for an asset without partitions. */
  keyspace: Keyspace | null;
  upstream: readonly Upstream[];
  /** Keys of the partitions that a task works on right now. */
  running: ReadonlySet<string>;
};

/** Looks an asset up; refuses an unknown one. */
export function assetView(rows: Rows, assetKey: string, context: Context): AssetView {
  const { spec } = currentAsset(rows, assetKey);
  const definition = present(rows.definitions.get("asset", assetKey), "an asset is defined");
  const keyspace = currentKeyspace(rows, spec, context);
  const upstream = spec.upstream.flatMap(({ asset_key, mapping }): Upstream[] => {
    if (rows.definitions.get("asset", asset_key) === null) return [];
    const above = currentKeyspace(rows, currentAsset(rows, asset_key).spec, context);
    const isAll = keyspace === null || above === null || mapping.type === "all";
    const newest = isAll ? newestOf(rows, asset_key) : null;
    return [{ asset_key, mapping, keyspace: isAll ? null : above, newest }];
  });
  return { spec, definition, keyspace, upstream, running: runningKeys(rows, assetKey) };
}

function newestOf(rows: Rows, assetKey: string): PartitionRow | null {
  const where = [
    { cell: "asset_key", is: "=", value: assetKey },
    { cell: "last_materialization_start_pos", is: "not null" },
  ] as const;
  const order = [{ cell: "last_materialization_start_pos", descending: true }];
  return rows.partitions.find(where, order, 1)[0] ?? null;
}

/** One partition of an asset; `row` is null when it was never tried. */
export type Place = {
  view: AssetView;
  key: string;
  /** Null when the definition no longer has the partition. */
  ordinal: number | null;
  row: PartitionRow | null;
};

/** A partition with everything that its status follows from. */
export type LookedAt = Place & {
  /** Keys of all the upstream partitions that it is made from, where they count one by one. */
  above: readonly Key[];
};

/**
 * Looks at partitions and at all that is upstream of them, from the first on and as far as the
 * budget goes: each partition of either kind costs one. The first is looked at whatever it costs,
 * so that a list always gets on; none is ever looked at in part.
 */
export function lookAt(rows: Rows, places: readonly Place[], budget: number): LookedAt[] {
  const lookedAt: LookedAt[] = [];
  let spent = 0;
  for (const place of places) {
    const mapped = ownReason(place) === null ? mappedUpstream(place) : [];
    spent += 1 + mapped.reduce((sum, { size }) => sum + size, 0);
    if (spent > budget && lookedAt.length > 0) break;
    const above = mapped.flatMap(({ asset_key, keys }) =>
      keys().map((key): Key => [asset_key, key]),
    );
    lookedAt.push({ ...place, above });
  }
  const keys = lookedAt.flatMap(({ above }) => above);
  for (let at = 0; at < keys.length; at += UPSTREAM_BATCH) {
    rows.partitions.need(keys.slice(at, at + UPSTREAM_BATCH));
  }
  return lookedAt;
}

type Mapped = { asset_key: string; size: number; keys: () => string[] };

/** How many upstream partitions of each asset one partition is made from, and which. */
function mappedUpstream({ view, ordinal }: Place): Mapped[] {
  const { keyspace } = view;
  if (keyspace === null || ordinal === null) return [];
  return view.upstream.flatMap(({ asset_key, mapping, keyspace: above }): Mapped[] => {
    if (above === null) return [];
    const stretches = upstreamOrdinals(mapping, keyspace, above, ordinal);
    const size = stretches.reduce((sum, [from, to]) => sum + to - from + 1, 0);
    const keys = () => stretches.flatMap(([from, to]) => above.slice(from, to - from + 1));
    return [{ asset_key, size, keys }];
  });
}

function runningKeys(rows: Rows, assetKey: string): ReadonlySet<string> {
  const where = [
    { cell: "asset_key", is: "=", value: assetKey },
    { cell: "running", is: ">", value: 0 },
  ] as const;
  const keys = new Set<string>();
  for (const asset of rows.runAssets.find(where, [{ cell: "run_pos" }], RUNS_MAX)) {
    const run = present(rows.runs.get(asset.run_pos), "an asset of a run has its run");
    for (const task of tasksOfAsset(rows, asset)) {
      if (task.state !== "RUNNING") continue;
      for (const key of keysOfTask(run, asset, task)) keys.add(key);
    }
  }
  return keys;
}

/** A partition as the API shows it. */
export function partitionDocument(rows: Rows, lookedAt: LookedAt, now: Instant): PartitionDocument {
  const { view, key, ordinal, row } = lookedAt;
  const stale = staleness(rows, lookedAt, now);
  return {
    asset_key: view.spec.asset_key,
    partition_key: key,
    partition_values: row?.partition_values ?? valuesOf(view, ordinal),
    ordinal,
    status: statusOf(view, key, row, stale !== null),
    stale_reason: stale?.reason ?? null,
    stale_since: stale?.since ?? null,
    last_materialization_run_id: row?.last_materialization_run_id ?? null,
    last_materialization_at: row?.last_materialization_at ?? null,
    last_materialization_code_version: row?.last_materialization_code_version ?? null,
    last_materialization_start_pos: row?.last_materialization_start_pos ?? null,
    metadata: row?.metadata ?? null,
    last_attempt_run_id: row?.last_attempt_run_id ?? null,
    last_attempt_at: row?.last_attempt_at ?? null,
    last_attempt_outcome: row?.last_attempt_outcome ?? null,
    last_attempt_start_pos: row?.last_attempt_start_pos ?? null,
    row_version: row?.row_version ?? null,
  };
}

function valuesOf(view: AssetView, ordinal: number | null): Record<string, string> | null {
  if (view.keyspace === null || ordinal === null) return null;
  return view.keyspace.dimensions.length > 1 ? view.keyspace.valuesAt(ordinal) : null;
}

function statusOf(
  view: AssetView,
  key: string,
  row: PartitionRow | null,
  isStale: boolean,
): PartitionDocument["status"] {
  if (view.running.has(key)) return "IN_PROGRESS";
  if (row === null || row.last_materialization_at === null) return "NEVER_MATERIALIZED";
  if (row.last_attempt_outcome === "FAILED") return "MATERIALIZED_LAST_ATTEMPT_FAILED";
  return isStale ? "STALE" : "MATERIALIZED";
}

type Stale = { reason: StaleReason; since: Instant | null };

/** Why a partition is stale at `now`, by the first reason that applies; null when it is not. */
function staleness(rows: Rows, lookedAt: LookedAt, now: Instant): Stale | null {
  const own = ownReason(lookedAt);
  if (own !== null) return own;
  const row = present(lookedAt.row, "what is not stale by itself was materialized");
  const changed = upstreamChange(rows, lookedAt, row);
  if (changed !== null) return { reason: "UPSTREAM_CHANGED", since: changed };
  const { freshness } = lookedAt.view.spec;
  if (freshness === null || row.last_materialization_at === null) return null;
  const deadline = addMs(row.last_materialization_at, freshness.maximum_lag_minutes * 60_000);
  return now > deadline ? { reason: "FRESHNESS_POLICY", since: deadline } : null;
}

/** Why a partition is stale whatever is upstream of it; these reasons come first. */
function ownReason({ view, row }: Place): Stale | null {
  if (row === null || row.last_materialization_at === null) {
    return { reason: "NEVER_MATERIALIZED", since: null };
  }
  const { code_version, code_version_at } = view.definition;
  const made = row.last_materialization_code_version;
  const isOld = code_version !== null && made !== null && code_version !== made;
  return isOld ? { reason: "CODE_CHANGED", since: code_version_at } : null;
}

/** When the first upstream partition was materialized by an attempt that started later. */
function upstreamChange(rows: Rows, { view, above }: LookedAt, row: PartitionRow): Instant | null {
  const startPos = row.last_materialization_start_pos ?? 0;
  let since: Instant | null = null;
  const consider = (made: PartitionRow | null): void => {
    const at = made?.last_materialization_at ?? null;
    if (at === null || (made?.last_materialization_start_pos ?? 0) <= startPos) return;
    if (since === null || at < since) since = at;
  };
  for (const { newest } of view.upstream) consider(newest);
  for (const key of above) consider(rows.partitions.get(...key));
  return since;
}
