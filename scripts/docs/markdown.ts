/** A text as it can stand in a table or a paragraph: no mark of it means anything but itself. */
export function cell(text: string): string {
  return text
    .replaceAll(/\s*\n\s*/g, " ")
    .split(/(`[^`]*`)/)
    .map((part) => (part.startsWith("`") ? part : part.replaceAll(/[<>{}[\]*_\\]/g, "\\$&")))
    .join("")
    .replaceAll("|", "\\|");
}

/** A table of these rows, whose cells are markdown already; a column with nothing in it is left out. */
export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const shown = head.map((_, column) => rows.some((cells) => cells[column] !== ""));
  const line = (cells: readonly string[]): string =>
    `| ${cells.filter((_, column) => shown[column]).join(" | ")} |`;
  return [line(head), line(head.map(() => "---")), ...rows.map(line)].join("\n");
}
