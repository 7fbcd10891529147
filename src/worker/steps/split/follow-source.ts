import type { SplitReport } from "../../../work/shard/step-protocol.ts";
import { advanceStream, nextChunkRows } from "./advance-stream.ts";
import { type SplitWork, releasable, type Stream } from "./work.ts";
import { copyReport, lagOf, tailReport, isCompared, verifyNextRange } from "./verify-copy.ts";

/**
 * Follows the source until told to stop, and compares the copy range by range meanwhile. Once that
 * is done and the lag is below the limit, `caught_up` is recorded where it is asked for.
 */
export async function followSource(
  work: SplitWork,
  stream: Stream,
  record: "caught_up" | null,
): Promise<void> {
  const { pulse, host, limits, step } = work;
  let idleMs = limits.idleMs;
  while (!(await pulse.beat(() => spoken(work, stream)))) {
    const { isPresent, changes } = await advanceStream(stream, {});
    if (isPresent && !isCompared(stream)) {
      await verifyNextRange(stream);
      continue;
    }
    const lagMs = lagOf(stream);
    const isCaughtUp = isPresent && lagMs !== null && lagMs < step.lag_limit_ms;
    if (isCaughtUp && record !== null && !pulse.isRecorded) {
      if (await pulse.say(await reportOf(stream), record)) return;
    }
    idleMs = isPresent && changes === 0 ? Math.min(idleMs * 2, limits.idleMsMax) : limits.idleMs;
    if (isPresent) await host.pause(idleMs);
  }
}

/**
 * What is said once a second; then both shards may also forget what is not needed any more. Where a
 * stream leads to, that is everything: a stream the other way begins anew when its time has come.
 */
export async function spoken({ guard }: SplitWork, stream: Stream): Promise<SplitReport> {
  const { from, to } = stream;
  const position = releasable(stream);
  if (position !== null) await from.release(guard, position);
  await to.release(guard, await to.position());
  return reportOf(stream);
}

/** How far a stream is, with how many changes lie before it. */
export async function reportOf(stream: Stream): Promise<SplitReport> {
  const { state, from } = stream;
  if (state === null || state.phase === "copy" || state.position === null) {
    return copyReport(stream);
  }
  return tailReport(stream, (await from.lag(state.position)).events);
}

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
