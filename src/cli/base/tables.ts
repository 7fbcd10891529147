import { stripVTControlCharacters } from "node:util";

/** A column of a table: its heading, what stands in it, and on which side that is aligned. */
export type Column<Item> = readonly [
  heading: string,
  cell: (item: Item) => string,
  align?: "right",
];

/** A page of a list, as the API answers it. */
export type Page<Item> = { readonly items: readonly Item[]; readonly next_cursor: string | null };

const GAP = "  ";

/** Lays out items under headings, each column as wide as its widest text; colours have no width. */
export function layoutTable<Item>(
  items: readonly Item[],
  columns: readonly Column<Item>[],
): string {
  const rows = items.map((item) => columns.map(([, cell]) => oneLine(cell(item))));
  const lines = [columns.map(([heading]) => heading), ...rows];
  const widths = columns.map((_, at) => Math.max(...lines.map((line) => widthOf(line[at] ?? ""))));
  return lines
    .map((line) => {
      const cells = columns.map(([, , align], at) =>
        padded(line[at] ?? "", widths[at] ?? 0, align),
      );
      return cells.join(GAP).trimEnd();
    })
    .join("\n");
}

/** A page as a table, or what to say when it is empty, and how to see more. */
export function layoutPage<Item>(
  page: Page<Item>,
  none: string,
  columns: readonly Column<Item>[],
): string {
  const { items, next_cursor } = page;
  return (items.length === 0 ? none : layoutTable(items, columns)) + morePagesText(next_cursor);
}

/** The line that says how to see more of a list, if there is more. */
export function morePagesText(cursor: string | null): string {
  return cursor === null ? "" : `\n\nThere is more: --cursor ${cursor}`;
}

/** A name and its value; null where there is nothing to say. */
export type Field = readonly [name: string, value: string | null];

/** Lays out names and values under each other, without those that are null. */
export function layoutFields(fields: readonly Field[]): string {
  const shown = fields.flatMap(([name, value]) => (value === null ? [] : [{ name, value }]));
  const width = Math.max(0, ...shown.map(({ name }) => name.length));
  return shown.map(({ name, value }) => `${name.padEnd(width)}${GAP}${value}`.trimEnd()).join("\n");
}

function padded(text: string, width: number, align: "right" | undefined): string {
  const room = " ".repeat(Math.max(0, width - widthOf(text)));
  return align === "right" ? room + text : text + room;
}

function widthOf(text: string): number {
  return Array.from(stripVTControlCharacters(text)).length;
}

/** A line break in a cell would tear the table apart. */
function oneLine(text: string): string {
  return text.replace(/\s*\n\s*/g, " ");
}

/** A count for people: `1,234,567`. */
export function countText(count: number): string {
  return count.toLocaleString("en-US");
}

/** So many of something: `1 row`, `1,234 rows`. */
export function counted(count: number, noun: string): string {
  return `${countText(count)} ${noun}${count === 1 ? "" : "s"}`;
}

/** So much a second for people, with digits after the point only where they matter. */
export function rateText(rate: number | null): string {
  if (rate === null) return "-";
  return `${rate < 100 ? rate.toFixed(1) : countText(Math.round(rate))}/s`;
}

/** The counts that are not zero: `3 pending, 1 failed`. */
export function countsText(counts: readonly (readonly [count: number, name: string])[]): string {
  const shown = counts.filter(([count]) => count > 0);
  return shown.map(([count, name]) => `${count} ${name}`).join(", ");
}

/** The first keys of a list, and how many there are where that are more: `a, b, … (7)`. */
export function someKeys(keys: readonly string[], max: number, count = keys.length): string {
  const shown = keys.slice(0, max).join(", ");
  return count > max ? `${shown}, … (${count})` : shown;
}

/** Labels for people: `team=a, tier=b`; null when there are none. */
export function labelsText(labels: Readonly<Record<string, string>>): string | null {
  const pairs = Object.entries(labels).map(([key, value]) => `${key}=${value}`);
  return pairs.join(", ") || null;
}

/** An error for people; null when there is none. */
export function errorText(error: { class: string; message: string } | null): string | null {
  return error === null ? null : `${error.class}: ${error.message}`;
}
