import type { SensorSpec } from "../definition/spec.ts";
import { PawlError, present } from "../../kernel/errors.ts";
import type { Rows } from "../rows.ts";
import type { SensorRow, SensorEvalRow, SensorRunRequest } from "./rows.ts";
import { entityNotFound, findEntity } from "../definition/find-entity.ts";
import type { EventData, NewEvent } from "../events.ts";
import { type EvaluationSource, evalIdOf, IDEMPOTENCY_KEYS } from "../keys.ts";
import type { EvaluatedRequest, EvaluationOutcome } from "../probe-protocol.ts";
import { boundedFailure } from "../envelope.ts";
import type { KeyAdditions } from "../definition/partition-keys.ts";
import type { KeyAddition } from "../run/protocol.ts";
import type { Failure } from "../backfill/rows.ts";
import { type Context, type Decide, type Decision, DECISION_EVENTS_MAX } from "../decision.ts";
import {
  type KeysOfEvaluation,
  keysOfEvaluation,
  resolveRequests,
  type ResolvedRequests,
  voidRequests,
} from "./requests.ts";

/** The spec under which a sensor acts. */
export function sensorSpec(rows: Rows, row: SensorRow): SensorSpec {
  const { body } = present(rows.specs.get(row.spec_hash), `spec ${row.spec_hash} is kept`);
  if (body.kind === "sensor") return body;
  throw new PawlError("SENSOR_NOT_FOUND", `${row.spec_hash} is no sensor.`);
}

/** The sensor that an id or a name stands for; refuses an unknown one and a deleted one. */
export function livingSensor(rows: Rows, idOrName: string): SensorRow {
  const row = findEntity(rows, "sensor", idOrName);
  if (row === null || row.state === "DELETED") throw entityNotFound("sensor", idOrName);
  return row;
}

/** Most tasks that the runs of one evaluation may have together. */
export const EVALUATION_TASKS_MAX = 50_000;
/** So many of a sensor's newest evaluations are looked at for one that is told of again. */
const RECENT_MAX = 20;

/** What somebody found when they evaluated a sensor, and what they had read before. */
export type Evaluation = {
  sensor_id: string;
  source: EvaluationSource;
  /** The cursor and the version that were read; null where there is none. */
  cursor: string | null;
  expected_state_version: number | null;
  outcome: EvaluationOutcome;
  /** Whether a message is tried again when one of its runs is refused. */
  isTriedAgain?: boolean;
};

/** What an evaluation came to, or would come to. */
export type EvaluationResult = {
  /** `unchanged`: nothing to record; `stale`: no effect; `lost`: it was not to be evaluated any more. */
  verdict: "recorded" | "unchanged" | "stale" | "lost";
  eval_id: string;
  status: SensorEvalRow["status"];
  cursor_before: string | null;
  cursor_after: string | null;
  error: Failure | null;
  run_requests: SensorRunRequest[];
  /** Keys that were not there before, by definition; null where it is not known any more. */
  keys_added: KeyAddition[] | null;
};

/**
 * Records what an evaluation came to. Its cursor, its runs and the new version are one append, and
 * have an effect only when the sensor is as it was read: otherwise it is recorded as stale, once.
 */
export function evaluateSensor(evaluation: Evaluation): Decide<EvaluationResult> {
  return (rows, context) => {
    const row = rows.sensors.get(evaluation.sensor_id);
    if (row === null || row.state === "DELETED") return withoutEvent(evaluation, "lost");
    const { source } = evaluation;
    if (source.type === "push") {
      const message = rows.sensorMessages.get(row.sensor_id, source.message_id);
      // After a pause nothing is asked for; the message waits and is evaluated again.
      const isOpen = message?.state === "PENDING" && row.state !== "PAUSED";
      if (!isOpen) return withoutEvent(evaluation, "lost");
    }
    const told = source.type === "push" ? null : toldBefore(rows, row, evaluation);
    if (told !== null) return { events: [], result: told };
    return decideOn({ rows, row, spec: sensorSpec(rows, row), evaluation, context });
  };
}

