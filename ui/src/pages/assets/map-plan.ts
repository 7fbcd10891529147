import type { MapDimension } from "../../../../src/work/asset/api.ts";
import type { PartitionDefinition } from "../../../../src/kernel/keyspace/definition.ts";

/** Most partitions that one map shows. */
export const MAP_CELLS_MAX = 1_000_000;

const DAY_MS = 86_400_000;
const HOUR_MS = 3_600_000;

/** Columns of a map that leaves room beside it. */
const NARROW_COLUMNS_MAX = 24;

/** Kinds of partitions whose order says nothing about when. */
const TIMELESS: ReadonlySet<string> = new Set(["static", "dynamic", "integers"]);

const WEEKDAYS = ["Mo", "Tu", "We", "Th", "Fr", "Sa", "Su"];

/**
 * How partitions are laid out: days as a calendar, hours by day, two dimensions or more as a grid of
 * the last one against the others, all else one after the other. Time goes along the page.
 */
export type MapPlan =
  | { kind: "flow" }
  /** Columns run on into each other. Labels are known without asking. */
  | {
      kind: "calendar" | "hours";
      down: number;
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
    return { kind: "grid", columns, rows, isTurned: isTurned(definition, rows, columns) };
  }
  if (definition.type === "daily") return calendar(definition.start);
  if (definition.type === "hourly" && definition.time_zone === "UTC")
    return hours(definition.start);
  return { kind: "flow" };
}

/** What time there is lies along the page; without any, few values against many are few rows. */
function isTurned(definition: PartitionDefinition, rows: number, columns: number): boolean {
  if (rows * columns > MAP_CELLS_MAX) return false;
  const [first, last] = [0, -1].map((at) => isTimeAt(definition, at));
  if (first !== last) return first === true;
  return columns <= NARROW_COLUMNS_MAX && rows >= 2 * columns;
}

/** Whether the dimension at a place, in the order of their names, is one of time. */
function isTimeAt(definition: PartitionDefinition, at: number): boolean {
  if (definition.type !== "multi") return !TIMELESS.has(definition.type);
  const name = Object.keys(definition.dimensions).toSorted().at(at) ?? "";
  const single = definition.dimensions[name];
  return single !== undefined && !TIMELESS.has(single.type);
}

/** Which end of the map the newest partitions are at; null where they are not of time. */
export function newestEnd(
  definition: PartitionDefinition,
  plan: MapPlan,
): "right" | "bottom" | null {
  if (!isTimeAt(definition, 0) && !isTimeAt(definition, -1)) return null;
  if (plan.kind === "flow") return "bottom";
  if (plan.kind !== "grid") return "right";
  return plan.isTurned || isTimeAt(definition, -1) ? "right" : "bottom";
}

/** Whether the map of so many partitions leaves room beside it on a wide page. */
export function isNarrowMap(definition: PartitionDefinition, count: number): boolean {
  if (definition.type === "daily") return count <= NARROW_COLUMNS_MAX * 7;
  if (definition.type === "hourly") return count <= NARROW_COLUMNS_MAX * 24;
  if (definition.type !== "multi") return false;
  const last = Object.keys(definition.dimensions).toSorted().at(-1) ?? "";
  const single = definition.dimensions[last];
  if (single?.type !== "static") return false;
  const columns = single.keys.length;
  const rows = count / columns;
  return (isTurned(definition, rows, columns) ? rows : columns) <= NARROW_COLUMNS_MAX;
}

function calendar(start: string): MapPlan {
  const first = Date.parse(`${start.slice(0, 10)}T00:00:00Z`);
  // Weeks begin on Monday; 1970-01-01 was a Thursday.
  const lead = (((first / DAY_MS + 3) % 7) + 7) % 7;
  return {
    kind: "calendar",
    down: 7,
    lead,
    rowLabel: (row) => WEEKDAYS[row] ?? "",
    columnLabel: (column) => dayText(first + (column * 7 - lead) * DAY_MS),
  };
}

function hours(start: string): MapPlan {
  const first = Date.parse(start.length > 10 ? withZone(start) : `${start}T00:00:00Z`);
  const lead = Math.floor((((first % DAY_MS) + DAY_MS) % DAY_MS) / HOUR_MS);
  return {
    kind: "hours",
    down: 24,
    lead,
    rowLabel: (row) => String(row).padStart(2, "0"),
    columnLabel: (column) => dayText(first - lead * HOUR_MS + column * DAY_MS),
  };
}

function withZone(start: string): string {
  return /(?:Z|[+-]\d\d:\d\d)$/.test(start) ? start : `${start}Z`;
}

function dayText(ms: number): string {
  return new Date(ms).toISOString().slice(0, 10);
}
