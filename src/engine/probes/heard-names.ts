import { type Instant, msBetween } from "../../kernel/instant.ts";

/** A worker that was not heard of for this long is taken to be gone. */
const HEARD_KEPT_MS = 60_000;
/** Most characters of names that are remembered for one token: tens of thousands of assets. */
export const HELD_LENGTH_MAX = 4_000_000;
/** The same for all tokens together. */
export const ALL_LENGTH_MAX = 32_000_000;
/** What a name costs besides its characters. */
const ENTRY_LENGTH = 50;

/** The names of one token, the one heard of last at the end. */
type Heard = { names: Map<string, Instant>; length: number };

/**
 * What workers say they can do, and when they said it last. Names are whatever a worker sends, so they
 * are forgotten after a minute, and before that when there are too many: the oldest of the same token
 * first. Forgetting costs a hint that nobody can run something, never work.
 */
export class HeardNames {
  readonly #byHolder = new Map<string, Heard>();
  #length = 0;

  /** Hears these names from whoever has this token. */
  hear(holder: string, names: Iterable<string>, now: Instant): void {
    const heard = this.#byHolder.get(holder) ?? { names: new Map<string, Instant>(), length: 0 };
    this.#byHolder.delete(holder);
    this.#byHolder.set(holder, heard);
    for (const name of names) {
      if (heard.names.delete(name)) this.#count(heard, name, -1);
      heard.names.set(name, now);
      this.#count(heard, name, 1);
      if (heard.length > HELD_LENGTH_MAX) this.#forgetOldest(heard);
    }
    for (const other of this.#byHolder.values()) this.#forgetSilent(other, now);
    // Others share the rest: the one that has been silent for longest gives way.
    while (this.#length > ALL_LENGTH_MAX) this.#drop();
    for (const [key, { names: left }] of this.#byHolder) {
      if (left.size === 0) this.#byHolder.delete(key);
    }
  }

  /** The names heard within the last minute, and when last. */
  all(): Map<string, Instant> {
    const all = new Map<string, Instant>();
    for (const { names } of this.#byHolder.values()) {
      for (const [name, at] of names) if (at >= (all.get(name) ?? at)) all.set(name, at);
    }
    return all;
  }

  #count(heard: Heard, name: string, by: 1 | -1): void {
    const length = by * (name.length + ENTRY_LENGTH);
    heard.length += length;
    this.#length += length;
  }

  #forgetOldest(heard: Heard): void {
    const [oldest] = heard.names.keys();
    if (oldest === undefined) return;
    heard.names.delete(oldest);
    this.#count(heard, oldest, -1);
  }

  #forgetSilent(heard: Heard, now: Instant): void {
    for (const [name, at] of heard.names) {
      if (msBetween(at, now) <= HEARD_KEPT_MS) return;
      heard.names.delete(name);
      this.#count(heard, name, -1);
    }
  }

  #drop(): void {
    const [first] = this.#byHolder;
    if (first === undefined) return;
    const [holder, { length }] = first;
    this.#byHolder.delete(holder);
    this.#length -= length;
  }
}
