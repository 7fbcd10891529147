/** Longest name that is looked up: nobody mistypes a longer one, and the cost grows with its square. */
const NAME_LENGTH_MAX = 64;

/** Most pairs of characters that one look-up compares: some milliseconds. */
const COMPARISONS_MAX = 500_000;

/**
 * The candidate that was probably meant, when one differs by a typing mistake only. Long names and
 * all but the first of very many candidates are not looked at.
 */
export function nearMiss(name: string, candidates: readonly string[]): string | null {
  if (name.length > NAME_LENGTH_MAX) return null;
  const wanted = simplified(name);
  let best: string | null = null;
  let bestDistance = Math.max(1, Math.floor(name.length / 3)) + 1;
  let comparisons = 0;
  for (const candidate of candidates) {
    if (candidate.length > 2 * NAME_LENGTH_MAX) continue;
    const offered = simplified(candidate);
    // So many characters at least would have to be added or taken away.
    if (Math.abs(offered.length - wanted.length) >= bestDistance) continue;
    comparisons += (offered.length + 1) * (wanted.length + 1);
    if (comparisons > COMPARISONS_MAX) break;
    const distance = editDistance(wanted, offered);
    if (distance >= bestDistance) continue;
    best = candidate;
    bestDistance = distance;
  }
  return best;
}

/** Case and separators are the commonest slips, so `max_attempts` is as good as `maxAttempts`. */
function simplified(name: string): string {
  return name.toLowerCase().replace(/[_-]/g, "");
}

/** How many characters must be added, taken away or replaced to make one text of the other. */
function editDistance(one: string, other: string): number {
  let above = Array.from({ length: other.length + 1 }, (_, at) => at);
  for (let row = 1; row <= one.length; row++) {
    const current = [row];
    for (let column = 1; column <= other.length; column++) {
      const replaced = (above[column - 1] ?? 0) + (one[row - 1] === other[column - 1] ? 0 : 1);
      const shifted = Math.min(above[column] ?? 0, current[column - 1] ?? 0) + 1;
      current.push(Math.min(replaced, shifted));
    }
    above = current;
  }
  return above[other.length] ?? 0;
}

/** What may have been meant, to be added to a sentence; nothing when no candidate is near. */
export function suggestion(name: string, candidates: readonly string[]): string {
  const meant = nearMiss(name, candidates);
  return meant === null ? "" : ` (perhaps ${meant} is meant)`;
}
