import { PawlError, present } from "../../../kernel/errors.ts";
import type { ShardKey, StepCheck, SplitReport } from "../../../work/shard/step-protocol.ts";
import type {
  Digest,
  KeyRange,
  Shard,
  StreamState,
  TableShape,
  FenceStand,
  Fence,
} from "../../../shards/shard.ts";
import { advanceStream } from "./advance-stream.ts";
import { checked, fencesOf, settleOwnership } from "./cut-over.ts";
import { written } from "./decide-step.ts";
import { openSplitStream, type SplitWork, streamName, isVerified, type Stream } from "./work.ts";
import { isCompared, reportOf, verifyNextRange } from "./verify-copy.ts";

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
  "DDL_NOT_ALLOWED",
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

/**
 * Deletes the rows of the tenants from a shard in batches, the last table first, as long as their
 * fences stand under an epoch: whoever slept in between must not find rows that have come since.
 * Answers how many were, and whether it was told to stop before the end.
 */
export async function removeRows(
  { guard, scope, limits, pulse }: SplitWork,
  shard: Shard,
  tables: readonly TableShape[],
  fences: readonly FenceStand[],
): Promise<{ removed: number; isStopped: boolean }> {
  let removed = 0;
  for (const table of tables.toReversed()) {
    for (;;) {
      const count = removed;
      const isStopped = await pulse.beat(() => Promise.resolve({ rows_removed: count }));
      if (isStopped) return { removed, isStopped };
      const options = { limit: limits.removeRows, expect: null, fences };
      const deleted = (await shard.remove(guard, { table, scope }, options)) ?? 0;
      removed += deleted;
      if (deleted === 0) break;
    }
  }
  return { removed, isStopped: false };
}

/** Rows that may stay before it is not looked any further which ones. */
const LEFT_MAX = 100;
/** Rows that are compared at once where nothing was noted of them. */
const UNMARKED_ROWS = 5_000;

/** A removal under way. */
type Removal = {
  readonly work: SplitWork;
  readonly fences: readonly FenceStand[];
  removed: number;
  left: number;
  readonly tables: Set<string>;
};

/**
 * Deletes the rows of the tenants from the source, the last table first. What is as it was noted when
 * the split was finished goes a range at a time; of anything else only what the target has now, byte
 * for byte. The rest stays, and the removal fails with VERIFICATION_FAILED.
 */
export async function removeMarked(
  work: SplitWork,
  fences: readonly FenceStand[],
): Promise<number> {
  const { guard, pulse, scope, source, step } = work;
  const tables = await source.describe(step.tables);
  const marks = await loadMarks(work);
  const removal: Removal = { work, fences, removed: 0, left: 0, tables: new Set() };
  for (const [index, table] of [...tables.entries()].toReversed()) {
    let from: ShardKey | null = null;
    for (const { below, rows, digest } of marks.filter((mark) => mark.table === index)) {
      await pulse.beat(() => Promise.resolve({ rows_removed: removal.removed }));
      const range: KeyRange = { table, scope, from, below };
      const options = { limit: Math.max(1, rows), expect: { rows, digest }, fences };
      const gone = await source.remove(guard, range, options);
      if (gone === null) await removeEqual(removal, range);
      else removal.removed += gone;
      from = below;
    }
    if (marks.every((mark) => mark.table !== index)) await removeUnmarked(removal, table);
  }
  if (removal.left > 0) throw notRemoved(removal);
  return removal.removed;
}

async function removeUnmarked(removal: Removal, table: TableShape): Promise<void> {
  const { scope, source } = removal.work;
  let from: ShardKey | null = null;
  for (;;) {
    const rest: KeyRange = { table, scope, from };
    const { bounds } = await source.survey(rest, UNMARKED_ROWS, 1);
    const upper: ShardKey | null = bounds[0]?.upper ?? null;
    await removeEqual(removal, { ...rest, below: upper });
    if (upper === null) return;
    from = upper;
  }
}

