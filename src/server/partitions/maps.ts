import { setImmediate as turnOfOthers } from "node:timers/promises";
import { boundOf, type Keyspace } from "../../kernel/keyspace/keyspace.ts";
import type { PartitionDefinition } from "../../kernel/keyspace/definition.ts";
import type { RecordedEvent } from "../../work/envelope.ts";
import type { EventData } from "../../work/events.ts";
import type { TaskResultField } from "../../work/run/events.ts";
import type { Reader } from "../../store/store.ts";
import { OrdinalFinder } from "./ordinals.ts";
import { boundsOfStretch, type Cells, loadCells, scanCells } from "./cells.ts";
import {
  type AssetView,
  displayStatus,
  type LookedAt,
  staleness,
} from "../../work/asset/partition-status.ts";
import type { PartitionDocument } from "../../work/asset/api.ts";
import { eachResult } from "../../work/run/tasks.ts";
import type { Instant } from "../../kernel/instant.ts";
import type { Rows } from "../../work/rows.ts";

/** Maps that are kept up to date, at most a million bytes each. */
const MAPS_KEPT = 16;

/** Positions that a kept map is brought forward by; from further back it is read anew. */
const POSITIONS_MAX = 20_000;

/** Changed partitions that a kept map is brought forward by. */
const CHANGES_MAX = 100_000;

/** Positions that are looked through at once: an event may have a thousand partitions in it. */
const POSITIONS_AT_ONCE = 50;

/** The longest stretch whose rows are looked up by key; a longer one walks through them all. */
const LOOKED_UP_MAX = 20_000;

/** An asset with partitions as it is at the snapshot that is read. */
export type MappedAsset = {
  assetKey: string;
  specHash: string;
  definition: PartitionDefinition;
  keyspace: Keyspace;
  /** Keys of some stretch of it; the keyspace itself may need rows that are not there. */
  keysFrom(from: number, limit: number): Promise<string[]>;
};

type KeptMap = Cells & { specHash: string; bound: readonly number[]; pos: number };

/**
 * Cells of maps, each kept with the position it is of: a page that shows a running backfill asks
 * again every few seconds, and then only what changed since is read. One is made at a time for an
 * asset, so that who asks second finds what the first has read.
 */
export class PartitionMaps {
  readonly #maps = new Map<string, KeptMap>();
  readonly #turns = new Map<string, Promise<unknown>>();

