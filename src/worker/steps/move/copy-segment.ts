import type { ClaimedMove, MoveReport, ShardKey } from "../../../work/shard/step-protocol.ts";
import type {
  Shard,
  Digest,
  KeyRange,
  ReadAnswer,
  StreamState,
  TableShape,
} from "../../../shards/shard.ts";
import type { StepHost } from "../run-step.ts";
import { PawlError, present } from "../../../kernel/errors.ts";
import { MoveStrategy } from "../../../work/move/spec.ts";
import { nextChunkRows } from "../split/advance-stream.ts";
import type { SplitLimits } from "../split/work.ts";
import {
  type CheckpointStore,
  compareSides,
  dropMark,
  isSameDigest,
  type OpenSegment,
  openSegment,
  shardCheckpoints,
  takeSource,
} from "./open-segment.ts";

/** Longest that is waited at once: in between it is said how far the step is. */
const TURN_MS = 1_000;
/** How long to wait for replicas before looking at them again, and how seldom to look at all. */
const LAG_TURN_MS = 250;
const LAG_EVERY_MS = 1_000;

/** Keeps a copy as slow as it has to be, and says once in a while how far it is. */
export class Pace {
  readonly #host: StepHost<MoveReport>;
  readonly #limits: Pick<ClaimedMove, "rows_per_second" | "replication_lag_ms">;
  readonly #sayEveryMs: number;
  readonly #startedAt: number;
  #saidAt: number;
  #lagSeenAt = Number.NEGATIVE_INFINITY;
  #rows = 0;
  #waitedMs = 0;

  constructor(
    host: StepHost<MoveReport>,
    limits: Pick<ClaimedMove, "rows_per_second" | "replication_lag_ms">,
    sayEveryMs: number,
  ) {
    this.#host = host;
    this.#limits = limits;
    this.#sayEveryMs = sayEveryMs;
    this.#startedAt = host.now();
    this.#saidAt = this.#startedAt;
  }

  /** Time since the beginning, and what of it was work. */
  get elapsedMs(): number {
    return this.#host.now() - this.#startedAt;
  }

