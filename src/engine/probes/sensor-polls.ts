import type { Json } from "../../kernel/canonical.ts";
import { PawlError } from "../../kernel/errors.ts";
import { addMs, type Instant, msBetween } from "../../kernel/instant.ts";
import type { Probe, Reader, Store, WorkspaceId } from "../../store/store.ts";
import type { Failure } from "../../work/backfill/rows.ts";
import { type Actor, boundedFailure, holderOf, type RecordedEvent } from "../../work/envelope.ts";
import type {
  ClaimedProbe,
  EvaluationOutcome,
  ProbeClaimAnswer,
  ProbeClaimRequest,
  ProbeReportAnswer,
  ProbeReportRequest,
  ProbeResult,
  SensorMessage,
} from "../../work/probe-protocol.ts";
import {
  type Evaluation,
  type EvaluationResult,
  evaluateSensor,
  livingSensor,
} from "../../work/sensor/evaluate.ts";
import {
  MANUAL_KEPT_MS,
  MESSAGE_ATTEMPTS_MAX,
  manualOf,
  manualProbeId,
  messageIdOf,
  nextPollAt,
  nextTryAt,
  type PolledSensor,
  sensorMemoryOf,
} from "../../work/sensor/poll.ts";
import type { SensorRow } from "../../work/sensor/rows.ts";
import { requestOfTarget, requestsOfTarget } from "../../work/sensor/target.ts";
import { HeardNames } from "../claim-queue.ts";
import type { DecisionCause } from "../commit.ts";
import type { Environment } from "../config.ts";
import { workerCause } from "../serve-claims.ts";
import { DueSensors, type Taken } from "./due-sensors.ts";
import {
  type Decided,
  type Made,
  type PollChange,
  type PollHost,
  type PollKind,
  Polls,
  refusalOf,
  type Take,
} from "./polls.ts";
import { ProbeTable } from "./probe-table.ts";
import {
  SENSOR_PROBE_EVENTS,
  SensorProbes,
  type SensorStatus,
  SensorView,
  sensorStatus,
} from "./sensor-view.ts";

/** Evaluations that the server makes by itself in one go. */
const SERVED_MAX = 100;
/** Most polls that are remembered to have ended early. */
const CUT_MAX = 10_000;

/** Events that sensors may watch. */
const LEDGER_EVENTS: ReadonlySet<string> = new Set([
  "TasksFinished",
  "RunFinished",
  "PartitionsReported",
]);

type MadeResult = Made<ProbeResult>;
type Verdict = ProbeReportAnswer["results"][number];

/** What came of evaluations, counted since the server started. */
export type EvaluationCounts = {
  triggered: number;
  no_new_data: number;
  error: number;
  unchanged: number;
  stale: number;
  lost: number;
  retried: number;
};

const GONE = { due_at: null, value: null };

/**
 * Polls sensors: evaluates poll sensors, messages of push sensors, and what people ask for by hand.
 * What a sensor has no code for, this server evaluates by itself.
 */