type On = {
  rows: Rows;
  row: SensorRow;
  spec: SensorSpec;
  evaluation: Evaluation;
  context: Context;
};

function decideOn(on: On): Decision<EvaluationResult> {
  const { row, spec, evaluation, context } = on;
  const { outcome } = evaluation;
  if (isStale(row, evaluation)) return staleEvaluation(on);
  if (outcome.type === "failed") return failedEvaluation(on, outcome.error);
  const asked = outcome.run_requests.length;
  const most = Math.min(spec.max_run_requests, DECISION_EVENTS_MAX - 1);
  if (asked > most) {
    const message =
      `Sensor ${row.name} asked for ${asked} runs; at most ${most} may come of one evaluation. ` +
      "Ask for fewer at once, or raise max_run_requests.";
    return failedEvaluation(on, { class: "input", message });
  }
  const evalId = evalIdOf(row.sensor_id, evaluation.source);
  const withKeys = keysOrFault(on, evalId, outcome);
  if (withKeys instanceof PawlError) {
    return failedEvaluation(on, { class: REFUSED, message: withKeys.message });
  }
  const { additions, requests } = withKeys;
  const { keys } = additions;
  const resolved = resolveRequests(on.rows, row, spec, evalId, requests, context, keys);
  if (1 + additions.events.length + resolved.events.length > DECISION_EVENTS_MAX) {
    const message =
      `Sensor ${row.name} asked for ${asked} runs and added keys to several definitions; at most ` +
      `${DECISION_EVENTS_MAX} events may come of one evaluation. Ask for fewer at once.`;
    return failedEvaluation(on, { class: "input", message });
  }
  if (resolved.tasks > EVALUATION_TASKS_MAX) {
    const message =
      `Sensor ${row.name} asked for runs of ${resolved.tasks} tasks; at most ` +
      `${EVALUATION_TASKS_MAX} may come of one evaluation. Ask for less at once.`;
    return failedEvaluation(on, { class: "input", message });
  }
  const isRefused = resolved.run_requests.some(({ outcome: each }) => each === "refused");
  return isRefused
    ? refusedEvaluation(on, withKeys, resolved)
    : goodEvaluation(on, outcome.cursor, additions, resolved);
}

/** The keys that the evaluation adds and its requests, or why keys cannot be added. */
function keysOrFault(
  { rows, context }: On,
  evalId: string,
  outcome: Extract<EvaluationOutcome, { type: "evaluated" }>,
): KeysOfEvaluation | PawlError {
  try {
    return keysOfEvaluation(rows, evalId, outcome, context);
  } catch (error) {
    if (error instanceof PawlError) return error;
    throw error;
  }
}

/** Whether the evaluation is about a cursor at all: all but those of push sensors are. */
function hasCursor(row: SensorRow, { source }: Evaluation): boolean {
  return source.type === "poll" || (source.type === "manual" && row.mode === "poll");
}

function isStale(row: SensorRow, evaluation: Evaluation): boolean {
  if (!hasCursor(row, evaluation)) return false;
  const { expected_state_version, cursor } = evaluation;
  return expected_state_version !== row.state_version || cursor !== row.cursor;
}

function staleEvaluation(on: On): Decision<EvaluationResult> {
  const { row, evaluation, context } = on;
  const { outcome } = evaluation;
  const evalId = evalIdOf(row.sensor_id, evaluation.source);
  const requests: readonly EvaluatedRequest[] =
    outcome.type === "evaluated" ? outcome.run_requests : [];
  return recorded(on, "stale", {
    status: "skipped_stale_cursor",
    // It moved nothing; null would say that it led to the start.
    cursor_after: cursorAfter(on, evaluation.cursor),
    state_version: null,
    error: outcome.type === "failed" ? boundedFailure(outcome.error) : null,
    run_requests: voidRequests(context, row.sensor_id, evalId, requests),
  });
}

