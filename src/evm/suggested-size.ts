import type { RpcFailure } from "./post-json.ts";

/** Wordings with the two ends of a range that would do, both included. */
const RANGES: readonly RegExp[] = [
  /(?:range|ranges)[^[]{0,40}\[\s*(0x[\da-f]+|\d+)\s*[,-]\s*(0x[\da-f]+|\d+)\s*\]/i,
  /(?:retry|try)[^\d]{0,40}?(0x[\da-f]+|\d+)\s*(?:-|to|\.\.)\s*(0x[\da-f]+|\d+)/i,
];

/** Wordings with the number of blocks that would do. */
const SIZES: readonly RegExp[] = [
  /up to an? ([\d,.]+k?) block range/i,
  /limited to (?:an? )?(?:0 - )?([\d,.]+k?)(?: blocks?)?(?: range)?/i,
  /at most ([\d,.]+k?) blocks/i,
  /max(?:imum)?\b[^\d\n,]{0,40}?(?:blocks|range|distance|span)(?: is| =|:)? ?([\d,.]+k?)\b/i,
  /max(?:imum)? (?:is )?(?:set to|allowed is|allowed:|is|range:|limit:?) ?([\d,.]+k?)\b/i,
  /maximum \[from, to\] blocks distance: ([\d,.]+)/i,
  /exceeds? (?:the )?limit(?: of)?:? ?([\d,.]+k?)/i,
  /exceeds the range allowed for your plan \(\d+ > ([\d,.]+k?)/i,
  /(?:the )?limit is ([\d,.]+k?)/i,
  /ranges? over ([\d,.]+k?) blocks/i,
  /([\d,.]+k?) blocks? (?:range )?(?:limit|max|maximum)/i,
  /(?:less than|within|no more than|under) ([\d,.]+k?) blocks/i,
];

/** Sizes of answers, not of ranges. */
const OF_RESULTS = /\b(?:results|logs|events|bytes|[kmg]b)\b/i;

/**
 * How many blocks the node says it would answer for, or null if it names no number; it may be the
 * very range that was refused, which the one who asks has to mind.
 */
export function suggestedSize({ message, facts }: RpcFailure): number | null {
  const data = facts.data as { from?: unknown; to?: unknown } | null | undefined;
  const inData = sizeBetween(data?.from, data?.to);
  if (inData !== null) return inData;
  for (const wording of RANGES) {
    const match = wording.exec(message);
    const size = match === null ? null : sizeBetween(match[1], match[2]);
    if (size !== null) return size;
  }
  for (const wording of SIZES) {
    const match = wording.exec(message);
    const size = match === null ? null : sizeOf(match[1]);
    if (match === null || size === null) continue;
    if (!isOfResults(message, match)) return size;
  }
  return null;
}

/** Whether the number counts what is found, by the words next to it or the sentence's subject. */
function isOfResults(message: string, match: RegExpExecArray): boolean {
  const end = match.index + match[0].length;
  if (OF_RESULTS.test(match[0]) || OF_RESULTS.test(message.slice(end, end + 10))) return true;
  const clause = message.slice(match.index, end + 10);
  return OF_RESULTS.test(message.slice(0, match.index)) && !/\b(?:block|range)/i.test(clause);
}

function sizeBetween(from: unknown, to: unknown): number | null {
  if (typeof from !== "string" || typeof to !== "string") return null;
  const size = Number(to) - Number(from) + 1;
  return Number.isSafeInteger(size) && size >= 1 ? size : null;
}

function sizeOf(text: string | undefined): number | null {
  if (text === undefined) return null;
  const isThousands = /k$/i.test(text);
  const number = Number(text.replaceAll(/[,k]|\.$/gi, ""));
  const size = isThousands ? number * 1_000 : number;
  return Number.isSafeInteger(size) && size >= 1 ? size : null;
}
