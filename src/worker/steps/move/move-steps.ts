import { PawlError, present } from "../../../kernel/errors.ts";
import type { ClaimedMove, MoveReport, ShardKey } from "../../../work/shard/step-protocol.ts";
import type { Digest, KeyRange, Shard } from "../../../shards/shard.ts";
import { type SplitLimits, SPLIT_LIMITS } from "../split/work.ts";
import type { StepHost } from "../run-step.ts";
import { removeAll, copySegment } from "./copy-segment.ts";
import {
  compareSegment,
  dropMark,
  isSameDigest,
  openSegment,
  setMark,
  shardCheckpoints,
  takeSource,
} from "./open-segment.ts";
import { MoveStrategy } from "../../../work/move/spec.ts";
import type { TablePolicy } from "../../../work/shard/spec.ts";
import { schemaDifference } from "../split/advance-stream.ts";

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

/** Most segments that one page of a survey finds, and about how many keys it goes past at most. */
const BOUNDS_MAX = 200;
const KEYS_MAX = 5_000_000;
/** More rows than a piece has: one that is only to be counted. */
const ROWS_MAX = 1_000_000_000;

/** Finds the next segments of a lane; the page after it goes on from the last bound. */
export async function surveyLane(
  step: ClaimedMove,
  host: StepHost<MoveReport>,
): Promise<MoveReport> {
  const source = await host.shard(step.from);
  const [table] = await source.describe([present(step.table, "a survey is about a table")]);
  const lane: KeyRange = {
    table: present(table, "the table was described"),
    scope: step.scope,
    from: step.lower,
  };
  await refuseLooseTenants(source, lane);
  const strategy = MoveStrategy.parse(step.strategy);
  if (strategy.type === "uniform") return surveyWidths(source, lane, strategy.segments, host);
  const most = Math.min(BOUNDS_MAX, Math.max(1, Math.floor(KEYS_MAX / strategy.rows)));
  const { bounds, sealed } = await source.survey(lane, strategy.rows, most);
  return { bounds: [...bounds], sealed };
}

/**
 * Rows that a scope takes by the text of a tenant, or its hash, must be those that the table takes for
 * equal. Ranges go by the order of the column itself, whatever its texts are.
 */
async function refuseLooseTenants(source: Shard, { table, scope }: KeyRange): Promise<void> {
  const tests = scope.flatMap(({ any }) => any).filter(({ is }) => is !== "between");
  if (tests.length === 0) return;
  const tenants = tests.flatMap((test) => (test.is === "in" ? test.values : []));
  const problem = await source.tenantProblem([table], [...new Set(tenants)]);
  if (problem === null) return;
  throw new PawlError("TABLE_UNFIT", `The table ${table.table} cannot be moved: ${problem}.`, {
    details: { table: table.table, shard_by: table.shard_by },
  });
}

/** Bounds of equal width between the least and the greatest key of the lane. */
async function surveyWidths(
  source: Shard,
  lane: KeyRange,
  segments: number,
  host: StepHost<MoveReport>,
): Promise<MoveReport> {
  const { table } = lane;
  if (table.key.length !== 1) {
    throw new PawlError(
      "TABLE_UNFIT",
      `The key of ${table.table} has ${table.key.length} columns (${table.key.join(", ")}); the ` +
        'strategy "uniform" needs a single integer. Use "cardinality".',
      { details: { table: table.table, key: table.key } },
    );
  }
  // Of the whole lane, so that every page has the same widths.
  const ends = await source.keyBounds({ ...lane, from: null });
  const upper = ends === null ? [] : widthBounds(ends, segments, lane.from?.[0] ?? null);
  const pieces = upper.slice(0, BOUNDS_MAX);
  const sealed = upper.length <= BOUNDS_MAX;
  const bounds: NonNullable<MoveReport["bounds"]> = [];
  let from = lane.from ?? null;
  for (const bound of sealed ? [...pieces, null] : pieces) {
    host.signal.throwIfAborted();
    const below: ShardKey | null = bound === null ? null : [bound];
    bounds.push({ upper: below, rows: await countRows(source, { ...lane, from, below }) });
    from = below;
  }
  return { bounds, sealed };
}

/** The bounds behind a key, none beyond the greatest one; one more than a page has is enough. */
export function widthBounds(
  { least, greatest }: { least: string; greatest: string },
  segments: number,
  after: string | null,
): string[] {
  const [first, last] = [BigInt(least), BigInt(greatest)];
  const count = BigInt(segments);
  const width = (last - first + count) / count;
  const bounds: string[] = [];
  let next = (after === null ? first : BigInt(after)) + width;
  while (next <= last && bounds.length <= BOUNDS_MAX) {
    bounds.push(next.toString());
    next += width;
  }
  return bounds;
}

