import { type Json, canonicalJson } from "../../kernel/canonical.ts";
import { PawlError, present } from "../../kernel/errors.ts";
import type { NewEvent, EventData } from "../events.ts";
import type { RunAssetField } from "./events.ts";
import { sizeOfRun } from "./tasks.ts";
import type { Instant } from "../../kernel/instant.ts";
import type { Interval } from "../../kernel/intervals.ts";
import {
  IDEMPOTENCY_KEYS,
  manualRunKey,
  RESERVED_RUN_KEYS,
  requestFingerprint,
  runIdOf,
} from "../keys.ts";
import { topologicalOrder } from "../asset/lineage.ts";
import {
  type DynamicKeys,
  type Keyspace,
  partitionInvalid,
} from "../../kernel/keyspace/keyspace.ts";
import { keyspaceOf } from "../../kernel/keyspace/keyspace-of.ts";
import { isSameDefinition } from "../../kernel/keyspace/definition.ts";
import type { Rows } from "../rows.ts";
import type { RunRow, TriggerSource } from "./rows.ts";
import { CONFIG_LENGTH_MAX, lengthFault, type RetryPolicy } from "../definition/spec.ts";
import { assetsToMake, dynamicKeysOf, type PinnedAsset } from "../asset/look-up.ts";
import type { Context, Decide, Decision } from "../decision.ts";
import { edgesOfRun } from "./edges.ts";
import type { BackfillRow } from "../backfill/rows.ts";

/** Most tasks in one run. */
export const RUN_TASKS_MAX = 10_000;

/**
 * Longest that the keys of one run may be together, in characters of JSON. Each end of an attempt may
 * list all of them besides what it says of its own, within what one event holds.
 */
export const RUN_KEYS_LENGTH_MAX = 3_000_000;
/** As many characters of JSON as one character may become. */
const ESCAPED_LENGTH_MAX = 6;

/** Order in which kinds of work are served: the lower, the sooner. History is as patient as backfills. */
export const RUN_CLASS = { manual: 0, automation: 1, live: 2, backfill: 3 } as const;

/** What a run needs besides its assets and partitions. */
export type RunOptions = {
  config: Json;
  labels: Record<string, string>;
  code_version: string | null;
  priority: number;
  class: number;
  retry: RetryPolicy | null;
  trigger_source_ref: TriggerSource;
  backfill_id: string | null;
  chunk_index: number | null;
};

/** Partitions of a run: their keys, their ascending ordinals in the keyspace, and who has which. */
export type RunPartitions = {
  keyspace: Keyspace;
  ordinals: readonly number[];
  keys: string[];
  /** Per asset, which of the keys by index; null for all. */
  indexes: readonly (Interval[] | null)[];
};

/**
 * The request of a run for some assets, in dependency order, with its tasks and edges. Throws
 * SELECTION_TOO_LARGE when its tasks would be joined by too many edges, or its keys are too long.
 */
export function runRequested(
  context: Context,
  runKey: string,
  assets: readonly PinnedAsset[],
  partitions: RunPartitions | null,
  options: RunOptions,
): RunRequestedEvent {
  const keys = partitions?.keys ?? null;
  if (keys !== null) refuseLongKeys(keys);
  const asset_selection = assets.map(({ spec }) => spec.asset_key);
  const request_fingerprint = requestFingerprint(
    context.hash,
    asset_selection,
    keys,
    options.config,
  );
  const edges = edgesOfRun(assets, partitions);
  const tasks = assets.map(
    ({ spec, spec_hash }, index): RunAssetField => ({
      asset_key: spec.asset_key,
      spec_hash,
      batch: spec.batch,
      pool: spec.pool,
      partition_indexes:
        partitions?.indexes[index]?.map(([from, to]): [number, number] => [from, to]) ?? null,
      upstream: edges[index] ?? [],
    }),
  );
  return {
    type: "RunRequested",
    idempotency_key: IDEMPOTENCY_KEYS.runRequest(context.hash, runKey, request_fingerprint),
    data: {
      run_key: runKey,
      run_id: runIdOf(context.hash, context.tenant, runKey),
      request_fingerprint,
      asset_selection,
      partition_selection: keys,
      tasks,
      ...options,
    },
  };
}

