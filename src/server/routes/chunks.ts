import type { ChunkDocument } from "../../core/api/backfill-documents.ts";
import { PawlError } from "../../core/errors.ts";
import {
  countIntervals,
  expandIntervals,
  type Interval,
  intervalsContain,
  mergeIntervals,
  subtractIntervals,
} from "../../core/intervals.ts";
import { chunkIdOf, chunkRunKey } from "../../core/keys.ts";
import type { Keyspace } from "../../core/partitions/keyspace.ts";
import {
  type BackfillRow,
  type ChunkRow,
  type ChunkState,
  NEW_CHUNK,
  type OrdinalsByAsset,
} from "../../core/rows/backfill-rows.ts";
import type { Rows } from "../../core/rows/rows.ts";
import type { Condition } from "../../core/rows/table.ts";
import { type BackfillPlan, backfillPlan, chunkParts } from "../../controllers/backfill-plan.ts";
import { knownBackfill } from "../../controllers/change-backfill.ts";
import { intervalsFrom, intervalsUpTo, pairsOf } from "../../controllers/chunk-parts.ts";
import { type Call, evaluateAt, type Handler, type Reply } from "../call.ts";
import { cursorOf, keyOfCursor } from "../cursor.ts";

/** A chunk that has no row yet: what it will be when it is planned. */
function unplanned(rows: Rows, backfill: BackfillRow, plan: BackfillPlan, index: number): ChunkRow {
  const parts = chunkParts(rows, backfill, plan, index);
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
    for (let index = first; index < end; index++) {
      if (!chunks.has(index)) chunks.set(index, unplanned(rows, backfill, plan, index));
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

/** What is left of the room that the keys of a page have. */
class KeyRoom {
  readonly #each: number;
  #length = KEYS_LENGTH_MAX;

  constructor(chunks: number) {
    this.#each = Math.min(KEYS_OF_CHUNK_MAX, Math.floor(KEYS_OF_PAGE_MAX / Math.max(1, chunks)));
  }

  /** The first keys of some partitions, as many as there is room for. */
  take(keyspace: Keyspace, partitions: readonly Interval[]): string[] {
    const taken: string[] = [];
    for (const key of keysIn(keyspace, partitions, this.#each)) {
      if (key.length > this.#length) break;
      this.#length -= key.length;
      taken.push(key);
    }
    return taken;
  }
}

/** The keys of the first partitions of some. */
function keysIn(keyspace: Keyspace, partitions: readonly Interval[], count: number): string[] {
  return intervalsUpTo(partitions, count).flatMap(([from, to]) =>
    keyspace.slice(from, to - from + 1),
  );
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
  plan: BackfillPlan,
  room: KeyRoom,
): ChunkDocument {
  const { backfill_id, chunk_index, generation } = chunk;
  const keyspace = plan.partitions?.keyspace ?? null;
  const partitions = keyspace === null ? [] : partitionsIn(chunk);
  const keys = keyspace === null ? [] : room.take(keyspace, partitions);
  const [first] = partitions;
  const last = partitions.at(-1);
  return {
    ...chunk,
    state: chunk.state === "PENDING" ? stateOfUnplanned(backfill) : chunk.state,
    chunk_id: chunkIdOf(backfill_id, chunk_index),
    run_key: chunkRunKey(backfill_id, chunk_index, generation),
    first_partition_key: keyspace === null || first === undefined ? null : keyspace.keyAt(first[0]),
    last_partition_key: keyspace === null || last === undefined ? null : keyspace.keyAt(last[1]),
    partition_count: countIntervals(partitions),
    partition_keys: keys,
    partition_keys_cursor: cursorAfter(partitions, keys.length),
    failed_partition_keys: keyspace === null ? [] : room.take(keyspace, ordinalsOf(chunk.failed)),
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
    const room = new KeyRoom(page.length);
    return {
      items: page.map((chunk) => chunkDocument(chunk, backfill, plan, room)),
      next_cursor: last === undefined ? null : cursorOf([last.chunk_index]),
    };
  });
  return { answer: { ...result, pos }, pos };
}

/** The chunk as it is, or as it will be when it is planned. */
function chunkAt(rows: Rows, backfill: BackfillRow, plan: BackfillPlan, index: number): ChunkRow {
  const planned = rows.chunks.get(backfill.backfill_id, index);
  if (planned !== null) return planned;
  if (index < backfill.base_chunks) return unplanned(rows, backfill, plan, index);
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
    const ordinals = expandIntervals(intervalsUpTo(rest, limit));
    const keys = keysIn(keyspace, rest, limit);
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
export const CHUNK_HANDLERS: {
  listChunks: Handler<"listChunks">;
  listChunkPartitions: Handler<"listChunkPartitions">;
} = { listChunks, listChunkPartitions };
