import { advanceStream } from "./advance-stream.ts";
import { nextChunkRows } from "./chunk-rows.ts";
import { spoken } from "./follow-source.ts";
import type { SplitWork } from "./split-work.ts";
import type { Stream } from "./stream.ts";

/** Copies until a short chunk has ended the last table, or until told to stop. */
export async function copyTables(work: SplitWork, stream: Stream): Promise<void> {
  const { limits } = stream;
  let chunkRows = limits.chunkRows;
  while (stream.state?.phase !== "tail") {
    if (await work.pulse.beat(() => spoken(work, stream))) return;
    const beganAt = stream.now();
    const { chunk } = await advanceStream(stream, { chunkRows });
    if (chunk !== null) {
      chunkRows = nextChunkRows(chunkRows, { ms: stream.now() - beganAt, ...chunk }, limits);
    }
  }
}
