import type { EventData, EventType } from "../../../../src/work/events.ts";
import { clippedText } from "../../parts/visible-text.ts";
import { countText } from "../../parts/time-text.ts";

/** Tells events of some types in a sentence each. */
export type Sentences<Types extends EventType> = {
  readonly [Type in Types]: (data: EventData<Type>) => string;
};

/** Names that are told before the rest is only counted. */
const NAMES_MAX = 3;
const NAME_LENGTH_MAX = 60;
const WORDS_LENGTH_MAX = 300;

/** A name of the ledger in the middle of a sentence. */
export function named(name: string): string {
  return clippedText(name, NAME_LENGTH_MAX);
}

/** The first names of a list, and how many more there are. */
export function someNames(names: readonly string[]): string {
  const first = names.slice(0, NAMES_MAX).map(named).join(", ");
  const more = names.length - NAMES_MAX;
  return more > 0 ? `${first} and ${countText(more)} more` : first;
}

/** Somebody's words, or those of an error. */
export function words(text: string): string {
  return clippedText(text, WORDS_LENGTH_MAX);
}

/** `1 partition`, `12 partitions`. */
/** A state of the ledger as a word: `PAUSED` is paused. */
export function stateWord(state: string): string {
  return state.toLowerCase().replaceAll("_", " ");
}

/** What went wrong. */
export function failureText(error: { class: string; message: string }): string {
  const message = words(error.message);
  return error.class === "user" ? message : `${named(error.class)}: ${message}`;
}

/** The end of a sentence: who did it and why, as far as that is known: ` by tester: not now`. */
export function byWhom(by: string | null, reason: string | null | undefined): string {
  const who = by === null ? "" : ` by ${named(by)}`;
  return (reason ?? "") === "" ? `${who}.` : `${who}: ${words(reason ?? "")}`;
}
