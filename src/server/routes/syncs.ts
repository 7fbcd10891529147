import { SEGMENTS, type SegmentRow } from "../../core/rows/sync-rows.ts";
import type { Condition } from "../../core/rows/table.ts";
import { type Call, type Handler, readAt, type Reply } from "../call.ts";
import { checkRange } from "../check-range.ts";
import { cursorOf, keyOfCursor } from "../cursor.ts";
import { knownSegmentRow, knownSyncRow } from "../find-sync-row.ts";
import { listRows } from "../list-rows.ts";
import { listSyncSources } from "../list-sync-sources.ts";
import { listSyncs } from "../list-syncs.ts";
import { quarantineDocuments, segmentDocuments } from "../segment-document.ts";
import { syncDocuments } from "../sync-document.ts";
import { syncOverview } from "../sync-overview.ts";

/** Segments that one page looks through for those with a verification. */
const LOOKS_MAX = 2_000;

function getSync(call: Call<"getSync">): Promise<Reply> {
  return readAt(call, async (reader) => {
    const row = await knownSyncRow(reader, call.params.sync);
    const [answer] = await syncDocuments(reader, [row], call.server.now());
    return { answer, pos: (await reader.head()).pos };
  });
}

function getSegment(call: Call<"getSegment">): Promise<Reply> {
  return readAt(call, async (reader) => {
    const sync = await knownSyncRow(reader, call.params.sync);
    const row = await knownSegmentRow(reader, sync, call.params.segment_index);
    const [answer] = await segmentDocuments([row], reader);
    return { answer, pos: (await reader.head()).pos };
  });
}

/** The segments of a sync by their blocks; what a verification found is in its document only. */
function listSegments(call: Call<"listSegments">): Promise<Reply> {
  const { limit, cursor, verification, from_block: from, to_block: to } = call.query;
  checkRange(from, to);
  return readAt(call, async (reader) => {
    const { sync_id } = await knownSyncRow(reader, call.params.sync);
    const where = conditionsOf(sync_id, call.query);
    if (cursor !== undefined) {
      const after = Number(keyOfCursor(cursor, ["int"])[0]);
      where.push({ cell: "from_block", is: ">", value: after });
    }
    const looked = verification === undefined ? limit : LOOKS_MAX;
    const order = [{ cell: "from_block" }];
    const find = { table: SEGMENTS, where, order, limit: looked + 1 };
    const found = (await reader.find(find)) as SegmentRow[];
    const seen = found.slice(0, looked);
    const matching = seen.filter(
      (row) =>
        row.verification === null || (verification?.includes(row.verification.status) ?? true),
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
  if (status !== undefined) where.push({ cell: "status", is: "in", values: status });
  if (verification !== undefined) where.push({ cell: "verification", is: "not null" });
  if (from !== undefined) where.push({ cell: "to_block", is: ">=", value: from });
  if (to !== undefined) where.push({ cell: "from_block", is: "<=", value: to });
  return where;
}

const IS_QUARANTINED: Condition = { cell: "status", is: "=", value: "QUARANTINED" };

function listQuarantine(call: Call<"listQuarantine">): Promise<Reply> {
  const along = ["sync_id", "from_block"] as const;
  const list = { table: SEGMENTS, where: [IS_QUARANTINED], along };
  return listRows(call, list, async (rows, reader) => {
    const documents = await quarantineDocuments(rows, reader);
    // What was removed holds up nobody.
    return documents.filter(({ sync_status }) => sync_status !== "REMOVED");
  });
}

async function listSyncQuarantine(call: Call<"listSyncQuarantine">): Promise<Reply> {
  const { sync_id } = await readAt(call, (reader) => knownSyncRow(reader, call.params.sync));
  const where: Condition[] = [{ cell: "sync_id", is: "=", value: sync_id }, IS_QUARANTINED];
  const along = ["from_block"] as const;
  return listRows(call, { table: SEGMENTS, where, along }, quarantineDocuments);
}

/** What can be asked about syncs. */
export const SYNC_HANDLERS: {
  syncOverview: Handler<"syncOverview">;
  listSyncSources: Handler<"listSyncSources">;
  listQuarantine: Handler<"listQuarantine">;
  listSyncs: Handler<"listSyncs">;
  getSync: Handler<"getSync">;
  listSegments: Handler<"listSegments">;
  listSyncQuarantine: Handler<"listSyncQuarantine">;
  getSegment: Handler<"getSegment">;
} = {
  syncOverview: (call) =>
    readAt(call, async (reader) => {
      const { pos } = await reader.head();
      return { answer: { ...(await syncOverview(reader)), pos }, pos };
    }),
  listSyncSources,
  listQuarantine,
  listSyncs,
  getSync,
  listSegments,
  listSyncQuarantine,
  getSegment,
};