/**
 * An evaluation with a run that was refused failed: cursor and message stay for another try, which asks
 * for all of it again. So only what has a run key of its own goes ahead: it is run once. Where keys are added nothing
 * goes ahead: they and all the runs are recorded together.
 */
function refusedEvaluation(
  on: On,
  { additions, requests }: KeysOfEvaluation,
  { run_requests }: ResolvedRequests,
): Decision<EvaluationResult> {
  const { rows, row, spec, evaluation, context } = on;
  const evalId = evalIdOf(row.sensor_id, evaluation.source);
  const addsKeys = additions.events.length > 0;
  const isAlone = evaluation.isTriedAgain === true || isSample(on) || addsKeys;
  const ahead = isAlone ? [] : requests.filter(({ run_key }) => run_key !== null);
  const made = resolveRequests(rows, row, spec, evalId, ahead, context, additions.keys);
  const outcomes = new Map(ahead.map((request, at) => [request, made.run_requests[at]]));
  const voids = voidRequests(context, row.sensor_id, evalId, requests);
  const told = requests.flatMap((request, at) => {
    const first = run_requests[at];
    const waits = first?.outcome === "refused" ? first : voids[at];
    return outcomes.get(request) ?? waits ?? [];
  });
  const refused = run_requests.filter(({ outcome }) => outcome === "refused");
  const count = `${refused.length} of ${run_requests.length} runs`;
  const message = `${count} could not be asked for: ${refused[0]?.error?.message ?? ""}`;
  return failedEvaluation(on, { class: REFUSED, message }, { ...made, run_requests: told });
}

/** A sample that somebody tried says nothing about the messages of the sensor. */
function isSample({ row, evaluation }: On): boolean {
  return evaluation.source.type === "manual" && !hasCursor(row, evaluation);
}

/** The class of an evaluation's error when runs that it asked for were refused. */
const REFUSED = "refused";

const NOTHING_ASKED: ResolvedRequests = { run_requests: [], events: [], tasks: 0 };

function failedEvaluation(
  on: On,
  failure: Failure,
  { run_requests, events }: ResolvedRequests = NOTHING_ASKED,
): Decision<EvaluationResult> {
  const { row, evaluation } = on;
  const error = boundedFailure(failure);
  const said: Said = {
    status: "error",
    cursor_after: cursorAfter(on, evaluation.cursor),
    state_version: null,
    error,
    run_requests,
  };
  const isRepeat =
    events.length === 0 &&
    evaluation.source.type !== "push" &&
    row.state === "ERROR" &&
    row.error?.class === error.class &&
    row.error.message === error.message;
  // Where the message itself is at fault, another try comes to the same.
  const isTriedAgain = evaluation.isTriedAgain === true && error.class === REFUSED;
  if (isRepeat || isTriedAgain || isSample(on)) {
    return withoutEvent(evaluation, "unchanged", said);
  }
  const decided = recorded(on, "recorded", said);
  return { events: [...decided.events, ...events], result: decided.result };
}

function goodEvaluation(
  on: On,
  cursor: string | null,
  additions: KeyAdditions,
  resolved: ResolvedRequests,
): Decision<EvaluationResult> {
  const { row, evaluation } = on;
  const { run_requests } = resolved;
  const addsKeys = additions.events.length > 0;
  const isOfCursor = hasCursor(row, evaluation);
  const said: Said = {
    status: run_requests.length > 0 || addsKeys ? "triggered" : "no_new_data",
    cursor_after: cursorAfter(on, cursor),
    state_version: isOfCursor ? row.state_version + 1 : null,
    error: null,
    run_requests,
  };
  const isMoved = isOfCursor && (cursor !== row.cursor || row.state === "ERROR");
  // A run that exists already is no change: a sensor may ask for the same again and again.
  const isChange =
    evaluation.source.type === "push" || isMoved || addsKeys || resolved.events.length > 0;
  if (!isChange) return withoutEvent(evaluation, "unchanged", said);
  const { events, result } = recorded(on, "recorded", said);
  return {
    // The keys come first: a run is about partitions that are there.
    events: [...additions.events, ...events, ...resolved.events],
    result: { ...result, keys_added: additions.added() },
  };
}

