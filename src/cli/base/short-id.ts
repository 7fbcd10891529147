import { PawlError } from "../../kernel/errors.ts";

const SHORT_LENGTH = 8;

const ULID_LENGTH = 26;

/** What a ULID is written with, so that most names are told from the end of one. */
const CROCKFORD = /^[0-9A-HJKMNP-TV-Z]+$/i;

/** As many of the newest as are looked through for a short id. */
const LOOKED_THROUGH_MAX = 1_000;

/** What is shown of an id: enough to tell it from others, and taken back by every command. */
export function shortId(id: string): string {
  if (id.startsWith("run_")) return id.slice(0, "run_".length + SHORT_LENGTH);
  // A ULID begins with its time, which is the same for all of a burst; its end is chance. An id of
  // somebody's own is shown whole.
  return id.length === ULID_LENGTH && CROCKFORD.test(id) ? id.slice(-SHORT_LENGTH) : id;
}

/** Whether a text may be an id or a part of one. */
export function isIdLike(text: string): boolean {
  return CROCKFORD.test(text);
}

/**
 * The id that a text is or is a part of, among the newest; the text itself when it is no part of
 * one. Throws INPUT_INVALID when it is a part of several.
 */
export async function fullId<Item>(
  text: string,
  newest: AsyncIterable<Item> | Iterable<Item>,
  idOf: (item: Item) => string,
  fullLength = ULID_LENGTH,
): Promise<string> {
  if (text.length >= fullLength || text.length < 4) return text;
  const matches: string[] = [];
  let looked = 0;
  for await (const item of newest) {
    const id = idOf(item);
    if (id.startsWith(text) || id.endsWith(text.toUpperCase())) matches.push(id);
    looked++;
    if (looked >= LOOKED_THROUGH_MAX) break;
  }
  if (matches.length <= 1) return matches[0] ?? text;
  throw new PawlError(
    "INPUT_INVALID",
    `${text} means ${matches.length} of them: ${matches.slice(0, 3).join(", ")}. Give more of the id.`,
    { details: { matches } },
  );
}

/** The same for what has a name as well, which comes first; the API takes both. */
export async function nameOrFullId<Item extends { name: string; state: string }>(
  text: string,
  list: () => AsyncIterable<Item>,
  idOf: (item: Item) => string,
): Promise<string> {
  if (!isIdLike(text) || text.length >= ULID_LENGTH || text.length < 4) return text;
  const known: Item[] = [];
  for await (const item of list()) {
    if (item.name === text && item.state !== "DELETED") return text;
    known.push(item);
    if (known.length >= LOOKED_THROUGH_MAX) break;
  }
  return fullId(text, known, idOf);
}
