import { present } from "../../core/assert.ts";
import { PawlError } from "../../core/errors.ts";
import type { ClaimedMove, MoveReport } from "../../core/step-protocol.ts";
import type { Digest, StreamState } from "../../shards/shard.ts";
import type { SplitLimits } from "../splits/split-limits.ts";
import type { StepHost } from "../step-host.ts";
import { shardCheckpoints } from "./checkpoint-store.ts";
import { removeAll } from "./copy-segment.ts";
import { isSameDigest, type OpenSegment, openSegment } from "./open-segment.ts";

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
  await source.install();
  await source.take(guard);
  const isFirst = await markRemoval(segment);
  const there = await target.digest(segment.onTarget());
  const range = segment.onSource();
  host.signal.throwIfAborted();
  if (!isSameDigest(there, expect)) {
    // Nothing is left to remove, and what has become of the rows since is not ours to judge.
    if (!isFirst && (await source.digest(range)).rows === 0) return done(expect);
    throw changedTarget(step, there, expect);
  }
  const gone = await source.remove(guard, range, { limit: Math.max(1, expect.rows), expect });
  if (gone !== null) return done(expect);
  const left = await source.digest(range);
  if (!isFirst && left.rows === 0) return done(expect);
  if (!isFirst) throw changedSource(step, left, expect);
  const note = `the source has changed since it was copied: ${left.rows} rows, ${expect.rows} then`;
  return { equal: false, note };
}

function done({ rows, digest }: Digest): MoveReport {
  return { equal: true, rows_removed: rows, digest, note: null };
}

/**
 * Notes on the source that its rows are about to go; answers whether that was not noted before. With
 * the note, rows that are missing may be those that an earlier attempt removed before it was lost:
 * such a segment must never be copied again by itself, as that would empty the target.
 */
async function markRemoval({ source, sourceTable, guard, stream }: OpenSegment): Promise<boolean> {
  const marks = shardCheckpoints(source, guard, sourceTable);
  const mark = `${stream}:remove`;
  if ((await marks.load(mark)) !== null) return false;
  const after: StreamState = {
    position: null,
    reaching: null,
    cursor: { table: 0, key: null },
    phase: "copy",
    rows: [0],
    fingerprint: sourceTable.fingerprint,
    verified: null,
  };
  await marks.save({ stream: mark, before: null, after, rows: null });
  return true;
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
      "alone: look at both before you copy the segment again, which empties it there first.",
    { details: { shard: step.from, rows: left.rows, verified_rows: expect.rows } },
  );
}

/** Takes away what was copied of an excluded segment; what no copy of ours brought stays. */
export async function discardCopy(
  step: ClaimedMove,
  host: StepHost<MoveReport>,
  limits: SplitLimits,
): Promise<MoveReport> {
  const segment = await openSegment(step, host);
  const { target, guard, targetTable } = segment;
  await target.install();
  await target.take(guard);
  const streams = await shardCheckpoints(target, guard, targetTable).list();
  if (streams.length === 0) return { rows_removed: 0 };
  const range = segment.onTarget();
  const removed = await removeAll(target, guard, range, limits.removeRows, host.signal);
  for (const { stream } of streams) await target.dropStream(guard, stream);
  return { rows_removed: removed };
}