/** Removes what both shards have alike; a range that differs is halved until a row is left. */
async function removeEqual(removal: Removal, whole: KeyRange): Promise<void> {
  const { guard, pulse, source } = removal.work;
  await pulse.beat(() => Promise.resolve({ rows_removed: removal.removed }));
  const { rows, digest } = await source.digest(whole);
  if (rows === 0) return;
  const range = rows === 1 ? await narrowed(removal, whole) : whole;
  if (removal.left < LEFT_MAX && (await isOnTarget(removal, range, { rows, digest }))) {
    const options = { limit: rows, expect: { rows, digest }, fences: removal.fences };
    const gone = await source.remove(guard, range, options);
    if (gone !== null) {
      removal.removed += gone;
      return;
    }
  }
  if (rows === 1 || removal.left >= LEFT_MAX) {
    removal.left += rows;
    removal.tables.add(range.table.table);
    return;
  }
  const { bounds } = await source.survey(range, Math.ceil(rows / 2), 1);
  const middle = bounds[0]?.upper ?? null;
  await removeEqual(removal, { ...range, below: middle ?? range.below ?? null });
  if (middle !== null) await removeEqual(removal, { ...range, from: middle });
}

/** The range of the only row of one, without those that the target alone has beside it. */
async function narrowed({ work: { source, target } }: Removal, range: KeyRange): Promise<KeyRange> {
  const key = (await nextKey(source, range, 1)) ?? range.from ?? null;
  const from = { ...range, from: key };
  const two = await tried(() => nextKey(target, from, 2));
  const isSame = two === null || JSON.stringify(two) === JSON.stringify(key);
  return isSame ? from : { ...from, below: two };
}

/** The key of the last of the next rows of a range, so many of them; null when there is none. */
async function nextKey(shard: Shard, range: KeyRange, limit: number): Promise<ShardKey | null> {
  const nothing = { from: null, cursor: null, changesMax: 1 };
  const { table, scope } = range;
  const chunk = { ...range, limit };
  const answer = await shard.read({ ...nothing, tables: [table], scope, chunk });
  return answer.chunk?.last ?? null;
}

/** A table that cannot be read there as it is here any more has no such rows. */
async function isOnTarget(
  { work: { target } }: Removal,
  range: KeyRange,
  { rows, digest }: Digest,
): Promise<boolean> {
  const there = await tried(() => target.digest(range));
  return there !== null && there.rows === rows && there.digest === digest;
}

async function tried<Found>(look: () => Promise<Found>): Promise<Found | null> {
  try {
    return await look();
  } catch (error) {
    if (error instanceof PawlError && error.retryable) throw error;
    return null;
  }
}

function notRemoved({ work, left, removed, tables }: Removal): PawlError {
  const { source, target, split_id } = work.step;
  const names = [...tables].join(", ");
  return new PawlError(
    "VERIFICATION_FAILED",
    `${left} rows of ${names} were not removed from ${source}: ${target} has none like them. They were ` +
      `written there past the router, or have changed on ${target} since they were last compared. ` +
      `Take over what is missing, delete them on ${source}, and resume split ${split_id}.`,
    { details: { left, removed, tables: [...tables] } },
  );
}

/** Ends a split that was cut over: no more way back. The source goes on refusing the tenants. */
export async function finishSplit(work: SplitWork): Promise<SplitReport> {
  await settleOwnership(work);
  await requireMoved(work, "finished");
  const checks = await markRemoval(work);
  await dropStreams(work);
  return { checks };
}

/** Removes what is left of the tenants on the source, as far as the target has it too. */
export async function removeMoved(work: SplitWork): Promise<SplitReport> {
  const moved = await requireMoved(work, "removed from its source");
  const removed = await removeMarked(work, moved);
  await dropMarks(work);
  return { rows_removed: removed };
}

