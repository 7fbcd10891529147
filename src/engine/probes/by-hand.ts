import type { EvaluationResult } from "../../work/sensor/evaluate.ts";
import { PawlError } from "../../kernel/errors.ts";
import type { SensorMessage } from "../../work/probe-protocol.ts";
import type { SensorRow, SensorEvalRow } from "../../work/sensor/rows.ts";
import type { Store, WorkspaceId, Reader } from "../../store/store.ts";
import type { Environment } from "../config.ts";
import { manualOf, manualProbeId } from "../../work/sensor/poll.ts";
import { TABLES } from "../../work/tables.ts";
import type { ScheduleTickRow } from "../../work/schedule/rows.ts";

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

const EVAL_ID = /^([0-9A-HJKMNP-TV-Z]{26}):(?:msg|poll|manual):./s;

/** The evaluation that an id names, if something came of it; null when it names none. */
export async function findEvaluation(
  reader: Reader,
  evalId: string,
): Promise<SensorEvalRow | null> {
  const sensorId = EVAL_ID.exec(evalId)?.[1];
  if (sensorId === undefined) return null;
  const [found] = await reader.find({
    table: TABLES.sensorEvals,
    where: [
      { cell: "sensor_id", is: "=", value: sensorId },
      { cell: "eval_id", is: "=", value: evalId },
    ],
    order: [{ cell: "pos", descending: true }],
    limit: 1,
  });
  return found ?? null;
}

/** The positions of the runs that an evaluation made. */
export async function runsOfEvaluation(
  reader: Reader,
  { run_requests }: SensorEvalRow,
): Promise<number[]> {
  const runIds = run_requests.flatMap(({ run_id, outcome }) =>
    outcome === "created" && run_id !== null ? [run_id] : [],
  );
  if (runIds.length === 0) return [];
  const runs = await reader.find({
    table: TABLES.runs,
    where: [{ cell: "run_id", is: "in", values: runIds }],
    order: [{ cell: "run_id" }],
    limit: runIds.length,
  });
  return runs.map(({ run_pos }) => run_pos);
}

const TICK_ID = /^([0-9A-HJKMNP-TV-Z]{26}):(?:manual:)?\d{1,15}(?::\d{1,6})?$/;

/** The decided time that a tick id names; null when it names none. */
export async function findTick(reader: Reader, tickId: string): Promise<ScheduleTickRow | null> {
  const scheduleId = TICK_ID.exec(tickId)?.[1];
  if (scheduleId === undefined) return null;
  const [tick] = await reader.find({
    table: TABLES.scheduleTicks,
    where: [
      { cell: "schedule_id", is: "=", value: scheduleId },
      { cell: "tick_id", is: "=", value: tickId },
    ],
    order: [{ cell: "pos", descending: true }],
    limit: 1,
  });
  return tick ?? null;
}

/** The position of the run or the backfill that a tick asked for; null when it asked for none. */
export async function requestOfTick(
  reader: Reader,
  tick: ScheduleTickRow,
): Promise<{ pos: number } | null> {
  if (tick.backfill_id !== null) {
    const [backfill] = await reader.load(TABLES.backfills, [[tick.backfill_id]]);
    return backfill === undefined ? null : { pos: backfill.created_pos };
  }
  if (tick.run_id === null) return null;
  const [run] = await reader.find({
    table: TABLES.runs,
    where: [{ cell: "run_id", is: "=", value: tick.run_id }],
    order: [],
    limit: 1,
  });
  return run === undefined ? null : { pos: run.run_pos };
}
