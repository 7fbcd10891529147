import type { Json } from "../../kernel/canonical.ts";
import { PawlError } from "../../kernel/errors.ts";
import { type ClaimedProbe, EvaluatedRequest } from "../../work/probe-protocol.ts";
import { assetKeysOf } from "../../define/asset.ts";
import { parseDefinition, refuseUnknownOptions } from "../../define/parse-definition.ts";
import type { SensorContext, SensorRequest } from "../../define/automation-context.ts";
import { logFields, textOf } from "../plain-values.ts";
import type { WorkerLogger } from "../run-worker.ts";

const REQUEST_OPTIONS = ["assets", "partition", "partitions", "runKey", "config", "labels"];
const CURSOR_LENGTH_MAX = 100_000;
/** Longest line that a function logs, and most that its fields may be as JSON. */
const LOG_TEXT_MAX = 10_000;

/** What the function of a sensor has said. */
export type Said = { requests: EvaluatedRequest[]; cursor: string | null };

/** What the function of a sensor gets, and where what it says is gathered. */
export function sensorContext(
  probe: ClaimedProbe,
  items: readonly Json[],
  signal: AbortSignal,
  logger: WorkerLogger,
): { context: SensorContext<Json>; said: Said } {
  const said: Said = { requests: [], cursor: probe.cursor };
  const context: SensorContext<Json> = {
    sensor: probe.name,
    cursor: probe.cursor,
    items,
    message: probe.message,
    signal,
    request(request) {
      said.requests.push(requestOf(request));
      refuseTooManyRequests(probe, said.requests.length);
    },
    setCursor(cursor) {
      said.cursor = cursorFrom(probe, cursor);
    },
    log(message, fields) {
      const kept = { sensor: probe.name, ...logFields(fields, LOG_TEXT_MAX) };
      logger.info(kept, textOf(message, LOG_TEXT_MAX));
    },
  };
  return { context, said };
}

/** Where a function wants the next evaluation to start; null is the beginning. */
export function cursorFrom(probe: ClaimedProbe, cursor: unknown): string | null {
  if (probe.watch !== null) {
    throw wrong("A sensor with a watch moves on by itself; leave out the cursor.");
  }
  if (probe.expected_state_version === null) {
    throw wrong("A sensor that is pushed to has no cursor; leave it out.");
  }
  if (cursor === null) return null;
  if (typeof cursor !== "string") {
    throw wrong(`The cursor must be a text, not ${typeof cursor}; write it with JSON.stringify().`);
  }
  if (cursor.length <= CURSOR_LENGTH_MAX) return cursor;
  throw wrong(`The cursor has ${cursor.length} characters; at most ${CURSOR_LENGTH_MAX} are kept.`);
}

/** Refuses more run requests than the sensor may make in one evaluation. */
export function refuseTooManyRequests(
  { name, max_run_requests }: ClaimedProbe,
  count: number,
): void {
  if (count <= max_run_requests) return;
  throw wrong(
    `The sensor ${name} asks for more than ${max_run_requests} runs in one evaluation; ask for ` +
      "several partitions in one request, or raise maxRunRequests.",
  );
}

function requestOf(request: SensorRequest): EvaluatedRequest {
  refuseUnknownOptions("request()", request, REQUEST_OPTIONS);
  const { partition, partitions, runKey = null, config = null, labels = {} } = request;
  if (partition !== undefined && partitions !== undefined) {
    throw wrong("request() was given partition and partitions; give one of them.");
  }
  return parseDefinition("request()", EvaluatedRequest, {
    asset_selection: assetKeysOf(request.assets ?? []),
    partition_keys: partition === undefined ? [...(partitions ?? [])] : [partition],
    ...(partition === undefined && partitions === undefined ? { partition_keys: null } : {}),
    run_key: runKey,
    config,
    labels,
  });
}

function wrong(message: string): PawlError {
  return new PawlError("INPUT_INVALID", message);
}
