import { type ChunkDocument, ChunkStateField } from "../../work/backfill/documents.ts";
import { PawlError, present } from "../../kernel/errors.ts";
import {
  countIntervals,
  expandIntervals,
  type Interval,
  intervalsContain,
  mergeIntervals,
  runLengths,
  subtractIntervals,
} from "../../kernel/intervals.ts";
import { chunkIdOf, chunkRunKey } from "../../work/keys.ts";
import type { Keyspace } from "../../kernel/keyspace/keyspace.ts";
import {
  type BackfillRow,
  type ChunkPart,
  type ChunkRow,
  type ChunkState,
  NEW_CHUNK,
  type OrdinalsByAsset,
  CHUNKS,
} from "../../work/backfill/rows.ts";
import type { Rows } from "../../work/rows.ts";
import type { Condition } from "../../kernel/table.ts";
import {
  type BackfillPlan,
  backfillPlan,
  chunkParts,
  partsOfChunks,
  intervalsFrom,
  pairsOf,
} from "../../work/backfill/plan.ts";
import { knownBackfill } from "../../work/backfill/commands.ts";
import { type Call, evaluateAt, type Handlers, type Reply, readAt } from "../http/call.ts";
import { cursorOf, keyOfCursor } from "../http/read-within.ts";
import { setImmediate as nextTurn } from "node:timers/promises";
import type { ChunkMap } from "../../work/backfill/api.ts";
import { RUNS } from "../../work/run/rows.ts";
import type { Reader } from "../../store/store.ts";
import { knownBackfillRow } from "../look-ups.ts";

/** A chunk that has no row yet: what it will be when it is planned. */
function unplannedChunk(backfill: BackfillRow, index: number, parts: ChunkPart[]): ChunkRow {
  return {
    ...NEW_CHUNK,
    backfill_id: backfill.backfill_id,
    chunk_index: index,
    generation: 0,
    state: stateOfUnplanned(backfill),
    parts,
    partitions: pairsOf(parts, backfill.asset_selection.length),
    row_version: backfill.row_version,
  };
}

function stateOfUnplanned(backfill: BackfillRow): ChunkState {
  return backfill.state === "CANCELLED" ? "CANCELLED" : "PENDING";
}

/** The states that rows have whose chunks are shown in a state: tiles that waited stay PENDING. */
function rowStates(backfill: BackfillRow, shown: string): string[] {
  if (backfill.state !== "CANCELLED" || !["PENDING", "CANCELLED"].includes(shown)) return [shown];
  return shown === "CANCELLED" ? ["CANCELLED", "PENDING"] : [];
}

/** The chunks after an index, with those that have no row yet in their places. */
function chunksAfter(
  rows: Rows,
  backfill: BackfillRow,
  plan: BackfillPlan,
  after: number,
  states: readonly string[] | undefined,
  limit: number,
): ChunkRow[] {
  const where: Condition[] = [
    { cell: "backfill_id", is: "=", value: backfill.backfill_id },
    { cell: "chunk_index", is: ">", value: after },
  ];
  if (states !== undefined) {
    const values = states.flatMap((state) => rowStates(backfill, state));
    where.push({ cell: "state", is: "in", values });
  }
  const planned = rows.chunks.find(where, [{ cell: "chunk_index" }], limit);
  const chunks = new Map(planned.map((chunk) => [chunk.chunk_index, chunk]));
  if (states?.includes(stateOfUnplanned(backfill)) ?? true) {
    const first = Math.max(after + 1, backfill.next_chunk);
    const end = Math.min(first + limit, backfill.base_chunks);
    const length = Math.max(0, end - first);
    const indexes = Array.from({ length }, (_, at) => first + at);
    for (const [at, parts] of partsOfChunks(rows, backfill, plan, indexes).entries()) {
      const index = first + at;
      if (!chunks.has(index)) chunks.set(index, unplannedChunk(backfill, index, parts));
    }
  }
  return [...chunks.values()]
    .toSorted((one, other) => one.chunk_index - other.chunk_index)
    .slice(0, limit);
}

/** Most keys of one chunk in a list of chunks, and of all chunks of its page together. */
const KEYS_OF_CHUNK_MAX = 100;
const KEYS_OF_PAGE_MAX = 2_000;
/** Longest that the keys of a page may be together, in characters. */
const KEYS_LENGTH_MAX = 200_000;

