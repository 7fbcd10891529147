import { type Instant, msBetween } from "../core/instant.ts";
import type { Engine } from "../engine/engine.ts";

/** A worker that is there asks again before this: a claim waits for half of it at most. */
const CLAIMED_LATELY_MS = 60_000;

/** The names of work that some worker of this server has code for, by what it asked for. */
export function claimedLately(engine: Engine, now: Instant): ReadonlySet<string> {
  const claimed = [...engine.claimedAssets()];
  const lately = claimed.filter(([, at]) => msBetween(at, now) <= CLAIMED_LATELY_MS);
  return new Set(lately.map(([name]) => name));
}
