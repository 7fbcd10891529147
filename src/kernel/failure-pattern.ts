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
