import { PawlError } from "../../core/errors.ts";
import type { ShardKey, StepCheck } from "../../core/step-protocol.ts";
import type { Digest, KeyRange, Shard, StreamState, TableShape } from "../../shards/shard.ts";
import { advanceStream } from "./advance-stream.ts";
import { checked } from "./cutover-checks.ts";
import { written } from "./decide-step.ts";
import { reportOf } from "./follow-source.ts";
import { openSplitStream, type SplitWork, streamName } from "./split-work.ts";
import { isVerified, type Stream } from "./stream.ts";
import { isCompared, verifyNextRange } from "./verify-copy.ts";

/*
 * Rows leave the source long after it was left: a day later nothing captures or refuses writes there,
 * and the target has gone on. So when a split is finished, while the stream that leads back still
 * runs, the source is compared with the target as a whole, and what it has is noted there, range by
 * range. A removal takes away what is still as it was noted, and nothing else unseen.
 */

/** Rows of a table that were on the target, byte for byte, when they were noted. */
export type RemovalMark = { readonly table: number; readonly below: ShardKey | null } & Digest;

/** Bounds of ranges that are found at once. */
const BOUNDS_MAX = 200;
/** Turns of a stream that has compared everything until it is caught up with what goes on. */
const TURNS_MAX = 50;

/** Why a source may not be what the target has, or a comparison cannot be made: the rest can be finished. */
const UNPROVEN = new Set([
  "VERIFICATION_FAILED",
  "ROWS_CONFLICT",
  "SCHEMA_CHANGED",
  "TABLE_UNFIT",
  "INPUT_INVALID",
  "NOT_YET",
]);

function prefixOf({ step }: SplitWork): string {
  return `${step.split_id}:left:`;
}

/**
 * Compares the source with the target and notes what it has; says in a check whether it could. To be
 * called while nobody but the stream that leads back writes to the source.
 */
export async function markRemoval(work: SplitWork): Promise<StepCheck[]> {
  const { step, source } = work;
  const what = `rows of ${step.source} are on ${step.target}`;
  // Without the stream, an earlier attempt has come to its last lines.
  if ((await source.loadStream(streamName(step, "back"))) === null) return [];
  await dropMarks(work);
  try {
    const stream = await openSplitStream(work, "back");
    await compareAll(work, stream);
    for (const [at, table] of stream.plan.tables.entries()) await markTable(work, table, at);
    return [checked(what, null)];
  } catch (error) {
    if (!(error instanceof PawlError) || !UNPROVEN.has(error.code)) throw error;
    await dropMarks(work);
    return [checked(what, error.message.slice(0, 1_900))];
  }
}

/** Follows the target until the whole of the source was compared with it, at one position. */
async function compareAll({ pulse, step }: SplitWork, stream: Stream): Promise<void> {
  const { state } = stream;
  if (state !== null && state.verified !== null) {
    const after = { ...state, verified: null };
    await stream.to.apply(written(stream.plan, state, after));
    stream.state = after;
  }
  for (let turns = 0; turns < TURNS_MAX; ) {
    await pulse.beat(() => reportOf(stream));
    const { isPresent } = await advanceStream(stream, { insist: true });
    if (!isPresent) continue;
    if (isVerified(stream)) return;
    if (isCompared(stream)) turns += 1;
    else await verifyNextRange(stream);
  }
  throw new PawlError(
    "NOT_YET",
    `${step.target} is written so much that ${step.source} could not be compared with it.`,
  );
}

async function markTable(work: SplitWork, table: TableShape, at: number): Promise<void> {
  const { guard, limits, pulse, scope, source } = work;
  let from: ShardKey | null = null;
  let count = 0;
  for (;;) {
    const rest: KeyRange = { table, scope, from };
    const { bounds, sealed } = await source.survey(rest, limits.removeRows, BOUNDS_MAX);
    for (const { upper } of bounds) {
      await pulse.beat(() => Promise.resolve({}));
      const { rows, digest } = await source.digest({ ...rest, from, below: upper });
      const after: StreamState = {
        position: digest,
        reaching: null,
        cursor: { table: at, key: upper },
        phase: "copy",
        rows: [rows],
        fingerprint: table.fingerprint,
        verified: null,
      };
      const place = [at, count].map((number) => String(number).padStart(9, "0")).join(":");
      const plan = { guard, stream: prefixOf(work) + place, tables: [table], scope };
      await source.apply(written(plan, null, after));
      count += 1;
      from = upper;
    }
    if (sealed) return;
  }
}

/** What was noted, in the order of tables and keys. */
export async function loadMarks(work: SplitWork): Promise<RemovalMark[]> {
  const marks = await streamsOf(work);
  return marks.map(({ state: { cursor, rows, position } }) => ({
    table: cursor.table,
    below: cursor.key,
    rows: rows[0] ?? 0,
    digest: position ?? "",
  }));
}

/** Takes the notes away. */
export async function dropMarks(work: SplitWork): Promise<void> {
  for (const { stream } of await streamsOf(work)) await work.source.dropStream(work.guard, stream);
}

async function streamsOf(work: SplitWork): ReturnType<Shard["listStreams"]> {
  const prefix = prefixOf(work);
  const streams = await work.source.listStreams(work.guard.plan);
  return streams
    .filter(({ stream }) => stream.startsWith(prefix))
    .toSorted((one, other) => (one.stream < other.stream ? -1 : 1));
}
