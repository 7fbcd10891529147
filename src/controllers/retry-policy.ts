import { type Instant, msBetween } from "../core/instant.ts";
import type { Failure } from "../core/rows/backfill-rows.ts";
import { CRASH_CLASS } from "../core/protocol.ts";
import type { RunRow, TaskRow } from "../core/rows/run-rows.ts";
import { DURATION_MS_MAX, LOST_ATTEMPTS_MAX, type RetryPolicy } from "../core/spec.ts";
import { stepOfRun } from "./run-lookup.ts";

/** How long an attempt at a step that never ends by itself has to last to begin a row of lost ones anew. */
const STREAM_LASTED_MS = 600_000;
/** Attempts in a row that are lost with their worker before the task itself is suspected. */
const SUSPECT_AFTER = 2;
/** How long a suspect is alone at first, and at most. */
const ALONE_MS = 60_000;
const ALONE_MS_MAX = 3_600_000;

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
  const lasted = started_at === null ? 0 : msBetween(started_at, now);
  return isStream(run) && lasted >= STREAM_LASTED_MS ? 0 : lost_attempts;
}

/** A step that never ends by itself. */
function isStream(run: RunRow): boolean {
  const step = stepOfRun(run)?.step;
  return step === "tail" || step === "reverse";
}

/** Whether a task may be what takes its processes down: the last one crashed, or several were lost. */
export function isSuspect({ error, lost_attempts }: TaskRow): boolean {
  return error?.class === CRASH_CLASS || lost_attempts >= SUSPECT_AFTER;
}

/** Whether a suspect can wait until it is alone: while tenants are handed over, writes wait for it. */
export function canWaitAlone(run: RunRow): boolean {
  const step = stepOfRun(run)?.step;
  return step !== "cutover" && step !== "cutback";
}

/**
 * How long nothing is to begin beside a suspect: twice as long after each crash, so that one that takes
 * its time to crash is found too.
 */
export function aloneMs(run: RunRow, { failures, lost_attempts }: TaskRow): number {
  const most = isStream(run) ? STREAM_LASTED_MS : ALONE_MS_MAX;
  return Math.min(most, ALONE_MS * 2 ** Math.max(0, Math.min(failures + lost_attempts, 20) - 1));
}
