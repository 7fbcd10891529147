/**
 * Finds what fails in a range: after a failure the next requests take half of what may hold it, until
 * it stands alone. Blocks beyond the range are asked for as before.
 */
export class Narrowing {
  /** The last block of the smallest request that failed and has not been passed yet. */
  #end: number | null = null;

  /** A request from `from` to `to` failed. */
  failed(to: number): void {
    this.#end = to;
  }

  /** The last block to ask for from `from` on, when `to` would be by itself. */
  endOf(from: number, to: number): number {
    if (this.#end === null) return to;
    if (this.#end < from) {
      this.#end = null;
      return to;
    }
    const size = this.#end - from + 1;
    return Math.min(to, from + Math.max(1, Math.floor(size / 2)) - 1);
  }
}
