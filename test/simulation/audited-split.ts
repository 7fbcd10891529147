import type { EventData } from "../../src/work/events.ts";
import type { SplitPhase, SplitRow, SplitWish } from "../../src/work/split/rows.ts";
import type { SplitStep } from "../../src/work/shard/step-protocol.ts";

/** Where a split may go by an event of its own. */
export const LEGAL_PHASES: Record<SplitPhase, readonly SplitPhase[]> = {
  planning: ["dual_write", "rolled_back"],
  dual_write: ["backfill", "rolled_back"],
  backfill: ["tailing", "rolled_back"],
  tailing: ["rolled_back"],
  cutover_pending: ["rolled_back"],
  reversible: ["completed", "rolled_back"],
  completed: [],
  rolled_back: ["dual_write"],
};

/** What the row of a split says that was taken back: nothing is left of what was done. */
const AT_THE_BEGINNING = {
  dual_write_started_at: null,
  backfill_status: "pending",
  backfill_started_at: null,
  backfill_completed_at: null,
  total_rows_copied: 0,
  tail_status: "pending",
  last_event_id: null,
  tail_lag_events: null,
  verification: null,
} as const;

/** A split as the auditor understands it. */
export class AuditedSplit {
  readonly data: EventData<"SplitPlanned">;
  phase: SplitPhase = "planning";
  version = 1;
  wanted: SplitWish | null = null;
  /** The last step, its run while it goes on, and whether its end was taken note of. */
  n = 0;
  step: SplitStep | null = null;
  runPos: number | null = null;
  isStarted = false;
  outcome: string | null = null;
  isSettled = true;
  isCopied = false;
  isVerified = false;
  isArmed = false;
  forward: number | null = null;
  back: number | null = null;
  /** A commit record stands that its step has not carried out. */
  isCommitting = false;
  removeAfter: string | null = null;

  constructor(data: EventData<"SplitPlanned">) {
    this.data = data;
  }

  get isActive(): boolean {
    return this.phase !== "completed" && this.phase !== "rolled_back";
  }

  /** The plan is run again: what was done before counts no more. */
  beginAgain(): void {
    this.isCopied = false;
    this.isVerified = false;
    this.forward = null;
    this.back = null;
  }

  /** Why a step has no business here now; null when it has. */
  faultOf(step: SplitStep, now: string): string | null {
    const { phase, wanted } = this;
    const isWanted = (name: SplitWish): boolean => wanted === name && !this.isCommitting;
    const isCopying = phase !== "planning" && this.isActive;
    const allowed: Record<SplitStep, boolean> = {
      check: phase === "planning",
      arm: phase === "dual_write" && !this.isArmed,
      copy: phase === "backfill" && this.isArmed,
      tail: (phase === "tailing" || phase === "cutover_pending") && this.isCopied,
      cutover:
        (phase === "cutover_pending" && isWanted("cutover")) ||
        (phase === "reversible" && this.isCommitting && this.back === null),
      reverse: phase === "reversible" && wanted === null && !this.isCommitting,
      cutback:
        phase === "reversible" &&
        (isWanted("rollback") ? this.back === null : this.isCommitting && this.back !== null),
      ddl: isCopying && this.isArmed && isWanted("ddl"),
      finish: phase === "reversible" && isWanted("complete"),
      discard: isCopying && isWanted("rollback") && (phase !== "reversible" || this.back !== null),
      remove: phase === "completed" && this.removeAfter !== null && this.removeAfter <= now,
    };
    return allowed[step] ? null : `${step} in ${phase}, where ${wanted ?? "nothing"} is wanted`;
  }

  /** What the row of the split must say. */
  expectedRow(): Partial<SplitRow> {
    return {
      phase: this.phase,
      state_version: this.version,
      wanted: this.wanted,
      steps: this.n,
      step: this.step,
      run_pos: this.runPos,
      armed: this.isArmed ? 1 : 0,
      committing: this.isCommitting ? 1 : 0,
      routing_version_cutover: this.forward,
      routing_version_rollback: this.back,
      remove_after: this.removeAfter,
      ...(this.phase === "rolled_back" ? AT_THE_BEGINNING : {}),
    };
  }
}
