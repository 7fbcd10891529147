import { SEGMENTS } from "../../work/sync/rows.ts";
import type { Condition } from "../../kernel/table.ts";
import { type Call, type Handler, readAt, type Reply, submitted } from "../http/call.ts";
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
import { listRows } from "../http/read-within.ts";
import { listSyncSources, listSyncs } from "./sync-lists.ts";
import {
  addSync,
  type SyncChanged,
  pauseSync,
  removeSync,
  resumeSync,
  retuneSync,
  setHead,
} from "../../work/sync/commands.ts";
import { excludeSegment, repairSync, retrySegment, verifySync } from "../../work/sync/repair.ts";
import { PawlError } from "../../kernel/errors.ts";
import { checkRange } from "../http/cursor.ts";
import { expectedVersion } from "../http/await-event.ts";

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

type Changing = Pick<Call<"pauseSync">, "engine" | "params"> &
  Parameters<typeof expectedVersion>[0];

/** The command of a change, by the sync's id; the version it is for may also stand in `If-Match`. */
async function commandOf(
  call: Changing,
): Promise<{ sync: string; expected_state_version?: number }> {
  const { sync_id } = await call.engine.read((reader) => knownSyncRow(reader, call.params.sync));
  return { sync: sync_id, ...expectedVersion(call) };
}

function answerOf(changed: SyncChanged, text: string) {
  const { sync_id, name, target_key, state, state_version } = changed;
  const message = `Sync ${name}@${target_key} ${text}.`;
  return { message, sync_id, name, target_key, state, state_version };
}

function nowIs(changed: SyncChanged) {
  return answerOf(changed, `is ${changed.state}`);
}

function segmentsText(segments: number): string {
  return segments === 1 ? "1 segment" : `${segments} segments`;
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

async function repair(call: Call<"repairSync">): Promise<Reply> {
  const { from_block, to_block, reason } = call.body;
  checkRange(from_block, to_block);
  const command = { ...(await commandOf(call)), from_block, to_block, reason };
  return submitted(call, repairSync(command), ({ segments, ...changed }) => ({
    ...answerOf(changed, `fetches ${segmentsText(segments)} again`),
    segments,
  }));
}

async function verify(call: Call<"verifySync">): Promise<Reply> {
  const { from_block, to_block, repair: isRepaired } = call.body;
  checkRange(from_block, to_block);
  const command = { ...(await commandOf(call)), from_block, to_block, repair: isRepaired };
  return submitted(call, verifySync(command), ({ segments, ...changed }) => ({
    ...answerOf(changed, `has ${segmentsText(segments)} to verify`),
    segments,
  }));
}

async function retry(call: Call<"retrySegment">): Promise<Reply> {
  const { segment_index } = call.params;
  const command = { ...(await commandOf(call)), segment_index, reason: call.body.reason };
  return submitted(call, retrySegment(command), (changed) => ({
    ...answerOf(changed, `tries segment ${segment_index} again`),
    segment_index,
  }));
}

async function exclude(call: Call<"excludeSegment">): Promise<Reply> {
  const { segment_index } = call.params;
  const command = { ...(await commandOf(call)), segment_index, reason: call.body.reason };
  return submitted(call, excludeSegment(command), (changed) => ({
    ...answerOf(changed, `does without segment ${segment_index}`),
    segment_index,
  }));
}

/** What can be done with syncs. */
export const SYNC_CHANGE_HANDLERS: {
  addSync: Handler<"addSync">;
  removeSync: Handler<"removeSync">;
  pauseSync: Handler<"pauseSync">;
  resumeSync: Handler<"resumeSync">;
  retuneSync: Handler<"retuneSync">;
  setSyncHead: Handler<"setSyncHead">;
  repairSync: Handler<"repairSync">;
  verifySync: Handler<"verifySync">;
  retrySegment: Handler<"retrySegment">;
  excludeSegment: Handler<"excludeSegment">;
} = {
  addSync: add,
  removeSync: async (call) =>
    submitted(call, removeSync(await commandOf(call)), (changed) =>
      answerOf(changed, "was removed"),
    ),
  pauseSync: async (call) =>
    submitted(call, pauseSync({ ...(await commandOf(call)), reason: call.body.reason }), nowIs),
  resumeSync: async (call) =>
    submitted(call, resumeSync({ ...(await commandOf(call)), reason: call.body.reason }), nowIs),
  retuneSync: async (call) => {
    const { max_parallel, priority } = call.body;
    const command = { ...(await commandOf(call)), max_parallel, priority };
    return submitted(call, retuneSync(command), (changed) => answerOf(changed, "was retuned"));
  },
  setSyncHead: async (call) => {
    const { head, reason } = call.body;
    const command = { ...(await commandOf(call)), head, reason };
    return submitted(call, setHead(command), (changed) =>
      answerOf(changed, `has the head ${head} now`),
    );
  },
  repairSync: repair,
  verifySync: verify,
  retrySegment: retry,
  excludeSegment: exclude,
};
