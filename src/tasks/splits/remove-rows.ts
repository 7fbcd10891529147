import { PawlError } from "../../core/errors.ts";
import type { ShardKey } from "../../core/step-protocol.ts";
import type { Digest, FenceStand, KeyRange, Shard, TableShape } from "../../shards/shard.ts";
import { loadMarks } from "./removal-marks.ts";
import type { SplitWork } from "./split-work.ts";

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