export class SensorPolls
  implements PollKind<ProbeClaimRequest, ClaimedProbe, ProbeResult, Verdict>
{
  readonly name = "sensors";
  readonly followed = SENSOR_PROBE_EVENTS;
  readonly repeatable = [];
  readonly polls: Polls<ProbeClaimRequest, ClaimedProbe, ProbeResult, Verdict>;
  readonly #host: PollHost;
  readonly #view: SensorView;
  readonly #probes: SensorProbes;
  readonly #due: DueSensors;
  readonly #heard = new HeardNames();
  /** Polls that ended before the end of what there was, by probe and attempt. */
  readonly #cut = new Set<string>();
  readonly #counts = {
    triggered: 0,
    no_new_data: 0,
    error: 0,
    unchanged: 0,
    stale: 0,
    retried: 0,
  };

  constructor(host: PollHost) {
    this.#host = host;
    this.polls = new Polls(host, this);
    this.#view = new SensorView(() => this.polls.isStarted);
    this.#probes = new SensorProbes(new ProbeTable(host), this.#view);
    this.#due = new DueSensors(host, this.#view);
  }

  /** Gives a worker evaluations, waiting for some to fall due. */
  async claim(
    request: ProbeClaimRequest,
    signal: AbortSignal | undefined,
    actor: Actor,
  ): Promise<ProbeClaimAnswer> {
    this.#heard.hear(holderOf(actor), new Set(request.sensors), await this.#host.store.now());
    const probes = await this.polls.claim(request, signal, actor);
    return { ttl_ms: this.#host.leaseMs, probes };
  }

  async report({ results }: ProbeReportRequest, actor: Actor): Promise<ProbeReportAnswer> {
    return { results: await this.polls.report(results, workerCause(actor)) };
  }

  /** Asks for an evaluation now, of a sensor by id or name; the same request twice is one. */
  async request({
    sensor,
    ...asked
  }: EvaluationRequest & { sensor: string }): Promise<{ probe_id: string; sensor_id: string }> {
    const { store, ws, reckon } = this.#host;
    const row = await reckon((rows) => ({ events: [], result: livingSensor(rows, sensor) }));
    const { probe_id } = await addManualProbe(store, ws, row, asked);
    this.polls.added();
    return { probe_id, sensor_id: row.sensor_id };
  }

  /** What became of an evaluation that was asked for, here or at another server. */
  await(probeId: string, timeoutMs: number): Promise<AwaitedEvaluation> {
    const { store, ws, environment } = this.#host;
    return awaitManualProbe(store, ws, environment, probeId, timeoutMs);
  }

  /** How sensors are doing, for metrics. */
  status(): Promise<SensorStatus> {
    const { store, ws } = this.#host;
    const { lost, lastReportAt } = this.polls;
    return sensorStatus(store, ws, this.#view, { ...this.#counts, lost }, lastReportAt);
  }

  /** The names of sensors that workers have asked for, and when last. */
  claimedSensors(): Map<string, Instant> {
    return this.#heard.all();
  }

  note(event: RecordedEvent): PollChange | null {
    const change = this.#probes.note(event);
    if (change !== null) return change;
    return this.#due.hasLedgerWatch && LEDGER_EVENTS.has(event.type) ? "soon" : null;
  }

  refresh(isAll: boolean, now: Instant): Promise<void> {
    return this.#probes.refresh(isAll, now);
  }

  async isAskedElsewhere(reader: Reader): Promise<boolean> {
    const [probe] = await reader.probesOf("manual", null, 1);
    return probe?.leased_until === null;
  }

  async take(
    claim: ProbeClaimRequest | null,
    holder: string | null,
  ): Promise<Take<ClaimedProbe, ProbeResult>> {
    const names = claim === null ? null : new Set(claim.sensors);
    const slots = claim?.slots ?? SERVED_MAX;
    const { probes, nextAt } = await this.#due.take({ names, holder }, slots);
    for (const { isCut, probe_id, attempt } of probes) {
      if (!isCut) continue;
      if (this.#cut.size > CUT_MAX) this.#cut.clear();
      this.#cut.add(`${probe_id} ${attempt}`);
    }
    // What cannot be evaluated is reported as failed in the worker's place.
    const isOwn = ({ failure }: Taken): boolean => claim === null || failure !== null;
    return {
      claimed: probes.filter((probe) => !isOwn(probe)),
      made: probes.filter(isOwn).map(resultOf),
      waitMs: async () =>
        nextAt === null ? null : msBetween(await this.#host.store.now(), nextAt),
    };
  }

  /** Records results, each by itself: the version of the sensor or the state of the message fences it. */
  async record(
    results: readonly { result: MadeResult; probe: Probe }[],
    cause: DecisionCause,
    now: Instant,
  ): Promise<Decided<Verdict>[]> {
    const { store, ws } = this.#host;
    const ids = results.map(({ probe }) => probe.subject);
    const sensors = await store.read(ws, (reader) => this.#view.byId(reader, ids));
    return Promise.all(
      results.map(({ result, probe }) => {
        const sensor = sensors.get(probe.subject);
        return this.#recordOne(result, probe, sensor, cause, now);
      }),
    );
  }

  async #recordOne(
    result: MadeResult,
    probe: Probe,
    sensor: PolledSensor | undefined,
    cause: DecisionCause,
    now: Instant,
  ): Promise<Decided<Verdict>> {
    if (sensor === undefined) return { verdict: "lost", ...GONE };
    if (probe.kind === "manual") return this.#recordManual(result, probe, cause, now);
    if (probe.kind === "message") return this.#recordMessage(result, probe, cause, now);
    const memory = sensorMemoryOf(probe.value);
    const source = { type: "poll", poll_epoch: result.poll_epoch } as const;
    const made = await this.#evaluate(evaluationOf(result, probe, source), cause);
    if (made.verdict === "lost") return { verdict: "lost", ...GONE };
    const due = this.#dueAfter(result, made, sensor, memory.failures, now);
    const value: Json = {
      failures: due.failures,
      error: made.error,
      unchanged: made.verdict === "unchanged" ? memory.unchanged + 1 : 0,
      looked_at: now,
      scanned: memory.scanned,
    };
    return { verdict: made.verdict, due_at: due.at, value };
  }

  /** Records what a message came to; one that failed is tried again a few times before. */
  async #recordMessage(
    result: MadeResult,
    probe: Probe,
    cause: DecisionCause,
    now: Instant,
  ): Promise<Decided<Verdict>> {
    const { outcome } = result;
    const memory = sensorMemoryOf(probe.value);
    const failures = memory.failures + 1;
    const again = (error: Failure): Decided<Verdict> => {
      this.#counts.retried += 1;
      const value = { ...memory, failures, error: boundedFailure(error), looked_at: now };
      return { verdict: "unchanged", due_at: nextTryAt(now, failures), value };
    };
    const isTriedAgain = failures < MESSAGE_ATTEMPTS_MAX;
    // Where the message itself is at fault, another try comes to the same.
    if (outcome.type === "failed" && outcome.error.class !== "input" && isTriedAgain) {
      return again(outcome.error);
    }
    const source = { type: "push", message_id: messageIdOf(probe) } as const;
    const evaluation = evaluationOf(result, probe, source);
    const isRefusal = outcome.type === "evaluated" && isTriedAgain;
    const made = await this.#evaluate({ ...evaluation, isTriedAgain: isRefusal }, cause);
    if (made.verdict === "unchanged" && made.error !== null) return again(made.error);
    return { verdict: made.verdict, ...GONE };
  }

  async #recordManual(
    result: MadeResult,
    probe: Probe,
    cause: DecisionCause,
    now: Instant,
  ): Promise<Decided<Verdict>> {
    const manual = manualOf(probe.value);
    if (manual === null) return { verdict: "lost", ...GONE };
    const { request } = manual;
    const source = { type: "manual", request_id: request.request_id } as const;
    const evaluation = evaluationOf(result, probe, source);
    const made = request.dry_run
      ? await this.#host.reckon(evaluateSensor(evaluation))
      : await this.#evaluate(evaluation, cause);
    const value: Json = { request, result: made };
    return { verdict: made.verdict, due_at: addMs(now, MANUAL_KEPT_MS), value };
  }

  #dueAfter(
    { probe_id, attempt }: MadeResult,
    made: EvaluationResult,
    { spec }: PolledSensor,
    failuresBefore: number,
    now: Instant,
  ): { at: Instant; failures: number } {
    const hasMore = this.#cut.delete(`${probe_id} ${attempt}`);
    // At once, but in another millisecond: the time of its lease is the name of an evaluation.
    const atOnce = addMs(now, 1);
    // What the sensor was changed to has not been polled yet.
    if (made.verdict === "stale") return { at: atOnce, failures: failuresBefore };
    const failures = made.status === "error" ? failuresBefore + 1 : 0;
    const isGoingOn = hasMore && failures === 0;
    const at = isGoingOn ? atOnce : nextPollAt(now, spec.min_interval_ms, failures);
    return { at, failures };
  }

  /** Records an evaluation; one that cannot be recorded becomes a failure that says why. */
  async #evaluate(evaluation: Evaluation, cause: DecisionCause): Promise<EvaluationResult> {
    const { record } = this.#host;
    const made = await record(evaluateSensor(evaluation), cause).catch((error: unknown) => {
      const outcome = { type: "failed", error: refusalOf("what it came to", error) } as const;
      return record(evaluateSensor({ ...evaluation, outcome }), cause);
    });
    const { verdict, status } = made;
    if (verdict === "unchanged") this.#counts.unchanged += 1;
    else if (verdict === "stale") this.#counts.stale += 1;
    else if (verdict === "recorded" && status !== "skipped_stale_cursor") {
      this.#counts[status] += 1;
    }
    return made;
  }
}

