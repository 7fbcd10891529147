import type { Digest, StreamState } from "../../shards/shard.ts";
import { shardCheckpoints } from "./checkpoint-store.ts";
import type { OpenSegment } from "./open-segment.ts";

/*
 * Before rows leave the source, it is noted there which ones. From then on nobody knows whether rows
 * that are missing were removed by an attempt that was lost or deleted by somebody else; so whoever
 * wants to empty the target looks at the note first, and keeps the one who left it from going on.
 */

function markName({ guard }: OpenSegment): string {
  return `${guard.plan}:remove`;
}

/** Lets nobody but this attempt change the source; answers what was about to leave it, if anything. */
export async function takeSource(segment: OpenSegment): Promise<Digest | null> {
  const { source, guard } = segment;
  await source.install();
  await source.take(guard);
  const mark = await source.loadStream(markName(segment));
  return mark === null ? null : { rows: mark.rows[0] ?? 0, digest: mark.position ?? "" };
}

/** Notes on the source which rows are about to leave it. */
export async function setMark(segment: OpenSegment, { rows, digest }: Digest): Promise<void> {
  const { source, guard, sourceTable } = segment;
  const after: StreamState = {
    position: digest,
    reaching: null,
    cursor: { table: 0, key: null },
    phase: "copy",
    rows: [rows],
    fingerprint: sourceTable.fingerprint,
    verified: null,
  };
  const marks = shardCheckpoints(source, guard, sourceTable);
  await marks.save({ stream: markName(segment), before: null, after, rows: null });
}

/** Takes the note back: the rows are known to be there. */
export async function dropMark(segment: OpenSegment): Promise<void> {
  await segment.source.dropStream(segment.guard, markName(segment));
}
