import { runLengths } from "../../../../src/core/run-lengths.ts";
import { cellsOf } from "../../parts/map-cells.ts";

/** A grid whose rows are drawn as columns: what is long lies along the page, as time lines do. */
export type TurnedGrid = {
  /** Columns of the map as it is drawn. */
  columns: number;
  /** The cells in the order in which they are drawn. */
  lengths: number[];
  ordinalAt: (cell: number) => number;
  cellOf: (ordinal: number) => number;
};

/** Turns a grid that has so many rows of so many columns each. */
export function turnedGrid(lengths: readonly number[], rows: number, columns: number): TurnedGrid {
  const ordinalAt = (cell: number) => (cell % rows) * columns + Math.floor(cell / rows);
  const cellOf = (ordinal: number) => (ordinal % columns) * rows + Math.floor(ordinal / columns);
  const cells = cellsOf(rows * columns, lengths);
  const turned = cells.map((_, cell) => cells[ordinalAt(cell)] ?? 0);
  return { columns: rows, lengths: runLengths(turned), ordinalAt, cellOf };
}
