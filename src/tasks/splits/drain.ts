import type { Position } from "../../shards/shard.ts";
import { advanceStream } from "./advance-stream.ts";
import type { Stream } from "./stream.ts";

/** Takes changes over up to exactly a position, which is not before that of the stream. */
export async function drain(stream: Stream, to: Position): Promise<void> {
  while (stream.state?.position !== to || stream.state.reaching !== null) {
    await advanceStream(stream, { to, insist: true });
  }
}

/**
 * Takes over everything that had happened when it was called, and `keepOn` may throw between turns.
 * It ends with the position of a snapshot that was taken after that; unless it insists on that, with
 * one after which nothing has happened.
 */
export async function drainToPresent(
  stream: Stream,
  keepOn: () => void,
  { insist }: { insist: boolean } = { insist: true },
): Promise<void> {
  for (;;) {
    keepOn();
    if ((await advanceStream(stream, { insist })).isPresent) return;
  }
}