/** The keys that a page of chunks shows, looked up at once, and what is left of the room for them. */
class PageKeys {
  readonly #each: number;
  readonly #keys: ReadonlyMap<number, string>;
  #length = KEYS_LENGTH_MAX;

  constructor(keyspace: Keyspace, chunks: readonly ChunkRow[]) {
    const each = Math.floor(KEYS_OF_PAGE_MAX / Math.max(1, chunks.length));
    this.#each = Math.min(KEYS_OF_CHUNK_MAX, each);
    const shown = chunks.flatMap((chunk) => {
      const partitions = partitionsIn(chunk);
      const last = partitions.at(-1)?.[1];
      return [
        ...this.#first(partitions),
        ...this.#first(ordinalsOf(chunk.failed)),
        ...(last === undefined ? [] : [last]),
      ];
    });
    const ordinals = [...new Set(shown)];
    const keys = keyspace.keysAt(ordinals);
    this.#keys = new Map(ordinals.map((ordinal, at) => [ordinal, keys[at] ?? ""]));
  }

  /** The key of the first or the last partition of a chunk. */
  at(ordinal: number | undefined): string | null {
    return ordinal === undefined ? null : (this.#keys.get(ordinal) ?? null);
  }

  /** The first keys of some partitions, as many as there is room for. */
  take(partitions: readonly Interval[]): string[] {
    const taken: string[] = [];
    for (const ordinal of this.#first(partitions)) {
      const key = present(this.#keys.get(ordinal), "what is shown was looked up");
      if (key.length > this.#length) break;
      this.#length -= key.length;
      taken.push(key);
    }
    return taken;
  }

  #first(partitions: readonly Interval[]): number[] {
    return expandIntervals(partitions, 0, this.#each);
  }
}

/** The partitions of a chunk, whichever of its assets have them. */
function partitionsIn({ parts }: Pick<ChunkRow, "parts">): Interval[] {
  return mergeIntervals(parts.map(({ from, to }): Interval => [from, to]));
}

function ordinalsOf(lists: OrdinalsByAsset | null): Interval[] {
  return mergeIntervals((lists ?? []).flatMap(({ ordinals }) => ordinals));
}

function chunkDocument(
  chunk: ChunkRow,
  backfill: BackfillRow,
  page: PageKeys | null,
): ChunkDocument {
  const { backfill_id, chunk_index, generation } = chunk;
  const partitions = page === null ? [] : partitionsIn(chunk);
  const keys = page?.take(partitions) ?? [];
  return {
    ...chunk,
    state: chunk.state === "PENDING" ? stateOfUnplanned(backfill) : chunk.state,
    chunk_id: chunkIdOf(backfill_id, chunk_index),
    run_key: chunkRunKey(backfill_id, chunk_index, generation),
    first_partition_key: page?.at(partitions[0]?.[0]) ?? null,
    last_partition_key: page?.at(partitions.at(-1)?.[1]) ?? null,
    partition_count: countIntervals(partitions),
    partition_keys: keys,
    partition_keys_cursor: cursorAfter(partitions, keys.length),
    failed_partition_keys: page?.take(ordinalsOf(chunk.failed)) ?? [],
  } as ChunkDocument;
}

/** Where a list goes on that has had so many of the partitions; null at its end. */
function cursorAfter(partitions: readonly Interval[], had: number): string | null {
  const [next] = intervalsFrom(partitions, had);
  return next === undefined ? null : cursorOf([next[0] - 1]);
}

/** The index after which the list goes on: by its cursor, or by the first one that is wanted. */
function placeOf({ cursor, from }: Call<"listChunks">["query"]): number {
  if (cursor === undefined) return (from ?? 0) - 1;
  if (from === undefined) return Number(keyOfCursor(cursor, ["int"])[0]);
  throw new PawlError(
    "INPUT_INVALID",
    `from: a list that goes on at a cursor begins nowhere else, got ${from}. Send one of them.`,
    { details: { from, cursor } },
  );
}

async function listChunks(call: Call<"listChunks">): Promise<Reply> {
  const { limit, state, status = state } = call.query;
  const after = placeOf(call.query);
  const { result, pos } = await evaluateAt(call, (rows) => {
    const backfill = knownBackfill(rows, call.params.backfill_id);
    const plan = backfillPlan(rows, backfill);
    const found = chunksAfter(rows, backfill, plan, after, status, limit + 1);
    const page = found.slice(0, limit);
    const last = found.length > limit ? page.at(-1) : undefined;
    const keys = plan.partitions && new PageKeys(plan.partitions.keyspace, page);
    return {
      items: page.map((chunk) => chunkDocument(chunk, backfill, keys)),
      next_cursor: last === undefined ? null : cursorOf([last.chunk_index]),
    };
  });
  return { answer: { ...result, pos }, pos };
}

/** The chunk as it is, or as it will be when it is planned. */
function chunkAt(rows: Rows, backfill: BackfillRow, plan: BackfillPlan, index: number): ChunkRow {
  const planned = rows.chunks.get(backfill.backfill_id, index);
  if (planned !== null) return planned;
  if (index < backfill.base_chunks) {
    return unplannedChunk(backfill, index, chunkParts(rows, backfill, plan, index));
  }
  throw new PawlError(
    "CHUNK_NOT_FOUND",
    `Backfill ${backfill.backfill_id} has no chunk ${index}: its last is ` +
      `${backfill.base_chunks + backfill.tiles_made - 1}.`,
    { details: { backfill_id: backfill.backfill_id, chunk_index: index } },
  );
}

const OUTCOMES = ["failed", "cancelled", "skipped"] as const;
type Outcomes = Record<(typeof OUTCOMES)[number], OrdinalsByAsset>;

/** What did not succeed in a chunk; all of one that never ran before its backfill was cancelled. */
function outcomesOf(chunk: ChunkRow, backfill: BackfillRow): Outcomes {
  const { failed, cancelled, skipped, run_pos } = chunk;
  const wasLeft = run_pos === null && backfill.state === "CANCELLED";
  const all = backfill.asset_selection.map((_, asset) => ({
    asset,
    ordinals: chunk.parts
      .filter(({ assets }) => assets?.includes(asset) ?? true)
      .map(({ from, to }): Interval => [from, to]),
  }));
  return {
    failed: failed ?? [],
    cancelled: wasLeft ? all : (cancelled ?? []),
    skipped: skipped ?? [],
  };
}

async function listChunkPartitions(call: Call<"listChunkPartitions">): Promise<Reply> {
  const { limit, cursor, outcome } = call.query;
  const { backfill_id, chunk_index } = call.params;
  const after = cursor === undefined ? -1 : Number(keyOfCursor(cursor, ["int"])[0]);
  const { result, pos } = await evaluateAt(call, (rows) => {
    const backfill = knownBackfill(rows, backfill_id);
    const plan = backfillPlan(rows, backfill);
    const chunk = chunkAt(rows, backfill, plan, chunk_index);
    if (plan.partitions === null) return { items: [], next_cursor: null };
    const { keyspace } = plan.partitions;
    const outcomes = outcomesOf(chunk, backfill);
    const wanted = OUTCOMES.filter((each) => outcome?.includes(OUTCOME_NAMES[each]));
    const every =
      outcome === undefined
        ? partitionsIn(chunk)
        : ordinalsOf(wanted.flatMap((each) => outcomes[each]));
    const rest = subtractIntervals(every, [[Number.MIN_SAFE_INTEGER, after]]);
    const ordinals = expandIntervals(rest, 0, limit);
    const keys = keyspace.keysAt(ordinals);
    const assetsIn = (lists: OrdinalsByAsset, ordinal: number): string[] =>
      lists.flatMap(({ asset, ordinals: own }) =>
        intervalsContain(own, ordinal) ? [backfill.asset_selection[asset] ?? ""] : [],
      );
    return {
      items: keys.map((partition_key, index) => ({
        partition_key,
        failed: assetsIn(outcomes.failed, ordinals[index] ?? -1),
        cancelled: assetsIn(outcomes.cancelled, ordinals[index] ?? -1),
        skipped: assetsIn(outcomes.skipped, ordinals[index] ?? -1),
      })),
      next_cursor: cursorAfter(rest, keys.length),
    };
  });
  return { answer: { ...result, pos }, pos };
}

const OUTCOME_NAMES = { failed: "FAILED", cancelled: "CANCELLED", skipped: "SKIPPED" } as const;

/** What can be asked about chunks. */
export const CHUNK_HANDLERS = { listChunks, listChunkPartitions } satisfies Handlers;

/** Rows that are read between two turns of the process: some ten milliseconds. */
const PAGE_ROWS = 10_000;

const STATES = ChunkStateField.options;
const codeOf = (state: ChunkState): number => STATES.indexOf(state);

/** States that chunks are found by along an index that holds nothing else. */
const INDEXED = ["PENDING", "FAILED", "CANCELLED", "SPLIT"] as const satisfies ChunkState[];

/** What a chunk is while its run is not done. */
const STATE_OF_RUN: Readonly<Record<string, ChunkState>> = {
  PENDING: "PLANNED",
  RUNNING: "RUNNING",
};

/**
 * The state of each chunk. Chunks without a row are told by arithmetic, and of those that have one
 * only the ones that did not succeed are read: the active ones along the active runs, the others
 * along their index. So the cost is that of what is unusual.
 */
async function statesOf(reader: Reader, backfill: BackfillRow): Promise<Uint8Array> {
  const states = new Uint8Array(backfill.base_chunks + backfill.tiles_made);
  const isCancelled = backfill.state === "CANCELLED";
  const unplanned = isCancelled ? "CANCELLED" : "PENDING";
  states.fill(codeOf(usualState(backfill)));
  states.fill(codeOf(unplanned), backfill.next_chunk, backfill.base_chunks);
  for (const state of statesToRead(backfill)) {
    // What waited when the backfill was cancelled keeps its row as it was.
    const shown = state === "PENDING" ? unplanned : state;
    await eachIndex(reader, backfill, state, (index) => {
      states[index] = codeOf(shown);
    });
  }
  await markActive(reader, backfill, states);
  return states;
}

/** What the chunks with a row are unless it is read otherwise. */
function usualState(backfill: BackfillRow): ChunkState {
  const rows = backfill.next_chunk + backfill.tiles_made;
  return rows > 0 && backfill.chunks_failed === rows ? "FAILED" : "SUCCEEDED";
}

function statesToRead(backfill: BackfillRow): ChunkState[] {
  return INDEXED.filter((state) => {
    if (state === "FAILED") return backfill.chunks_failed > 0 && usualState(backfill) !== state;
    return state === "CANCELLED" ? backfill.chunks_cancelled > 0 : backfill.tiles_made > 0;
  });
}

async function eachIndex(
  reader: Reader,
  backfill: BackfillRow,
  state: ChunkState,
  visit: (index: number) => void,
): Promise<void> {
  let after = -1;
  for (;;) {
    const where: Condition[] = [
      { cell: "backfill_id", is: "=", value: backfill.backfill_id },
      { cell: "state", is: "=", value: state },
      { cell: "chunk_index", is: ">", value: after },
    ];
    const order = [{ cell: "chunk_index" }];
    const find = { table: CHUNKS, where, order, limit: PAGE_ROWS };
    const page = await reader.findCells(find, ["chunk_index"]);
    for (const [index] of page) visit(index as number);
    const last = page.at(-1);
    if (last === undefined || page.length < PAGE_ROWS) return;
    after = last[0] as number;
    await nextTurn();
  }
}

async function markActive(
  reader: Reader,
  backfill: BackfillRow,
  states: Uint8Array,
): Promise<void> {
  const limit = backfill.chunks_planned + backfill.chunks_running;
  if (limit === 0) return;
  const where: Condition[] = [
    { cell: "state", is: "in", values: Object.keys(STATE_OF_RUN) },
    { cell: "backfill_id", is: "=", value: backfill.backfill_id },
  ];
  const find = { table: RUNS, where, order: [{ cell: "run_pos" }], limit };
  for (const [index, state] of await reader.findCells(find, ["chunk_index", "state"])) {
    states[index as number] = codeOf(STATE_OF_RUN[state as string] ?? "RUNNING");
  }
}

async function mapChunks(call: Call<"mapChunks">): Promise<Reply> {
  return readAt(call, async (reader) => {
    const { pos } = await reader.head();
    const backfill = await knownBackfillRow(reader, call.params.backfill_id);
    const states = await statesOf(reader, backfill);
    const answer: ChunkMap = {
      backfill_id: backfill.backfill_id,
      total_chunks: backfill.total_chunks,
      cells: states.length,
      base_chunks: backfill.base_chunks,
      states: [...STATES],
      lengths: runLengths(states),
      state_version: backfill.state_version,
      row_version: backfill.row_version,
      pos,
    };
    return { answer, pos };
  });
}

/** What shows all chunks of a backfill at once. */
export const CHUNK_MAP_HANDLERS = { mapChunks } satisfies Handlers;
