/** Parameters of an address, or of a connection string, that are as good as a password. */
const SECRET_PARAMETER =
  /((?:^|[?&;\s"'])[^=&;\s"']*(?:password|passwd|token|secret|key)[^=&;\s"']*\s*=\s*)(?:'[^']*'|[^&;\s"']*)/gi;

/** What stands where a port would and is none, to the end: the host is missing, or the `@` before it. */
const NO_PORT = /^(["']?[a-z][a-z0-9+.-]*:\/{1,2}[^[:/?#\s]+):(?!\d{0,5}(?:[/?#"'\s]|$)).+$/is;

/** The same of what has no slashes: a user and a password, perhaps behind a scheme. */
const BARE = /^(["']?(?:[a-z][a-z0-9+.-]*:)?[^\s:/@?#"'{}[\]]+):(?!\/|\d{0,5}["']?$)[^\s{}[\]]+$/i;

/**
 * An address without its password, for messages and logs. It need not be a good one: whatever stands
 * between the first colon behind the scheme and the last `@` is taken for the password, so that one
 * with `@`, `/` or `#` in it, which makes the address unreadable, is not shown either.
 */
export function hidePassword(address: string): string {
  const shown = address.replace(SECRET_PARAMETER, "$1…");
  const at = shown.lastIndexOf("@");
  if (at < 0) return shown.replace(NO_PORT, "$1:…").replace(BARE, "$1:…");
  const scheme = /^["']?[a-z][a-z0-9+.-]*:\/{1,2}/i.exec(shown)?.[0].length ?? 0;
  const user = shown.slice(scheme, at);
  const colon = user.indexOf(":");
  return colon < 0 ? shown : `${shown.slice(0, scheme)}${user.slice(0, colon)}:…${shown.slice(at)}`;
}

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
  // Of one or two letters any others are a slip away: there only case and separators may differ.
  let bestDistance = Math.floor(wanted.length / 3) + 1;
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

/** How many characters must be added, taken away, replaced or swapped with the next to make one text of the other. */
function editDistance(one: string, other: string): number {
  let before: number[] = [];
  let above = Array.from({ length: other.length + 1 }, (_, at) => at);
  for (let row = 1; row <= one.length; row++) {
    const current = [row];
    for (let column = 1; column <= other.length; column++) {
      const replaced = (above[column - 1] ?? 0) + (one[row - 1] === other[column - 1] ? 0 : 1);
      const shifted = Math.min(above[column] ?? 0, current[column - 1] ?? 0) + 1;
      const isSwapped = one[row - 1] === other[column - 2] && one[row - 2] === other[column - 1];
      const swapped = isSwapped && row > 1 ? (before[column - 2] ?? 0) + 1 : shifted;
      current.push(Math.min(replaced, shifted, swapped));
    }
    before = above;
    above = current;
  }
  return above[other.length] ?? 0;
}

/** What may have been meant, to be added to a sentence; nothing when no candidate is near. */
export function suggestion(name: string, candidates: readonly string[]): string {
  const meant = nearMiss(name, candidates);
  return meant === null ? "" : ` (perhaps ${meant} is meant)`;
}

/** What stands for the part of a message that differs from one failure to the next. */
export const VARYING = "…";

/** Longer messages are cut: what tells failures apart stands at the beginning. */
const PATTERN_LENGTH_MAX = 500;

/** Quoted values; an apostrophe inside a word opens nothing. */
const QUOTED = /(?<!\w)(["'`])(?:(?!\1).){1,200}?\1(?!\w)/g;

const UUID = /\b[\da-f]{8}-[\da-f]{4}-[\da-f]{4}-[\da-f]{4}-[\da-f]{12}\b/gi;

/** Hashes, addresses and ids: long, and with a digit in them. */
const LONG_ID = /\b(?:0x[\da-f]+|(?=[a-z]*\d)[\da-f]{8,}|(?=[a-z_]*\d)[\da-z_]{20,})\b/gi;

/** Numbers, dates and times, with what joins their parts; the 3 of s3 is part of a name. */
const NUMBER = /(?:(?<![a-z])\d+|\d{2,})(?:[.,:/_-]?T?\d+)*Z?/gi;

/**
 * A message without what differs between failures of one cause: partition keys, quoted values, ids
 * and numbers. Failures with one pattern are shown as one.
 */
export function failurePattern(message: string, partitionKeys: readonly string[]): string {
  const varying = new Set(partitionKeys.flatMap(wordsOf));
  const text = message.slice(0, PATTERN_LENGTH_MAX);
  const withoutKeys = varying.size === 0 ? text : replaceWords(text, varying);
  return withoutKeys
    .replace(QUOTED, (quoted) => `${quoted[0] ?? ""}${VARYING}${quoted[0] ?? ""}`)
    .replace(UUID, VARYING)
    .replace(LONG_ID, VARYING)
    .replace(NUMBER, VARYING)
    .replaceAll(/…(?:[\s,]*…)+/g, VARYING);
}

/** A key as it may stand in a message: whole, or the value of one of its dimensions. */
function wordsOf(key: string): string[] {
  if (!key.includes("=")) return [key];
  return [key, ...key.split(",").map((part) => part.slice(part.indexOf("=") + 1))];
}

function replaceWords(text: string, varying: ReadonlySet<string>): string {
  return text.replaceAll(/[^\s"'`()[\]{};]+/g, (word) => {
    const bare = word.replace(/[.,:!?]+$/, "");
    return varying.has(bare) ? `${VARYING}${word.slice(bare.length)}` : word;
  });
}
