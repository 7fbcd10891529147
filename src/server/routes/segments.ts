import { setImmediate as nextTurn } from "node:timers/promises";
import {
  SEGMENT_CELLS_MAX,
  type SegmentCell,
  SegmentCellStatus,
  type SegmentMap,
  type QuarantineDocument,
  type SegmentDocument,
  type SegmentStatusShown,
} from "../../work/sync/documents.ts";
import {
  SEGMENTS,
  ABANDONED_CLASS,
  type SegmentRow,
  type SyncRow,
  SYNCS,
} from "../../work/sync/rows.ts";
import type { Condition } from "../../kernel/table.ts";
import type { Reader } from "../../store/store.ts";
import { type Call, type Handlers, readAt, type Reply } from "../http/call.ts";
import { knownSyncRow, percent } from "./sync-documents.ts";
import { segmentIdOf } from "../../work/keys.ts";
import { SegmentCheckpoint } from "../../work/sync/segment-protocol.ts";
import { PawlError } from "../../kernel/errors.ts";
import { SEGMENT_COUNTERS } from "../../work/sync/fold-segments.ts";
import { type SyncTarget, targetOfText } from "../../work/sync/spec.ts";
import { checkRange, cursorOf, keyOfCursor } from "../http/read-within.ts";
import { matches, SHOWN } from "./sync-documents.ts";

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
export const SEGMENT_MAP_HANDLERS = { mapSegments } satisfies Handlers;

/** Segments as the API shows them; how far an attempt is now only its checkpoint knows. */
export async function segmentDocuments(
  segments: readonly SegmentRow[],
  reader: Reader,
): Promise<SegmentDocument[]> {
  const tasks = segments.flatMap((segment) => {
    return isUnderWay(segment) ? [{ run_pos: segment.run_pos, task_key: 0 }] : [];
  });
  const kept = tasks.length === 0 ? [] : await reader.checkpoints(tasks);
  const checkpointOf = new Map(kept.map(({ run_pos, value }) => [run_pos, value]));
  return segments.map((segment) => {
    const value = isUnderWay(segment) ? checkpointOf.get(segment.run_pos) : undefined;
    const checkpoint = SegmentCheckpoint.safeParse(value).data;
    return checkpoint === undefined
      ? documentOf(segment)
      : documentOf({
          ...segment,
          last_processed_block: checkpoint.last_processed_block,
          rows_stored: checkpoint.rows,
          set_aside: checkpoint.quarantined.length === 0 ? null : checkpoint.quarantined,
        });
  });
}

/**
 * Whether the run of a segment is about it as it is now: one that was opened again may wait for a
 * run that is about what it was.
 */
function isUnderWay(segment: SegmentRow): segment is SegmentRow & { run_pos: number } {
  const isTried = segment.status === "RUNNING" || segment.status === "FAILED";
  return segment.run_pos !== null && isTried;
}

/** Whether a segment was quarantined because its tries were used up. */
export function isAbandoned({ status, error_class }: SegmentRow): boolean {
  return status === "QUARANTINED" && error_class === ABANDONED_CLASS;
}

function documentOf({ run_pos, ...row }: SegmentRow): SegmentDocument {
  const { status, to_block, last_processed_block } = row;
  // Whoever set its end aside went past it without having stored it.
  const isPassed = status === "QUARANTINED" && last_processed_block === to_block;
  const segment = { ...row, last_processed_block: isPassed ? null : last_processed_block };
  return {
    ...segment,
    status: isAbandoned({ ...row, run_pos }) ? "ABANDONED" : status,
    updated_at: row.updated_at ?? row.finished_at ?? row.started_at ?? row.created_at,
    segment_id: segmentIdOf(segment.sync_id, segment.segment_index),
    progress_pct: progressOf(segment),
    has_run: run_pos !== null,
    worker_id: segment.status === "RUNNING" ? segment.worker_id : null,
    undo: segment.undo === 1,
    was_quarantined: segment.was_quarantined === 1,
  };
}

type Reached = Pick<SegmentRow, "status" | "from_block" | "to_block" | "last_processed_block">;

function progressOf({ status, from_block, to_block, last_processed_block: last }: Reached): number {
  if (status === "COMPLETE") return 100;
  if (last === null || last < from_block) return 0;
  return percent(Math.min(last, to_block) - from_block + 1, to_block - from_block + 1);
}

