import { setTimeout as sleep } from "node:timers/promises";
import { PawlError } from "../../core/errors.ts";
import { sqlState } from "./failures.ts";

/** How long one turn waits for a lock: everybody who comes after waits behind it for as long. */
export const TURN_MS = 200;
const PAUSE_MS = 300;
const PATIENCE_MS = 20_000;

/** The lock of a table was not to be had, or two waited for each other. */
const BUSY = new Set(["55P03", "40P01"]);

/**
 * Does what needs a strong lock in short turns with pauses between: while a long transaction has
 * the table, others can go on. Throws SHARD_BUSY when it takes too long.
 */
export async function inTurns<Result>(
  what: string,
  turn: () => Promise<Result>,
  patienceMs: number = PATIENCE_MS,
): Promise<Result> {
  const deadline = performance.now() + patienceMs;
  for (;;) {
    try {
      return await turn();
    } catch (error) {
      if (!BUSY.has(sqlState(error))) throw error;
      if (performance.now() > deadline) {
        throw new PawlError(
          "SHARD_BUSY",
          `The shard could not be locked for ${patienceMs} ms to ${what}. Look for a long transaction.`,
          { details: { what }, cause: error },
        );
      }
    }
    await sleep(PAUSE_MS);
  }
}
