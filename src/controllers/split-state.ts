import type { EventData, NewEvent } from "../core/events/index.ts";
import type { Instant } from "../core/instant.ts";
import { IDEMPOTENCY_KEYS } from "../core/keys.ts";
import type { SplitPhase, SplitRow, SplitWanted } from "../core/rows/split-rows.ts";

/** Longest reason in an event. */
const REASON_LENGTH_MAX = 2_000;

type PlanAgain = NonNullable<EventData<"SplitPhaseChanged">["again"]>;

/** The event that takes a split to another phase; one that ends frees its tenants. */
export function splitPhaseChanged(
  split: SplitRow,
  toPhase: SplitPhase,
  said: { changedBy?: string | undefined; reason?: string | undefined; again?: PlanAgain } = {},
): NewEvent {
  const state_version = split.state_version + 1;
  const { split_id, phase, tenants } = split;
  const ends = toPhase === "completed" || toPhase === "rolled_back";
  const { again } = said;
  return {
    type: "SplitPhaseChanged",
    idempotency_key: IDEMPOTENCY_KEYS.splitPhase(split_id, state_version, toPhase),
    data: {
      split_id,
      from_phase: phase,
      to_phase: toPhase,
      state_version,
      changed_by: said.changedBy ?? null,
      reason: said.reason ?? null,
      ...(ends || again !== undefined ? { tenants } : {}),
      ...(again === undefined ? {} : { again }),
    },
  };
}

/** The event that asks for what takes a step of its own. */
export function splitWanted(
  split: SplitRow,
  wanted: SplitWanted,
  said: { changedBy: string; reason?: string | undefined; ddl?: string },
): NewEvent {
  const { split_id } = split;
  const state_version = split.state_version + 1;
  return {
    type: "SplitWanted",
    idempotency_key: IDEMPOTENCY_KEYS.splitWanted(split_id, state_version),
    data: {
      split_id,
      wanted,
      ddl: said.ddl ?? null,
      state_version,
      changed_by: said.changedBy,
      reason: said.reason ?? null,
    },
  };
}

/** What the end of a step means. */
export type StepOutcome = {
  outcome: "done" | "stopped" | "failed" | "fell_back";
  clears?: boolean;
  reason?: string | null;
  again_at?: Instant;
};

/** The event that takes note of a step that has ended. */
export function splitStepSettled(split: SplitRow, ended: StepOutcome): NewEvent[] {
  const { split_id, steps: n, step } = split;
  if (step === null) return [];
  return [
    {
      type: "SplitStepSettled",
      idempotency_key: IDEMPOTENCY_KEYS.splitStep(split_id, n),
      data: {
        split_id,
        n,
        step,
        outcome: ended.outcome,
        report: split.step_report,
        reason: ended.reason?.slice(0, REASON_LENGTH_MAX) ?? null,
        clears_wanted: ended.clears ?? false,
        ...(ended.again_at === undefined ? {} : { again_at: ended.again_at }),
      },
    },
  ];
}