function refuseLongKeys(keys: readonly string[]): void {
  if (lengthOf(keys) * ESCAPED_LENGTH_MAX <= RUN_KEYS_LENGTH_MAX) return;
  const { length } = JSON.stringify(keys);
  if (length <= RUN_KEYS_LENGTH_MAX) return;
  throw new PawlError(
    "SELECTION_TOO_LARGE",
    `The keys of the ${keys.length} partitions of this run would be ${length} characters long ` +
      `together; the most is ${RUN_KEYS_LENGTH_MAX}. Run fewer partitions at once, for a ` +
      "backfill with a smaller chunk size.",
    { details: { partitions: keys.length, length, length_max: RUN_KEYS_LENGTH_MAX } },
  );
}

/** Refuses a configuration or labels that are too long to be in every row and event of a run. */
export function refuseLongOptions(
  options: { config?: Json | undefined; labels?: object | undefined },
  configMax: number,
): void {
  const fault = lengthFault(options, configMax);
  if (fault === null) return;
  const advice = "Put larger data somewhere and say where it is.";
  throw new PawlError("INPUT_INVALID", `The request has ${fault}. ${advice}`, {
    details: { length_max: configMax },
  });
}

/** How long texts are together. */
export function lengthOf(texts: readonly string[]): number {
  let length = 0;
  for (const text of texts) length += text.length;
  return length;
}

/** A person's wish to run some assets now. */
export type RunRequestInput = {
  request_id: string;
  run_key?: string | undefined;
  assets: readonly string[];
  partition_keys?: readonly string[] | undefined;
  config?: Json | undefined;
  labels?: Record<string, string> | undefined;
  priority?: number | undefined;
  code_version?: string | null | undefined;
};

/** What became of a request under its run key. */
export type RunKeyResult = {
  run_id: string;
  run_key: string;
  /** A run was made; an equal request had made it; or another request had the key, and there is no new run. */
  outcome: "created" | "existing" | "conflict";
};

/** What became of the wish, with the fingerprints of the request and of the run there was. */
export type RunRequestResult = RunKeyResult & {
  request_fingerprint: string;
  /** Of the request that made the run; null when this one did. */
  existing_fingerprint: string | null;
  /** The run that another request made; null unless there is a conflict. */
  existing_run: ExistingRun | null;
};

/** The run that a key stands for already. */
export type ExistingRun = Pick<
  RunRow,
  "run_id" | "run_key" | "state" | "requested_at" | "finished_at"
>;

/** Requests a run of some assets and partitions. */
export function requestRun(input: RunRequestInput): Decide<RunRequestResult> {
  return (rows, context) => {
    const runKey = runKeyOf(input);
    // Before anything is reckoned: a decision that misses a row begins anew once it is there.
    rows.runKeys.need([[runKey]]);
    const assets = inOrder(assetsToMake(rows, input.assets));
    const keyspace = keyspaceOfRun(rows, assets, context.now);
    const partitions = partitionsOf(assets, input.partition_keys ?? null, keyspace);
    const event = runRequested(context, runKey, assets, partitions, {
      config: input.config ?? null,
      labels: input.labels ?? {},
      code_version: input.code_version ?? null,
      priority: input.priority ?? 0,
      class: RUN_CLASS.manual,
      retry: null,
      trigger_source_ref: {
        type: "manual",
        user_id: context.principal,
        request_id: input.request_id,
      },
      backfill_id: null,
      chunk_index: null,
    });
    refuseTooMany(event.data.tasks, partitions);
    const known = rows.runKeys.get(runKey);
    if (known === null) refuseLongOptions(input, CONFIG_LENGTH_MAX);
    const { events, result } = underRunKey(rows, event);
    const isConflict = known !== null && result.outcome === "conflict";
    return {
      events,
      result: {
        ...result,
        request_fingerprint: event.data.request_fingerprint,
        existing_fingerprint: known?.request_fingerprint ?? null,
        existing_run: isConflict ? existingRun(rows, known.run_pos) : null,
      },
    };
  };
}

function existingRun(rows: Rows, runPos: number): ExistingRun | null {
  const run = rows.runs.get(runPos);
  if (run === null) return null;
  const { run_id, run_key, state, requested_at, finished_at } = run;
  return { run_id, run_key, state, requested_at, finished_at };
}

