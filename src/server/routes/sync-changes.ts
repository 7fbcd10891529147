import { addSync, type SyncChanged } from "../../controllers/add-sync.ts";
import {
  pauseSync,
  removeSync,
  resumeSync,
  retuneSync,
  setHead,
} from "../../controllers/change-sync.ts";
import {
  excludeSegment,
  repairSync,
  retrySegment,
  verifySync,
} from "../../controllers/repair-sync.ts";
import { PawlError } from "../../core/errors.ts";
import { type Call, type Handler, type Reply, submitted } from "../call.ts";
import { checkRange } from "../check-range.ts";
import { expectedVersion } from "../expected-version.ts";
import { checkSyncName, knownSyncRow } from "../find-sync-row.ts";

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
