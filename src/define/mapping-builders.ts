import { PartitionMapping } from "../core/partitions/partition-mapping.ts";
import { parseDefinition, refuseUnknownOptions } from "./parse-definition.ts";

/** Each partition is made from the upstream partition with the same key. */
export function identity(): PartitionMapping {
  return built("identity()", { type: "identity" });
}

/**
 * Each partition is made from the upstream partitions that overlap with it in time. The offsets
 * move the first and the last of them: `startOffset: -6` on days gives the last seven days.
 */
export function timeWindow(
  options: { startOffset?: number; endOffset?: number } = {},
): PartitionMapping {
  refuseUnknownOptions("timeWindow()", options, ["startOffset", "endOffset"]);
  return built("timeWindow()", {
    type: "time_window",
    start_offset: options.startOffset ?? 0,
    end_offset: options.endOffset ?? 0,
  });
}

/** Each partition is made from the upstream partition that many places on; −1 is the one before. */
export function offset(by: number): PartitionMapping {
  return built("offset()", { type: "offset", by });
}

/** Each partition is made from every upstream partition. */
export function allPartitions(): PartitionMapping {
  return built("allPartitions()", { type: "all" });
}

/** Each partition is made from the upstream partitions with the same value in one dimension. */
export function dimension(name: string): PartitionMapping {
  return built("dimension()", { type: "dimension", dimension: name });
}

/** Each partition is made from the upstream partitions listed under its key. */
export function table(map: Readonly<Record<string, readonly string[]>>): PartitionMapping {
  return built("table()", { type: "table", map: { ...map } });
}

function built(subject: string, mapping: Record<string, unknown>): PartitionMapping {
  return Object.freeze(parseDefinition(subject, PartitionMapping, mapping));
}
