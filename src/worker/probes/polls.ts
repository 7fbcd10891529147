import { GatheredKeys } from "../gathered-keys.ts";
import { CONFIG_LENGTH_MAX } from "../../work/definition/spec.ts";
import type { WorkerConnection } from "../../client/worker-connection.ts";
import type {
  SourceContext,
  SensorContext,
  SensorRequest,
} from "../../define/automation-context.ts";
import type { Project } from "../../define/define-pawl.ts";
import { sourceUnavailable, Skip } from "../../define/errors.ts";
import { PawlError, type ErrorCode } from "../../kernel/errors.ts";
import { callUser, keptJson, logFields, plainError, readableText } from "../plain-values.ts";
import type { WorkerLogger } from "../run-worker.ts";
import { type PlainSyncCode, plainSyncCode } from "../segments/source-failure.ts";
import type { SourceGate } from "../segments/source-gate.ts";
import type { SourceGates } from "../segments/source-gates.ts";
import { CLAIM_WAIT_MS, type WorkerPoll } from "./poll-runner.ts";
import type { Json } from "../../kernel/canonical.ts";
import { assetKeysOf } from "../../define/asset.ts";
import { parseDefinition, refuseUnknownOptions } from "../../define/parse-definition.ts";
import type { SensorCode } from "../../define/sensor.ts";
import {
  type Anchor,
  type ClaimedHead,
  type ClaimedProbe,
  EvaluatedRequest,
  type EvaluationOutcome,
  type HeadOutcome,
  type HeadResult,
  type ProbeResult,
} from "../../work/probe-protocol.ts";
import { requestOfTarget, requestsOfTarget } from "../../work/sensor/target.ts";
import { listableFolders, openWatcher } from "../steps/watch/open-watcher.ts";

/** Most heads that are polled at once: they only wait for answers. */
const HEADS_AT_ONCE = 32;
/** Longest line that a function logs, and most that its fields may be as JSON. */
const LOG_TEXT_MAX = 10_000;
/** Longest configuration that is sent at all: the server says of a shorter one that it is too long. */
const CONFIG_COPIED_MAX = 4 * CONFIG_LENGTH_MAX;

/** What polls of heads need around them. */
type HeadPollOptions = {
  connection: WorkerConnection;
  project: Project;
  workerId: string;
  logger: WorkerLogger;
  gates: SourceGates;
};

/** Polls of heads: of the syncs that have a function for it. */
export function headPoll(
  options: HeadPollOptions,
): WorkerPoll<ClaimedHead, HeadOutcome, HeadResult> {
  const { connection, project, workerId: worker_id } = options;
  const syncs = [...project.syncs].filter(([, { head }]) => head !== null).map(([name]) => name);
  return {
    isAny: syncs.length > 0,
    concurrency: HEADS_AT_ONCE,
    heldMax: HEADS_AT_ONCE,
    gatherMs: 0,
    waitMsMax: 0,
    refusals: new Set(),
    texts: {
      poll: "look at the head",
      waited: "A look at a head waited too long and is given back.",
      dropped: "A look at a head was dropped; it will be made again.",
      isUnknown: "knows no syncs; this worker looks at no heads",
    },
    async claim(slots, signal) {
      const request = { worker_id, syncs, slots, wait_ms: CLAIM_WAIT_MS };
      const { ttl_ms, heads } = await connection.claimHeads(request, signal);
      return { ttl_ms, polls: heads };
    },
    // None waits for another, not even for one of the same head that was lost and has not ended yet.
    seriesOf: ({ probe_id, attempt }) => `${probe_id} ${attempt}`,
    fieldsOf: ({ sync, source }) => ({ sync, source }),
    make: (head, signal) => seenHead(head, options, signal),
    resultOf: ({ probe_id, attempt, sync, source, as_of }, outcome) => {
      const ref = { probe_id, attempt, sync, source };
      return as_of === undefined ? { ...ref, outcome } : { ...ref, as_of, outcome };
    },
    heldLook: (head) => ({ head }),
    report: (results) => connection.reportHeads({ worker_id, results }),
  };
}

async function seenHead(
  head: ClaimedHead,
  { project, gates, logger }: HeadPollOptions,
  signal: AbortSignal,
): Promise<HeadOutcome> {
  const { sync, source, target } = head;
  const code = project.syncs.get(sync);
  if (code === undefined) {
    throw new PawlError("SYNC_NOT_FOUND", `This worker's code has no sync ${sync}.`);
  }
  const specs = project.specs.filter((spec) => spec.kind === "sync");
  const spec = specs.find(({ name }) => name === sync);
  const definition = {
    requestSize: spec?.request_size ?? null,
    requestsPerSecond: spec?.requests_per_second ?? null,
  };
  const gate = await gates.gateOf(source, definition, signal);
  const context: SourceContext = {
    sync,
    source,
    target,
    signal,
    turn: () => gate.turn({ isLive: true, signal, alive: () => undefined }),
    log: (message, fields) => {
      const kept = { sync, source, ...logFields(fields, LOG_TEXT_MAX) };
      logger.info(kept, readableText(message, LOG_TEXT_MAX));
    },
  };
  return pollHead(head, { code: plainSyncCode(code), gate, context, signal });
}

