import { PawlError } from "../core/errors.ts";
import { backoffMs } from "./backoff.ts";
import { type Clock, pause } from "./clock.ts";
import type { WorkerLogger } from "./worker-logger.ts";

const BACKOFF_MS_MAX = 5_000;
/** A claim younger than this may be granted at this very moment. */
const NEW_CLAIM_MS = 250;

/**
 * Claims once, as often as it takes: a server that is away is waited for. Null when the worker is to
 * stop; throws the `PawlError` of a server that will not have this worker.
 */
export async function claimPatiently<Answer>(
  stop: AbortSignal,
  ask: (signal: AbortSignal) => Promise<Answer>,
  options: { clock: Clock; random: () => number; logger: WorkerLogger },
): Promise<{ answer: Answer; isFresh: boolean } | null> {
  const { clock, random, logger } = options;
  for (let failures = 0; !stop.aborted; ) {
    const letGo = letGoOf(stop, clock);
    try {
      const answer = await ask(letGo.signal);
      if (failures > 0) logger.info({ failures }, "The server is there again.");
      return { answer, isFresh: failures === 0 };
    } catch (error) {
      if (stop.aborted) return null;
      if (!(error instanceof PawlError) || !error.retryable) throw error;
      failures++;
      if (failures === 1) {
        logger.warn({ code: error.code }, `${error.message} Trying again until it is there.`);
      }
      await pause(clock, backoffMs(failures, random, BACKOFF_MS_MAX), stop);
    } finally {
      letGo.done();
    }
  }
  return null;
}

/**
 * Aborts when a claim that was asked just now must be let go: a claim that has waited for long is
 * let go with the worker, but a new one may have been granted already, and is given a moment so
 * that what it got need not wait for the end of its lease.
 */
function letGoOf(stop: AbortSignal, clock: Clock): { signal: AbortSignal; done: () => void } {
  const controller = new AbortController();
  const askedAt = clock.now();
  const letGo = (): void => {
    if (clock.now() - askedAt > NEW_CLAIM_MS) controller.abort();
    else clock.after(NEW_CLAIM_MS, () => controller.abort());
  };
  if (stop.aborted) controller.abort();
  stop.addEventListener("abort", letGo, { once: true });
  return {
    signal: controller.signal,
    done: () => stop.removeEventListener("abort", letGo),
  };
}
