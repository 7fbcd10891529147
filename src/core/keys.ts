import { canonicalJson, type Json } from "./canonical.ts";
import { PawlError } from "./errors.ts";
import type { Hash } from "./hash.ts";

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

/** Beginnings of run keys that only Pawl itself may use. */
export const RESERVED_RUN_KEYS = ["backfill:", "sched:", "sensor:", "manual:"] as const;

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
  partitionKeys: (definition: string, principal: string, requestId: string) =>
    `keys:${definition}:${principal}:${requestId}`,
  runRequest: (hash: Hash, runKey: string, fingerprint: string) =>
    `runreq:${runKey}:${hash.sha256(fingerprint)}`,
  run: (runId: string, transition: "started" | "finished") => `run:${runId}:${transition}`,
  runCancel: (runId: string) => `run_cancel:${runId}`,
  tasks: (
    hash: Hash,
    runId: string,
    tasks: readonly { task_key: number; attempt: number }[],
    transition: "started" | "finished" | "closed",
  ) => {
    const sorted = tasks.toSorted((a, b) => a.task_key - b.task_key);
    const text = sorted.map(({ task_key, attempt }) => `${task_key}:${attempt}`).join(",");
    return `tasks:${runId}:${hash.sha256(text)}:${transition}`;
  },
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
  backfillRetune: (backfillId: string, stateVersion: number) =>
    `backfill_retune:${backfillId}:${stateVersion}`,
} as const;
