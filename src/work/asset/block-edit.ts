import { canonicalJson, type Json } from "../../kernel/canonical.ts";
import type { Instant } from "../../kernel/instant.ts";
import { compareText } from "../../kernel/table.ts";
import type {
  AttemptOutcome,
  BlockAttempt,
  BlockMetadata,
  PartitionBlockRow,
} from "../run/rows.ts";
import type { CheckVerdict } from "./checks.ts";
import { type Digits, digitsOf, placeOf, prefixOf } from "./partition-blocks.ts";
import type { Said } from "./partition-metadata.ts";

/** An attempt at a partition that has ended. */
export type EndedAttempt = {
  readonly run_id: string;
  readonly at: Instant;
  readonly start_pos: number;
  readonly pos: number;
  readonly outcome: AttemptOutcome;
  readonly code_version: string | null;
  readonly checks?: CheckVerdict | undefined;
};

/** What a materialization said that goes into a row of its own, with its number among those of its partition. */
export type KeptMetadata = {
  readonly number: number;
  readonly made: BlockAttempt;
  readonly value: Json;
};

const NONE_KEPT: readonly KeptMetadata[] = [];

/** Metadata in a row of its own. */
const APART = Symbol("apart");
type Kept = Json | typeof APART | undefined;

/** A block that is being changed: places are changed one by one, and the row is made at the end. */
export class BlockEdit {
  readonly #assetKey: string;
  readonly #block: string;
  readonly #digits: Digits | null;
  /** What keys of a bucket have beyond its prefix, in the order they came. */
  readonly #keys: string[] = [];
  readonly #placesOfKeys = new Map<string, number>();
  readonly #attempts: BlockAttempt[];
  /** The last attempt and the last success at each place; -1 for none. */
  readonly #last: number[] = [];
  readonly #made: number[] = [];
  readonly #metadata: Kept[] = [];
  /** How much metadata of each place went into rows of its own; nothing for none. */
  readonly #kept: number[] = [];
  #isChanged = false;

  constructor(assetKey: string, block: string, row: PartitionBlockRow | null) {
    this.#assetKey = assetKey;
    this.#block = block;
    this.#digits = digitsOf(block);
    for (const key of row?.keys ?? []) this.#placesOfKeys.set(key, this.#keys.push(key) - 1);
    this.#attempts = row === null ? [] : row.attempts.slice();
    const size = this.#digits === null ? this.#keys.length : 10 ** this.#digits.count;
    for (let place = 0; place < size; place++) {
      this.#last.push(-1);
      this.#made.push(-1);
    }
    if (row !== null) this.#read(row);
  }

  isOf(assetKey: string, block: string): boolean {
    return this.#block === block && this.#assetKey === assetKey;
  }

