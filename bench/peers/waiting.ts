import { setTimeout as sleep } from "node:timers/promises";
import { machineMs } from "../machine-ms.ts";

/** Longer than anything takes that no other time is given for. */
const ANSWER_MS_MAX = 60_000;

/** What is waited for, or an error when it takes too long. */
export async function within<Value>(
  what: string,
  promise: Promise<Value>,
  ms = ANSWER_MS_MAX,
): Promise<Value> {
  const given = new AbortController();
  const late = async (): Promise<never> => {
    await sleep(ms, null, { signal: given.signal });
    throw new Error(`${what} took more than ${ms / 1_000} s`);
  };
  try {
    return await Promise.race([promise, late()]);
  } finally {
    given.abort();
  }
}

/** Looks until there is something, or null when it takes too long. */
export async function lookFor<Value>(
  look: () => Promise<Value | null>,
  ms: number,
  everyMs: number,
): Promise<Value | null> {
  const untilMs = machineMs() + ms;
  for (;;) {
    const found = await look();
    if (found !== null) return found;
    if (machineMs() > untilMs) return null;
    await sleep(everyMs);
  }
}

/** Begins something so many times a second, whether or not the one before is done. */
export async function atPace(
  count: number,
  perSecond: number,
  begin: (index: number) => Promise<unknown>,
): Promise<void> {
  const startedMs = machineMs();
  const begun: Promise<unknown>[] = [];
  for (let index = 0; index < count; index += 1) {
    const waitMs = startedMs + (index * 1_000) / perSecond - machineMs();
    if (waitMs > 0) await sleep(waitMs);
    begun.push(begin(index));
  }
  await Promise.all(begun);
}