async function countRows(source: Shard, range: KeyRange): Promise<number> {
  const { bounds } = await source.survey(range, ROWS_MAX, 1);
  return bounds[0]?.rows ?? 0;
}

/** Most places, or tables, that a note names, and how long it may get. */
const NAMED_MAX = 5;
const NOTE_LENGTH_MAX = 2_000;

/** Looks on every shard for rows that do not belong there; those of excluded segments are left out. */
export async function checkPlaces(
  step: ClaimedMove,
  host: StepHost<MoveReport>,
): Promise<MoveReport> {
  const excepted = await exceptedRows(step, host);
  const misplaced: NonNullable<MoveReport["misplaced"]> = [];
  let told = 0;
  for (const { shard: name, tables, scope } of step.places) {
    const shard = await host.shard(name);
    for (const table of await shard.describe(tables)) {
      host.signal.throwIfAborted();
      const { rows } = await shard.digest({ table, scope });
      const allowed = Math.min(rows, excepted.get(placeText(name, table.table)) ?? 0);
      told += allowed;
      if (rows > allowed) {
        misplaced.push({ shard: name, table: table.table, rows: rows - allowed });
      }
      await host.say({ misplaced, excepted: told }, null);
    }
  }
  const notes = [
    ...(await differencesOf(step, host)),
    ...(misplaced.length === 0 ? [] : [noteOf(misplaced)]),
  ];
  const note = notes.length === 0 ? null : notes.join("; ").slice(0, NOTE_LENGTH_MAX);
  return { equal: note === null, misplaced, excepted: told, note };
}

/** How the tables of shards differ between which rows are to go; of some lanes, where there are many. */
async function differencesOf(
  { lanes = [] }: ClaimedMove,
  host: StepHost<MoveReport>,
): Promise<string[]> {
  const differences: string[] = [];
  for (const { table, from, to } of lanes) {
    if (differences.length === NAMED_MAX) break;
    host.signal.throwIfAborted();
    const difference = await differenceOf(await host.shard(from), await host.shard(to), table);
    if (difference === null) continue;
    differences.push(`rows of ${table.table} cannot go from ${from} to ${to}: ${difference}`);
  }
  return differences;
}

async function differenceOf(
  source: Shard,
  target: Shard,
  policy: TablePolicy,
): Promise<string | null> {
  try {
    return schemaDifference(await source.describe([policy]), await target.describe([policy]));
  } catch (error) {
    if (error instanceof PawlError && error.code === "TABLE_UNFIT") {
      return error.message.replace(/\.$/, "");
    }
    throw error;
  }
}

function placeText(shard: string, table: string): string {
  return `${shard}\n${table}`;
}

function noteOf(misplaced: NonNullable<MoveReport["misplaced"]>): string {
  const named = misplaced
    .slice(0, NAMED_MAX)
    .map(({ shard, table, rows }) => `${rows} of ${table} on ${shard}`);
  const more = misplaced.length - named.length;
  return `rows are where they do not belong: ${named.join(", ")}${more > 0 ? ` and ${more} more` : ""}`;
}

/** Rows of excluded segments that are still where they came from, by shard and table. */
async function exceptedRows(
  { excluded }: ClaimedMove,
  host: StepHost<MoveReport>,
): Promise<Map<string, number>> {
  const counts = new Map<string, number>();
  for (const { shard: name, table: policy, scope, ranges } of excluded) {
    const shard = await host.shard(name);
    const [table] = await shard.describe([policy]);
    for (const { lower, upper } of ranges) {
      host.signal.throwIfAborted();
      const shape = present(table, "the table was described");
      const { rows } = await shard.digest({ table: shape, scope, from: lower, below: upper });
      const place = placeText(name, policy.table);
      counts.set(place, (counts.get(place) ?? 0) + rows);
    }
  }
  return counts;
}

/** Does a step of a move; done again, from wherever it was broken off, it comes to the same end. */
export async function runMoveStep(
  step: ClaimedMove,
  host: StepHost<MoveReport>,
  limits: SplitLimits = SPLIT_LIMITS,
): Promise<MoveReport> {
  host.signal.throwIfAborted();
  switch (step.step) {
    case "survey":
      return surveyLane(step, host);
    case "copy":
      return copySegment(step, host, limits);
    case "verify":
      return compareSegment(step, host);
    case "remove":
      return step.digest === null ? discardCopy(step, host, limits) : removeSegment(step, host);
    case "check":
      return checkPlaces(step, host);
  }
}
