import { PawlError } from "../../src/kernel/errors.ts";
import type { StreamState } from "../../src/shards/shard.ts";
import type { CheckpointStore, Saved } from "../../src/worker/steps/move/open-segment.ts";

/** Keeps checkpoints in memory, with how many rows came with each. For tests only. */
export function memoryCheckpoints(): CheckpointStore & { readonly saved: readonly Saved[] } {
  const states = new Map<string, StreamState>();
  const saved: Saved[] = [];
  return {
    saved,
    save: async (checkpoint) => {
      const { stream, before, after } = checkpoint;
      const present = states.get(stream) ?? null;
      if (JSON.stringify(present) !== JSON.stringify(before)) {
        throw new PawlError("STREAM_MOVED", `Stream ${stream} has moved on.`);
      }
      states.set(stream, after);
      saved.push(checkpoint);
    },
    load: async (stream) => states.get(stream) ?? null,
    list: async () =>
      [...states]
        .map(([stream, state]) => ({ stream, state }))
        .toSorted((a, b) => (a.stream < b.stream ? -1 : 1)),
  };
}