function evaluationOf(
  { cursor, expected_state_version, outcome }: MadeResult,
  { subject }: Probe,
  source: Evaluation["source"],
): Evaluation {
  return { sensor_id: subject, source, cursor, expected_state_version, outcome };
}

/** What the server itself finds out, from the target alone. */
function resultOf(taken: Taken): MadeResult {
  const { probe_id, attempt, cursor, expected_state_version, poll_epoch } = taken;
  const outcome = outcomeOf(taken);
  return { probe_id, attempt, cursor, expected_state_version, poll_epoch, outcome };
}

function outcomeOf({ failure, target, found, message, cursor }: Taken): EvaluationOutcome {
  if (failure !== null) return { type: "failed", error: failure };
  const after = found === null ? cursor : found.cursor;
  if (target === null) return { type: "evaluated", cursor: after, run_requests: [] };
  try {
    const run_requests =
      found !== null
        ? requestsOfTarget(target, found.items)
        : message === null
          ? []
          : [requestOfTarget(target, message)];
    return { type: "evaluated", cursor: after, run_requests };
  } catch (error) {
    if (!(error instanceof PawlError)) throw error;
    return { type: "failed", error: { class: "input", message: error.message } };
  }
}

/** How often it is looked whether a person's evaluation has ended, at whatever server. */
const AWAIT_MS = 100;

