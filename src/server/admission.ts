import { PawlError } from "../core/errors.ts";

/** How much the server takes on at once. */
export type Limits = {
  /** Requests being carried out, waiting ones not counted. */
  requests: number;
  /** Streams of events, for each token. */
  streamsPerToken: number;
  /** Claims that wait for work, for each workspace. */
  waitingClaims: number;
};

/** Limits that fit one process on one core. */
export const DEFAULT_LIMITS: Limits = { requests: 1_000, streamsPerToken: 20, waitingClaims: 500 };

/** Counts what is under way under a name and turns away what is too much. */
export class Admission {
  readonly #counts = new Map<string, number>();

  /** Takes a place, or throws `OVERLOADED`; the function that comes back gives the place up. */
  enter(name: string, limit: number, what: string, status: 429 | 503): () => void {
    const count = this.#counts.get(name) ?? 0;
    if (count >= limit) {
      throw new PawlError(
        "OVERLOADED",
        `There are ${count} ${what} already, as many as there may be. Try again in a moment.`,
        { details: { limit, status } },
      );
    }
    this.#counts.set(name, count + 1);
    let isHeld = true;
    return () => {
      if (!isHeld) return;
      isHeld = false;
      const left = (this.#counts.get(name) ?? 1) - 1;
      if (left === 0) this.#counts.delete(name);
      else this.#counts.set(name, left);
    };
  }
}