/**
 * What a request comes to by the run-key rule: a run under a new key; the same run for an equal
 * request; for another request under a known key a conflict, recorded once, and no run.
 */
export function underRunKey(
  rows: Rows,
  event: RunRequestedEvent,
  conflicts: ReadonlySet<string> = knownConflicts(rows, [event]),
): Decision<RunKeyResult> {
  const { run_key, run_id, request_fingerprint } = event.data;
  const known = rows.runKeys.get(run_key);
  if (known === null) return { events: [event], result: { run_id, run_key, outcome: "created" } };
  const result = { run_id: known.run_id, run_key };
  if (known.request_fingerprint === request_fingerprint) {
    return { events: [], result: { ...result, outcome: "existing" } };
  }
  const isKnown = conflicts.has(conflictName(run_key, request_fingerprint));
  return { events: isKnown ? [] : [event], result: { ...result, outcome: "conflict" } };
}

/** A request of a run, to be recorded. */
export type RunRequestedEvent = NewEvent & { type: "RunRequested" };

/** The name of a conflict: the key and what was asked for under it. */
export function conflictName(runKey: string, fingerprint: string): string {
  return `${runKey} ${fingerprint}`;
}

const CONFLICTS_READ_MAX = 100_000;

/** The names of the conflicts of some requests that are recorded already, with one look-up. */
export function knownConflicts(
  rows: Rows,
  events: readonly RunRequestedEvent[],
): ReadonlySet<string> {
  rows.runKeys.need(events.map(({ data }) => [data.run_key]));
  const keys = new Set<string>();
  const fingerprints = new Set<string>();
  for (const { run_key, request_fingerprint } of events.map(({ data }) => data)) {
    const known = rows.runKeys.get(run_key)?.request_fingerprint ?? request_fingerprint;
    if (known === request_fingerprint) continue;
    keys.add(run_key);
    fingerprints.add(request_fingerprint);
  }
  if (keys.size === 0) return new Set();
  const where = [
    { cell: "run_key", is: "in", values: [...keys] },
    { cell: "conflicting_fingerprint", is: "in", values: [...fingerprints] },
  ] as const;
  const found = rows.runKeyConflicts.find(where, [{ cell: "pos" }], CONFLICTS_READ_MAX);
  return new Set(
    found.map(({ run_key, conflicting_fingerprint }) =>
      conflictName(run_key, conflicting_fingerprint),
    ),
  );
}

function runKeyOf(input: RunRequestInput): string {
  if (input.run_key === undefined) return manualRunKey(input.request_id);
  const reserved = RESERVED_RUN_KEYS.find((prefix) => input.run_key?.startsWith(prefix));
  if (reserved === undefined) return input.run_key;
  throw new PawlError(
    "INPUT_INVALID",
    `The run key ${JSON.stringify(input.run_key)} begins with ${reserved}, which Pawl keeps for ` +
      "itself. Choose another run key.",
    { details: { run_key: input.run_key } },
  );
}

/** The assets, upstream first. */
export function inOrder(assets: readonly PinnedAsset[]): PinnedAsset[] {
  const seen = new Map<string, PinnedAsset>();
  for (const asset of assets) seen.set(asset.spec.asset_key, asset);
  return topologicalOrder([...seen.values()].map(({ spec }) => spec)).map(
    (spec) => seen.get(spec.asset_key) as PinnedAsset,
  );
}

/** The partitions that the assets of a run share, as they are at a time; null when they have none. */
export function keyspaceOfRun(
  rows: Rows,
  assets: readonly PinnedAsset[],
  at: Instant,
  dynamicKeys: DynamicKeys = dynamicKeysOf(rows),
): Keyspace | null {
  const first = firstOf(assets);
  const definition = first.spec.partitions;
  for (const { spec } of assets) {
    const same =
      definition === null || spec.partitions === null
        ? definition === spec.partitions
        : isSameDefinition(definition, spec.partitions);
    if (!same) {
      throw new PawlError(
        "INPUT_INVALID",
        `${first.spec.asset_key} and ${spec.asset_key} have different partitions, so one run ` +
          "cannot hold both. Use a backfill, which runs one after the other.",
      );
    }
  }
  return definition === null ? null : keyspaceOf(definition, dynamicKeys, at);
}

