/** Successes in a row at the full size after which a little more is tried. */
const GROW_AFTER = 8;
const GROW_FACTOR = 1.25;
/** Successes in a row after which a size that failed may be tried again. */
const FORGIVE_AFTER = 64;

/**
 * How many blocks a source answers for at once, as far as is known. It shrinks at once when a
 * request was too large, and grows slowly.
 */
export class RequestSize {
  #value: number | null;
  /** The smallest size that was too large since the last long run of successes. */
  #failed: number | null = null;
  /** A size that a row of successes proved. */
  #proven: number | null = null;
  /** The source's suggestion that was followed last, until a request succeeds with it. */
  #followed: number | null = null;
  #successes = 0;

  constructor(value: number | null = null) {
    this.#value = value;
  }

  /** The most blocks to ask for; null while nothing sets a limit. */
  get value(): number | null {
    return this.#value;
  }

  /** Takes over what others learnt, or where to begin. */
  adopt(value: number | null): void {
    if (value === this.#value) return;
    this.#value = value;
    this.#successes = 0;
    this.#proven = null;
  }

  /** A request of so many blocks was answered. Answers whether the size grew. */
  succeeded(asked: number): boolean {
    if (this.#followed !== null && asked >= this.#followed) this.#followed = null;
    // A request that was small for other reasons says nothing about the limit.
    if (this.#value === null || asked < this.#value) return false;
    this.#successes++;
    if (this.#successes % GROW_AFTER !== 0) return false;
    this.#proven = this.#value;
    if (this.#successes >= FORGIVE_AFTER) this.#failed = null;
    const grown = Math.max(this.#value + 1, Math.floor(this.#value * GROW_FACTOR));
    const size = Math.min(grown, this.#failed === null ? grown : this.#failed - 1);
    if (size <= this.#value || !Number.isSafeInteger(size)) return false;
    this.#value = size;
    return true;
  }

  /** A request of so many blocks was too large. Answers whether the size shrank. */
  tooLarge(asked: number, suggested: number | null): boolean {
    if (asked <= 1) return false;
    this.#failed = Math.min(asked, this.#failed ?? asked);
    const size = this.#smallerThan(asked, suggested);
    // Requests that were under way together are too large together: that counts once.
    if (this.#value !== null && this.#value <= size) return false;
    this.#value = size;
    this.#successes = 0;
    return true;
  }

  /**
   * A request of so many blocks was not answered, which says nothing about what was proven; but more
   * than that may be what the source cannot do in time. Answers whether the size shrank.
   */
  unanswered(asked: number): boolean {
    const proven = this.#proven;
    if (proven === null || this.#value === null) return false;
    if (asked <= proven || this.#value <= proven) return false;
    this.#failed = proven + 1;
    this.#value = proven;
    this.#successes = 0;
    return true;
  }

  #smallerThan(asked: number, suggested: number | null): number {
    const isFollowed = this.#followed !== null && asked <= this.#followed;
    // A suggestion that did not hold once is not followed step by step down to nothing.
    if (!isFollowed && suggested !== null && suggested >= 1 && Math.floor(suggested) < asked) {
      this.#followed = Math.floor(suggested);
      return this.#followed;
    }
    const half = Math.floor(asked / 2);
    const proven = this.#proven;
    this.#proven = null;
    return proven !== null && proven < asked ? Math.max(half, proven) : half;
  }
}