/** Segments that were quarantined, each with what tells its sync from others. */
export async function quarantineDocuments(
  segments: readonly SegmentRow[],
  reader: Reader,
): Promise<QuarantineDocument[]> {
  const ids = [...new Set(segments.map(({ sync_id }) => sync_id))];
  const syncs = await reader.load(
    SYNCS,
    ids.map((id) => [id]),
  );
  const syncOf = new Map(syncs.map((sync) => [sync.sync_id, sync]));
  const documents = await segmentDocuments(segments, reader);
  return documents.flatMap((document) => {
    const sync = syncOf.get(document.sync_id);
    if (sync === undefined) return [];
    const { name, target, target_key, source } = sync;
    const standing = { sync_status: sync.status, sync_state_version: sync.state_version };
    return [{ ...document, ...standing, name, target: { ...target }, target_key, source }];
  });
}

/** Segments that one page looks through for those that only their document tells. */
const LOOKS_MAX = 2_000;

/** Syncs whose segments are looked for at once, and by one page at most. */
const SYNCS_READ = 200;
const SYNCS_LOOKED_AT_MAX = 4_000;

/** A place behind every block. */
const END = Number.MAX_SAFE_INTEGER;

type Wanted = readonly SegmentStatusShown[] | undefined;

/** The statuses of rows among which those are that are wanted. */
function rowStatuses(status: readonly SegmentStatusShown[]): SegmentRow["status"][] {
  return [...new Set(status.map((each) => (each === "ABANDONED" ? "QUARANTINED" : each)))];
}

/** Whether a row that was found by its status is one of those that are wanted. */
function isWanted(row: SegmentRow, status: Wanted): boolean {
  if (status === undefined || status.includes(row.status)) return true;
  return status.includes("ABANDONED") && isAbandoned(row);
}

/** Whether statuses of rows tell what is wanted: what was abandoned is a part of what was quarantined. */
function isExact(status: Wanted): boolean {
  return status === undefined || !status.includes("ABANDONED") || status.includes("QUARANTINED");
}

/** The segments of a sync by their blocks; what a verification found is in its document only. */
export function listSegments(call: Call<"listSegments">): Promise<Reply> {
  const { limit, cursor, status, verification, from_block: from, to_block: to } = call.query;
  checkRange(from, to);
  return readAt(call, async (reader) => {
    const { sync_id } = await knownSyncRow(reader, call.params.sync);
    const where = conditionsOf(sync_id, call.query);
    if (cursor !== undefined) {
      const after = Number(keyOfCursor(cursor, ["int"])[0]);
      where.push({ cell: "from_block", is: ">", value: after });
    }
    const looked = verification === undefined && isExact(status) ? limit : LOOKS_MAX;
    const order = [{ cell: "from_block" }];
    const find = { table: SEGMENTS, where, order, limit: looked + 1 };
    const found = await reader.find(find);
    const seen = found.slice(0, looked);
    const matching = seen.filter(
      (row) =>
        isWanted(row, status) &&
        (row.verification === null || (verification?.includes(row.verification.status) ?? true)),
    );
    const page = matching.slice(0, limit);
    const isCut = matching.length > limit;
    const last = isCut ? page.at(-1) : found.length > looked ? seen.at(-1) : undefined;
    const items = await segmentDocuments(page, reader);
    const { pos } = await reader.head();
    const next_cursor = last === undefined ? null : cursorOf([last.from_block]);
    return { answer: { items, next_cursor, pos }, pos };
  });
}

function conditionsOf(syncId: string, query: Call<"listSegments">["query"]): Condition[] {
  const { status, verification, from_block: from, to_block: to } = query;
  const where: Condition[] = [{ cell: "sync_id", is: "=", value: syncId }];
  if (status !== undefined) {
    where.push({ cell: "status", is: "in", values: rowStatuses(status) });
  }
  if (verification !== undefined) where.push({ cell: "verification", is: "not null" });
  if (from !== undefined) where.push({ cell: "to_block", is: ">=", value: from });
  if (to !== undefined) where.push({ cell: "from_block", is: "<=", value: to });
  return where;
}

