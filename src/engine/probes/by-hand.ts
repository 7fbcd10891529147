import type { EvaluationResult } from "../../work/sensor/evaluate.ts";
import { PawlError } from "../../kernel/errors.ts";
import type { SensorMessage } from "../../work/probe-protocol.ts";
import type { SensorRow } from "../../work/sensor/rows.ts";
import type { Store, WorkspaceId } from "../../store/store.ts";
import type { Environment } from "../config.ts";
import { manualOf, manualProbeId } from "../../work/sensor/poll.ts";

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
