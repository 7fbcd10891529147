import type { Evaluation, EvaluationResult } from "../../work/sensor/evaluate.ts";
import type { Json } from "../../kernel/canonical.ts";
import { PawlError } from "../../kernel/errors.ts";
import { boundedFailure } from "../../work/envelope.ts";
import { addMs, type Instant } from "../../kernel/instant.ts";
import type {
  EvaluationOutcome,
  ProbeReportAnswer,
  ProbeResult,
} from "../../work/probe-protocol.ts";
import type { Failure } from "../../work/backfill/rows.ts";
import type { SensorRow } from "../../work/sensor/rows.ts";
import type { Probe, ProbeEnd, Store, WorkspaceId } from "../../store/store.ts";
import type { Cause } from "../commit.ts";
import { isStoreFailure, reasonOf } from "../commit-loop.ts";
import {
  isLeasedBy,
  MANUAL_KEPT_MS,
  manualOf,
  memoryOf,
  MESSAGE_ATTEMPTS_MAX,
  messageIdOf,
  nextLookAt,
  nextTryAt,
} from "./keeper.ts";
import type { Sensor, SensorView } from "./sensor-view.ts";

/** How evaluations are decided: recorded, or only reckoned. The engine hands it in. */
export type Deciding = {
  record(evaluation: Evaluation, cause: Cause): Promise<EvaluationResult>;
  reckon(evaluation: Evaluation): Promise<EvaluationResult>;
  /** The sensor that an id or a name stands for; `SENSOR_NOT_FOUND` when there is none. */
  sensorOf(idOrName: string): Promise<SensorRow>;
  /** How long an evaluation is a worker's without a heartbeat. */
  leaseMs: number;
};

/** What came of an evaluation that was made. */
type MadeResult = ProbeResult & { outcome: EvaluationOutcome };

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

/** Records what evaluations came to, and says when each is due again. */
export class ProbeReports {
  readonly #store: Store;
  readonly #ws: WorkspaceId;
  readonly #view: SensorView;
  readonly #deciding: Deciding;
  /** Looks that ended before the end of what there was, by probe and attempt. */
  readonly #cut = new Set<string>();
  readonly counts: EvaluationCounts = {
    triggered: 0,
    no_new_data: 0,
    error: 0,
    unchanged: 0,
    stale: 0,
    lost: 0,
    retried: 0,
  };
  lastLookAt: Instant | null = null;

  constructor(store: Store, ws: WorkspaceId, view: SensorView, deciding: Deciding) {
    this.#store = store;
    this.#ws = ws;
    this.#view = view;
    this.#deciding = deciding;
  }

  /** Notes that there is more of the same, so that the next look need not wait for the interval. */
  noteCut({ probe_id, attempt }: { probe_id: string; attempt: number }): void {
    if (this.#cut.size > 10_000) this.#cut.clear();
    this.#cut.add(`${probe_id} ${attempt}`);
  }

  /**
   * Records results, each by itself. The fence is looked at first and ended last: after a crash in
   * between the evaluation is made again, and the sensor's version, its run keys or the state of the
   * message let that have no second effect.
   */
  async report(results: readonly ProbeResult[], cause: Cause): Promise<Verdict[]> {
    const now = await this.#store.now();
    this.lastLookAt = now;
    const { probes, sensors } = await this.#store.read(this.#ws, async (reader) => {
      const found = await reader.probes([...new Set(results.map(({ probe_id }) => probe_id))]);
      const subjects = found.map(({ subject }) => subject);
      return { probes: found, sensors: await this.#view.byId(reader, subjects) };
    });
    const probeOf = new Map(probes.map((probe) => [probe.probe_id, probe]));
    const ended = await Promise.all(
      results.map(async (result) => {
        const probe = probeOf.get(result.probe_id);
        const isHeld = probe?.attempt === result.attempt && probe.leased_until !== null;
        if (probe === undefined || !isHeld || !isLeasedBy(probe, cause.actor)) {
          return { verdict: "lost" as const, end: null };
        }
        const { outcome, ...rest } = result;
        if (outcome.type === "released") {
          const { probe_id, attempt, due_at, value } = probe;
          return { verdict: "unchanged" as const, end: { probe_id, attempt, due_at, value } };
        }
        const sensor = sensors.get(probe.subject) ?? null;
        return this.#end({ ...rest, outcome }, probe, sensor, cause, now);
      }),
    );
    const ends = ended.flatMap(({ end }) => (end === null ? [] : [end]));
    if (ends.length > 0) await this.#store.settleProbes(this.#ws, ends);
    for (const { verdict } of ended) if (verdict === "lost") this.counts.lost += 1;
    return ended.map(({ verdict }) => verdict);
  }

