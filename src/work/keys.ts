import { canonicalJson, type Json, type Hash } from "../kernel/canonical.ts";
import { assert, PawlError } from "../kernel/errors.ts";
import type { ShardWorkRef } from "./shard/step-protocol.ts";

/** The chunk's name: its backfill and its index. */
export function chunkIdOf(backfillId: string, chunkIndex: number): string {
  return `${backfillId}:${chunkIndex}`;
}

/** The run key of a chunk; later generations of a chunk have keys of their own. */
export function chunkRunKey(backfillId: string, chunkIndex: number, generation: number): string {
  const key = `backfill:${backfillId}:chunk:${chunkIndex}`;
  return generation === 0 ? key : `${key}:gen:${generation}`;
}

/** The run key of a manual request. */
export function manualRunKey(requestId: string): string {
  return `manual:${requestId}`;
}

/** The name of a schedule's tick: the schedule and its nominal time in seconds. */
export function tickIdOf(scheduleId: string, scheduledForMs: number): string {
  return `${scheduleId}:${Math.floor(scheduledForMs / 1_000)}`;
}

/** The name of a tick that a person asked for; `n` counts from 1 within one second. */
export function manualTickIdOf(scheduleId: string, nowMs: number, n: number): string {
  const id = `${scheduleId}:manual:${Math.floor(nowMs / 1_000)}`;
  return n === 1 ? id : `${id}:${n}`;
}

/** The run key of a tick. */
export function tickRunKey(tickId: string): string {
  return `sched:${tickId}`;
}

/** The name of a sensor's evaluation. */
export function evalIdOf(sensorId: string, source: EvaluationSource): string {
  switch (source.type) {
    case "push":
      return `${sensorId}:msg:${source.message_id}`;
    case "poll":
      return `${sensorId}:poll:${source.poll_epoch}`;
    case "manual":
      return `${sensorId}:manual:${source.request_id}`;
  }
}

/** What made a sensor be evaluated. */
export type EvaluationSource =
  | { type: "push"; message_id: string }
  | { type: "poll"; poll_epoch: number }
  | { type: "manual"; request_id: string };

/**
 * The run key of what an evaluation asks for: one of the project's own is kept apart from those of
 * other sensors; without one it is named by the evaluation and its place there, from 1. The place does
 * not come last: there it could be a part of a message's id, which may be any text.
 */
export function sensorRunKey(sensorId: string, evalId: string, own: string | null, n: number) {
  if (own !== null) return `sensor:${sensorId}:key:${own}`;
  if (n === 1) return `sensor:${evalId}`;
  return `sensor:${sensorId}:${n}${evalId.slice(sensorId.length)}`;
}

/** The name of a segment: its sync and its index. */
export function segmentIdOf(syncId: string, segmentIndex: number): string {
  return `${syncId}:${segmentIndex}`;
}

/** The run key of a segment's generation. */
export function segmentRunKey(syncId: string, segmentIndex: number, generation: number): string {
  const key = `sync:${syncId}:segment:${segmentIndex}`;
  return generation === 0 ? key : `${key}:gen:${generation}`;
}

/** The run key of a verification; `n` is the number of the request. */
export function verifyRunKey(
  syncId: string,
  segmentIndex: number,
  generation: number,
  n: number,
): string {
  return `${segmentRunKey(syncId, segmentIndex, generation)}:verify:${n}`;
}

/** The run key of a step on shards. */
export function stepRunKey(work: ShardWorkRef): string {
  if (work.work === "split") return `split:${work.split_id}:${work.n}:${work.step}`;
  const place = work.index === null ? "" : `:${work.index}`;
  return `move:${work.move_id}:${work.step}${place}:${work.n}`;
}

/** The name of a segment of a move: the same for the same move, lane and lower bound. */
export function moveSegmentIdOf(
  hash: Hash,
  moveId: string,
  lane: { table: string; from: string; to: string },
  lower: readonly string[] | null,
): string {
  const { table, from, to } = lane;
  const text = canonicalJson([moveId, table, from, to, lower === null ? null : [...lower]]);
  return `seg_${hash.sha256(text).slice(0, 26)}`;
}

/** Beginnings of run keys that only Pawl itself may use. */
export const RESERVED_RUN_KEYS: string[] = [
  "backfill:",
  "sched:",
  "sensor:",
  "manual:",
  "sync:",
  "split:",
  "move:",
];

/** What makes two requests equal: assets and partitions as sets, and the configuration. */
export function requestFingerprint(
  hash: Hash,
  assets: readonly string[],
  partitionKeys: readonly string[] | null,
  config: Json,
): string {
  const partitions = partitionKeys === null ? null : partitionKeys.toSorted();
  return hash.sha256(canonicalJson([assets.toSorted(), partitions, config]));
}

/** The tenant whose secret makes run ids unguessable. */
export type Tenant = { tenant_id: string; workspace_id: string; secret: string };

