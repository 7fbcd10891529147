import { PawlError, present } from "../../../kernel/errors.ts";
import type {
  Digest,
  Guard,
  KeyRange,
  RowBatch,
  Shard,
  StreamState,
  TableShape,
} from "../../../shards/shard.ts";
import type { ClaimedMove, MoveReport, ShardKey } from "../../../work/shard/step-protocol.ts";
import type { StepHost } from "../run-step.ts";
import { schemaDifference } from "../split/advance-stream.ts";

/** A segment of a move with both of its sides at hand. */
export type OpenSegment = {
  readonly source: Shard;
  readonly target: Shard;
  /** The table as the source has it and as the target has it: alike but for what does not matter. */
  readonly sourceTable: TableShape;
  readonly targetTable: TableShape;
  readonly guard: Guard;
  /** The stream of this generation, of which the target keeps how far it is. */
  readonly stream: string;
  /** The rows on either side, up to another bound than the segment's own where one is given. */
  onSource(upper?: ShardKey | null): KeyRange;
  onTarget(upper?: ShardKey | null): KeyRange;
};

/** Opens both sides of a segment. Throws SCHEMA_CHANGED when rows of one do not fit the other. */
export async function openSegment(
  step: ClaimedMove,
  host: StepHost<MoveReport>,
): Promise<OpenSegment> {
  const policy = present(step.table, "the step is about a table");
  const index = present(step.index, "the step is about a segment");
  const [source, target] = [await host.shard(step.from), await host.shard(step.to)];
  if (source.engine !== target.engine) throw enginesDiffer(step, source, target);
  const ours = await source.describe([policy]);
  const theirs = await target.describe([policy]);
  const difference = schemaDifference(ours, theirs);
  if (difference !== null) {
    throw new PawlError(
      "SCHEMA_CHANGED",
      `Rows cannot go from ${step.from} to ${step.to}: ${difference}. Make both shards alike, ` +
        "then try the segment again.",
      { details: { from: step.from, to: step.to, table: policy.table } },
    );
  }
  const sourceTable = present(ours[0], "the table was described");
  const targetTable = present(theirs[0], "the table was described");
  const { scope, lower, upper: own } = step;
  const plan = `${step.move_id}:${index}`;
  return {
    source,
    target,
    sourceTable,
    targetTable,
    // Of its own: segments are worked on at the same time, by workers that know nothing of each other.
    guard: { plan, token: host.token },
    stream: `${plan}:${step.generation}`,
    onSource: (upper = own) => ({ table: sourceTable, scope, from: lower, below: upper }),
    onTarget: (upper = own) => ({ table: targetTable, scope, from: lower, below: upper }),
  };
}

function enginesDiffer(step: ClaimedMove, source: Shard, target: Shard): PawlError {
  return new PawlError(
    "INPUT_INVALID",
    `${step.from} is kept in ${source.engine} and ${step.to} in ${target.engine}; rows move between ` +
      "shards of one engine only.",
    { details: { from: step.from, to: step.to } },
  );
}

/** Whether both are of the same rows. */
export function isSameDigest(one: Digest, other: Digest): boolean {
  return one.rows === other.rows && one.digest === other.digest;
}

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

/** A checkpoint and the rows that it stands for. */
export type Saved = {
  readonly stream: string;
  /** What must be there now; null for a stream that is new. Else STREAM_MOVED. */
  readonly before: StreamState | null;
  readonly after: StreamState;
  /** Rows that are written together with it, or not at all. */
  readonly rows: RowBatch | null;
};

/**
 * Where checkpoints of copies are kept. It must keep them where the rows go, in one transaction with
 * the rows: only then is a copy that goes on from one neither short of rows nor has some twice.
 */
export interface CheckpointStore {
  save(checkpoint: Saved): Promise<void>;
  load(stream: string): Promise<StreamState | null>;
  /** All that are kept for the plan of the guard, by name. */
  list(): Promise<{ stream: string; state: StreamState }[]>;
}

/** Keeps checkpoints on the shard that the rows of a table go to. */
export function shardCheckpoints(shard: Shard, guard: Guard, table: TableShape): CheckpointStore {
  return {
    save: ({ rows, ...saved }) =>
      shard.apply({
        guard,
        ...saved,
        tables: [table],
        scope: [],
        changes: [],
        ddl: null,
        chunk: rows === null ? null : { table: table.table, rows },
        changed: null,
      }),
    load: (stream) => shard.loadStream(stream),
    list: () => shard.listStreams(guard.plan),
  };
}

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