  async #end(
    result: MadeResult,
    probe: Probe,
    sensor: Sensor | null,
    cause: Cause,
    now: Instant,
  ): Promise<{ verdict: Verdict; end: ProbeEnd }> {
    const { probe_id, attempt } = result;
    const gone = { probe_id, attempt, due_at: null, value: null };
    if (sensor === null) return { verdict: "lost", end: gone };
    if (probe.kind === "manual") return this.#endManual(result, probe, cause, now);
    const memory = memoryOf(probe.value);
    if (probe.kind === "message") return this.#endMessage(result, probe, cause, now);
    const source = { type: "poll", poll_epoch: result.poll_epoch } as const;
    const made = await this.#record(evaluationOf(result, probe, source), cause);
    if (made.verdict === "lost") return { verdict: "lost", end: gone };
    const due = this.#dueAfter(result, made, sensor, memory.failures, now);
    const value: Json = {
      failures: due.failures,
      error: made.error,
      unchanged: made.verdict === "unchanged" ? memory.unchanged + 1 : 0,
      looked_at: now,
      scanned: memory.scanned,
    };
    return { verdict: made.verdict, end: { probe_id, attempt, due_at: due.at, value } };
  }

  /** Records what a message came to; one that failed is tried again a few times before. */
  async #endMessage(
    result: MadeResult,
    probe: Probe,
    cause: Cause,
    now: Instant,
  ): Promise<{ verdict: Verdict; end: ProbeEnd }> {
    const { probe_id, attempt, outcome } = result;
    const memory = memoryOf(probe.value);
    const failures = memory.failures + 1;
    const again = (error: Failure): { verdict: Verdict; end: ProbeEnd } => {
      this.counts.retried += 1;
      const value = { ...memory, failures, error: boundedFailure(error), looked_at: now };
      const due_at = nextTryAt(now, failures);
      return { verdict: "unchanged", end: { probe_id, attempt, due_at, value } };
    };
    const isTriedAgain = failures < MESSAGE_ATTEMPTS_MAX;
    // Where the message itself is at fault, another try comes to the same.
    if (outcome.type === "failed" && outcome.error.class !== "input" && isTriedAgain) {
      return again(outcome.error);
    }
    const source = { type: "push", message_id: messageIdOf(probe) } as const;
    const evaluation = evaluationOf(result, probe, source);
    const isRefusal = outcome.type === "evaluated" && isTriedAgain;
    const made = await this.#record({ ...evaluation, isTriedAgain: isRefusal }, cause);
    if (made.verdict === "unchanged" && made.error !== null) return again(made.error);
    return { verdict: made.verdict, end: { probe_id, attempt, due_at: null, value: null } };
  }

  #dueAfter(
    { probe_id, attempt }: MadeResult,
    made: EvaluationResult,
    { spec }: Sensor,
    failuresBefore: number,
    now: Instant,
  ): { at: Instant; failures: number } {
    const hasMore = this.#cut.delete(`${probe_id} ${attempt}`);
    // At once, but in another millisecond: the time of its lease is the name of an evaluation.
    const atOnce = addMs(now, 1);
    // What the sensor was changed to has not been looked at yet.
    if (made.verdict === "stale") return { at: atOnce, failures: failuresBefore };
    const failures = made.status === "error" ? failuresBefore + 1 : 0;
    const isGoingOn = hasMore && failures === 0;
    const at = isGoingOn ? atOnce : nextLookAt(now, spec.min_interval_ms, failures);
    return { at, failures };
  }

  async #endManual(
    result: MadeResult,
    probe: Probe,
    cause: Cause,
    now: Instant,
  ): Promise<{ verdict: Verdict; end: ProbeEnd }> {
    const { probe_id, attempt } = result;
    const manual = manualOf(probe.value);
    if (manual === null) {
      return { verdict: "lost", end: { probe_id, attempt, due_at: null, value: null } };
    }
    const { request } = manual;
    const source = { type: "manual", request_id: request.request_id } as const;
    const evaluation = evaluationOf(result, probe, source);
    const made = request.dry_run
      ? await this.#deciding.reckon(evaluation)
      : await this.#record(evaluation, cause);
    const value: Json = { request, result: made };
    const due_at = addMs(now, MANUAL_KEPT_MS);
    return { verdict: made.verdict, end: { probe_id, attempt, due_at, value } };
  }

  /** Records an evaluation; one that cannot be recorded becomes a failure that says why. */
  async #record(evaluation: Evaluation, cause: Cause): Promise<EvaluationResult> {
    let made: EvaluationResult;
    try {
      made = await this.#deciding.record(evaluation, cause);
    } catch (error) {
      if (!(error instanceof PawlError) || isStoreFailure(error)) throw error;
      const message = `what it came to could not be recorded: ${reasonOf(error)}`;
      const outcome = { type: "failed", error: { class: "input", message } } as const;
      made = await this.#deciding.record({ ...evaluation, outcome }, cause);
    }
    const { verdict, status } = made;
    if (verdict === "unchanged") this.counts.unchanged += 1;
    else if (verdict === "stale") this.counts.stale += 1;
    else if (verdict === "recorded" && status !== "skipped_stale_cursor") this.counts[status] += 1;
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
