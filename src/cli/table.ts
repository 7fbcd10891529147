import { stripVTControlCharacters } from "node:util";

/** A column of a table: its heading, and on which side its texts are aligned. */
export type Column = { heading: string; align?: "left" | "right" };

const GAP = "  ";

/** Lays out rows under headings, each column as wide as its widest text; colours have no width. */
export function layoutTable(
  columns: readonly Column[],
  rows: readonly (readonly string[])[],
): string {
  const lines = [columns.map(({ heading }) => heading), ...rows.map((row) => row.map(oneLine))];
  const widths = columns.map((_, at) => Math.max(...lines.map((line) => widthOf(line[at] ?? ""))));
  return lines
    .map((line) => {
      const cells = columns.map(({ align }, at) => padded(line[at] ?? "", widths[at] ?? 0, align));
      return cells.join(GAP).trimEnd();
    })
    .join("\n");
}

/** Lays out names and values under each other. */
export function layoutFields(fields: readonly (readonly [name: string, value: string])[]): string {
  const width = Math.max(0, ...fields.map(([name]) => name.length));
  return fields.map(([name, value]) => `${name.padEnd(width)}${GAP}${value}`.trimEnd()).join("\n");
}

function padded(text: string, width: number, align: Column["align"]): string {
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
