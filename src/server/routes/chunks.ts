import type { ChunkDocument } from "../../core/api/backfill-documents.ts";
import { PawlError } from "../../core/errors.ts";
import { chunkIdOf } from "../../core/keys.ts";
import {
  type BackfillRow,
  type ChunkRow,
  type ChunkState,
  NEW_CHUNK,
} from "../../core/rows/backfill-rows.ts";
import type { Rows } from "../../core/rows/rows.ts";
import type { Condition } from "../../core/rows/table.ts";
import { type BackfillPlan, backfillPlan, chunkParts } from "../../controllers/backfill-plan.ts";
import { knownBackfill } from "../../controllers/change-backfill.ts";
import { pairsOf } from "../../controllers/chunk-parts.ts";
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

function chunkDocument(chunk: ChunkRow, backfill: BackfillRow, plan: BackfillPlan): ChunkDocument {
  const keyspace = plan.partitions?.keyspace ?? null;
  const first = chunk.parts[0]?.from;
  const last = chunk.parts.at(-1)?.to;
  return {
    ...chunk,
    state: chunk.state === "PENDING" ? stateOfUnplanned(backfill) : chunk.state,
    chunk_id: chunkIdOf(chunk.backfill_id, chunk.chunk_index),
    first_partition_key: keyspace === null || first === undefined ? null : keyspace.keyAt(first),
    last_partition_key: keyspace === null || last === undefined ? null : keyspace.keyAt(last),
  } as ChunkDocument;
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
    return {
      items: page.map((chunk) => chunkDocument(chunk, backfill, plan)),
      next_cursor: last === undefined ? null : cursorOf([last.chunk_index]),
    };
  });
  return { answer: { ...result, pos }, pos };
}

/** What can be asked about chunks. */
export const CHUNK_HANDLERS: { listChunks: Handler<"listChunks"> } = { listChunks };