/** Takes away what captures and carries changes, on both shards. */
export async function dropStreams({ step, guard, source, target }: SplitWork): Promise<void> {
  await source.dropStream(guard, streamName(step, "back"));
  await target.dropStream(guard, streamName(step, "forward"));
  await source.disarmCapture(guard);
  await target.disarmCapture(guard);
}

/** How the fences on the source stand after this split's own cutover, and no later one. */
async function requireMoved({ step, source }: SplitWork, what: string): Promise<FenceStand[]> {
  const { tenants, routing_version_cutover: epoch } = step;
  const fences = await fencesOf(source, tenants);
  const here = fences.find((fence) => fence.state !== "moved" || fence.epoch !== epoch);
  if (here === undefined && epoch !== null) {
    return tenants.map((tenant) => ({ tenant, epoch, state: "moved" }));
  }
  const { tenant, state } = present(here ?? fences[0], "a split has tenants");
  throw new PawlError(
    "STATE_ILLEGAL",
    `Tenant ${tenant} has not moved, or has come back since (its fence on ${step.source} is ` +
      `${state}), so split ${step.split_id} cannot be ${what}.`,
    { details: { tenant, state } },
  );
}

/**
 * Takes a split back: the copy, the streams, the capture and the fences. A target that once was the
 * owner goes on saying where the tenants are, as somebody may still come with its epoch.
 */
export async function discardSplit(work: SplitWork): Promise<SplitReport> {
  const { step, guard, source, target } = work;
  const { tenants, routing_version_cutover: there, routing_version_rollback: back } = step;
  if (there !== null && back === null) throw targetOwns(work);
  // Where the source has no fences any more, an earlier attempt has come to its last lines.
  const isLate = (await source.fences(tenants)).length < tenants.length;
  if (back !== null && !isLate) await settleOwnership(work);
  const fences = await target.fences(tenants);
  if (fences.some((fence) => isOwners(work, fence))) throw targetOwns(work);

  // Fences go last. Where one is missing, or not this split's, there is no copy: it was not begun,
  // or is gone already.
  let removed = 0;
  const ours = fencesOfCopy(work, fences);
  if (ours.length === tenants.length) {
    const done = await removeRows(work, target, await target.describe(step.tables), ours);
    if (done.isStopped) return { rows_removed: done.removed };
    removed = done.removed;
  }
  await dropStreams(work);
  await source.dropFences(guard, tenants);
  if (back === null) await putFencesBack(work, ours);
  return { rows_removed: removed };
}

/** Whether a fence takes writes, and not only because it was left from before an earlier move. */
function isOwners({ step }: SplitWork, { tenant, state, epoch }: Fence): boolean {
  if (state === "incoming" || state === "moved") return false;
  return epoch >= (step.epochs[step.tenants.indexOf(tenant)] ?? 0);
}

/** The fences on the target that this split has set there. */
function fencesOfCopy({ step }: SplitWork, fences: readonly Fence[]): Fence[] {
  const { routing_version_rollback: back } = step;
  return fences.filter(({ state, epoch }) =>
    back === null ? state === "incoming" : state === "moved" && epoch === back,
  );
}

/** Tenants that never were on the target leave no fence there. */
async function putFencesBack({ step, guard, target }: SplitWork, ours: Fence[]): Promise<void> {
  const names = (fences: Fence[]): string[] => fences.map(({ tenant }) => tenant);
  await target.dropFences(guard, names(ours.filter(({ shard }) => shard === null)));
  const moved = ours.flatMap(({ tenant, epoch, shard }) =>
    shard === null ? [] : [{ tenant, epoch, state: "moved" as const, shard: step.source }],
  );
  if (moved.length > 0) await target.setFences(guard, moved);
}

function targetOwns({ step }: SplitWork): PawlError {
  return new PawlError(
    "STATE_ILLEGAL",
    `Shard ${step.target} owns the tenants of split ${step.split_id}: its rows are no copy that can be ` +
      "discarded. Roll back first.",
    { details: { split_id: step.split_id } },
  );
}