function firstOf(assets: readonly PinnedAsset[]): PinnedAsset {
  const [first] = assets;
  if (first === undefined) throw new PawlError("INPUT_INVALID", "A run needs at least one asset.");
  return first;
}

/** The partitions with these keys, for all the assets of a run; refuses keys that are none. */
export function partitionsOf(
  assets: readonly PinnedAsset[],
  keys: readonly string[] | null,
  keyspace: Keyspace | null,
): RunPartitions | null {
  const first = firstOf(assets);
  const definition = first.spec.partitions;
  if (definition === null || keyspace === null) {
    if (keys === null || keys.length === 0) return null;
    throw new PawlError(
      "PARTITION_INVALID",
      `${first.spec.asset_key} has no partitions, so ${JSON.stringify(keys[0])} cannot be one. ` +
        "Leave the partition out.",
    );
  }
  if (keys === null || keys.length === 0) {
    throw new PawlError(
      "INPUT_INVALID",
      `${first.spec.asset_key} has partitions: say which, or use a backfill for many.`,
    );
  }
  const distinct = [...new Set(keys)];
  const found = keyspace.indexesOf(distinct).map((ordinal, at) => {
    const key = distinct[at] ?? "";
    if (ordinal === null) throw partitionInvalid(definition, keyspace, key);
    return { ordinal, key };
  });
  found.sort((a, b) => a.ordinal - b.ordinal);
  return {
    keyspace,
    ordinals: found.map(({ ordinal }) => ordinal),
    keys: found.map(({ key }) => key),
    indexes: assets.map(() => null),
  };
}

/** Refuses a run of more tasks than one may have. */
export function refuseTooMany(
  tasks: readonly RunAssetField[],
  partitions: RunPartitions | null,
): void {
  const size = sizeOfRun(tasks, partitions?.keys.length ?? 0);
  if (size.tasks <= RUN_TASKS_MAX) return;
  throw new PawlError(
    "SELECTION_TOO_LARGE",
    `A run of ${size.tasks} tasks is more than the ${RUN_TASKS_MAX} that one run may have. ` +
      "Use a backfill.",
    { details: { tasks: size.tasks, tasks_max: RUN_TASKS_MAX } },
  );
}

/** A request for backfills: its permanent key, and a fingerprint of all that it asks for. */
export type BackfillRequest = { request_key: string; request_fingerprint: string };

/** The request of a wish under its key; two wishes are the same when all they say is. */
export function backfillRequest(requestKey: string, wish: object, context: Context) {
  const request_fingerprint = context.hash.sha256(canonicalJson(wish));
  return { request_key: requestKey, request_fingerprint };
}

/**
 * The backfills that the same request has made already, or null for a new one. Refuses, with
 * IDEMPOTENCY_KEY_REUSED, a key that stands for another request.
 */
export function madeBefore(
  rows: Rows,
  { request_key, request_fingerprint }: BackfillRequest,
  clientKey: string,
): BackfillRow[] | null {
  const known = rows.requestKeys.get(request_key);
  if (known === null) return null;
  if (known.request_fingerprint !== request_fingerprint) {
    throw new PawlError(
      "IDEMPOTENCY_KEY_REUSED",
      `The request id ${JSON.stringify(clientKey)} was used before with another request, which ` +
        `made backfill ${known.backfill_ids.join(", ")}. Use a new id for a new request.`,
      { details: { key: clientKey, backfill_ids: known.backfill_ids } },
    );
  }
  rows.backfills.need(known.backfill_ids.map((id) => [id]));
  return known.backfill_ids.map((id) =>
    present(rows.backfills.get(id), `backfill ${id} of the request exists`),
  );
}

/** Refuses an id for a new backfill that another has. */
export function refuseTakenId(rows: Rows, backfillId: string | undefined): void {
  if (backfillId === undefined || rows.backfills.get(backfillId) === null) return;
  throw new PawlError(
    "NAME_TAKEN",
    `There is a backfill with the id ${JSON.stringify(backfillId)} already, of another request. ` +
      "Choose another id, or leave it out.",
    { details: { backfill_id: backfillId } },
  );
}

/** What a run of one task is about, by whose spec, and how urgent it is. */
export type SingleTaskRun = {
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
export function singleTaskRun(work: SingleTaskRun, { hash, tenant }: Context): NewEvent {
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
