import type { MapDimension } from "../../../../src/core/api/asset-documents.ts";
import type { PartitionDefinition } from "../../../../src/core/partitions/partition-definition.ts";

/** Most partitions that one map shows. */
export const MAP_CELLS_MAX = 1_000_000;

const DAY_MS = 86_400_000;
const HOUR_MS = 3_600_000;

/**
 * How many weeks stand in a row of a calendar of so many weeks at most: weekdays stay under each
 * other, and years are seen at once.
 */
const WEEKS_IN_ROW = [
  { weeksMax: 27, inRow: 1 },
  { weeksMax: 104, inRow: 4 },
  { weeksMax: Infinity, inRow: 13 },
] as const;

/** Weeks of a calendar that leaves room beside it. */
const NARROW_WEEKS_MAX = 104;

/** Columns of any other map that does. */
const NARROW_COLUMNS_MAX = 24;

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
  /** Rows and columns stand for values that have to be asked for; turned, rows are drawn as columns. */
  | { kind: "grid"; columns: number; rows: number; isTurned: boolean };

/** Plans the map of an asset's partitions. */
export function planMap(
  definition: PartitionDefinition,
  dimensions: readonly MapDimension[],
): MapPlan {
  const last = dimensions.at(-1);
  if (dimensions.length > 1 && last !== undefined) {
    const columns = Math.max(1, last.count);
    const rows = dimensions.slice(0, -1).reduce((product, { count }) => product * count, 1);
    return { kind: "grid", columns, rows, isTurned: isTurned(rows, columns) };
  }
  if (definition.type === "daily") return calendar(definition.start, last?.count ?? 0);
  if (definition.type === "hourly" && definition.time_zone === "UTC")
    return hours(definition.start);
  return { kind: "flow" };
}

/** Few values against many are drawn as few rows, so that the many lie along the page. */
function isTurned(rows: number, columns: number): boolean {
  return columns <= NARROW_COLUMNS_MAX && rows >= 2 * columns && rows * columns <= MAP_CELLS_MAX;
}

/** Whether the map of so many partitions leaves room beside it on a wide page. */
export function isNarrowMap(definition: PartitionDefinition, count: number): boolean {
  if (definition.type === "daily") return count <= NARROW_WEEKS_MAX * 7;
  if (definition.type === "hourly") return definition.time_zone === "UTC";
  if (definition.type !== "multi") return false;
  const last = Object.keys(definition.dimensions).toSorted().at(-1) ?? "";
  const single = definition.dimensions[last];
  if (single?.type !== "static") return false;
  const columns = single.keys.length;
  return columns <= NARROW_COLUMNS_MAX && !isTurned(count / columns, columns);
}

function calendar(start: string, count: number): MapPlan {
  const first = Date.parse(`${start.slice(0, 10)}T00:00:00Z`);
  // Weeks begin on Monday; 1970-01-01 was a Thursday.
  const lead = (((first / DAY_MS + 3) % 7) + 7) % 7;
  const weeks = Math.ceil((count + lead) / 7);
  const columns = 7 * (WEEKS_IN_ROW.find(({ weeksMax }) => weeks <= weeksMax)?.inRow ?? 1);
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
