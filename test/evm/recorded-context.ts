import type { SyncContext, SyncRange } from "../../src/define/automation-context.ts";

/** A range of history with nothing to undo. */
export function blocks(from: number, to: number, range: Partial<SyncRange> = {}): SyncRange {
  return { from, to, undo: null, isLive: false, ...range };
}

/** What a sync's function is told when nobody runs it. */
export function contextOf(
  target: Readonly<Record<string, string>>,
  signal: AbortSignal = new AbortController().signal,
): SyncContext & { readonly logged: string[] } {
  const logged: string[] = [];
  return {
    sync: "transfers",
    source: "anvil",
    target,
    signal,
    syncId: "sync",
    segment: { index: 0, from: 0, to: 1_000_000, generation: 1 },
    attempt: 1,
    logged,
    log: (message) => void logged.push(message),
    turn: async () => undefined,
    progressTo: async () => undefined,
  };
}
