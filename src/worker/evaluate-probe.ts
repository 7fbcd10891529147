import type { Json } from "../core/canonical.ts";
import { PawlError } from "../core/errors.ts";
import type { ClaimedProbe, EvaluatedRequest, EvaluationOutcome } from "../core/probe-protocol.ts";
import { requestOfTarget, requestsOfTarget } from "../core/sensor-target.ts";
import type { SensorCode } from "../define/sensor.ts";
import { openWatcher } from "../tasks/open-watcher.ts";
import { callUser } from "./plain-values.ts";
import { cursorFrom, refuseTooManyRequests, sensorContext } from "./sensor-context.ts";
import type { WorkerLogger } from "./worker-logger.ts";

/** What an evaluation needs of the worker it is made in. */
export type EvaluationHost = {
  /** What the project has of the sensor; null for one that it does not define. */
  code: SensorCode | null;
  environment: Readonly<Record<string, string | undefined>>;
  /** Where relative paths start. */
  folder: string;
  /** The folders that sensors may list, with all below them. */
  listable: readonly string[];
  logger: WorkerLogger;
};

/** Looks where there is something to look at, then lets the target or the function decide. */
export async function evaluateProbe(
  probe: ClaimedProbe,
  host: EvaluationHost,
  signal: AbortSignal,
): Promise<EvaluationOutcome> {
  const { watch, target, message } = probe;
  const found = await foundBy(probe, host, signal);
  if (found !== null && found.items.length === 0) return evaluated(found.cursor, []);
  const items = found?.items ?? [];
  if (target !== null) {
    const requests =
      watch === null && message !== null
        ? [requestOfTarget(target, message)]
        : requestsOfTarget(target, items);
    refuseTooManyRequests(probe, requests.length);
    return evaluated(found === null ? probe.cursor : found.cursor, requests);
  }
  const evaluate = host.code?.evaluate ?? null;
  if (evaluate === null) {
    throw new PawlError(
      "SENSOR_NOT_FOUND",
      `This worker's code has no function for the sensor ${probe.name}; deploy the code that does.`,
    );
  }
  const { context, said } = sensorContext(probe, items, signal, host.logger);
  const cursor = await callUser(async () => {
    const result: unknown = await evaluate(context);
    if (typeof result !== "object" || result === null) return said.cursor;
    const { cursor: returned } = result as { cursor?: unknown };
    return returned === undefined ? said.cursor : cursorFrom(probe, returned);
  });
  return evaluated(found === null ? cursor : found.cursor, said.requests);
}

/** What there is for a sensor with a watch; null without one. */
async function foundBy(
  { watch, target, found, cursor, max_run_requests }: ClaimedProbe,
  { code, environment, folder, listable }: EvaluationHost,
  signal: AbortSignal,
): Promise<{ items: readonly Json[]; cursor: string | null } | null> {
  if (watch === null) return null;
  if (found !== null) return found;
  // Each item may ask for a run of its own; the function of a watch of rows says itself how many.
  const limit = watch.type === "rows" && target === null ? watch.limit : max_run_requests;
  const watcher = openWatcher(watch, {
    code,
    environment,
    folder,
    listable,
    limit,
    now: Date.now,
  });
  return watcher.look(cursor, signal);
}

function evaluated(cursor: string | null, run_requests: EvaluatedRequest[]): EvaluationOutcome {
  return { type: "evaluated", cursor, run_requests };
}
