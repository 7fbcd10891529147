import { PawlError, present } from "../../../kernel/errors.ts";
import type { ClaimedMove, MoveReport, ShardKey } from "../../../work/shard/step-protocol.ts";
import type { Digest, Guard, KeyRange, Shard, TableShape } from "../../../shards/shard.ts";
import { schemaDifference } from "../split/advance-stream.ts";
import type { StepHost } from "../run-step.ts";

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
