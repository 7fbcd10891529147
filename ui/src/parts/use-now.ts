import { useSyncExternalStore } from "react";

const listeners = new Set<() => void>();
let nowMs = Date.now();
let timer: ReturnType<typeof setInterval> | null = null;

/** One clock for the whole page, which stands still while nobody looks at it. */
function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  // It stood still while nobody looked.
  if (timer === null) nowMs = Date.now();
  timer ??= setInterval(() => {
    nowMs = Date.now();
    for (const each of listeners) each();
  }, 1_000);
  return () => {
    listeners.delete(listener);
    if (listeners.size > 0 || timer === null) return;
    clearInterval(timer);
    timer = null;
  };
}

/** The time in milliseconds, which moves once a second. */
export function useNow(): number {
  return useSyncExternalStore(subscribe, () => nowMs);
}
