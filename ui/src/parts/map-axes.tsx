import type { ReactNode } from "react";
import type { Layout, MapView } from "./map-geometry.ts";

/** Pixels between two labels, so that they can be read. */
const ROW_LABEL_HEIGHT = 12;
const COLUMN_LABEL_WIDTH = 72;

/** Pixels that a letter needs, and letters that a label of a row gets, on a phone and elsewhere. */
const LETTER_WIDTH = 7;
const ROW_LETTERS = { narrow: 14, wide: 24 } as const;
const NARROW_WIDTH = 700;

/** How much of a cell a label may lack. */
const SPARE = 0.1;

/** Labels of rows that are measured: the others are hardly ever much longer. */
const MEASURED = 50;

/** The labels along one side of a map: as many as can be read, in step with what is seen. */
export function MapAxis(props: {
  along: "rows" | "columns";
  layout: Layout;
  view: MapView;
  /** How far the map is scrolled along this axis. */
  scrolled: number;
  labelOf: (place: number) => string;
  /** Pixels between two labels. */
  apart?: number | undefined;
}): ReactNode {
  const { along, layout, view, scrolled, labelOf } = props;
  const isRows = along === "rows";
  const { apart = isRows ? ROW_LABEL_HEIGHT : COLUMN_LABEL_WIDTH } = props;
  // Sizes are cut to device pixels: a little less than a label needs is still enough for one.
  const step = Math.max(1, Math.ceil(apart / layout.size - SPARE));
  const first = Math.ceil((isRows ? view.fromRow : view.fromColumn) / step) * step;
  const last = isRows ? view.toRow : view.toColumn;
  const places: number[] = [];
  for (let place = first; place <= last; place += step) places.push(place);
  const letters = isRows ? rowLetters(layout.rows, labelOf) : Math.floor(apart / LETTER_WIDTH);
  return (
    <div
      className={`map-axis map-axis-${along}`}
      style={isRows ? { width: letters * LETTER_WIDTH } : {}}
      aria-hidden="true"
    >
      {places.map((place) => {
        const offset = place * layout.size - scrolled;
        const label = labelOf(place);
        return (
          <span key={place} title={label} style={isRows ? { top: offset } : { left: offset }}>
            {cutInMiddle(label, letters)}
          </span>
        );
      })}
    </div>
  );
}

/** As many letters as the longest label has, within what a page has room for. */
function rowLetters(rows: number, labelOf: (place: number) => string): number {
  const most = window.innerWidth < NARROW_WIDTH ? ROW_LETTERS.narrow : ROW_LETTERS.wide;
  const measured = Array.from({ length: Math.min(rows, MEASURED) }, (_, row) => labelOf(row));
  return Math.min(most, 1 + Math.max(1, ...measured.map(({ length }) => length)));
}

/** A text that is too long without its middle: names that begin or end alike are still told apart. */
export function cutInMiddle(text: string, letters: number): string {
  if (text.length <= letters) return text;
  const end = Math.floor((letters - 1) / 2);
  return `${text.slice(0, letters - 1 - end)}…${text.slice(text.length - end)}`;
}
