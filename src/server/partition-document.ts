import {
  type AssetView,
  displayStatus,
  type LookedAt,
  staleness,
} from "../controllers/partition-status.ts";
import type { PartitionDocument } from "../core/api/asset-documents.ts";
import type { Instant } from "../core/instant.ts";
import type { Rows } from "../core/rows/rows.ts";

/** A partition as the API shows it. */
export function partitionDocument(rows: Rows, lookedAt: LookedAt, now: Instant): PartitionDocument {
  const { view, key, ordinal, row } = lookedAt;
  const stale = staleness(rows, lookedAt, now);
  return {
    asset_key: view.spec.asset_key,
    partition_key: key,
    partition_values: row?.partition_values ?? valuesOf(view, ordinal),
    ordinal,
    status: displayStatus(lookedAt, stale !== null),
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
