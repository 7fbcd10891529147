import { PawlError, present } from "../../kernel/errors.ts";
import type { NewEvent } from "../events.ts";
import { sizeOfRun } from "../run/tasks.ts";
import { requestFingerprint, sensorRunKey } from "../keys.ts";
import { dynamicValues, KeyAdditions, refuseManyKeys } from "../definition/partition-keys.ts";
import type { DynamicKeys, Keyspace } from "../../kernel/keyspace/keyspace.ts";
import type { EvaluatedRequest, EvaluationOutcome } from "../probe-protocol.ts";
import type { Rows } from "../rows.ts";
import type { SensorRow, SensorRunRequest } from "./rows.ts";
import { CONFIG_LENGTH_MAX, type SensorSpec } from "../definition/spec.ts";
import { assetsToMake, needAssets, type PinnedAsset } from "../asset/look-up.ts";
import type { Context } from "../decision.ts";
import {
  conflictName,
  inOrder,
  keyspaceOfRun,
  knownConflicts,
  partitionsOf,
  refuseLongOptions,
  refuseTooMany,
  RUN_CLASS,
  runRequested,
  type RunRequestedEvent,
  underRunKey,
} from "../run/request.ts";

/** What the runs of one evaluation come to. */
export type ResolvedRequests = {
  run_requests: SensorRunRequest[];
  events: NewEvent[];
  /** Tasks of all the runs that are to be made. */
  tasks: number;
};

/** The keys that an evaluation adds, and its requests: one whose keys cannot be added says why. */
export type KeysOfEvaluation = { additions: KeyAdditions; requests: EvaluatedRequest[] };

type Found = Extract<EvaluationOutcome, { type: "evaluated" }>;

/**
 * The keys that an evaluation adds, by themselves or with a request. Throws where keys by themselves
 * cannot be added.
 */
export function keysOfEvaluation(
  rows: Rows,
  evalId: string,
  { run_requests, added_keys = [] }: Found,
  context: Context,
): KeysOfEvaluation {
  const additions = new KeyAdditions(rows, context);
  const keysOf = new Map<string, Set<string>>();
  const add = (definition: string, keys: readonly string[]): void => {
    const known = keysOf.get(definition) ?? new Set();
    keysOf.set(definition, known);
    for (const key of keys) known.add(key);
  };
  for (const { definition, keys } of added_keys) {
    additions.refuseUnknown(definition);
    add(definition, keys);
  }
  const requests = run_requests.map((request) => {
    if (request.add !== true) return request;
    try {
      const [first] = assetsToMake(rows, request.asset_selection);
      const spec = present(first, "a request names an asset").spec;
      const values = (request.partition_keys ?? []).flatMap((key) => dynamicValues(spec, key));
      for (const [definition, own] of Map.groupBy(values, (each) => each.definition)) {
        add(
          definition,
          own.map(({ key }) => key),
        );
      }
      return request;
    } catch (error) {
      if (!(error instanceof PawlError)) throw error;
      // An unknown asset is refused as that; it is looked up again for its run.
      if (error.code !== "INPUT_INVALID") return request;
      return { ...request, error: { class: error.code, message: error.message } };
    }
  });
  const all = [...keysOf.values()].reduce((sum, { size }) => sum + size, 0);
  for (const [definition, keys] of keysOf) {
    refuseManyKeys(definition, keys.size, all);
    additions.add(definition, [...keys], evalId);
  }
  return { additions, requests };
}

type Wanted = EvaluatedRequest & { key: string };

/** The run keys of an evaluation's requests, in order. */
function withKeys(
  sensorId: string,
  evalId: string,
  requests: readonly EvaluatedRequest[],
): Wanted[] {
  return requests.map((request, index) => ({
    ...request,
    key: sensorRunKey(sensorId, evalId, request.run_key, index + 1),
  }));
}

/** The requests of an evaluation that has no effect. */
export function voidRequests(
  context: Context,
  sensorId: string,
  evalId: string,
  requests: readonly EvaluatedRequest[],
): SensorRunRequest[] {
  return withKeys(sensorId, evalId, requests).map((wanted) => ({
    run_key: wanted.key,
    run_id: null,
    request_fingerprint: requestFingerprint(
      context.hash,
      wanted.asset_selection,
      wanted.partition_keys,
      wanted.config,
    ),
    asset_selection: wanted.asset_selection,
    partition_selection: wanted.partition_keys,
    outcome: "void",
    error: null,
  }));
}

/**
 * What becomes of an evaluation's requests, each by the run-key rule, also among themselves. One that
 * cannot be made is refused by itself and stops no other.
 */
