import { PawlError } from "../../kernel/errors.ts";
import type { Shard } from "../shard.ts";
import {
  ADMIN_CALLS,
  type AdminCall,
  answerFromText,
  argsToText,
  targetOf,
} from "./admin-calls.ts";
import { openShardPost, type ShardEndpoint, type ShardPost } from "./http-shard-client.ts";

/** Most rows of one chunk over the network: a body of some megabytes for rows of usual size. */
const CHUNK_ROWS_MAX = 10_000;

/**
 * Opens a shard that `pawl shard serve` serves. Nothing is sent before it is used, so that a shard
 * that is away fails the step that needs it, with `SHARD_UNREACHABLE`.
 */
export async function openHttpShard(address: ShardEndpoint): Promise<Shard> {
  const post = openShardPost(address);
  const shard: Partial<Record<keyof Shard, unknown>> = {
    engine: "sqlite",
    close: async () => post.close(),
  };
  for (const call of Object.keys(ADMIN_CALLS) as AdminCall[]) {
    shard[call] = (...args: unknown[]) => send(post, call, args);
  }
  // The table of calls has every method of a shard, which the compiler has checked there.
  const made = shard as Shard;
  return {
    ...made,
    read({ tables, scope, from, to = null, after_id = null, cursor, changesMax, chunk: wish }) {
      const isLong = wish !== null && wish.limit > CHUNK_ROWS_MAX;
      const chunk = isLong ? { ...wish, limit: CHUNK_ROWS_MAX } : wish;
      // Not whether somebody waits: it answers as soon as it can, and older servers do not know that.
      return made.read({ tables, scope, from, to, after_id, cursor, changesMax, chunk });
    },
  };
}

async function send(post: ShardPost, call: AdminCall, args: unknown[]): Promise<unknown> {
  const { timeoutMs, isRepeatable } = ADMIN_CALLS[call];
  const body = argsToText(call, args);
  const text = await post.send(targetOf(call), body, { timeoutMs, isRepeatable });
  try {
    return answerFromText(call, text);
  } catch (cause) {
    throw new PawlError(
      "SHARD_UNREACHABLE",
      `What answers at ${post.url} gave no answer to ${call} that can be read.`,
      { cause, details: { url: post.url, call } },
    );
  }
}
