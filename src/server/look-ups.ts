import { type Instant, msBetween } from "../kernel/instant.ts";
import type { Engine } from "../engine/engine.ts";
import { RUN_KEYS, type RunRow, RUNS } from "../work/run/rows.ts";
import type { Reader } from "../store/store.ts";
import type { PawlError } from "../kernel/errors.ts";
import type { AnyRow, Key, Table } from "../kernel/table.ts";
import { backfillNotFound } from "../work/backfill/commands.ts";
import { type BackfillRow, BACKFILLS } from "../work/backfill/rows.ts";
import { moveNotFound, moveSegmentNotFound } from "../work/move/look-up.ts";
import { splitNotFound } from "../work/split/look-up.ts";
import { MOVE_SEGMENTS, type MoveRow, MOVES, type MoveSegmentRow } from "../work/move/rows.ts";
import { type SplitRow, SPLITS } from "../work/split/rows.ts";

/** A worker that is there asks again before this: a claim waits for half of it at most. */
const CLAIMED_LATELY_MS = 60_000;

/** The names of work that some worker of this server has code for, by what it asked for. */
export function claimedLately(engine: Engine, now: Instant): ReadonlySet<string> {
  const claimed = [...engine.claimedAssets()];
  const lately = claimed.filter(([, at]) => msBetween(at, now) <= CLAIMED_LATELY_MS);
  return new Set(lately.map(([name]) => name));
}

/** A run, with what was known of it by its key. */
export type KeyedRun<Known> = Known & { run: RunRow };

/** The runs that were asked for under these keys, in the order of the keys. */
export async function runsOfKeys<Known extends { run_key: string }>(
  reader: Reader,
  known: readonly Known[],
): Promise<KeyedRun<Known>[]> {
  if (known.length === 0) return [];
  const keys = await reader.load(
    RUN_KEYS,
    known.map(({ run_key }) => [run_key]),
  );
  if (keys.length === 0) return [];
  const runs = await reader.load(
    RUNS,
    keys.map(({ run_pos }) => [run_pos]),
  );
  const runOf = new Map(runs.map((run) => [run.run_key, run]));
  return known.flatMap((each) => {
    const run = runOf.get(each.run_key);
    return run === undefined ? [] : [{ ...each, run }];
  });
}

/** The row under a key, or the refusal that there is none. */
async function knownRow<Row extends AnyRow>(
  reader: Reader,
  table: Table<Row>,
  key: Key,
  missing: () => PawlError,
): Promise<Row> {
  const [row] = await reader.load(table, [key]);
  if (row === undefined) throw missing();
  return row;
}

/** The backfill of an id, or the refusal that there is none. */
export function knownBackfillRow(reader: Reader, id: string): Promise<BackfillRow> {
  return knownRow(reader, BACKFILLS, [id], () => backfillNotFound(id));
}

/** The split of an id, or the refusal that there is none. */
export function knownSplitRow(reader: Reader, id: string): Promise<SplitRow> {
  return knownRow(reader, SPLITS, [id], () => splitNotFound(id));
}

/** The move of an id, or the newest that was made from the definition of that name; null for none. */
export async function findMoveRow(reader: Reader, ref: string): Promise<MoveRow | null> {
  const [row] = await reader.load(MOVES, [[ref]]);
  if (row !== undefined) return row;
  const [named] = await reader.find({
    table: MOVES,
    where: [{ cell: "name", is: "=", value: ref }],
    order: [{ cell: "created_pos", descending: true }],
    limit: 1,
  });
  return named ?? null;
}

/** The same, but refuses what is not there. */
export async function knownMoveRow(reader: Reader, ref: string): Promise<MoveRow> {
  const row = await findMoveRow(reader, ref);
  if (row === null) throw moveNotFound(ref);
  return row;
}

/** A segment of a move, or the refusal that there is none. */
export function knownMoveSegmentRow(
  reader: Reader,
  move: MoveRow,
  index: number,
): Promise<MoveSegmentRow> {
  const missing = () => moveSegmentNotFound(move, index);
  return knownRow(reader, MOVE_SEGMENTS, [move.move_id, index], missing);
}