  #read({ places, metadata }: PartitionBlockRow): void {
    for (let at = 0; at < places.length; at += 4) {
      const to = places[at + 1] ?? 0;
      for (let place = places[at] ?? 0; place <= to; place++) {
        this.#last[place] = places[at + 2] ?? -1;
        this.#made[place] = places[at + 3] ?? -1;
      }
    }
    for (const each of metadata ?? []) {
      const [from, last, value, kept, isApart] = each;
      for (let place = from; place <= last; place++) {
        this.#metadata[place] = isApart === 1 ? APART : (value ?? undefined);
        if (kept !== undefined) this.#kept[place] = kept;
      }
    }
  }

  /**
   * Remembers an attempt at a partition, unless one is known that began later; only a success moves
   * the materialization. Answers what goes into rows of its own where something was made, else null.
   */
  record(
    key: string,
    attempt: EndedAttempt,
    said: Said | null = null,
  ): readonly KeptMetadata[] | null {
    const place = this.#placeOf(key);
    const before = this.#attempts[this.#last[place] ?? -1];
    if (before !== undefined && before[2] > attempt.start_pos) return null;
    this.#isChanged = true;
    const index = this.#indexOf(attempt);
    this.#last[place] = index;
    if (attempt.outcome !== "SUCCEEDED") return null;
    const kept = this.#keep(place, index, said);
    this.#made[place] = index;
    return kept;
  }

  /** The word of a new materialization; what the one before it said is kept, and so is what is too large. */
  #keep(place: number, index: number, said: Said | null): readonly KeptMetadata[] {
    const before = this.#metadata[place];
    if (before === undefined && said === null) return NONE_KEPT;
    const kept: KeptMetadata[] = [];
    let number = this.#kept[place] ?? 0;
    if (before !== undefined && before !== APART) {
      const made = this.#attempts[this.#made[place] ?? -1] as BlockAttempt;
      kept.push({ number: number++, made, value: before });
    }
    if (said?.isApart === true) {
      const made = this.#attempts[index] as BlockAttempt;
      kept.push({ number: number++, made, value: said.value });
    }
    this.#metadata[place] = said?.isApart === true ? APART : said?.value;
    if (number > 0) this.#kept[place] = number;
    return kept;
  }

  /** Forgets all that is known of a partition; answers how much of its metadata went into rows of its own. */
  forget(key: string): number {
    const place = this.#placeOf(key);
    const kept = this.#kept[place] ?? 0;
    this.#isChanged = true;
    this.#last[place] = -1;
    this.#made[place] = -1;
    if (this.#metadata.length > place) this.#metadata[place] = undefined;
    if (this.#kept.length > place) this.#kept[place] = 0;
    return kept;
  }

  #placeOf(key: string): number {
    if (this.#digits !== null) return placeOf(key, this.#digits);
    const own = key.slice(prefixOf(this.#block).length);
    const known = this.#placesOfKeys.get(own);
    if (known !== undefined) return known;
    const place = this.#keys.push(own) - 1;
    this.#placesOfKeys.set(own, place);
    this.#last.push(-1);
    this.#made.push(-1);
    return place;
  }

  #indexOf(attempt: EndedAttempt): number {
    // What ended at one pos has its run in common.
    for (let index = this.#attempts.length - 1; index >= 0; index--) {
      const [, at, start_pos, pos, outcome, code_version, checks] = this.#attempts[
        index
      ] as BlockAttempt;
      const isSame =
        pos === attempt.pos &&
        at === attempt.at &&
        start_pos === attempt.start_pos &&
        outcome === attempt.outcome &&
        code_version === attempt.code_version &&
        checks === attempt.checks;
      if (isSame) return index;
    }
    const { run_id, at, start_pos, pos, outcome, code_version, checks } = attempt;
    const row: BlockAttempt = [run_id, at, start_pos, pos, outcome, code_version];
    if (checks !== undefined) row.push(checks);
    return this.#attempts.push(row) - 1;
  }

  /** The row as it is now; null when nothing changed. */
  done(): PartitionBlockRow | null {
    if (!this.#isChanged) return null;
    const writer = new BlockWriter(this.#attempts);
    // A bucket lists what was tried, and nothing else.
    const isTried = (_key: string, place: number): boolean => (this.#last[place] ?? -1) >= 0;
    const keys = this.#digits === null ? this.#keys.filter(isTried).toSorted(compareText) : null;
    const size = keys?.length ?? this.#last.length;
    const sources = keys?.map((key) => this.#placesOfKeys.get(key) ?? -1) ?? null;
    for (let place = 0; place < size; place++) {
      const first = place;
      const last = this.#last[sources?.[first] ?? first] ?? -1;
      const made = this.#made[sources?.[first] ?? first] ?? -1;
      for (; place + 1 < size; place++) {
        const next = sources?.[place + 1] ?? place + 1;
        if (this.#last[next] !== last || this.#made[next] !== made) break;
      }
      if (last >= 0) writer.add(first, place, last, made);
    }
    // Where no partition of a block ever said anything there is nothing to go through.
    const isSilent = this.#metadata.length === 0 && this.#kept.length === 0;
    for (let place = 0, end = isSilent ? 0 : size; place < end; place++) {
      const source = sources?.[place] ?? place;
      const metadata = this.#metadata[source];
      const kept = this.#kept[source] ?? 0;
      const isSaid = (metadata !== undefined || kept > 0) && (this.#last[source] ?? -1) >= 0;
      if (isSaid) writer.addMetadata(place, metadata, kept);
    }
    const { tried, materialized, failing, failed, attempts, places, metadata } = writer;
    return {
      asset_key: this.#assetKey,
      block: this.#block,
      tried,
      materialized,
      failing,
      failed,
      attempts,
      places,
      keys,
      metadata: metadata.length === 0 ? null : metadata,
    };
  }
}

/** Writes the stretches of a block in order, with the attempts that they need and no others. */
class BlockWriter {
  readonly attempts: BlockAttempt[] = [];
  readonly places: number[] = [];
  readonly metadata: BlockMetadata[] = [];
  tried = 0;
  materialized = 0;
  failing = 0;
  failed = 0;
  readonly #old: readonly BlockAttempt[];
  readonly #indexes: number[] = [];
  #lastValue: Kept;
  #lastKept = 0;

  constructor(attempts: readonly BlockAttempt[]) {
    this.#old = attempts;
  }

  /** Adds neighbouring places that have everything but their metadata in common. */
  add(first: number, to: number, oldLast: number, oldMade: number): void {
    const last = this.#indexOf(oldLast);
    const made = oldMade < 0 ? -1 : this.#indexOf(oldMade);
    const isFailing = this.attempts[last]?.[4] === "FAILED";
    const count = to - first + 1;
    this.tried += count;
    if (made >= 0) this.materialized += count;
    if (isFailing) this.failing += count;
    if (isFailing && made < 0) this.failed += count;
    this.places.push(first, to, last, made);
  }

  #indexOf(old: number): number {
    const known = this.#indexes[old];
    if (known !== undefined) return known;
    const index = this.attempts.push(this.#old[old] as BlockAttempt) - 1;
    this.#indexes[old] = index;
    return index;
  }

  addMetadata(place: number, value: Kept, kept: number): void {
    const last = this.metadata.at(-1);
    const isNext = last?.[1] === place - 1 && this.#lastKept === kept;
    if (isNext && isSameValue(this.#lastValue, value)) last[1] = place;
    else if (value === APART) this.metadata.push([place, place, null, kept, 1]);
    else if (kept > 0) this.metadata.push([place, place, value ?? null, kept]);
    else this.metadata.push([place, place, value ?? null]);
    this.#lastValue = value;
    this.#lastKept = kept;
  }
}

function isSameValue(one: Kept, other: Kept): boolean {
  if (one === other) return true;
  if (one === APART || other === APART || one === undefined || other === undefined) return false;
  return canonicalJson(one) === canonicalJson(other);
}
