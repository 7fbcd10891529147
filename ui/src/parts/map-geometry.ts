/** How large a cell can be, in pixels of the page. */
export const SIZES = [1, 2, 3, 4, 6, 8, 12, 16, 24] as const;

/** The size that the smallest map begins with: a lone cell can still be seen. */
const FIRST_SIZE_MIN = 2;

/** The size that the largest map begins with: a dozen cells need not fill the page. */
const FIRST_SIZE_MAX = 16;

/** Where the cells of a map are: row by row, as many in a row as there are columns. */
export type Layout = {
  cells: number;
  columns: number;
  rows: number;
  /** Blank places before the first cell. */
  lead: number;
  size: number;
  /** Whether rows mean something, so that moving sideways stays in the row. */
  isGrid: boolean;
};

/** What a layout is made from; without columns there are as many as the width has room for. */
export type LayoutInput = {
  cells: number;
  columns?: number | undefined;
  lead?: number | undefined;
  /** Whether a row is followed by the next as lines of a text are, so that no rows stand apart. */
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
  const { cells, columns, lead = 0, runsOn = false, size, width } = input;
  const across = columns ?? Math.max(1, Math.floor(width / size));
  const rows = Math.ceil((cells + lead) / across);
  return { cells, columns: across, rows, lead, size, isGrid: columns !== undefined && !runsOn };
}

/** The largest size at which everything is seen at once, within reason. */
export function firstSize(input: Omit<LayoutInput, "size"> & { height: number }): number {
  const fits = SIZES.filter((size) => {
    const { rows, columns } = layoutOf({ ...input, size });
    return rows * size <= input.height && columns * size <= Math.max(input.width, size);
  });
  return Math.min(FIRST_SIZE_MAX, Math.max(FIRST_SIZE_MIN, ...fits));
}

/** The next larger (1) or smaller (-1) size; the same one at the end. */
export function zoomed(size: number, step: 1 | -1): number {
  const place = SIZES.findIndex((candidate) => candidate >= size);
  const next = Math.min(SIZES.length - 1, Math.max(0, place + step));
  return SIZES[next] ?? size;
}

/** The row and the column of a cell. */
export function placeOf({ columns, lead }: Layout, index: number): { row: number; column: number } {
  const place = index + lead;
  return { row: Math.floor(place / columns), column: place % columns };
}

/** The cell at a row and column; null where there is none. */
export function cellAt(
  { cells, columns, lead }: Layout,
  row: number,
  column: number,
): number | null {
  if (row < 0 || column < 0 || column >= columns) return null;
  const index = row * columns + column - lead;
  return index >= 0 && index < cells ? index : null;
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

/** Where a key takes the cursor; null when the key does not move it. */
export function movedBy(
  layout: Layout,
  from: number,
  key: string,
  pageRows: number,
): number | null {
  const { columns, cells, isGrid } = layout;
  const within = (index: number): number => Math.max(0, Math.min(cells - 1, index));
  const { column } = placeOf(layout, from);
  switch (key) {
    case "ArrowLeft":
      return isGrid && column === 0 ? from : within(from - 1);
    case "ArrowRight":
      return isGrid && column === columns - 1 ? from : within(from + 1);
    case "ArrowUp":
      return from - columns < 0 ? from : from - columns;
    case "ArrowDown":
      return from + columns >= cells ? from : from + columns;
    case "PageUp":
      return within(from - columns * Math.min(pageRows, Math.floor(from / columns)));
    case "PageDown":
      return within(from + columns * Math.min(pageRows, Math.floor((cells - 1 - from) / columns)));
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

/** The rows and columns of a selection on a grid. */
export function selectedRectangle(
  { anchor, end }: MapSelection,
  columns: number,
  lead = 0,
): MapView {
  const rowOf = (index: number): number => Math.floor((index + lead) / columns);
  const columnOf = (index: number): number => (index + lead) % columns;
  return {
    fromRow: Math.min(rowOf(anchor), rowOf(end)),
    toRow: Math.max(rowOf(anchor), rowOf(end)),
    fromColumn: Math.min(columnOf(anchor), columnOf(end)),
    toColumn: Math.max(columnOf(anchor), columnOf(end)),
  };
}

/** The rectangles that a selection covers: one on a grid, else up to three: head, body and tail. */
export function selectedViews(layout: Layout, selection: MapSelection): MapView[] {
  const { columns, lead, isGrid } = layout;
  if (isGrid) return [selectedRectangle(selection, columns, lead)];
  const { from, to } = selectedRange(selection);
  const first = placeOf(layout, from);
  const last = placeOf(layout, to);
  const row = (at: number, fromColumn: number, toColumn: number): MapView => {
    return { fromRow: at, toRow: at, fromColumn, toColumn };
  };
  if (first.row === last.row) return [row(first.row, first.column, last.column)];
  const views = [row(first.row, first.column, columns - 1)];
  if (last.row - first.row > 1) {
    const fromRow = first.row + 1;
    views.push({ fromRow, toRow: last.row - 1, fromColumn: 0, toColumn: columns - 1 });
  }
  return [...views, row(last.row, 0, last.column)];
}
