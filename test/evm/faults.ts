/** What can be wrong with a node; chances are for each HTTP request. */
export type Faults = {
  /** Most blocks that `eth_getLogs` takes. */
  rangeCap: number | null;
  /** Most logs that `eth_getLogs` gives, and which range it then says would do. */
  resultCap: number | null;
  suggestion: "none" | "half" | "same";
  /** Refusals with status 429, and their `Retry-After`. */
  throttleChance: number;
  retryAfter: string | null;
  /** Some logs are left out of an answer of `eth_getLogs`. */
  dropChance: number;
  /** Which ones: some at random, only the first or only the last of the answer. */
  dropped: "some" | "first" | "last";
  /** There is never an answer. */
  hangChance: number;
  /** By how many blocks at most the head goes back, at random. */
  headFlap: number;
  /** The answer comes from a node that is behind, and leaves out what it does not know. */
  lagChance: number;
  lagBlocks: number;
  /** Any `eth_getLogs` that includes this block is refused with an unheard-of error. */
  brokenBlock: number | null;
  /** Errors from 500 on, without JSON. */
  errorChance: number;
  /** The connection breaks off. */
  cutChance: number;
  /** Most calls in a batch. */
  batchCap: number | null;
  /** A method that the node lacks. */
  missingMethod: string | null;
};

/** A node that is well. */
export const NO_FAULTS: Faults = Object.freeze({
  rangeCap: null,
  resultCap: null,
  suggestion: "none",
  throttleChance: 0,
  retryAfter: null,
  dropChance: 0,
  dropped: "some",
  hangChance: 0,
  headFlap: 0,
  lagChance: 0,
  lagBlocks: 0,
  brokenBlock: null,
  errorChance: 0,
  cutChance: 0,
  batchCap: null,
  missingMethod: null,
});
