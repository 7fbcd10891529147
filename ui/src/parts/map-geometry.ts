/** How large a cell can be, in pixels of the page. */
export const SIZES = [1, 2, 3, 4, 6, 8, 12, 16, 24] as const;

/** The size that the smallest map begins with: a lone cell can still be seen. */
const FIRST_SIZE_MIN = 2;

/** The size that the largest map begins with: a dozen cells need not fill the page. */
const FIRST_SIZE_MAX = 16;

/** Where the cells of a map are: one after the other in a row, or down a column, and then the next. */
export type Layout = {
  cells: number;
  columns: number;
  rows: number;
  /** Blank places before the first cell. */
  lead: number;
  size: number;
  /** Whether cells follow each other down a column, so that the map goes on along the page. */
  isDown: boolean;
  /** Whether rows and columns mean something, so that keys do not lead from one's end into the next. */
  isGrid: boolean;
};

/** What a layout is made from; without columns there are as many as the width has room for. */
export type LayoutInput = {
  cells: number;
  columns?: number | undefined;
  /** Instead of columns: how many cells follow each other down a column. */
  down?: number | undefined;
  lead?: number | undefined;
  /** Whether one row or column is followed by the next as lines of a text are: none stands apart. */
  runsOn?: boolean | undefined;
  size: number;
  width: number;
};

/** Rows and columns of a map, inclusive. */
export type MapView = { fromRow: number; toRow: number; fromColumn: number; toColumn: number };

/** Two cells and what is between them: a rectangle's corners on a grid, otherwise both ends. */
export type MapSelection = { anchor: number; end: number };

/** Lays the cells out. */
export function layoutOf(input: LayoutInput): Layout {
  const { cells, columns, down, lead = 0, runsOn = false, size, width } = input;
  const line = down ?? columns ?? Math.max(1, Math.floor(width / size));
  const lines = Math.ceil((cells + lead) / line);
  const isDown = down !== undefined;
  const isGrid = (isDown || columns !== undefined) && !runsOn;
  const sides = isDown ? { columns: lines, rows: line } : { columns: line, rows: lines };
  return { cells, ...sides, lead, size, isDown, isGrid };
}

/** How many places a row has, or a column where cells follow each other down. */
function lineOf({ isDown, rows, columns }: Layout): number {
  return isDown ? rows : columns;
}

/**
 * The largest size at which everything is seen at once, within reason. Where that is too small to be
 * read, one has to scroll: what goes on along the page is then as high as there is room for.
 */
export function firstSize(
  input: Omit<LayoutInput, "size"> & { height: number; sizeMin?: number | undefined },
): number {
  const { height, width, sizeMin = FIRST_SIZE_MIN } = input;
  const layouts = SIZES.map((size) => layoutOf({ ...input, size }));
  const isHighEnough = ({ rows, size }: Layout): boolean => rows * size <= height;
  const isAllSeen = (layout: Layout): boolean =>
    isHighEnough(layout) && layout.columns * layout.size <= Math.max(width, layout.size);
  const largest = (fits: (layout: Layout) => boolean): number =>
    Math.min(FIRST_SIZE_MAX, Math.max(0, ...layouts.filter(fits).map(({ size }) => size)));
  const whole = largest(isAllSeen);
  if (whole >= sizeMin || input.down === undefined) return Math.max(sizeMin, whole);
  return Math.max(sizeMin, largest(isHighEnough));
}

/** The next larger (1) or smaller (-1) size; the same one at the end. */
export function zoomed(size: number, step: 1 | -1): number {
  const place = SIZES.findIndex((candidate) => candidate >= size);
  const next = Math.min(SIZES.length - 1, Math.max(0, place + step));
  return SIZES[next] ?? size;
}

/** The row and the column of a cell. */
export function placeOf(layout: Layout, index: number): { row: number; column: number } {
  const place = index + layout.lead;
  const [at, line] = [place % lineOf(layout), Math.floor(place / lineOf(layout))];
  return layout.isDown ? { row: at, column: line } : { row: line, column: at };
}

/** The cell at a row and column; null where there is none. */
export function cellAt(layout: Layout, row: number, column: number): number | null {
  const [line, at] = layout.isDown ? [column, row] : [row, column];
  if (line < 0 || at < 0 || at >= lineOf(layout)) return null;
  const index = line * lineOf(layout) + at - layout.lead;
  return index >= 0 && index < layout.cells ? index : null;
}

