/** Spells out a run-length list: the place of each cell's state among the states. */
export function cellsOf(count: number, lengths: readonly number[]): Uint8Array {
  const cells = new Uint8Array(count);
  let at = 0;
  for (let index = 0; index + 1 < lengths.length && at < count; index += 2) {
    const end = at + (lengths[index + 1] ?? 0);
    cells.fill(lengths[index] ?? 0, at, end);
    at = end;
  }
  return cells;
}

/** How many cells are in each state, from the run-length list alone. */
export function countsOf(stateCount: number, lengths: readonly number[]): number[] {
  const counts = Array.from({ length: stateCount }, () => 0);
  for (let index = 0; index + 1 < lengths.length; index += 2) {
    const state = lengths[index] ?? 0;
    counts[state] = (counts[state] ?? 0) + (lengths[index + 1] ?? 0);
  }
  return counts;
}

/** The next cell in a state after (step 1) or before (step -1) one, going round at the end. */
export function nextCell(
  cells: Uint8Array,
  state: number,
  from: number,
  step: 1 | -1,
): number | null {
  for (let seen = 1; seen <= cells.length; seen++) {
    const index = (((from + step * seen) % cells.length) + cells.length) % cells.length;
    if (cells[index] === state) return index;
  }
  return null;
}
