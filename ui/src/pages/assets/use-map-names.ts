import { useCallback } from "react";
import type { PartitionMap } from "../../../../src/work/asset/api.ts";
import { countText } from "../../parts/time-text.ts";
import type { MapPlan } from "./map-plan.ts";
import { useValues } from "./use-values.ts";

type MapNames = {
  nameOf: (ordinal: number) => string;
  rowLabel: ((row: number) => string) | undefined;
  columnLabel: ((column: number) => string) | undefined;
  columnLabelWidth: number | undefined;
};

/** Pixels that a letter needs, and the most that a label gets. */
const LETTER_WIDTH = 7;
const LABEL_WIDTH_MAX = 120;

/** Labels that are measured: the others are hardly ever much longer. */
const MEASURED = 50;

/** Dimensions beside the last one that rows are labelled with; more would not fit. */
const ROW_DIMENSIONS = 2;

/** What cells, rows and columns of a map are called; what has to be asked for comes a little later. */
export function useMapNames(assetKey: string, plan: MapPlan, map: PartitionMap): MapNames {
  const { from, dimensions } = map;
  const last = dimensions.at(-1);
  const [outer, inner] = dimensions.slice(0, -1);
  const keyAt = useValues(assetKey, undefined);
  const columnValue = useValues(assetKey, last?.name);
  const outerValue = useValues(assetKey, outer?.name);
  const innerValue = useValues(assetKey, inner?.name);
  const nameOf = useCallback(
    (ordinal: number) => keyAt(ordinal) ?? `partition ${countText(ordinal)}`,
    [keyAt],
  );
  const columns = plan.kind === "grid" ? plan.columns : 1;
  const gridRow = useCallback(
    (row: number): string => {
      const ordinal = from + row * columns;
      return [outer, inner]
        .slice(0, ROW_DIMENSIONS)
        .flatMap((dimension, at) => {
          if (dimension === undefined) return [];
          const place = Math.floor(ordinal / dimension.stride) % dimension.count;
          return (at === 0 ? outerValue : innerValue)(place) ?? "…";
        })
        .join(" ");
    },
    [from, columns, outer, inner, outerValue, innerValue],
  );
  const gridColumn = useCallback((column: number) => columnValue(column) ?? "…", [columnValue]);
  switch (plan.kind) {
    case "flow":
      return { nameOf, ...NO_LABELS };
    case "grid": {
      const [rowLabel, columnLabel, count] = plan.isTurned
        ? [gridColumn, gridRow, plan.rows]
        : [gridRow, gridColumn, plan.columns];
      return { nameOf, rowLabel, columnLabel, columnLabelWidth: labelWidth(columnLabel, count) };
    }
    default:
      return {
        nameOf,
        rowLabel: plan.rowLabel,
        columnLabel: plan.columnLabel,
        columnLabelWidth: undefined,
      };
  }
}

const NO_LABELS = { rowLabel: undefined, columnLabel: undefined, columnLabelWidth: undefined };

function labelWidth(labelOf: (column: number) => string, columns: number): number {
  const count = Math.min(columns, MEASURED);
  const lengths = Array.from({ length: count }, (_, column) => labelOf(column).length);
  return Math.min(LABEL_WIDTH_MAX, (Math.max(0, ...lengths) + 1) * LETTER_WIDTH);
}
