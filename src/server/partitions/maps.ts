import { setImmediate as turnOfOthers } from "node:timers/promises";
import type { Instant } from "../../kernel/instant.ts";
import type { PartitionDefinition } from "../../kernel/keyspace/definition.ts";
import { boundOf, type Keyspace } from "../../kernel/keyspace/keyspace.ts";
import type { Condition } from "../../kernel/table.ts";
import type { Reader } from "../../store/store.ts";
import type { PartitionDocument } from "../../work/asset/api.ts";
import {
  type AssetView,
  assetView,
  countOf,
  displayStatus,
  keysFrom,
  type LookedAt,
  loadUpstream,
  type Place,
  staleness,
} from "../../work/asset/partition-status.ts";
import type { Context } from "../../work/decision.ts";
import type { RecordedEvent } from "../../work/envelope.ts";
import type { EventData } from "../../work/events.ts";
import type { Rows } from "../../work/rows.ts";
import type { TaskResultField } from "../../work/run/events.ts";
import { PARTITIONS, type PartitionRow } from "../../work/run/rows.ts";
import { eachResult } from "../../work/run/tasks.ts";
import { cursorOf, keyOfCursor } from "../http/read-within.ts";
import { boundsOfStretch, type Cells, loadCells, OrdinalFinder, scanCells } from "./cells.ts";

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

/** Partitions that a page with a filter goes through; it may be short and still have a next one. */
const SCAN_LIMIT = 1_000;

/** Partitions that a page looks at, those upstream included. */
const LOOKS_MAX = 10_000;

/** Assets that a page across assets goes through. */
const ASSETS_MAX = 20;

/** A page of partitions. */
export type PartitionPage = { items: PartitionDocument[]; next_cursor: string | null };

/** Which partitions a page is to have, and where the page before it ended. */
export type PartitionQuery = {
  limit: number;
  cursor?: string | undefined;
  /** The ordinal to begin at, where pages go by ordinal and there is no cursor. */
  from?: number | undefined;
  /** Left out when every partition belongs to the list. */
  picks?: ((document: PartitionDocument) => boolean) | undefined;
};

/** A page of an asset's partitions by ordinal. */
export function pageByOrdinal(
  rows: Rows,
  view: AssetView,
  { limit, cursor, from: first = 0, picks }: PartitionQuery,
  context: Context,
): PartitionPage {
  const last = cursor === undefined ? first - 1 : Number(keyOfCursor(cursor, ["int"])[0]);
  const from = Math.max(-1, last) + 1;
  const scanned = picks === undefined ? limit : SCAN_LIMIT;
  const places = placesOf(rows, view, from, scanned);
  const { items, end } = pick(
    rows,
    loadUpstream(rows, places, LOOKS_MAX),
    { limit, picks },
    context,
  );
  const next = from + end;
  return { items, next_cursor: next < countOf(view) ? cursorOf([next - 1]) : null };
}

/** An asset's partitions from an ordinal on, with their rows. */
export function placesOf(rows: Rows, view: AssetView, from: number, limit: number): Place[] {
  const { asset_key } = view.spec;
  const keys = keysFrom(view, from, limit);
  rows.partitions.need(keys.map((key) => [asset_key, key]));
  return keys.map((key, index) => ({
    view,
    key,
    ordinal: from + index,
    row: rows.partitions.get(asset_key, key),
  }));
}

/** The documents that belong on a page, and how many partitions it went through for them. */
function pick(
  rows: Rows,
  lookedAt: readonly LookedAt[],
  { limit, picks }: PartitionQuery,
  context: Context,
): { items: PartitionDocument[]; end: number } {
  const items: PartitionDocument[] = [];
  let end = 0;
  for (const each of lookedAt) {
    if (items.length === limit) break;
    end++;
    const document = partitionDocument(rows, each, context.now);
    if (picks?.(document) ?? true) items.push(document);
  }
  return { items, end };
}

