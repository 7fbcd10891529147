import { setImmediate as nextTurn } from "node:timers/promises";
import {
  SEGMENT_CELLS_MAX,
  type SegmentCell,
  SegmentCellStatus,
  type SegmentMap,
} from "../../core/api/segment-map-documents.ts";
import { SEGMENTS } from "../../core/rows/sync-rows.ts";
import type { Condition } from "../../core/rows/table.ts";
import type { Reader } from "../../store/store.ts";
import { type Call, type Handler, readAt, type Reply } from "../call.ts";
import { knownSyncRow } from "../find-sync-row.ts";

/** Rows that are read between two turns of the process: some ten milliseconds. */
const PAGE_ROWS = 5_000;

const STATUSES = SegmentCellStatus.options;

/** A segment as far as a map needs it. */
type Piece = { index: number; from: number; to: number; status: SegmentCellStatus };

async function piecesOf(reader: Reader, syncId: string): Promise<Piece[]> {
  const pieces: Piece[] = [];
  for (let after = -1; ; ) {
    const find = findAfter(syncId, after);
    const cells = ["segment_index", "from_block", "to_block", "status"] as const;
    const page = await reader.findCells(find, cells);
    const last = page.at(-1);
    if (last === undefined) return pieces;
    const through = last[1] as number;
    const excluded = await excludedOf(reader, syncId, after, through);
    for (const [index, from, to, status] of page) {
      const shown = excluded.has(index as number) ? "EXCLUDED" : status;
      pieces.push({ index, from, to, status: shown } as Piece);
    }
    if (page.length < PAGE_ROWS) return pieces;
    after = through;
    await nextTurn();
  }
}

/** Of the segments of one page, those that may stay unfetched; no index knows them. */
async function excludedOf(
  reader: Reader,
  syncId: string,
  after: number,
  through: number,
): Promise<Set<number>> {
  const find = findAfter(
    syncId,
    after,
    { cell: "from_block", is: "<=", value: through },
    { cell: "excluded", is: "not null" },
  );
  const found = await reader.findCells(find, ["segment_index"]);
  return new Set(found.map(([index]) => index as number));
}

function findAfter(syncId: string, after: number, ...more: Condition[]) {
  const where: Condition[] = [
    { cell: "sync_id", is: "=", value: syncId },
    { cell: "from_block", is: ">", value: after },
    ...more,
  ];
  return { table: SEGMENTS, where, order: [{ cell: "from_block" }], limit: PAGE_ROWS };
}

/** One cell for each piece, or for several next to each other, which shows the worst of them. */
function cellsOf(pieces: readonly Piece[]): SegmentCell[] {
  const count = Math.min(SEGMENT_CELLS_MAX, pieces.length);
  return Array.from({ length: count }, (_, at) => {
    const start = Math.floor((at * pieces.length) / count);
    const end = Math.floor(((at + 1) * pieces.length) / count);
    return cellOf(pieces.slice(start, end));
  });
}

function cellOf(pieces: readonly Piece[]): SegmentCell {
  const rankOf = ({ status }: Piece): number => STATUSES.indexOf(status);
  const worst = pieces.reduce((one, other) => (rankOf(other) > rankOf(one) ? other : one));
  return {
    from_block: pieces[0]?.from ?? worst.from,
    to_block: pieces.at(-1)?.to ?? worst.to,
    segments: pieces.length,
    status: worst.status,
    segment_index: worst.index,
  };
}

function countsOf(pieces: readonly Piece[]): SegmentMap["counts"] {
  const counts: SegmentMap["counts"] = {};
  for (const { status } of pieces) counts[status] = (counts[status] ?? 0) + 1;
  return counts;
}

function mapSegments(call: Call<"mapSegments">): Promise<Reply> {
  return readAt(call, async (reader) => {
    const { pos } = await reader.head();
    const sync = await knownSyncRow(reader, call.params.sync);
    const pieces = await piecesOf(reader, sync.sync_id);
    const answer: SegmentMap = {
      sync_id: sync.sync_id,
      segments: pieces.length,
      cells: cellsOf(pieces),
      counts: countsOf(pieces),
      state_version: sync.state_version,
      row_version: sync.row_version,
      pos,
    };
    return { answer, pos };
  });
}

/** What shows all segments of a sync at once. */
export const SEGMENT_MAP_HANDLERS: { mapSegments: Handler<"mapSegments"> } = { mapSegments };