  /** Runs `body` when all that was asked for this asset before is done. */
  async inTurn<Result>(assetKey: string, body: () => Promise<Result>): Promise<Result> {
    const before = this.#turns.get(assetKey) ?? Promise.resolve();
    const result = before.then(body, body);
    this.#turns.set(assetKey, result);
    try {
      return await result;
    } finally {
      if (this.#turns.get(assetKey) === result) this.#turns.delete(assetKey);
    }
  }

  /** The cells from one ordinal to before another, as they are at the reader's position. */
  async cells(
    reader: Reader,
    asset: MappedAsset,
    from: number,
    through: number,
  ): Promise<Uint8Array> {
    const { assetKey, specHash } = asset;
    if (through - from <= LOOKED_UP_MAX) {
      const map = { assetKey, from, cells: new Uint8Array(through - from) };
      await loadStretch(reader, map, asset, from, through);
      return map.cells;
    }
    const { pos } = await reader.head();
    const bound = boundOf(asset.keyspace);
    const finder = new OrdinalFinder(reader, asset.definition, bound);
    const kept = this.#maps.get(asset.assetKey);
    if (kept !== undefined && isUsable(kept, asset, from, through)) {
      const cells = await broughtForward(reader, kept, asset, { finder, through, pos });
      if (cells !== null) {
        this.#keep({ ...kept, cells, bound, pos });
        return cells.slice();
      }
    }
    const map = { assetKey, specHash, bound, from, pos, cells: new Uint8Array(through - from) };
    const isAll = map.cells.length === asset.keyspace.count;
    const bounds = isAll ? null : boundsOfStretch(asset.definition, asset.keyspace, from, through);
    await scanCells(reader, map, finder, bounds);
    this.#keep(map);
    return map.cells.slice();
  }

  #keep(map: KeptMap): void {
    this.#maps.delete(map.assetKey);
    this.#maps.set(map.assetKey, map);
    const [oldest] = this.#maps.keys();
    if (this.#maps.size > MAPS_KEPT && oldest !== undefined) this.#maps.delete(oldest);
  }
}

/** Whether the kept cells are the first of those asked for, each under the ordinal it has now. */
function isUsable(kept: KeptMap, asset: MappedAsset, from: number, through: number): boolean {
  const [, ...radices] = boundOf(asset.keyspace);
  return (
    kept.specHash === asset.specHash &&
    kept.from === from &&
    kept.from + kept.cells.length <= through &&
    radices.every((radix, at) => radix === kept.bound[at + 1])
  );
}

async function loadStretch(
  reader: Reader,
  map: Cells,
  asset: MappedAsset,
  from: number,
  through: number,
): Promise<void> {
  const keys = await asset.keysFrom(from, through - from);
  const ordinals = keys.map((_, at) => from + at);
  await loadCells(reader, map, keys, ordinals);
}

type Target = { finder: OrdinalFinder; through: number; pos: number };

/** What kept cells are at the target, themselves left as they are; null when reading anew costs less. */
async function broughtForward(
  reader: Reader,
  kept: KeptMap,
  asset: MappedAsset,
  { finder, through, pos }: Target,
): Promise<Uint8Array | null> {
  const { assetKey, from } = kept;
  const before = from + kept.cells.length;
  if (pos - kept.pos > POSITIONS_MAX || through - before > LOOKED_UP_MAX) return null;
  const changed = await changedKeys(reader, assetKey, kept.pos, pos);
  if (changed === null) return null;
  const map = { assetKey, from, cells: new Uint8Array(through - from) };
  map.cells.set(kept.cells);
  // What is new in the keyspace may have a row all the same, of an earlier definition.
  if (through > before) await loadStretch(reader, map, asset, before, through);
  await loadCells(reader, map, changed, await finder.find(changed));
  return map.cells;
}

/** The only events that change what is known of partitions. */
const RECORDING_ATTEMPTS = ["TasksFinished", "TaskLeaseExpired"];

/** The results of attempts that an event tells; none for all other events. */
export function resultsOf({ type, data }: RecordedEvent): readonly TaskResultField[] {
  if (type === "TasksFinished") return (JSON.parse(data) as EventData<"TasksFinished">).results;
  if (type !== "TaskLeaseExpired") return [];
  return [(JSON.parse(data) as EventData<"TaskLeaseExpired">).result];
}

/** The keys of the asset whose rows may have changed; null when they are too many. */
async function changedKeys(
  reader: Reader,
  assetKey: string,
  after: number,
  through: number,
): Promise<string[] | null> {
  const changed = new Set<string>();
  for (let at = after; at < through; at += POSITIONS_AT_ONCE) {
    const end = Math.min(through, at + POSITIONS_AT_ONCE);
    const events = await reader.events({
      after: at,
      through: end,
      types: RECORDING_ATTEMPTS,
      limit: POSITIONS_AT_ONCE,
    });
    for (const { asset_key, partition_keys } of events.flatMap(resultsOf)) {
      if (asset_key !== assetKey) continue;
      for (const key of partition_keys) changed.add(key);
    }
    if (changed.size > CHANGES_MAX) return null;
    await turnOfOthers();
  }
  return [...changed];
}

/** Characters of events that one list is read for its errors; of what is left, none are told. */
const ERROR_CHARACTERS_MAX = 8_000_000;

/** A partition as the API shows it; why its last attempt failed is told by `withErrors`. */
export function partitionDocument(rows: Rows, lookedAt: LookedAt, now: Instant): PartitionDocument {
  const { view, key, ordinal, row } = lookedAt;
  const stale = staleness(rows, lookedAt, now);
  return {
    asset_key: view.spec.asset_key,
    partition_key: key,
    partition_values: row?.partition_values ?? valuesOf(view, ordinal),
    ordinal,
    status: displayStatus(lookedAt, stale !== null),
    stale_reason: stale?.reason ?? null,
    stale_reason_code: stale?.reason ?? null,
    stale_since: stale?.since ?? null,
    last_materialization_run_id: row?.last_materialization_run_id ?? null,
    last_materialization_at: row?.last_materialization_at ?? null,
    last_materialization_code_version: row?.last_materialization_code_version ?? null,
    last_materialization_start_pos: row?.last_materialization_start_pos ?? null,
    metadata: row?.metadata ?? null,
    last_attempt_run_id: row?.last_attempt_run_id ?? null,
    last_attempt_at: row?.last_attempt_at ?? null,
    last_attempt_outcome: row?.last_attempt_outcome ?? null,
    last_attempt_start_pos: row?.last_attempt_start_pos ?? null,
    last_attempt_error: null,
    row_version: row?.row_version ?? null,
  };
}

function valuesOf(view: AssetView, ordinal: number | null): Record<string, string> | null {
  if (view.keyspace === null || ordinal === null) return null;
  return view.keyspace.dimensions.length > 1 ? view.keyspace.valuesAt(ordinal) : null;
}

/**
 * The partitions with why the last attempt at each failed. A row is of the event that recorded the
 * attempt, so that event is all that is read, once for all partitions that it is about.
 */
export async function withErrors(
  reader: Reader,
  partitions: readonly PartitionDocument[],
): Promise<PartitionDocument[]> {
  const failed = partitions.filter(({ last_attempt_outcome: outcome }) => outcome === "FAILED");
  const errors = new Map<PartitionDocument, PartitionDocument["last_attempt_error"]>();
  let left = ERROR_CHARACTERS_MAX;
  for (const [pos, alike] of Map.groupBy(failed, ({ row_version }) => row_version ?? 0)) {
    if (left <= 0) break;
    const [event] = await reader.events({ after: pos - 1, through: pos, limit: 1 });
    left -= event?.data.length ?? 0;
    const found = event === undefined ? new Map<string, never>() : errorsOf(event);
    for (const each of alike) {
      errors.set(each, found.get(`${each.asset_key}\n${each.partition_key}`) ?? null);
    }
    await turnOfOthers();
  }
  return partitions.map((each) => ({ ...each, last_attempt_error: errors.get(each) ?? null }));
}

type AttemptError = NonNullable<PartitionDocument["last_attempt_error"]>;

/** Why attempts failed that an event ended, by asset and partition. */
function errorsOf(event: RecordedEvent): Map<string, AttemptError> {
  const errors = new Map<string, AttemptError>();
  for (const result of resultsOf(event).flatMap(eachResult)) {
    for (const [index, key] of result.partition_keys.entries()) {
      const error = errorAt(result, index);
      if (error === null) continue;
      const { class: name, message } = error;
      errors.set(`${result.asset_key}\n${key}`, {
        task_key: result.task_key,
        class: name,
        message,
      });
    }
  }
  return errors;
}

/** What went wrong with one partition of a task, as a whole or by itself. */
function errorAt(
  { outcome, error, exceptions }: TaskResultField,
  index: number,
): { class: string; message: string } | null {
  const own = exceptions?.find((exception) => exception.index === index);
  if (own !== undefined) return own.outcome === "FAILED" ? (own.error ?? error ?? null) : null;
  return outcome === "FAILED" ? (error ?? null) : null;
}
