import { setImmediate as nextTurn } from "node:timers/promises";
import { LANES_SHOWN_MAX } from "../../core/api/move-documents.ts";
import {
  type LaneProgress,
  MoveCellState,
  type MoveSegmentMap,
} from "../../core/api/move-map-documents.ts";
import { MOVE_SEGMENTS, type MoveRow } from "../../core/rows/move-rows.ts";
import type { Condition } from "../../core/rows/table.ts";
import { runLengths } from "../../core/run-lengths.ts";
import type { Reader } from "../../store/store.ts";
import { type Call, type Handler, readAt, type Reply } from "../call.ts";
import { knownMoveRow } from "../find-shard-rows.ts";

/** Rows that are read between two turns of the process: some ten milliseconds. */
const PAGE_ROWS = 5_000;

const STATES = MoveCellState.options;

const CELLS = [
  "segment_index",
  "lane",
  "state",
  "running",
  "step",
  "rows_estimated",
  "rows_copied",
] as const;

/** A segment as far as a map needs it. */
type Piece = {
  index: number;
  lane: number;
  state: MoveCellState;
  estimated: number;
  copied: number;
};

/** Reads the segments of a move in the order of their indexes, and lets others have a turn. */
async function eachPiece(
  reader: Reader,
  { move_id, state: moveState }: MoveRow,
  visit: (piece: Piece) => void,
): Promise<void> {
  let after = -1;
  for (;;) {
    const where: Condition[] = [
      { cell: "move_id", is: "=", value: move_id },
      { cell: "segment_index", is: ">", value: after },
    ];
    const order = [{ cell: "segment_index" }];
    const page = await reader.findCells(
      { table: MOVE_SEGMENTS, where, order, limit: PAGE_ROWS },
      CELLS,
    );
    for (const [index, lane, state, running, step, estimated, copied] of page) {
      // Whoever is at another step of a paused move was told to stop, and leaves the segment as it was.
      const isStopping = moveState === "CANCELLED" || (moveState === "PAUSED" && step !== "verify");
      const shown = running === 1 && !isStopping ? "RUNNING" : state;
      visit({ index, lane, state: shown, estimated, copied } as Piece);
    }
    const last = page.at(-1);
    if (last === undefined || page.length < PAGE_ROWS) return;
    after = last[0] as number;
    await nextTurn();
  }
}

function counted(
  lanes: Map<number, LaneProgress>,
  { lane, state, estimated, copied }: Piece,
): void {
  const before = lanes.get(lane) ?? {
    lane,
    segments: 0,
    states: {},
    rows_estimated: 0,
    rows_copied: 0,
  };
  before.segments += 1;
  before.states[state] = (before.states[state] ?? 0) + 1;
  before.rows_estimated += estimated;
  before.rows_copied += copied;
  lanes.set(lane, before);
}

function mapMoveSegments(call: Call<"mapMoveSegments">): Promise<Reply> {
  return readAt(call, async (reader) => {
    const { pos } = await reader.head();
    const move = await knownMoveRow(reader, call.params.move);
    const states = new Uint8Array(move.next_segment);
    const lanes = new Map<number, LaneProgress>();
    await eachPiece(reader, move, (piece) => {
      states[piece.index] = STATES.indexOf(piece.state);
      counted(lanes, piece);
    });
    const answer: MoveSegmentMap = {
      move_id: move.move_id,
      cells: states.length,
      states: [...STATES],
      lengths: runLengths(states),
      lanes: [...lanes.values()]
        .toSorted((one, other) => one.lane - other.lane)
        .slice(0, LANES_SHOWN_MAX),
      state_version: move.state_version,
      row_version: move.row_version,
      pos,
    };
    return { answer, pos };
  });
}

/** What shows all segments of a move at once. */
export const MOVE_MAP_HANDLERS: { mapMoveSegments: Handler<"mapMoveSegments"> } = {
  mapMoveSegments,
};
