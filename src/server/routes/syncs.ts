import { SEGMENTS } from "../../work/sync/rows.ts";
import type { Condition } from "../../kernel/table.ts";
import {
  type Call,
  commandRoutes,
  type Handlers,
  readAt,
  type Reply,
  submitted,
} from "../http/call.ts";
import {
  knownSegmentRow,
  knownSyncRow,
  syncDocuments,
  syncOverview,
  checkSyncName,
} from "./sync-documents.ts";
import {
  listAllSegments,
  listSegments,
  quarantineDocuments,
  segmentDocuments,
} from "./segments.ts";
import { checkRange, listRows } from "../http/read-within.ts";
import { listSyncSources, listSyncs } from "./sync-documents.ts";
import {
  addSync,
  type SyncChanged,
  pauseSync,
  removeSync,
  resumeSync,
  retuneSync,
  setHead,
} from "../../work/sync/commands.ts";
import {
  excludeSyncSegment,
  repairSync,
  retrySegment,
  type SegmentsChanged,
  verifySync,
} from "../../work/sync/repair.ts";
import { PawlError } from "../../kernel/errors.ts";

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
export const SYNC_HANDLERS = {
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
} satisfies Handlers;

const command = commandRoutes(async ({ sync }: { sync: string }, engine) => {
  const { sync_id } = await engine.read((reader) => knownSyncRow(reader, sync));
  return { sync: sync_id };
});

function answerOf(changed: SyncChanged, text: string) {
  const { sync_id, name, target_key, state, state_version } = changed;
  const message = `Sync ${name}@${target_key} ${text}.`;
  return { message, sync_id, name, target_key, state, state_version };
}

function nowIs(changed: SyncChanged) {
  return answerOf(changed, `is ${changed.state}`);
}

/** What is done to how many segments, in words. */
function ofSegments(text: (segments: string) => string) {
  return ({ segments, ...changed }: SegmentsChanged) => ({
    ...answerOf(changed, text(segments === 1 ? "1 segment" : `${segments} segments`)),
    segments,
  });
}

/** What is done to one segment, in words. */
function ofSegment(text: (index: number) => string) {
  return (changed: SyncChanged, { params }: { params: { segment_index: number } }) => ({
    ...answerOf(changed, text(params.segment_index)),
    segment_index: params.segment_index,
  });
}

async function add(call: Call<"addSync">): Promise<Reply> {
  const { client_request_id: _, ...input } = call.body;
  checkRange(input.from_block, input.to_block);
  try {
    return await submitted(call, addSync(input), (changed) => answerOf(changed, "was added"));
  } catch (error) {
    const isUnknown = error instanceof PawlError && error.code === "SYNC_NOT_FOUND";
    if (isUnknown) await call.engine.read((reader) => checkSyncName(reader, input.name));
    throw error;
  }
}

type Range = { from_block?: number | undefined; to_block?: number | undefined };

function checkRangeOf({ body }: { body: Range }): void {
  checkRange(body.from_block, body.to_block);
}

/** What can be done with syncs. */
export const SYNC_CHANGE_HANDLERS = {
  addSync: add,
  removeSync: command(removeSync, (changed) => answerOf(changed, "was removed")),
  pauseSync: command(pauseSync, nowIs),
  resumeSync: command(resumeSync, nowIs),
  retuneSync: command(retuneSync, (changed) => answerOf(changed, "was retuned")),
  setSyncHead: command(setHead, (changed, { body }) =>
    answerOf(changed, `has the head ${body.head} now`),
  ),
  repairSync: command(
    repairSync,
    ofSegments((segments) => `fetches ${segments} again`),
    checkRangeOf,
  ),
  verifySync: command(
    verifySync,
    ofSegments((segments) => `has ${segments} to verify`),
    checkRangeOf,
  ),
  retrySegment: command(
    retrySegment,
    ofSegment((index) => `tries segment ${index} again`),
  ),
  excludeSegment: command(
    excludeSyncSegment,
    ofSegment((index) => `does without segment ${index}`),
  ),
} satisfies Handlers;
