import { setImmediate as nextTurn } from "node:timers/promises";
import { ChunkStateField } from "../../core/api/backfill-documents.ts";
import type { ChunkMap } from "../../core/api/chunk-map-documents.ts";
import { type BackfillRow, type ChunkState, CHUNKS } from "../../core/rows/backfill-rows.ts";
import { RUNS } from "../../core/rows/run-rows.ts";
import type { Condition } from "../../core/rows/table.ts";
import { runLengths } from "../../core/run-lengths.ts";
import type { Reader } from "../../store/store.ts";
import { type Call, type Handler, readAt, type Reply } from "../call.ts";
import { findBackfill } from "./backfills.ts";

/** Rows that are read between two turns of the process: some ten milliseconds. */
const PAGE_ROWS = 10_000;

const STATES = ChunkStateField.options;
const placeOf = (state: ChunkState): number => STATES.indexOf(state);

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
  states.fill(placeOf(usualState(backfill)));
  states.fill(placeOf(unplanned), backfill.next_chunk, backfill.base_chunks);
  for (const state of statesToRead(backfill)) {
    // What waited when the backfill was cancelled keeps its row as it was.
    const shown = state === "PENDING" ? unplanned : state;
    await eachIndex(reader, backfill, state, (index) => {
      states[index] = placeOf(shown);
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
    states[index as number] = placeOf(STATE_OF_RUN[state as string] ?? "RUNNING");
  }
}

async function mapChunks(call: Call<"mapChunks">): Promise<Reply> {
  return readAt(call, async (reader) => {
    const { pos } = await reader.head();
    const backfill = await findBackfill(reader, call.params.backfill_id);
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
export const CHUNK_MAP_HANDLERS: { mapChunks: Handler<"mapChunks"> } = { mapChunks };