export function resolveRequests(
  rows: Rows,
  row: SensorRow,
  spec: SensorSpec,
  evalId: string,
  requests: readonly EvaluatedRequest[],
  context: Context,
  dynamicKeys: DynamicKeys,
): ResolvedRequests {
  const wanted = withKeys(row.sensor_id, evalId, requests);
  rows.runKeys.need(wanted.map(({ key }) => [key]));
  const selections = new Selections(rows, context, requests, dynamicKeys);
  const resolved: ResolvedRequests = { run_requests: [], events: [], tasks: 0 };
  const events = wanted.map((request) =>
    eventOrRefusal(row, spec, evalId, request, selections, context),
  );
  const good = events.flatMap((event) => (event instanceof PawlError ? [] : [event]));
  /** Fingerprints by run key that this very evaluation asks for first; conflicts that are or will be recorded. */
  const made = new Map<string, string>();
  const conflicts = new Set(knownConflicts(rows, good));
  for (const [index, request] of wanted.entries()) {
    const { asset_selection, partition_keys } = request;
    const event = present(events[index], "each request has an event or a refusal");
    if (!(event instanceof PawlError)) {
      const { run_key, run_id, request_fingerprint, tasks, partition_selection } = event.data;
      const first = made.get(run_key);
      const ruled =
        first === undefined
          ? underRunKey(rows, event, conflicts)
          : amongThemselves(event, first === request_fingerprint, conflicts);
      const { outcome } = ruled.result;
      if (outcome === "created") {
        made.set(run_key, request_fingerprint);
        resolved.tasks += sizeOfRun(tasks, partition_selection?.length ?? 0).tasks;
      }
      if (outcome === "conflict") conflicts.add(conflictName(run_key, request_fingerprint));
      resolved.events.push(...ruled.events);
      resolved.run_requests.push({
        run_key,
        run_id: outcome === "created" ? run_id : ruled.result.run_id,
        request_fingerprint,
        asset_selection,
        partition_selection,
        outcome,
        error: null,
      });
    } else {
      resolved.run_requests.push({
        run_key: request.key,
        run_id: null,
        request_fingerprint: null,
        asset_selection,
        partition_selection: partition_keys,
        outcome: "refused",
        error: { class: event.code, message: event.message },
      });
    }
  }
  return resolved;
}

/** The run-key rule for a key that the same evaluation has asked for before; the rows know nothing of it. */
function amongThemselves(event: RunRequestedEvent, isEqual: boolean, conflicts: Set<string>) {
  const { run_id, run_key, request_fingerprint } = event.data;
  const isKnown = isEqual || conflicts.has(conflictName(run_key, request_fingerprint));
  const outcome = isEqual ? ("existing" as const) : ("conflict" as const);
  return { events: isKnown ? [] : [event], result: { run_id, run_key, outcome } };
}

/** The request of a run, or why it cannot be made. */
function eventOrRefusal(
  ...[row, spec, evalId, request, selections, context]: Parameters<typeof runEvent>
): RunRequestedEvent | PawlError {
  try {
    if (request.error !== undefined) throw new PawlError("INPUT_INVALID", request.error.message);
    return runEvent(row, spec, evalId, request, selections, context);
  } catch (error) {
    if (error instanceof PawlError) return error;
    throw error;
  }
}

function runEvent(
  row: SensorRow,
  spec: SensorSpec,
  evalId: string,
  request: Wanted,
  selections: Selections,
  context: Context,
): RunRequestedEvent {
  // What is the sensor's own was taken when it was published.
  refuseLongOptions(request, CONFIG_LENGTH_MAX);
  const labels = { ...spec.labels, ...request.labels };
  const { assets, keyspace } = selections.of(request.asset_selection);
  const partitions = partitionsOf(assets, request.partition_keys, keyspace);
  const event = runRequested(context, request.key, assets, partitions, {
    config: request.config,
    labels,
    code_version: null,
    priority: 0,
    class: RUN_CLASS.automation,
    retry: null,
    trigger_source_ref: { type: "sensor", sensor_id: row.sensor_id, eval_id: evalId },
    backfill_id: null,
    chunk_index: null,
  });
  refuseTooMany(event.data.tasks, partitions);
  return event;
}

type Selection = { assets: PinnedAsset[]; keyspace: Keyspace | null };

/** The assets that requests name, looked up once however many requests name them. */
class Selections {
  readonly #rows: Rows;
  readonly #context: Context;
  readonly #dynamicKeys: DynamicKeys;
  readonly #known = new Map<string, Selection>();
  readonly #keys = new Map<string, Set<string>>();

  constructor(
    rows: Rows,
    context: Context,
    requests: readonly EvaluatedRequest[],
    dynamicKeys: DynamicKeys,
  ) {
    this.#rows = rows;
    this.#context = context;
    this.#dynamicKeys = dynamicKeys;
    const assetKeys = new Set(requests.flatMap(({ asset_selection }) => asset_selection));
    needAssets(rows, [...assetKeys]);
    for (const { asset_selection, partition_keys } of requests) {
      const name = asset_selection.join("\n");
      const keys = this.#keys.get(name) ?? new Set();
      for (const key of partition_keys ?? []) keys.add(key);
      this.#keys.set(name, keys);
    }
  }

  of(assetKeys: readonly string[]): Selection {
    const name = assetKeys.join("\n");
    const known = this.#known.get(name);
    if (known !== undefined) return known;
    const assets = inOrder(assetsToMake(this.#rows, assetKeys));
    const keyspace = keyspaceOfRun(this.#rows, assets, this.#context.now, this.#dynamicKeys);
    const keys = [...(this.#keys.get(name) ?? [])];
    const selection = { assets, keyspace: keyspace && withLookedUp(keyspace, keys) };
    this.#known.set(name, selection);
    return selection;
  }
}

/** The keyspace with some keys looked up at once, as a look-up for each request would be many. */
function withLookedUp(keyspace: Keyspace, keys: readonly string[]): Keyspace {
  const ordinals = keyspace.indexesOf(keys);
  const ordinalOf = new Map(keys.map((key, index) => [key, ordinals[index] ?? null]));
  return { ...keyspace, indexesOf: (asked) => asked.map((key) => ordinalOf.get(key) ?? null) };
}
