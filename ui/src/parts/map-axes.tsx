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
  /** How far the map is scrolled along this axis, and how much of it is seen, in pixels. */
  scrolled: number;
  extent: number;
  labelOf: (place: number) => string;
  /** Pixels between two labels. */
  apart?: number | undefined;
}): ReactNode {
  const { along, layout, view, scrolled, extent, labelOf } = props;
  const isRows = along === "rows";
  const { apart = isRows ? ROW_LABEL_HEIGHT : COLUMN_LABEL_WIDTH } = props;
  const [from, to] = isRows ? [view.fromRow, view.toRow] : [view.fromColumn, view.toColumn];
  const letters = isRows ? rowLetters(layout.rows, labelOf) : Math.floor(apart / LETTER_WIDTH);
  const lengthOf = (place: number): number =>
    isRows ? ROW_LABEL_HEIGHT : cutInMiddle(labelOf(place), letters).length * LETTER_WIDTH;
  const axis = { size: layout.size, from, to, scrolled, extent, apart };
  const placed = placedLabels(axis, lengthOf).map((each) => ({
    ...each,
    label: labelOf(each.place),
  }));
  // Of some the names are not known yet.
  const alike = beginAlike(placed.map(({ label }) => label).filter((label) => label !== ""));
  return (
    <div
      className={`map-axis map-axis-${along}`}
      style={isRows ? { width: letters * LETTER_WIDTH } : {}}
      aria-hidden="true"
    >
      {placed.map(({ place, offset, label }) => (
        <span key={place} title={label} style={isRows ? { top: offset } : { left: offset }}>
          {cutInMiddle(label, letters, alike)}
        </span>
      ))}
    </div>
  );
}

/** The part of an axis that is seen, in pixels but for the places at its ends. */
export type Axis = {
  /** Pixels of a cell. */
  size: number;
  /** The first and the last place that is seen, be it in part. */
  from: number;
  to: number;
  scrolled: number;
  extent: number;
  /** Pixels between two labels. */
  apart: number;
};

/**
 * Which places have a label, and where it begins. A label that would be cut at an end is moved to
 * where all of it is seen, and left out where another one stands.
 */
export function placedLabels(
  axis: Axis,
  lengthOf: (place: number) => number,
): { place: number; offset: number }[] {
  const { size, from, to, scrolled, extent, apart } = axis;
  // Sizes are cut to device pixels: a little less than a label needs is still enough for one.
  const step = Math.max(1, Math.ceil(apart / size - SPARE));
  const kept: { place: number; offset: number; end: number }[] = [];
  const moved: typeof kept = [];
  for (let place = Math.ceil(from / step) * step; place <= to; place += step) {
    const length = lengthOf(place);
    const own = place * size - scrolled;
    const offset = Math.max(0, Math.min(own, extent - length));
    (offset === own ? kept : moved).push({ place, offset, end: offset + length });
  }
  const room = SPARE * size;
  for (const label of moved) {
    const isFree = kept.every(
      ({ offset, end }) => label.offset >= end - room || label.end <= offset + room,
    );
    if (isFree) kept.push(label);
  }
  return kept.toSorted((one, other) => one.place - other.place);
}

/** As many letters as the longest label has, within what a page has room for. */
function rowLetters(rows: number, labelOf: (place: number) => string): number {
  const most = window.innerWidth < NARROW_WIDTH ? ROW_LETTERS.narrow : ROW_LETTERS.wide;
  const measured = Array.from({ length: Math.min(rows, MEASURED) }, (_, row) => labelOf(row));
  return Math.min(most, 1 + Math.max(1, ...measured.map(({ length }) => length)));
}

/** Letters with which all of these begin. */
export function beginAlike(labels: readonly string[]): number {
  const [first = "", ...others] = labels;
  let alike = first.length;
  for (const other of others) {
    while (!other.startsWith(first.slice(0, alike))) alike -= 1;
  }
  return alike;
}

/**
 * A text that is too long without its middle: names that begin or end alike are still told apart.
 * Where what differs from its neighbours, which begin `alike`, is in the middle, that is kept.
 */
export function cutInMiddle(text: string, letters: number, alike = 0): string {
  if (text.length <= letters) return text;
  const end = Math.floor((letters - 1) / 2);
  const begin = letters - 1 - end;
  if (alike < begin || alike >= text.length - end) {
    return `${text.slice(0, begin)}…${text.slice(text.length - end)}`;
  }
  const rest = text.slice(alike);
  return rest.length < letters
    ? `${text.slice(0, letters - 1 - rest.length)}…${rest}`
    : `…${rest.slice(0, letters - 2)}…`;
}