/** A page of the partitions that have a row, across assets or of one of them. */
export function pageByRow(
  rows: Rows,
  asset: string | undefined,
  { limit, cursor, picks }: PartitionQuery,
  context: Context,
): PartitionPage {
  const where: Condition[] = [];
  if (asset !== undefined) where.push({ cell: "asset_key", is: "=", value: asset });
  const cells = PARTITIONS.key;
  if (cursor !== undefined) {
    where.push({ cells, is: "after", key: keyOfCursor(cursor, ["text", "text"]) });
  }
  const order = cells.map((cell) => ({ cell }));
  const scanned = picks === undefined ? limit + 1 : SCAN_LIMIT;
  const found = rows.partitions.find(where, order, scanned);
  const places = placesOfRows(rows, found, context);
  const { items, end } = pick(
    rows,
    loadUpstream(rows, places, LOOKS_MAX),
    { limit, picks },
    context,
  );
  const last = end === places.length ? found.at(-1) : places[end - 1]?.row;
  return { items, next_cursor: isEnd(found, last, scanned) ? null : cursorOfRow(last) };
}

function placesOfRows(
  rows: Rows,
  found: readonly PartitionRow[],
  context: Context,
): (Place & { row: PartitionRow })[] {
  return [...Map.groupBy(found, ({ asset_key }) => asset_key)].flatMap(([assetKey, own]) => {
    // What was materialized of an asset that is no longer defined is not shown.
    if (rows.definitions.get("asset", assetKey) === null) return [];
    const view = assetView(rows, assetKey, context);
    const keys = own.map(({ partition_key }) => partition_key);
    // Looked up at once: the keys of a dynamic definition are rows themselves.
    const ordinals = view.keyspace?.indexesOf(keys) ?? keys.map(() => 0);
    return own.map((row, at) => {
      return { view, key: row.partition_key, ordinal: ordinals[at] ?? null, row };
    });
  });
}

function isEnd(
  found: readonly PartitionRow[],
  last: PartitionRow | null | undefined,
  scanned: number,
): boolean {
  return last === found.at(-1) && found.length < scanned;
}

function cursorOfRow(row: PartitionRow | null | undefined): string | null {
  return row === null || row === undefined ? null : cursorOf([row.asset_key, row.partition_key]);
}

/** A page of all partitions of all assets, or of one, by asset and ordinal. */
export function pageByAsset(
  rows: Rows,
  asset: string | undefined,
  { limit, cursor, picks }: PartitionQuery,
  context: Context,
): PartitionPage {
  const first = [asset ?? "", -1] as const;
  const [start, after] = cursor === undefined ? first : keyOfCursor(cursor, ["text", "int"]);
  const assets = asset === undefined ? assetsFrom(rows, String(start)) : [asset];
  const items: PartitionDocument[] = [];
  let looks = LOOKS_MAX;
  for (const [index, assetKey] of assets.entries()) {
    const isCut = index === ASSETS_MAX || looks <= 0 || items.length === limit;
    if (isCut) return { items, next_cursor: cursorOf([assetKey, -1]) };
    const view = assetView(rows, assetKey, context);
    // An asset that the page before ended in may be gone: then this is another, from its start.
    const from = assetKey === start ? Math.max(-1, Number(after)) + 1 : 0;
    const places = placesOf(rows, view, from, Math.min(SCAN_LIMIT, looks));
    const lookedAt = loadUpstream(rows, places, looks);
    for (const { above } of lookedAt) looks -= 1 + above.length;
    const picked = pick(rows, lookedAt, { limit: limit - items.length, picks }, context);
    items.push(...picked.items);
    const next = from + picked.end;
    if (next < countOf(view)) return { items, next_cursor: cursorOf([assetKey, next - 1]) };
  }
  return { items, next_cursor: null };
}

/** Keys of the assets there are from a key on: those of a page, and the one after. */
function assetsFrom(rows: Rows, key: string): string[] {
  const where: Condition[] = [
    { cell: "kind", is: "=", value: "asset" },
    { cell: "name", is: ">=", value: key },
  ];
  return rows.definitions.find(where, [{ cell: "name" }], ASSETS_MAX + 1).map(({ name }) => name);
}