/** The id of the run of a run key: the same for ever, and not to be guessed from the key. */
export function runIdOf(hash: Hash, tenant: Tenant, runKey: string): string {
  if (tenant.secret === "") {
    throw new PawlError("CONFIG_INVALID", "The tenant's secret for run ids is empty.");
  }
  const text = `${tenant.tenant_id}:${tenant.workspace_id}:${runKey}`;
  return `run_${base32(hash.hmacSha256(tenant.secret, text).subarray(0, 16)).slice(0, 26)}`;
}

const BASE32 = "abcdefghijklmnopqrstuvwxyz234567";

/** RFC 4648 base32 in lower case, without padding. */
export function base32(bytes: Uint8Array): string {
  let text = "";
  let bits = 0;
  let held = 0;
  for (const byte of bytes) {
    held = (held << 8) | byte;
    bits += 8;
    while (bits >= 5) {
      text += BASE32[(held >>> (bits - 5)) & 31];
      bits -= 5;
    }
    held &= (1 << bits) - 1;
  }
  if (bits > 0) text += BASE32[(held << (5 - bits)) & 31];
  return text;
}

/** The idempotency keys of every event, by the formulas that all stores and versions share. */
export const IDEMPOTENCY_KEYS = {
  definitions: (version: number) => `definitions:${version}`,
  // With the place of the first of them: answers are forgotten, and then a request may come again by its name.
  partitionKeys: (definition: string, principal: string, requestId: string, firstOrdinal: number) =>
    `keys:${canonicalJson([definition, principal, requestId, firstOrdinal])}`,
  keysRemoved: (definition: string, principal: string, requestId: string) =>
    `keys_removed:${canonicalJson([definition, principal, requestId])}`,
  keysRestored: (definition: string, principal: string, requestId: string) =>
    `keys_restored:${canonicalJson([definition, principal, requestId])}`,
  partitionsReported: (assetKey: string, principal: string, requestId: string) =>
    `report:${canonicalJson([assetKey, principal, requestId])}`,
  partitionsForgotten: (assetKey: string, principal: string, requestId: string) =>
    `forget:${canonicalJson([assetKey, principal, requestId])}`,
  runRequest: (hash: Hash, runKey: string, fingerprint: string) =>
    `runreq:${runKey}:${hash.sha256(fingerprint)}`,
  run: (runId: string, transition: "started" | "finished") => `run:${runId}:${transition}`,
  runCancel: (runId: string) => `run_cancel:${runId}`,
  tasks: (
    hash: Hash,
    runId: string,
    tasks: readonly { task_key: number; attempt: number }[],
    transition: "started" | "finished" | "closed" | "unmet",
  ) => {
    const sorted = tasks.toSorted((a, b) => a.task_key - b.task_key);
    const text = sorted.map(({ task_key, attempt }) => `${task_key}:${attempt}`).join(",");
    return `tasks:${runId}:${hash.sha256(text)}:${transition}`;
  },
  /** With the place of the event: a task may wait and go on any number of times before its next attempt. */
  tasksWaiting: (runId: string, transition: "deferred" | "requeued", pos: number) =>
    `tasks:${runId}:${transition}:${pos}`,
  awaitedMade: (assetKey: string, pos: number) => `awaited_made:${assetKey}:${pos}`,
  leaseExpired: (runId: string, taskKey: number, attempt: number) =>
    `task:${runId}:${taskKey}:${attempt}:expired`,
  // As a list, because a principal and a client's id may hold whatever would part them.
  backfillCreate: (principal: string, clientRequestId: string) =>
    `backfill_create:${canonicalJson([principal, clientRequestId])}`,
  backfillRetry: (parent: string, retryRequestId: string) =>
    `backfill_retry:${parent}:${retryRequestId}`,
  backfillFollower: (firstBackfillId: string, index: number) =>
    `backfill_follower:${firstBackfillId}:${index}`,
  surveyPage: (backfillId: string, page: number) => `survey:${backfillId}:${page}`,
  chunk: (backfillId: string, chunkIndex: number, generation: number) => {
    const key = `backfill_chunk:${backfillId}:${chunkIndex}`;
    return generation === 0 ? key : `${key}:${generation}`;
  },
  chunkSplit: (backfillId: string, chunkIndex: number, generation: number) =>
    `backfill_split:${backfillId}:${chunkIndex}:${generation}`,
  backfillState: (backfillId: string, stateVersion: number, toState: string) =>
    `backfill_state:${backfillId}:${stateVersion}:${toState}`,
  scheduleTick: (tickId: string) => `sched_tick:${tickId}`,
  scheduleSkip: (scheduleId: string, fromMs: number, throughMs: number) =>
    `sched_skip:${scheduleId}:${Math.floor(fromMs / 1_000)}:${Math.floor(throughMs / 1_000)}`,
  entityState: (kind: "schedule" | "sensor", id: string, stateVersion: number) =>
    `${kind}:${id}:${stateVersion}`,
  sensorMessage: (sensorId: string, messageId: string) => `sensor_msg:${sensorId}:${messageId}`,
  sensorEval: (
    hash: Hash,
    sensorId: string,
    source: EvaluationSource,
    cursorBefore: string | null,
  ) => {
    switch (source.type) {
      case "push":
        return `sensor_eval:${sensorId}:msg:${source.message_id}`;
      case "poll": {
        const cursor = cursorBefore === null ? "none" : hash.sha256(cursorBefore);
        return `sensor_eval:${sensorId}:poll:${source.poll_epoch}:${cursor}`;
      }
      case "manual":
        return `sensor_eval:${sensorId}:manual:${source.request_id}`;
    }
  },
  /** By the time that had come. */
  backfillWindow: (backfillId: string, at: string) => `backfill_window:${backfillId}:${at}`,
  backfillRetune: (backfillId: string, stateVersion: number) =>
    `backfill_retune:${backfillId}:${stateVersion}`,
  /** By the first of them, whose id is fresh. */
  syncsAdded: (firstSyncId: string) => `sync_add:${firstSyncId}`,
  syncState: (syncId: string, stateVersion: number, toState: string) =>
    `sync_state:${syncId}:${stateVersion}:${toState}`,
  syncRetune: (syncId: string, stateVersion: number) => `sync_retune:${syncId}:${stateVersion}`,
  // As a list, because a source may hold whatever would part them.
  syncHead: (name: string, source: string, n: number) =>
    `sync_head:${canonicalJson([name, source, n])}`,
  syncHeadSet: (name: string, source: string, n: number) =>
    `sync_head_set:${canonicalJson([name, source, n])}`,
  syncRewrite: (name: string, source: string, n: number) =>
    `sync_rewrite:${canonicalJson([name, source, n])}`,
  syncCut: (syncId: string, n: number) => `sync_cut:${syncId}:${n}`,
  syncPlan: (syncId: string, firstIndex: number) => `sync_plan:${syncId}:${firstIndex}`,
  syncReopen: (syncId: string, n: number) => `sync_reopen:${syncId}:${n}`,
  syncExclude: (syncId: string, segmentIndex: number, generation: number) =>
    `sync_exclude:${syncId}:${segmentIndex}:${generation}`,
  syncVerify: (syncId: string, n: number) => `sync_verify:${syncId}:${n}`,
  routing: (version: number) => `routing:${version}`,
  splitPlan: (splitId: string) => `split_plan:${splitId}`,
  splitPhase: (splitId: string, stateVersion: number, toPhase: string) =>
    `split_phase:${splitId}:${stateVersion}:${toPhase}`,
  splitWanted: (splitId: string, stateVersion: number) => `split_wanted:${splitId}:${stateVersion}`,
  splitStep: (splitId: string, n: number) => `split_step:${splitId}:${n}`,
  splitCaughtUp: (splitId: string, n: number) => `split_caught_up:${splitId}:${n}`,
  /** One for each direction of a split, ever; one more each time its plan is run again after that. */
  splitCutOver: (splitId: string, direction: "forward" | "back", versionAtStart: number) =>
    `split_cutover:${splitId}:${direction}:${versionAtStart}`,
  movePlan: (moveId: string) => `move_plan:${moveId}`,
  moveState: (moveId: string, stateVersion: number, toState: string) =>
    `move_state:${moveId}:${stateVersion}:${toState}`,
  moveRetune: (moveId: string, stateVersion: number) => `move_retune:${moveId}:${stateVersion}`,
  moveSurvey: (moveId: string, lane: number, page: number) =>
    `move_survey:${moveId}:${lane}:${page}`,
  moveSegmentSplit: (moveId: string, segmentIndex: number, generation: number) =>
    `move_split:${moveId}:${segmentIndex}:${generation}`,
  moveSegment: (moveId: string, segmentIndex: number, n: number) =>
    `move_segment:${moveId}:${segmentIndex}:${n}`,
  moveVerify: (moveId: string, n: number) => `move_verify:${moveId}:${n}`,
  moveChecked: (moveId: string, segmentIndex: number | null, n: number) =>
    `move_checked:${moveId}:${segmentIndex ?? "all"}:${n}`,
} as const;

const CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/**
 * The subject of events about something with an id of its own, where many may be made by one event:
 * the last fifty bits of the id, below zero so that it is no position.
 */
export function entitySubject(id: string): number {
  let number = 0;
  for (const letter of id.slice(-10)) {
    const digit = CROCKFORD.indexOf(letter.toUpperCase());
    assert(digit !== -1, `${id} is a ULID`);
    number = number * 32 + digit;
  }
  return -1 - number;
}
