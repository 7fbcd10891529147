import { PawlError } from "../../kernel/errors.ts";
import type { Rows } from "../rows.ts";
import type { SplitRow, SplitPhase, SplitWish } from "./rows.ts";
import type { Key } from "../../kernel/table.ts";
import type { EventData, NewEvent } from "../events.ts";
import type { Instant } from "../../kernel/instant.ts";
import { IDEMPOTENCY_KEYS } from "../keys.ts";
import { notFound } from "../command.ts";

/** The refusal of a split that there is not. */
export function splitNotFound(reference: string): PawlError {
  return notFound("SPLIT_NOT_FOUND", "split", reference);
}

/** The split under an id; refuses what there is not. */
export function knownSplit(rows: Rows, reference: string): SplitRow {
  const found = rows.splits.get(reference);
  if (found === null) throw splitNotFound(reference);
  return found;
}

/** Refuses tenants that an active split is about. */
export function refuseSplitTenants(rows: Rows, tenants: readonly string[], action: string): void {
  rows.splitTenants.need(tenants.map((tenant): Key => [tenant]));
  for (const tenant of tenants) {
    const other = rows.splitTenants.get(tenant);
    if (other === null) continue;
    const { split_id } = other;
    throw new PawlError(
      "SPLIT_OVERLAPS",
      `The tenant ${JSON.stringify(tenant)} is under the split ${split_id}, so ${action} has to ` +
        "wait. Complete that split or roll it back first.",
      { details: { tenant, split_id } },
    );
  }
}

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
  wanted: SplitWish,
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
