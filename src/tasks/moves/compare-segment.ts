import type { ClaimedMove, MoveReport, ShardKey } from "../../core/step-protocol.ts";
import type { Digest } from "../../shards/shard.ts";
import type { StepHost } from "../step-host.ts";
import { isSameDigest, type OpenSegment, openSegment } from "./open-segment.ts";

/** What both sides of a segment have. */
export type Compared = { equal: boolean; note: string | null; source: Digest; target: Digest };

/** Compares exactly the rows of a segment on both sides. */
export async function compareSides(
  segment: OpenSegment,
  upper?: ShardKey | null,
): Promise<Compared> {
  const [source, target] = await Promise.all([
    segment.source.digest(segment.onSource(upper)),
    segment.target.digest(segment.onTarget(upper)),
  ]);
  const equal = isSameDigest(source, target);
  return { equal, note: equal ? null : differenceOf(source, target), source, target };
}

function differenceOf(source: Digest, target: Digest): string {
  if (source.rows !== target.rows) {
    return `the source has ${source.rows} rows and the target ${target.rows}`;
  }
  return `both sides have ${source.rows} rows, but not the same ones`;
}

/** Compares a segment that was copied once more. */
export async function compareSegment(
  step: ClaimedMove,
  host: StepHost<MoveReport>,
): Promise<MoveReport> {
  const { equal, note, source } = await compareSides(await openSegment(step, host));
  return { rows: source.rows, digest: source.digest, equal, note };
}