/** What a poll of a head needs of the worker it is made in. */
type HeadHost = {
  code: PlainSyncCode;
  gate: SourceGate;
  context: SourceContext;
  signal: AbortSignal;
};

type Seen = Extract<HeadOutcome, { type: "seen" }>;

/**
 * Asks for the head of a source and whether blocks that are known are still the same. Whatever
 * cannot be answered fails the poll as a whole: it is never taken for a rewrite.
 */
export async function pollHead(claimed: ClaimedHead, host: HeadHost): Promise<Seen> {
  const { code, context } = host;
  const read = code.head;
  if (read === null) {
    throw new PawlError(
      "SYNC_NOT_FOUND",
      `This worker's code has no function head for the sync ${claimed.sync}; deploy the code that does.`,
    );
  }
  const head = await ask(host, () => read(context));
  const { anchors, finality } = claimed;
  // Before the others are compared: when blocks are rewritten meanwhile, this is an old hash, which the
  // next poll finds out. A new one would hide the rewrite for ever.
  const safe = await safeOf(head - finality, host);
  const fork = await forkOf(anchors, head, host);
  if (fork !== null && (await safeOf(head - finality, host))?.hash !== safe?.hash) {
    throw sourceUnavailable(`The source ${claimed.source} rewrote blocks while it was looked at.`);
  }
  return { type: "seen", head, safe, fork };
}

async function safeOf(block: number, host: HeadHost): Promise<Anchor | null> {
  const hash = block < 0 ? null : await hashOf(block, host);
  return hash === null ? null : { block, hash };
}

/** Where the source left what is known; null when it did not. */
async function forkOf(
  anchors: readonly Anchor[],
  head: number,
  host: HeadHost,
): Promise<Seen["fork"]> {
  if (host.code.hash === null) return null;
  // A node that is behind does not know the others, which says nothing about them.
  const known = anchors.filter(({ block }) => block <= head);
  let differs = false;
  for (const anchor of known) {
    if (await holds(anchor, host)) return differs ? { block: anchor.block } : null;
    differs = true;
  }
  return differs ? { block: null } : null;
}

/** Asked twice before it counts: behind one address there may be several nodes. */
async function holds({ block, hash }: Anchor, host: HeadHost): Promise<boolean> {
  if ((await hashOf(block, host)) === hash) return true;
  return (await hashOf(block, host)) === hash;
}

async function hashOf(block: number, host: HeadHost): Promise<string | null> {
  const { hash } = host.code;
  if (hash === null) return null;
  return ask(host, () => hash(block, host.context));
}

function ask<Answer>({ gate, signal }: HeadHost, call: () => Promise<Answer>): Promise<Answer> {
  const request = { isLive: true, size: null, signal, alive: () => undefined };
  return gate.ask(request, async () => {
    const answer = await call();
    signal.throwIfAborted();
    return answer;
  });
}

/** Most evaluations that run at once. */
const SENSORS_AT_ONCE = 8;
/** Most evaluations that are held; fewer than one report may have: cursors and configurations are large. */
const HELD_MAX = 16;
/** How long few free places wait for more of them. */
const GATHER_MS = 10;
/** How long an evaluation may wait for others of its sensor before it is given back. */
const WAIT_MS_MAX = 5_000;
const REQUEST_OPTIONS = ["assets", "partition", "partitions", "add", "runKey", "config", "labels"];
const CURSOR_LENGTH_MAX = 100_000;

const REFUSALS: ReadonlySet<ErrorCode> = new Set(["INPUT_INVALID", "SELECTION_TOO_LARGE"]);

/** What the evaluations of a worker need around them. */
type SensorPollOptions = {
  connection: WorkerConnection;
  project: Project;
  workerId: string;
  logger: WorkerLogger;
  environment: Readonly<Record<string, string | undefined>>;
  folder: string;
};

