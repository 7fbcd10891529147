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

/** Most upstream partitions that are looked at for one partition. */
const UPSTREAM_MAX = 100;

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

/** Loads at once what the status of these partitions follows from. */
export function needPartitions(rows: Rows, view: AssetView, ordinals: readonly number[]): void {
  const keys: Key[] = [];
  for (const upstream of view.upstream) {
    for (const ordinal of ordinals) {
      for (const key of upstreamKeys(view, upstream, ordinal)) keys.push([upstream.asset_key, key]);
    }
  }
  rows.partitions.need(keys);
}

/** Keys of the upstream partitions that one partition is made from; not more than are looked at. */
function upstreamKeys(view: AssetView, { keyspace, mapping }: Upstream, ordinal: number): string[] {
  if (view.keyspace === null || keyspace === null) return [];
  const keys: string[] = [];
  for (const [from, to] of upstreamOrdinals(mapping, view.keyspace, keyspace, ordinal)) {
    if (keys.length >= UPSTREAM_MAX) break;
    keys.push(...keyspace.slice(from, Math.min(to - from + 1, UPSTREAM_MAX - keys.length)));
  }
  return keys;
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

/** A partition as the API shows it; `row` is null when it was never tried. */
export function partitionDocument(
  rows: Rows,
  view: AssetView,
  key: string,
  ordinal: number | null,
  row: PartitionRow | null,
  now: Instant,
): PartitionDocument {
  const stale = staleness(rows, view, ordinal, row, now);
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
function staleness(
  rows: Rows,
  view: AssetView,
  ordinal: number | null,
  row: PartitionRow | null,
  now: Instant,
): Stale | null {
  if (row === null || row.last_materialization_at === null) {
    return { reason: "NEVER_MATERIALIZED", since: null };
  }
  const { code_version, code_version_at } = view.definition;
  const made = row.last_materialization_code_version;
  if (code_version !== null && made !== null && code_version !== made) {
    return { reason: "CODE_CHANGED", since: code_version_at };
  }
  const changed = upstreamChange(rows, view, ordinal, row);
  if (changed !== null) return { reason: "UPSTREAM_CHANGED", since: changed };
  const { freshness } = view.spec;
  if (freshness === null) return null;
  const deadline = addMs(row.last_materialization_at, freshness.maximum_lag_minutes * 60_000);
  return now > deadline ? { reason: "FRESHNESS_POLICY", since: deadline } : null;
}

/** When the first upstream partition was materialized by an attempt that started later. */
function upstreamChange(
  rows: Rows,
  view: AssetView,
  ordinal: number | null,
  row: PartitionRow,
): Instant | null {
  const startPos = row.last_materialization_start_pos ?? 0;
  let since: Instant | null = null;
  for (const upstream of view.upstream) {
    const keys = ordinal === null ? [] : upstreamKeys(view, upstream, ordinal);
    const made = keys.map((key) => rows.partitions.get(upstream.asset_key, key));
    for (const above of [upstream.newest, ...made]) {
      const at = above?.last_materialization_at ?? null;
      if (at === null || (above?.last_materialization_start_pos ?? 0) <= startPos) continue;
      if (since === null || at < since) since = at;
    }
  }
  return since;
}