  get workMs(): number {
    return Math.max(0, Math.round(this.elapsedMs - this.#waitedMs));
  }

  /** Most rows to take at once: about a second's worth. */
  get rowsAtOnce(): number {
    const { rows_per_second: limit } = this.#limits;
    return limit === null ? Number.MAX_SAFE_INTEGER : Math.max(1, Math.ceil(limit));
  }

  /** Waits until there may be more rows than were taken; answers whether the step is to end. */
  async taken(rows: number, report: () => MoveReport): Promise<boolean> {
    this.#rows += rows;
    const { rows_per_second: limit } = this.#limits;
    const dueAt = limit === null ? 0 : this.#startedAt + (this.#rows / limit) * 1_000;
    for (;;) {
      if (await this.#say(report)) return true;
      const left = dueAt - this.#host.now();
      if (left <= 0) return false;
      await this.#wait(Math.min(left, TURN_MS));
    }
  }

  /** Waits while replicas of the target are too far behind; answers whether the step is to end. */
  async heldBack(target: Shard, report: () => MoveReport): Promise<boolean> {
    const { replication_lag_ms: limit } = this.#limits;
    if (limit === null || this.#host.now() - this.#lagSeenAt < LAG_EVERY_MS) return false;
    for (;;) {
      this.#host.signal.throwIfAborted();
      const lag = await target.replicationLagMs();
      this.#lagSeenAt = this.#host.now();
      if (lag === null || lag <= limit) return false;
      if (await this.#say(report)) return true;
      await this.#wait(LAG_TURN_MS);
    }
  }

  async #wait(ms: number): Promise<void> {
    const from = this.#host.now();
    await this.#host.pause(ms);
    this.#waitedMs += this.#host.now() - from;
    this.#host.signal.throwIfAborted();
  }

  async #say(report: () => MoveReport): Promise<boolean> {
    if (this.#host.now() - this.#saidAt < this.#sayEveryMs) return false;
    this.#saidAt = this.#host.now();
    const { stop } = await this.#host.say(report(), null);
    return stop;
  }
}

/*
 * A copy of a segment, each arrow one transaction on the target:
 *
 *   nothing ──(first rows)──► copy, cursor ──(next rows)──► copy, cursor ──(last rows)──► tail
 *
 * Whoever goes on with it, the same worker or another, begins from the state on the target. Once that
 * says `tail`, no row is copied any more: both sides are compared, and that is all.
 */

/** A copy at work. */
type Copy = {
  readonly step: ClaimedMove;
  readonly host: StepHost<MoveReport>;
  readonly limits: SplitLimits;
  readonly segment: OpenSegment;
  readonly checkpoints: CheckpointStore;
  readonly pace: Pace;
  state: StreamState | null;
  /** Rows of the next chunk, and bytes that this attempt has copied. */
  chunkRows: number;
  bytes: number;
};

/** Copies a segment from where it is and compares both sides; a part of it when it takes too long. */
export async function copySegment(
  step: ClaimedMove,
  host: StepHost<MoveReport>,
  limits: SplitLimits,
): Promise<MoveReport> {
  const segment = await openSegment(step, host);
  const { target, guard, stream, targetTable } = segment;
  await refuseObstacles(step, segment);
  await target.install();
  await target.take(guard);
  const checkpoints = shardCheckpoints(target, guard, targetTable);
  const copy: Copy = {
    step,
    host,
    limits,
    segment,
    checkpoints,
    pace: new Pace(host, step, limits.sayEveryMs),
    state: await checkpoints.load(stream),
    chunkRows: limits.chunkRows,
    bytes: 0,
  };
  if (copy.state === null) {
    const moved = await clearTheWay(copy);
    if (moved !== null) return { ...reportOf(copy), ...moved, equal: true, note: null };
  }
  const splitAt = await copyRows(copy);
  if (splitAt === "stopped") return reportOf(copy);
  const upper = splitAt ?? step.upper;
  host.signal.throwIfAborted();
  const { equal, note, source, target: there } = await compareSides(segment, upper);
  if (!equal) refuseStrangers(copy, there);
  return {
    ...reportOf(copy),
    rows: source.rows,
    digest: source.digest,
    equal,
    note,
    ...(splitAt === null ? {} : { split_at: splitAt }),
  };
}

/** Rows that a constraint refuses for the order in which they come would be tried for ever. */
async function refuseObstacles(
  { to }: ClaimedMove,
  { target, targetTable }: OpenSegment,
): Promise<void> {
  const reasons = await target.obstacles([targetTable], "rows");
  if (reasons.length === 0) return;
  throw new PawlError("TABLE_UNFIT", `Rows cannot be copied to ${to}: ${reasons.join("; ")}.`, {
    details: { shard: to, table: targetTable.table },
  });
}

/**
 * A segment goes where nothing of it is. What an earlier generation left there is ours to remove;
 * what was there before the first one is somebody else's. Answers what is there when it turns out to
 * have moved already.
 */
async function clearTheWay(copy: Copy): Promise<Digest | null> {
  const { step, host, limits, segment, checkpoints } = copy;
  if (step.generation === 0) {
    await refuseTaken(copy);
    return null;
  }
  const moved = await movedAlready(copy);
  if (moved !== null) return moved;
  const { target, guard, stream } = segment;
  const streams = await checkpoints.list();
  if (streams.length === 0) await refuseLoss(copy);
  await removeAll(target, guard, segment.onTarget(), limits.removeRows, host.signal);
  for (const known of streams) {
    if (known.stream !== stream) await target.dropStream(guard, known.stream);
  }
  return null;
}

/** Rows that came to the target beside ours are not ours to delete for another copy. */
function refuseStrangers({ step, segment, state }: Copy, there: Digest): void {
  const brought = state?.rows[0] ?? 0;
  if (there.rows <= brought) return;
  throw new PawlError(
    "VERIFICATION_FAILED",
    `${step.to} has ${there.rows} rows of a segment of ${segment.targetTable.table} to which ` +
      `${brought} were copied, so somebody else writes there. Save what they wrote, then copy the ` +
      "segment again, which deletes it first, or exclude it.",
    { details: { shard: step.to, rows: there.rows, copied_rows: brought } },
  );
}

/**
 * What was on the target before this move is replaced only where the source has it too: what an
 * earlier move has brought there, and has removed from the source, is nowhere else.
 */
async function refuseLoss(copy: Copy): Promise<void> {
  const { step, host, pace, segment } = copy;
  const { source, target, sourceTable, targetTable } = segment;
  let onTarget = segment.onTarget();
  for (;;) {
    host.signal.throwIfAborted();
    await pace.taken(0, () => reportOf(copy));
    const key = await firstKey(target, targetTable, onTarget);
    if (key === null) return;
    const same = await firstKey(source, sourceTable, { ...segment.onSource(), from: key });
    if (!isSameKey(same, key)) throw lostBy(step, targetTable, key);
    onTarget = { ...onTarget, from: null, after: key };
  }
}

function isSameKey(one: ShardKey | null, other: ShardKey): boolean {
  return one !== null && other.every((part, index) => part === one[index]);
}

function lostBy({ from, to }: ClaimedMove, { table }: TableShape, key: ShardKey): PawlError {
  return new PawlError(
    "VERIFICATION_FAILED",
    `${to} has rows of ${table} that ${from} has not, the first with the key ${JSON.stringify(key)}: ` +
      "to copy the segment again would delete them for good, so nothing was done. Delete them " +
      "yourself if that is meant, then try the segment again, or exclude it.",
    { details: { shard: to, table, key } },
  );
}

async function firstKey(
  shard: Shard,
  table: TableShape,
  range: KeyRange,
): Promise<ShardKey | null> {
  const { chunk } = await shard.read(chunkRequest(table, { ...range, limit: 1 }));
  return chunk === null || chunk.rows.count === 0 ? null : chunk.last;
}

async function refuseTaken({ step, segment }: Copy): Promise<void> {
  const range = segment.onTarget();
  const key = await firstKey(segment.target, segment.targetTable, range);
  if (key === null) return;
  throw new PawlError(
    "ROWS_CONFLICT",
    `${step.to} has rows of ${range.table.table} that are only now to come from ${step.from}, ` +
      `the first with the key ${JSON.stringify(key)}. Copy the segment again to have them ` +
      "replaced, or exclude it.",
    { details: { shard: step.to, table: range.table.table, key } },
  );
}

/**
 * Makes sure that the source has all rows before the target is emptied: a removal that was begun may
 * have come to its end without anybody hearing of it.
 */
async function movedAlready({ step, segment }: Copy): Promise<Digest | null> {
  const mark = await takeSource(segment);
  if (mark === null) return null;
  const source = await segment.source.digest(segment.onSource());
  if (isSameDigest(source, mark)) {
    await dropMark(segment);
    return null;
  }
  const { rows, digest } = await segment.target.digest(segment.onTarget());
  if (source.rows === 0 && isSameDigest({ rows, digest }, mark)) return { rows, digest };
  throw new PawlError(
    "VERIFICATION_FAILED",
    `A removal of this segment from ${step.from} was begun, which has ${source.rows} of ${mark.rows} ` +
      `rows now, and ${step.to} has ${rows}: to copy it again could lose those that are on ${step.to} ` +
      "alone, so nothing was done. Put the rows back, or exclude the segment.",
    { details: { from: step.from, to: step.to, rows: source.rows, verified_rows: mark.rows } },
  );
}

/** Removes all rows of a range, so many at a time; answers how many there were. */
export async function removeAll(
  shard: Shard,
  guard: OpenSegment["guard"],
  range: KeyRange,
  limit: number,
  signal: AbortSignal,
): Promise<number> {
  let removed = 0;
  for (;;) {
    signal.throwIfAborted();
    const gone = (await shard.remove(guard, range, { limit, expect: null })) ?? 0;
    removed += gone;
    if (gone === 0) return removed;
  }
}

/** Copies rows to the end; answers the first key of what is left when that takes too long. */
async function copyRows(copy: Copy): Promise<ShardKey | "stopped" | null> {
  const { host, pace, segment } = copy;
  const mostMs = patienceOf(copy.step);
  const report = (): MoveReport => reportOf(copy);
  while (copy.state?.phase !== "tail") {
    host.signal.throwIfAborted();
    if (await pace.heldBack(segment.target, report)) return "stopped";
    const rows = await copyChunk(copy);
    if (await pace.taken(rows, report)) return "stopped";
    if (isTail(copy) || pace.elapsedMs <= mostMs) continue;
    const next = await nextKey(copy);
    if (next !== null) return next;
  }
  return null;
}

/** Asked anew: what was known of the state before the last chunk holds no more. */
function isTail({ state }: Copy): boolean {
  return state?.phase === "tail";
}

/** How long a copy may take before the rest of the segment is left to another one. */
function patienceOf(step: ClaimedMove): number {
  const strategy = MoveStrategy.parse(step.strategy);
  return strategy.type === "adaptive" ? 2 * strategy.target_ms : Number.POSITIVE_INFINITY;
}

async function copyChunk(copy: Copy): Promise<number> {
  const { segment, limits, host, pace, state } = copy;
  const beganAt = host.now();
  const limit = Math.min(copy.chunkRows, pace.rowsAtOnce);
  const request = chunkRequest(segment.sourceTable, { ...restOf(copy), limit });
  const answer = await segment.source.read(request);
  const chunk = present(answer.chunk, "a chunk was asked for");
  refuseChange(segment, state, answer);
  const after: StreamState = {
    position: answer.position,
    reaching: null,
    cursor: { table: 0, key: chunk.last ?? state?.cursor.key ?? null },
    phase: chunk.ended ? "tail" : "copy",
    rows: [(state?.rows[0] ?? 0) + chunk.rows.count],
    fingerprint: answer.fingerprint,
    verified: null,
  };
  const rows = chunk.rows.count === 0 ? null : chunk.rows;
  await copy.checkpoints.save({ stream: segment.stream, before: state, after, rows });
  copy.state = after;
  copy.bytes += chunk.rows.bytes;
  const took = { ms: host.now() - beganAt, rows: chunk.rows.count, bytes: chunk.rows.bytes };
  copy.chunkRows = nextChunkRows(limit, took, limits);
  return chunk.rows.count;
}

/** Rows that were read with another schema than the first ones do not belong together. */
function refuseChange(segment: OpenSegment, state: StreamState | null, answer: ReadAnswer): void {
  if (state === null || state.fingerprint === answer.fingerprint) return;
  throw new PawlError(
    "SCHEMA_CHANGED",
    `The table ${segment.sourceTable.table} was changed while a segment of it was copied. Make both ` +
      "shards alike, then copy the segment again.",
    { details: { table: segment.sourceTable.table, stream: segment.stream } },
  );
}

/** What is behind the last row that was copied. */
function restOf({ segment, state }: Copy): KeyRange {
  const key = state?.cursor.key ?? null;
  const whole = segment.onSource();
  return key === null ? whole : { ...whole, from: null, after: key };
}

/** The first key that was not copied; null when there is none. */
async function nextKey(copy: Copy): Promise<ShardKey | null> {
  const { segment } = copy;
  return firstKey(segment.source, segment.sourceTable, restOf(copy));
}

function chunkRequest(
  table: TableShape,
  chunk: KeyRange & { readonly limit: number },
): Parameters<Shard["read"]>[0] {
  return { tables: [table], scope: chunk.scope, from: null, cursor: null, changesMax: 1, chunk };
}

function reportOf({ state, bytes, pace }: Copy): MoveReport {
  return {
    rows: state?.rows[0] ?? 0,
    bytes,
    work_ms: pace.workMs,
    cursor: state?.cursor.key ?? null,
    ...((state?.position ?? null) === null ? {} : { position: state?.position ?? "" }),
  };
}