/** What a person wants evaluated: a poll sensor as it is, or a push sensor with a sample. */
export type EvaluationRequest = {
  request_id: string;
  dry_run: boolean;
  message: SensorMessage | null;
};

/** Where a person's evaluation is; `gone` when nobody knows of it, or not any more. */
export type AwaitedEvaluation =
  | { state: "done"; evaluation: EvaluationResult }
  | { state: "pending" }
  | { state: "gone" };

/** Asks for an evaluation now, of a sensor that is not deleted; the same request twice is one. */
export async function addManualProbe(
  store: Store,
  ws: WorkspaceId,
  row: SensorRow,
  asked: EvaluationRequest,
): Promise<{ probe_id: string }> {
  refuseUnfit(row, asked);
  const now = await store.now();
  const probe_id = manualProbeId(row.sensor_id, asked.request_id);
  const value = { request: { ...asked, requested_at: now }, result: null };
  await store.addProbes(ws, [
    { probe_id, kind: "manual", subject: row.sensor_id, due_at: now, value },
  ]);
  return { probe_id };
}

/** What became of an evaluation that was asked for, here or at another server. */
export async function awaitManualProbe(
  store: Store,
  ws: WorkspaceId,
  environment: Environment,
  probeId: string,
  timeoutMs: number,
): Promise<AwaitedEvaluation> {
  let isLate = timeoutMs <= 0;
  const cancel = environment.timer(Math.max(1, timeoutMs), () => {
    isLate = true;
  });
  try {
    for (;;) {
      const isLast = isLate;
      const [probe] = await store.read(ws, (reader) => reader.probes([probeId]));
      const manual = probe === undefined ? null : manualOf(probe.value);
      if (manual === null) return { state: "gone" };
      if (manual.result !== null) return { state: "done", evaluation: manual.result };
      if (isLast) return { state: "pending" };
      await new Promise<void>((resolve) => {
        environment.timer(Math.min(AWAIT_MS, Math.max(1, timeoutMs)), resolve);
      });
    }
  } finally {
    cancel();
  }
}

function refuseUnfit({ name, mode }: SensorRow, { message }: EvaluationRequest): void {
  if ((mode === "push") === (message !== null)) return;
  throw new PawlError(
    "INPUT_INVALID",
    mode === "push"
      ? `Sensor ${name} is evaluated with a message. Give one, with the payload it should see.`
      : `Sensor ${name} looks by itself and sees no message. Leave the message out.`,
    { details: { sensor: name, mode } },
  );
}