/** The cell at a point of the map; null where there is none. */
export function cellAtPoint(layout: Layout, x: number, y: number): number | null {
  return cellAt(layout, Math.floor(y / layout.size), Math.floor(x / layout.size));
}

/** Where the part of the map is that a window of this size shows from a point on. */
export function viewOf(
  { rows, columns, size }: Layout,
  window: { x: number; y: number; width: number; height: number },
): MapView {
  const last = (end: number, count: number): number =>
    Math.max(0, Math.min(count - 1, Math.ceil(end / size) - 1));
  return {
    fromRow: Math.min(last(window.y + 1, rows), Math.floor(window.y / size)),
    toRow: last(window.y + window.height, rows),
    fromColumn: Math.min(last(window.x + 1, columns), Math.floor(window.x / size)),
    toColumn: last(window.x + window.width, columns),
  };
}

/** Arrows by what they do on a map whose cells follow each other in rows, and down columns. */
const ARROWS = {
  across: { ArrowLeft: "back", ArrowRight: "on", ArrowUp: "up", ArrowDown: "down" },
  down: { ArrowUp: "back", ArrowDown: "on", ArrowLeft: "up", ArrowRight: "down" },
} as const;

/** Where a key takes the cursor; null when the key does not move it. A page has so many lines. */
export function movedBy(
  layout: Layout,
  from: number,
  key: string,
  pageLines: number,
): number | null {
  const { cells, isGrid, isDown, lead } = layout;
  const line = lineOf(layout);
  const within = (index: number): number => Math.max(0, Math.min(cells - 1, index));
  const at = (from + lead) % line;
  const arrows: Readonly<Record<string, string>> = ARROWS[isDown ? "down" : "across"];
  switch (arrows[key] ?? key) {
    case "back":
      return isGrid && at === 0 ? from : within(from - 1);
    case "on":
      return isGrid && at === line - 1 ? from : within(from + 1);
    case "up":
      return from - line < 0 ? from : from - line;
    case "down":
      return from + line >= cells ? from : from + line;
    case "PageUp":
      return within(from - line * Math.min(pageLines, Math.floor(from / line)));
    case "PageDown":
      return within(from + line * Math.min(pageLines, Math.floor((cells - 1 - from) / line)));
    case "Home":
      return 0;
    case "End":
      return cells - 1;
    default:
      return null;
  }
}

/** The cells of a selection that is not on a grid, inclusive. */
export function selectedRange({ anchor, end }: MapSelection): { from: number; to: number } {
  return { from: Math.min(anchor, end), to: Math.max(anchor, end) };
}

/** The rows and columns of a selection among cells of which so many are in a row. */
export function selectedRectangle({ anchor, end }: MapSelection, columns: number): MapView {
  const rowOf = (index: number): number => Math.floor(index / columns);
  const columnOf = (index: number): number => index % columns;
  return {
    fromRow: Math.min(rowOf(anchor), rowOf(end)),
    toRow: Math.max(rowOf(anchor), rowOf(end)),
    fromColumn: Math.min(columnOf(anchor), columnOf(end)),
    toColumn: Math.max(columnOf(anchor), columnOf(end)),
  };
}

/** The rectangles that a selection covers: one on a grid, else up to three: head, body and tail. */
export function selectedViews(layout: Layout, selection: MapSelection): MapView[] {
  const { isGrid, isDown, lead } = layout;
  const line = lineOf(layout);
  const { from, to } = selectedRange(selection);
  const placed = (index: number) => {
    return { line: Math.floor((index + lead) / line), at: (index + lead) % line };
  };
  const [first, last] = [placed(from), placed(to)];
  const view = (fromLine: number, toLine: number, fromAt: number, toAt: number): MapView =>
    isDown
      ? { fromRow: fromAt, toRow: toAt, fromColumn: fromLine, toColumn: toLine }
      : { fromRow: fromLine, toRow: toLine, fromColumn: fromAt, toColumn: toAt };
  if (isGrid) {
    const ends = [first.at, last.at];
    return [view(first.line, last.line, Math.min(...ends), Math.max(...ends))];
  }
  if (first.line === last.line) return [view(first.line, first.line, first.at, last.at)];
  const views = [view(first.line, first.line, first.at, line - 1)];
  if (last.line - first.line > 1) views.push(view(first.line + 1, last.line - 1, 0, line - 1));
  return [...views, view(last.line, last.line, 0, last.at)];
}
