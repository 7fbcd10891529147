/** What a state means to whoever looks, whatever it is a state of. */
export type Tone = "good" | "busy" | "wait" | "warn" | "bad" | "odd";

/** How a state looks: a sign and a word beside the colour, so that it is told without colour too. */
export type Look = { tone: Tone; sign: string; word: string };

const LOOKS: Readonly<Record<string, Look>> = {
  PENDING: { tone: "wait", sign: "·", word: "pending" },
  PLANNED: { tone: "wait", sign: "◌", word: "planned" },
  WAITING: { tone: "wait", sign: "·", word: "waiting" },
  READY: { tone: "wait", sign: "◌", word: "ready" },
  RETRY_WAIT: { tone: "warn", sign: "↻", word: "waiting for retry" },
  RUNNING: { tone: "busy", sign: "▶", word: "running" },
  IN_PROGRESS: { tone: "busy", sign: "▶", word: "in progress" },
  BEING_REMADE: { tone: "good", sign: "▶", word: "being remade" },
  SUCCEEDED: { tone: "good", sign: "✓", word: "succeeded" },
  FAILED: { tone: "bad", sign: "✕", word: "failed" },
  CANCELLING: { tone: "warn", sign: "⊘", word: "cancelling" },
  CANCELLED: { tone: "wait", sign: "⊘", word: "cancelled" },
  SKIPPED: { tone: "wait", sign: "↷", word: "skipped" },
  SPLIT: { tone: "wait", sign: "⑂", word: "split" },
  PAUSED: { tone: "warn", sign: "‖", word: "paused" },
  PAUSED_WITH_FAILURES: { tone: "bad", sign: "‖", word: "paused with failures" },
  FOLLOWING: { tone: "good", sign: "»", word: "following" },
  ACTIVE: { tone: "good", sign: "✓", word: "active" },
  ERROR: { tone: "bad", sign: "✕", word: "error" },
  DELETED: { tone: "wait", sign: "⊘", word: "deleted" },
  REMOVED: { tone: "wait", sign: "⊘", word: "removed" },
  NEVER_MATERIALIZED: { tone: "wait", sign: "·", word: "never materialized" },
  MATERIALIZED: { tone: "good", sign: "✓", word: "materialized" },
  MATERIALIZED_LAST_ATTEMPT_FAILED: { tone: "bad", sign: "✕", word: "last attempt failed" },
  CHECKS_PASSED: { tone: "good", sign: "✓", word: "checks passed" },
  CHECKS_WARNED: { tone: "warn", sign: "!", word: "check warning" },
  CHECKS_FAILED: { tone: "bad", sign: "✕", word: "check failed" },
  STALE: { tone: "warn", sign: "↻", word: "stale" },
  COMPLETE: { tone: "good", sign: "✓", word: "complete" },
  QUARANTINED: { tone: "odd", sign: "⚠", word: "quarantined" },
  ABANDONED: { tone: "odd", sign: "⚠", word: "abandoned" },
  POISONED: { tone: "odd", sign: "⚠", word: "quarantined" },
  EXCLUDED: { tone: "wait", sign: "⊘", word: "excluded" },
  COPIED: { tone: "good", sign: "✓", word: "copied" },
  TRIGGERED: { tone: "good", sign: "✓", word: "triggered" },
  LATE: { tone: "warn", sign: "!", word: "late" },
  CLOCK_CHANGE: { tone: "warn", sign: "!", word: "clock change" },
  DUE: { tone: "wait", sign: "◌", word: "upcoming" },
  NO_NEW_DATA: { tone: "wait", sign: "·", word: "nothing new" },
  SKIPPED_STALE_CURSOR: { tone: "warn", sign: "↷", word: "outdated cursor, ignored" },
  EVALUATED: { tone: "good", sign: "✓", word: "evaluated" },
  MOVED: { tone: "good", sign: "✓", word: "moved" },
  QUEUED: { tone: "wait", sign: "◌", word: "queued" },
  PLANNING: { tone: "wait", sign: "◌", word: "planning" },
  DUAL_WRITE: { tone: "busy", sign: "▶", word: "dual write" },
  BACKFILL: { tone: "busy", sign: "▶", word: "backfill" },
  TAILING: { tone: "busy", sign: "▶", word: "tailing" },
  CUTOVER_PENDING: { tone: "warn", sign: "‖", word: "cutover pending" },
  REVERSIBLE: { tone: "busy", sign: "⇄", word: "reversible" },
  COMPLETED: { tone: "good", sign: "✓", word: "completed" },
  ROLLED_BACK: { tone: "wait", sign: "↶", word: "rolled back" },
  CAUGHT_UP: { tone: "good", sign: "✓", word: "caught up" },
  DONE: { tone: "good", sign: "✓", word: "done" },
  STOPPED: { tone: "wait", sign: "‖", word: "stopped" },
  FELL_BACK: { tone: "warn", sign: "↶", word: "fell back" },
  RELEASED: { tone: "wait", sign: "↩", word: "released" },
  LEASE_EXPIRED: { tone: "bad", sign: "⌛", word: "lease expired" },
};

/** How a state looks; one that is not known is shown as its own name. */
export function lookOf(state: string): Look {
  return (
    LOOKS[state] ??
    LOOKS[state.toUpperCase()] ?? {
      tone: "wait",
      sign: "·",
      word: state.toLowerCase().replaceAll("_", " "),
    }
  );
}
