import type { MapDimension } from "../../../../src/core/api/asset-documents.ts";
import type { PartitionDefinition } from "../../../../src/core/partitions/partition-definition.ts";

const DAY_MS = 86_400_000;
const HOUR_MS = 3_600_000;

/** Weeks that a calendar has under each other before several stand in a row. */
const WEEKS_MAX = 27;

/** Weeks in a row of a long calendar: weekdays stay under each other. */
const WEEKS_IN_ROW = 4;

const WEEKDAYS = ["Mo", "Tu", "We", "Th", "Fr", "Sa", "Su"];

/**
 * How partitions are laid out: days as a calendar, hours by day, two dimensions or more as a grid of
 * the last one against the others, all else one after the other.
 */
export type MapPlan =
  | { kind: "flow" }
  /** Rows run on into each other. Labels are known without asking. */
  | {
      kind: "calendar" | "hours";
      columns: number;
      lead: number;
      rowLabel: (row: number) => string;
      columnLabel: (column: number) => string;
    }
  /** Rows and columns stand for values that have to be asked for. */
  | { kind: "grid"; columns: number };

/** Plans the map of an asset's partitions. */
export function planMap(
  definition: PartitionDefinition,
  dimensions: readonly MapDimension[],
): MapPlan {
  const last = dimensions.at(-1);
  if (dimensions.length > 1 && last !== undefined) {
    return { kind: "grid", columns: Math.max(1, last.count) };
  }
  if (definition.type === "daily") return calendar(definition.start, last?.count ?? 0);
  if (definition.type === "hourly" && definition.time_zone === "UTC")
    return hours(definition.start);
  return { kind: "flow" };
}

function calendar(start: string, count: number): MapPlan {
  const first = Date.parse(`${start.slice(0, 10)}T00:00:00Z`);
  // Weeks begin on Monday; 1970-01-01 was a Thursday.
  const lead = (((first / DAY_MS + 3) % 7) + 7) % 7;
  const columns = count + lead > WEEKS_MAX * 7 ? WEEKS_IN_ROW * 7 : 7;
  return {
    kind: "calendar",
    columns,
    lead,
    rowLabel: (row) => dayText(first + (row * columns - lead) * DAY_MS),
    columnLabel: (column) => WEEKDAYS[column % 7] ?? "",
  };
}

function hours(start: string): MapPlan {
  const first = Date.parse(start.length > 10 ? withZone(start) : `${start}T00:00:00Z`);
  const lead = Math.floor((((first % DAY_MS) + DAY_MS) % DAY_MS) / HOUR_MS);
  return {
    kind: "hours",
    columns: 24,
    lead,
    rowLabel: (row) => dayText(first - lead * HOUR_MS + row * DAY_MS),
    columnLabel: (column) => String(column).padStart(2, "0"),
  };
}

function withZone(start: string): string {
  return /(?:Z|[+-]\d\d:\d\d)$/.test(start) ? start : `${start}Z`;
}

function dayText(ms: number): string {
  return new Date(ms).toISOString().slice(0, 10);
}
