import { present } from "../../../kernel/assert.ts";
import { PawlError } from "../../../kernel/errors.ts";
import type { ClaimedMove, MoveReport } from "../../../work/shard/step-protocol.ts";
import type { Digest } from "../../../shards/shard.ts";
import type { SplitLimits } from "../split/work.ts";
import type { StepHost } from "../run-step.ts";
import { shardCheckpoints, dropMark, setMark, takeSource } from "./checkpoint-store.ts";
import { removeAll } from "./copy-segment.ts";
import { isSameDigest, openSegment } from "./open-segment.ts";

/** Removes a verified segment from where it came from: all of it, or nothing when either side has changed. */
export async function removeSegment(
  step: ClaimedMove,
  host: StepHost<MoveReport>,
): Promise<MoveReport> {
  const segment = await openSegment(step, host);
  const { source, target, guard } = segment;
  const expect: Digest = {
    rows: present(step.rows, "what is removed was counted"),
    digest: present(step.digest, "what is removed was verified"),
  };
  const mark = await takeSource(segment);
  if (mark === null) await setMark(segment, expect);
  const there = await target.digest(segment.onTarget());
  const range = segment.onSource();
  host.signal.throwIfAborted();
  if (!isSameDigest(there, expect)) {
    // Nothing is left to remove, and what has become of the rows since is not ours to judge.
    if (mark !== null && (await source.digest(range)).rows === 0) return done(expect);
    throw changedTarget(step, there, expect);
  }
  const gone = await source.remove(guard, range, { limit: Math.max(1, expect.rows), expect });
  if (gone !== null) return done(expect);
  const left = await source.digest(range);
  if (mark !== null && left.rows === 0) return done(expect);
  if (mark !== null) throw changedSource(step, left, expect);
  await dropMark(segment);
  const note = `the source has changed since it was copied: ${left.rows} rows, ${expect.rows} then`;
  return { equal: false, note };
}

function done({ rows, digest }: Digest): MoveReport {
  return { equal: true, rows_removed: rows, digest, note: null };
}

function changedTarget(step: ClaimedMove, there: Digest, expect: Digest): PawlError {
  return new PawlError(
    "VERIFICATION_FAILED",
    `The copy on ${step.to} has changed since it was verified (${there.rows} rows, ${expect.rows} ` +
      `then), so nothing was removed from ${step.from}. Look at both, then copy the segment again ` +
      "or exclude it.",
    { details: { shard: step.to, rows: there.rows, verified_rows: expect.rows } },
  );
}

function changedSource(step: ClaimedMove, left: Digest, expect: Digest): PawlError {
  return new PawlError(
    "VERIFICATION_FAILED",
    `${step.from} has ${left.rows} rows of a segment that had ${expect.rows} and was being removed ` +
      `when a worker was lost. Perhaps they were written since, and all others are on ${step.to} ` +
      "alone. Take over or delete what is left there, then try the segment again.",
    { details: { shard: step.from, rows: left.rows, verified_rows: expect.rows } },
  );
}

/**
 * Takes away what was copied of an excluded segment. What no copy of ours brought stays, and so does
 * all of it where rows may have left the source already, or others have written among them.
 */
export async function discardCopy(
  step: ClaimedMove,
  host: StepHost<MoveReport>,
  limits: SplitLimits,
): Promise<MoveReport> {
  const segment = await openSegment(step, host);
  const { source, target, guard, targetTable } = segment;
  await target.install();
  await target.take(guard);
  const streams = await shardCheckpoints(target, guard, targetTable).list();
  if (streams.length === 0) return { rows_removed: 0 };
  const mark = await takeSource(segment);
  if (mark !== null && !isSameDigest(await source.digest(segment.onSource()), mark)) {
    return { rows_removed: 0, note: "rows may have left the source already, so the copy stays" };
  }
  const range = segment.onTarget();
  const brought = streams.reduce((sum, { state }) => sum + (state.rows[0] ?? 0), 0);
  if ((await target.digest(range)).rows > brought) {
    return { rows_removed: 0, note: "somebody else has written there too, so the copy stays" };
  }
  const removed = await removeAll(target, guard, range, limits.removeRows, host.signal);
  for (const { stream } of streams) await target.dropStream(guard, stream);
  return { rows_removed: removed };
}
