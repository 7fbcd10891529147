import type { EventData, NewEvent } from "../core/events/index.ts";
import { IDEMPOTENCY_KEYS, requestFingerprint, runIdOf } from "../core/keys.ts";
import type { RetryPolicy } from "../core/spec.ts";
import type { Context } from "./decision.ts";

/** What a run of one task is about, by whose spec, and how urgent it is. */
export type WorkRun = {
  run_key: string;
  /** The name that workers claim it under. */
  asset_key: string;
  spec_hash: string;
  code_version: string | null;
  pool: string | null;
  trigger: EventData<"RunRequested">["trigger_source_ref"];
  class: number;
  priority: number;
  /** The spec's own when null. */
  retry: RetryPolicy | null;
};

/** The request of a run with one task that is no asset: a segment of a sync, or a step on shards. */
export function workRun(work: WorkRun, { hash, tenant }: Context): NewEvent {
  const { run_key, asset_key, spec_hash, pool, trigger, ...rest } = work;
  const request_fingerprint = requestFingerprint(hash, [asset_key], null, null);
  return {
    type: "RunRequested",
    idempotency_key: IDEMPOTENCY_KEYS.runRequest(hash, run_key, request_fingerprint),
    data: {
      ...rest,
      run_key,
      run_id: runIdOf(hash, tenant, run_key),
      request_fingerprint,
      asset_selection: [asset_key],
      partition_selection: null,
      config: null,
      tasks: [{ asset_key, spec_hash, batch: false, pool, partition_indexes: null, upstream: [] }],
      trigger_source_ref: trigger,
      backfill_id: null,
      chunk_index: null,
      labels: {},
    },
  };
}
