/** Cells as one list of value, length, value, length …: neighbours that are alike stand as one. */
export function runLengths(cells: Uint8Array): number[] {
  const lengths: number[] = [];
  let start = 0;
  for (let at = 1; at <= cells.length; at++) {
    if (at < cells.length && cells[at] === cells[start]) continue;
    lengths.push(cells[start] ?? 0, at - start);
    start = at;
  }
  return lengths;
}