type Query = Call<"listAllSegments">["query"];
type Place = readonly [syncId: string, block: number];

/** Segments of all syncs that match, sync by sync; a page looks at so many syncs and no more. */
export function listAllSegments(call: Call<"listAllSegments">): Promise<Reply> {
  const { limit, cursor } = call.query;
  const wanted = wantedTarget(call.query);
  const key = cursor === undefined ? null : keyOfCursor(cursor, ["text", "int"]);
  let place: Place | null = key === null ? null : [String(key[0]), Number(key[1])];
  return readAt(call, async (reader) => {
    const rows: SegmentRow[] = [];
    let isOver = false;
    for (let looked = 0; looked < SYNCS_LOOKED_AT_MAX && !isOver; looked += SYNCS_READ) {
      const syncs: SyncRow[] = await syncsFrom(reader, call.query, place?.[0] ?? null);
      const matching = syncs.filter((sync) => matches(sync.target, wanted));
      const found = await segmentsOf(reader, matching, call.query, place, limit - rows.length);
      rows.push(...found);
      isOver = syncs.length < SYNCS_READ;
      const last = found.at(-1);
      if (rows.length === limit && last !== undefined) {
        place = [last.sync_id, last.from_block];
        isOver = false;
        break;
      }
      const end = syncs.at(-1);
      if (end !== undefined) place = [end.sync_id, END];
    }
    const items = await quarantineDocuments(rows, reader);
    const { pos } = await reader.head();
    const next_cursor = isOver || place === null ? null : cursorOf([...place]);
    return { answer: { items, next_cursor, pos }, pos };
  });
}

/** The fields that a target must have. */
function wantedTarget({ target, network }: Query): SyncTarget {
  const fields = target === undefined ? {} : targetOfText(target);
  if (network === undefined) return fields;
  const named = Object.hasOwn(fields, "network") ? fields["network"] : network;
  if (named === network) return { ...fields, network };
  throw new PawlError(
    "INPUT_INVALID",
    `The network is ${JSON.stringify(network)} and the target says ${JSON.stringify(named)}. ` +
      "Say one of them.",
    { details: { network, target: target ?? null } },
  );
}

/** Syncs by their id, from one on; those that cannot have such a segment are among them. */
async function syncsFrom(reader: Reader, query: Query, from: string | null): Promise<SyncRow[]> {
  const where: Condition[] = [{ cell: "status", is: "in", values: [...SHOWN] }];
  if (query.name !== undefined) where.push({ cell: "name", is: "=", value: query.name });
  if (query.source !== undefined) where.push({ cell: "source", is: "=", value: query.source });
  if (from !== null) where.push({ cell: "sync_id", is: ">=", value: from });
  const find = { table: SYNCS, where, order: [{ cell: "sync_id" }], limit: SYNCS_READ };
  return reader.find(find);
}

/** At most so many segments of some syncs behind a place. */
async function segmentsOf(
  reader: Reader,
  syncs: readonly SyncRow[],
  { status }: Query,
  place: Place | null,
  limit: number,
): Promise<SegmentRow[]> {
  const has = (sync: SyncRow): boolean =>
    status === undefined || rowStatuses(status).some((each) => sync[SEGMENT_COUNTERS[each]] > 0);
  const ids = syncs.filter(has).map(({ sync_id }) => sync_id);
  const segments: SegmentRow[] = [];
  const along = ["sync_id", "from_block"] as const;
  let after = place;
  while (ids.length > 0 && segments.length < limit) {
    const where: Condition[] = [{ cell: "sync_id", is: "in", values: ids }];
    if (status !== undefined) {
      where.push({ cell: "status", is: "in", values: rowStatuses(status) });
    }
    if (after !== null) where.push({ cells: along, is: "after", key: [...after] });
    const order = along.map((cell) => ({ cell }));
    // Where few of those that are read may be wanted, many are read at once.
    const looked = isExact(status) ? limit + 1 : LOOKS_MAX;
    const found = await reader.find({
      table: SEGMENTS,
      where,
      order,
      limit: looked,
    });
    segments.push(...found.filter((row) => isWanted(row, status)));
    const last = found.at(-1);
    if (last === undefined || found.length < looked) break;
    after = [last.sync_id, last.from_block];
  }
  return segments.slice(0, limit);
}
