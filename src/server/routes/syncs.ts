import { SEGMENTS } from "../../core/rows/sync-rows.ts";
import type { Condition } from "../../core/rows/table.ts";
import { type Call, type Handler, readAt, type Reply } from "../call.ts";
import { knownSegmentRow, knownSyncRow } from "../find-sync-row.ts";
import { listAllSegments, listSegments } from "../list-segments.ts";
import { listRows } from "../list-rows.ts";
import { listSyncSources } from "../list-sync-sources.ts";
import { listSyncs } from "../list-syncs.ts";
import { quarantineDocuments, segmentDocuments } from "../segment-document.ts";
import { syncDocuments } from "../sync-document.ts";
import { syncOverview } from "../sync-overview.ts";

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
  listAllSegments: Handler<"listAllSegments">;
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
  listAllSegments,
  listSegments,
  listSyncQuarantine,
  getSegment,
};