function cursorAfter({ row, evaluation }: On, cursor: string | null): string | null {
  if (evaluation.source.type === "push") return evaluation.source.message_id;
  return hasCursor(row, evaluation) ? cursor : null;
}

function recentEvaluations(rows: Rows, { sensor_id }: SensorRow): SensorEvalRow[] {
  const where = [{ cell: "sensor_id", is: "=", value: sensor_id }] as const;
  return rows.sensorEvals.find(where, [{ cell: "pos", descending: true }], RECENT_MAX);
}

/**
 * What the same evaluation came to, when it is told of a second time. Another one of the same name,
 * which only a clock that went back can make, has no effect and is made again under a new name.
 */
function toldBefore(rows: Rows, row: SensorRow, evaluation: Evaluation): EvaluationResult | null {
  const { source, cursor } = evaluation;
  const evalId = evalIdOf(row.sensor_id, source);
  const before =
    recentEvaluations(rows, row).find(({ eval_id }) => eval_id === evalId) ??
    (source.type === "manual" ? manualBefore(rows, row, evalId) : undefined);
  if (before === undefined) return null;
  if (source.type === "poll" && before.cursor_before !== cursor) {
    return withoutEvent(evaluation, "stale").result;
  }
  const { eval_id, status, cursor_before, cursor_after, error, run_requests } = before;
  const verdict = status === "skipped_stale_cursor" ? "stale" : "recorded";
  const told = { status, cursor_before, cursor_after, error, run_requests, keys_added: null };
  return { verdict, eval_id, ...told };
}

/** A person's evaluation may be told of again much later. */
function manualBefore(rows: Rows, row: SensorRow, evalId: string): SensorEvalRow | undefined {
  const where = [
    { cell: "sensor_id", is: "=", value: row.sensor_id },
    { cell: "eval_id", is: "=", value: evalId },
  ] as const;
  return rows.sensorEvals.find(where, [{ cell: "pos" }], 1)[0];
}

type Said = Pick<
  EventData<"SensorEvaluated">,
  "status" | "cursor_after" | "state_version" | "error" | "run_requests"
>;

function recorded(
  { row, evaluation, context }: On,
  verdict: EvaluationResult["verdict"],
  said: Said,
): Decision<EvaluationResult> {
  const { source, expected_state_version } = evaluation;
  const { sensor_id, spec_hash } = row;
  const eval_id = evalIdOf(sensor_id, source);
  const isOfCursor = hasCursor(row, evaluation);
  const cursor_before = isOfCursor ? evaluation.cursor : null;
  const event: NewEvent = {
    type: "SensorEvaluated",
    idempotency_key: IDEMPOTENCY_KEYS.sensorEval(context.hash, sensor_id, source, cursor_before),
    data: {
      sensor_id,
      eval_id,
      spec_hash,
      trigger_source: source,
      cursor_before,
      expected_state_version: isOfCursor ? expected_state_version : null,
      recovered: row.state === "ERROR" && verdict === "recorded" && said.status !== "error",
      ...said,
    },
  };
  const { status, cursor_after, error, run_requests } = said;
  const told = { status, cursor_before, cursor_after, error, run_requests, keys_added: [] };
  return { events: [event], result: { verdict, eval_id, ...told } };
}

function withoutEvent(
  { sensor_id, source, cursor }: Evaluation,
  verdict: EvaluationResult["verdict"],
  said: Partial<Said> = {},
): Decision<EvaluationResult> {
  const { status = "no_new_data", cursor_after = cursor, error = null, run_requests = [] } = said;
  const eval_id = evalIdOf(sensor_id, source);
  return {
    events: [],
    result: {
      verdict,
      eval_id,
      status,
      cursor_before: cursor,
      cursor_after,
      error,
      run_requests,
      keys_added: [],
    },
  };
}
