import type { ClaimAnswer, ClaimRequest } from "../core/protocol.ts";

/** A claim that waits for work. */
export type WaitingClaim = {
  readonly request: ClaimRequest;
  readonly resolve: (answer: ClaimAnswer) => void;
  readonly reject: (error: unknown) => void;
};

/**
 * The claims that wait for work. A claim is tried when it comes and whenever something may have
 * become ready; in between it costs nothing, and never takes the workspace lock.
 */
export class ClaimQueue {
  readonly #waiting = new Set<WaitingClaim>();
  /** Lists of assets for which nothing was ready at the last look. */
  readonly #nothingFor = new Set<string>();

  get size(): number {
    return this.#waiting.size;
  }

  /** Takes the claim in; answers a function that takes it out. */
  add(claim: WaitingClaim): () => void {
    this.#waiting.add(claim);
    return () => {
      this.#waiting.delete(claim);
    };
  }

  remove(claim: WaitingClaim): void {
    this.#waiting.delete(claim);
  }

  /** Something may have become ready: every claim is worth a try again. */
  wake(): void {
    this.#nothingFor.clear();
  }

  /** Nothing was ready for this claim. */
  wasEmpty(claim: WaitingClaim): void {
    this.#nothingFor.add(assetsName(claim));
  }

  /** Claims that are worth a try, oldest first. */
  worthTrying(): WaitingClaim[] {
    return [...this.#waiting].filter((claim) => !this.#nothingFor.has(assetsName(claim)));
  }

  /** Takes out every claim. */
  drain(): WaitingClaim[] {
    const all = [...this.#waiting];
    this.#waiting.clear();
    return all;
  }
}

function assetsName(claim: WaitingClaim): string {
  return claim.request.assets.join("\n");
}
