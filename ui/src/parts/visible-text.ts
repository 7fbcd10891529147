/**
 * Characters that are not seen themselves but change how others are: direction marks, joiners,
 * controls. Line breaks and tabs stay as they are.
 */
const UNSEEN = /(?![\t\n])[\p{Cc}\u061C\u200B-\u200F\u2028-\u202E\u2060-\u2069\uFEFF]/gu;

function codeOf(character: string): string {
  return character.charCodeAt(0).toString(16).padStart(4, "0");
}

/** Text of the ledger with what would not be seen told by its code, so that it says what it holds. */
export function visibleText(text: string): string {
  return text.replace(UNSEEN, (character) => `⟨U+${codeOf(character).toUpperCase()}⟩`);
}

/** What is shown of a value of the ledger: a text as `visibleText` has it, anything else as it is. */
export function visibleValue<Value>(value: Value): Value | string {
  return typeof value === "string" ? visibleText(value) : value;
}

/** A value as JSON, with what would not be seen as escapes. */
export function visibleJson(value: unknown): string {
  const text = JSON.stringify(value, null, 2) ?? "";
  return text.replace(UNSEEN, (character) => `\\u${codeOf(character)}`);
}

/** The beginning of a text that may be very long. */
export function clippedText(text: string, charactersMax: number): string {
  if (text.length <= charactersMax) return visibleText(text);
  return `${visibleText(text.slice(0, charactersMax))}…`;
}
