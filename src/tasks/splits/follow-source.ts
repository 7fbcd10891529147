import type { SplitReport } from "../../core/step-protocol.ts";
import { advanceStream } from "./advance-stream.ts";
import type { SplitWork } from "./split-work.ts";
import { releasable, type Stream } from "./stream.ts";
import { copyReport, lagOf, tailReport } from "./stream-report.ts";
import { isCompared, verifyNextRange } from "./verify-copy.ts";

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
