import { type Instant, msBetween } from "../core/instant.ts";
import type { Failure } from "../core/rows/backfill-rows.ts";
import type { RunRow, TaskRow } from "../core/rows/run-rows.ts";
import { DURATION_MS_MAX, LOST_ATTEMPTS_MAX, type RetryPolicy } from "../core/spec.ts";
import { stepOfRun } from "./run-lookup.ts";

/** How long an attempt at a step that never ends by itself has to last to begin a row of lost ones anew. */
const STREAM_LASTED_MS = 600_000;

/** The wait before the next attempt: exponential, capped, with jitter around it. */
export function retryDelayMs(policy: RetryPolicy, failures: number, random: number): number {
  // Kept finite: no delay at all, times infinity, would be no number.
  const growth = Math.min(policy.factor ** (failures - 1), DURATION_MS_MAX);
  const delay = Math.min(policy.max_delay_ms, policy.delay_ms * growth);
  return Math.round(delay * (1 + policy.jitter * (2 * random - 1)));
}

/** How many attempts in a row a task may lose with their worker; null when without end. */
export function lostAttemptsMax({ max_attempts, max_lost_attempts }: RetryPolicy): number | null {
  if (max_lost_attempts !== undefined) return max_lost_attempts;
  // Who allows a single attempt does not want the function to run twice, whatever became of the first.
  return max_attempts === 1 ? 1 : LOST_ATTEMPTS_MAX;
}

/** Why a task is not tried again after so many attempts that were lost. */
export function givenUp({ class: name, message }: Failure, lost: number): Failure {
  if (lost === 1) return { class: name, message };
  const row = `${lost} attempts in a row were lost with their worker`;
  return { class: name, message: `${row}; the last: ${message}` };
}

/**
 * How many attempts in a row were lost before this one. What follows writes goes on for days: an
 * attempt at it that lasted is no part of a row in which each kills its worker.
 */
export function lostInARow(
  run: RunRow,
  { lost_attempts, started_at }: TaskRow,
  now: Instant,
): number {
  const step = stepOfRun(run)?.step;
  const isStream = step === "tail" || step === "reverse";
  const lasted = started_at === null ? 0 : msBetween(started_at, now);
  return isStream && lasted >= STREAM_LASTED_MS ? 0 : lost_attempts;
}
