import type { Json } from "../canonical.ts";
import type { Instant } from "../instant.ts";
import type { Table } from "./table.ts";

/** What is known of one partition of one asset. The key is empty for an asset without partitions. */
export type PartitionRow = {
  asset_key: string;
  partition_key: string;
  partition_values: Record<string, string> | null;
  last_materialization_run_id: string | null;
  last_materialization_at: Instant | null;
  last_materialization_code_version: string | null;
  /** The pos at which the materializing attempt started: what "newer" is judged by. */
  last_materialization_start_pos: number | null;
  /** The pos at which it was materialized: what was started before cannot be known to have seen it. */
  last_materialization_pos: number | null;
  metadata: Json;
  last_attempt_run_id: string;
  last_attempt_at: Instant;
  last_attempt_outcome: "SUCCEEDED" | "FAILED" | "CANCELLED" | "SKIPPED";
  last_attempt_start_pos: number;
  row_version: number;
};

/** The table of partition status. */
export const PARTITIONS: Table<PartitionRow> = {
  name: "partition_status",
  key: ["asset_key", "partition_key"],
  cells: {
    asset_key: "text",
    partition_key: "text",
    partition_values: "json",
    last_materialization_run_id: "text",
    last_materialization_at: "text",
    last_materialization_code_version: "text",
    last_materialization_start_pos: "int",
    last_materialization_pos: "int",
    metadata: "json",
    last_attempt_run_id: "text",
    last_attempt_at: "text",
    last_attempt_outcome: "text",
    last_attempt_start_pos: "int",
    row_version: "int",
  },
  fixed: ["partition_values"],
};

/** When anything of an asset was last materialized. */
export type AssetStatusRow = {
  asset_key: string;
  last_materialization_at: Instant;
  last_materialization_pos: number;
};

/** The table of what assets as a whole are known by. */
export const ASSET_STATUS: Table<AssetStatusRow> = {
  name: "asset_status",
  key: ["asset_key"],
  cells: {
    asset_key: "text",
    last_materialization_at: "text",
    last_materialization_pos: "int",
  },
};