/** Polls of sensors: so many at once, and one of a sensor after the other. */
export function sensorPoll(
  options: SensorPollOptions,
): WorkerPoll<ClaimedProbe, EvaluationOutcome, ProbeResult> {
  const { connection, project, workerId: worker_id, logger, environment, folder } = options;
  const sensors = [...project.sensors.keys()];
  return {
    // Some need no code of the project.
    isAny: true,
    concurrency: SENSORS_AT_ONCE,
    heldMax: HELD_MAX,
    gatherMs: GATHER_MS,
    waitMsMax: WAIT_MS_MAX,
    refusals: REFUSALS,
    texts: {
      poll: "evaluation",
      waited: "An evaluation waited too long for others of its sensor and is given back.",
      dropped: "The result of an evaluation was dropped; it will be made again.",
      isUnknown: "knows no sensors; this worker only runs tasks",
    },
    async claim(slots, signal) {
      const request = { worker_id, sensors, slots, wait_ms: CLAIM_WAIT_MS };
      const { ttl_ms, probes } = await connection.claimProbes(request, signal);
      return { ttl_ms, polls: probes };
    },
    seriesOf: ({ sensor_id }) => sensor_id,
    fieldsOf: ({ name }) => ({ sensor: name }),
    async make(probe, signal) {
      const code = project.sensors.get(probe.name) ?? null;
      const listable = listableFolders(folder, project.specs, environment);
      const host = { code, environment, folder, listable, logger };
      return evaluateProbe(probe, host, signal).catch((error: unknown) => {
        if (!(plainError(error) instanceof Skip)) throw error;
        // Nothing to ask for, and nothing wrong: what was found is found again next time.
        return evaluated(probe.cursor, []);
      });
    },
    resultOf: ({ probe_id, attempt, cursor, expected_state_version, poll_epoch }, outcome) => {
      return { probe_id, attempt, cursor, expected_state_version, poll_epoch, outcome };
    },
    heldLook: (probe) => ({ probe }),
    report: (results) => connection.reportProbes({ worker_id, results }),
  };
}

/** What an evaluation needs of the worker it is made in. */
type EvaluationHost = {
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
async function evaluateProbe(
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
  const outcome = evaluated(found === null ? cursor : found.cursor, said.requests);
  const added_keys = said.additions.all();
  return added_keys.length === 0 ? outcome : { ...outcome, added_keys };
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

function evaluated(
  cursor: string | null,
  run_requests: EvaluatedRequest[],
): Extract<EvaluationOutcome, { type: "evaluated" }> {
  return { type: "evaluated", cursor, run_requests };
}

/** What the function of a sensor has said. */
type Said = { requests: EvaluatedRequest[]; additions: GatheredKeys; cursor: string | null };

/** What the function of a sensor gets, and where what it says is gathered. */
function sensorContext(
  probe: ClaimedProbe,
  items: readonly Json[],
  signal: AbortSignal,
  logger: WorkerLogger,
): { context: SensorContext<Json>; said: Said } {
  const said: Said = { requests: [], additions: new GatheredKeys(), cursor: probe.cursor };
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
    addPartitions(definition, keys) {
      said.additions.add(definition, keys);
    },
    setCursor(cursor) {
      said.cursor = cursorFrom(probe, cursor);
    },
    log(message, fields) {
      const kept = { sensor: probe.name, ...logFields(fields, LOG_TEXT_MAX) };
      logger.info(kept, readableText(message, LOG_TEXT_MAX));
    },
  };
  return { context, said };
}

/** Where a function wants the next evaluation to start; null is the beginning. */
function cursorFrom(probe: ClaimedProbe, cursor: unknown): string | null {
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
function refuseTooManyRequests({ name, max_run_requests }: ClaimedProbe, count: number): void {
  if (count <= max_run_requests) return;
  throw wrong(
    `The sensor ${name} asks for more than ${max_run_requests} runs in one evaluation; ask for ` +
      "several partitions in one request, or raise maxRunRequests.",
  );
}

function requestOf(request: SensorRequest): EvaluatedRequest {
  refuseUnknownOptions("request()", request, REQUEST_OPTIONS);
  const { partition, partitions, add, runKey = null, config = null, labels = {} } = request;
  if (partition !== undefined && partitions !== undefined) {
    throw wrong("request() was given partition and partitions; give one of them.");
  }
  // A copy: the caller may go on changing what it passed.
  const kept = keptJson(config, CONFIG_COPIED_MAX);
  if ("fault" in kept) throw wrong(`The config of request() cannot be sent: ${kept.fault}.`);
  return parseDefinition("request()", EvaluatedRequest, {
    asset_selection: assetKeysOf(request.assets ?? []),
    partition_keys: partition === undefined ? [...(partitions ?? [])] : [partition],
    ...(partition === undefined && partitions === undefined ? { partition_keys: null } : {}),
    ...(add === undefined ? {} : { add }),
    run_key: runKey,
    config: kept.value,
    labels,
  });
}

function wrong(message: string): PawlError {
  return new PawlError("INPUT_INVALID", message);
}
