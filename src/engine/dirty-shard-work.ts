import { advanceMove } from "../controllers/advance-move.ts";
import { advanceSplit } from "../controllers/advance-split.ts";
import type { Controller } from "../controllers/decision.ts";
import type { Instant } from "../core/instant.ts";
import type { MoveRow } from "../core/rows/move-rows.ts";
import type { Rows } from "../core/rows/rows.ts";
import type { SplitRow } from "../core/rows/split-rows.ts";
import type { Condition } from "../core/rows/table.ts";
import { TABLES } from "../core/rows/tables.ts";
import type { Reader } from "../store/store.ts";
import { type Commit, ENGINE_CAUSE } from "./commit.ts";

/** Most moves or splits that a sweep marks at once. */
const SWEPT_MAX = 10_000;
/** Most looks at one of them in a row: an end, what it leads to, and that nothing is left. */
const ROUNDS_MAX = 8;

const OPEN_MOVES: Condition[] = [
  { cell: "state", is: "in", values: ["PLANNED", "RUNNING", "PAUSED"] },
];
const OPEN_SPLITS: Condition[] = [
  {
    cell: "phase",
    is: "in",
    values: ["planning", "dual_write", "backfill", "tailing", "cutover_pending", "reversible"],
  },
];
const REMOVING: Condition[] = [{ cell: "remove_after", is: "not null" }];

function dueSplits(now: Instant): Condition[] {
  return [{ cell: "due_at", is: "<=", value: now }];
}

/** Lets a controller look at one entity; answers how many events it added. */
export type Control = <Row>(
  name: string,
  rowOf: (rows: Rows) => Row | null,
  controller: Controller<Row>,
) => Promise<number>;

/** The moves and splits that their controllers have to look at. */
export class DirtyShardWork {
  readonly #splits = new Set<string>();
  readonly #moves = new Set<string>();
  /** When the next of them has something to do by the time alone, as of the last look. */
  #dueAt: Instant | null = null;
  #isDueMoved = true;

  get size(): number {
    return this.#splits.size + this.#moves.size;
  }

  get dueAt(): Instant | null {
    return this.#dueAt;
  }

  /** Marks what the decisions of a commit changed. */
  noteTouched(commit: Commit): void {
    for (const row of commit.touchedSplits.values()) {
      this.#splits.add((row as SplitRow).split_id);
      this.#isDueMoved = true;
    }
    commit.touchedSplits.clear();
    for (const row of commit.touchedMoves.values()) this.#moves.add((row as MoveRow).move_id);
    commit.touchedMoves.clear();
  }

  /** Marks everything that may have been left undone. */
  async sweep(commit: Commit): Promise<void> {
    const { result } = await commit.decide(
      (rows) => ({
        events: [],
        result: {
          splits: [
            ...rows.splits.find(OPEN_SPLITS, [{ cell: "split_id" }], SWEPT_MAX),
            ...rows.splits.find(REMOVING, [{ cell: "remove_after" }], SWEPT_MAX),
          ],
          moves: rows.moves.find(OPEN_MOVES, [{ cell: "move_id" }], SWEPT_MAX),
        },
      }),
      ENGINE_CAUSE,
    );
    for (const { split_id } of result.splits) this.#splits.add(split_id);
    for (const { move_id } of result.moves) this.#moves.add(move_id);
    this.#isDueMoved = true;
  }

  /** Whether there is a move or a split that is not finished, looked up without the lock. */
  async hasUnfinished(reader: Reader): Promise<boolean> {
    const isAny = async (find: Parameters<Reader["find"]>[0]): Promise<boolean> =>
      (await reader.find(find)).length > 0;
    const splits = { table: TABLES.splits, order: [{ cell: "split_id" }], limit: 1 };
    const removing = { table: TABLES.splits, order: [{ cell: "remove_after" }], limit: 1 };
    const moves = { table: TABLES.moves, order: [{ cell: "move_id" }], limit: 1 };
    return (
      (await isAny({ ...splits, where: OPEN_SPLITS })) ||
      (await isAny({ ...removing, where: REMOVING })) ||
      (await isAny({ ...moves, where: OPEN_MOVES }))
    );
  }

  /** Whether a due time has passed, looked up without the lock. */
  async isAnythingDue(reader: Reader, now: Instant): Promise<boolean> {
    const where = dueSplits(now);
    const order = [{ cell: "due_at" }];
    return (await reader.find({ table: TABLES.splits, where, order, limit: 1 })).length > 0;
  }

  /** Marks what has fallen due. */
  async markDue(commit: Commit): Promise<void> {
    const { result } = await commit.decide(
      (rows, { now }) => ({
        events: [],
        result: rows.splits.find(dueSplits(now), [{ cell: "due_at" }], SWEPT_MAX),
      }),
      ENGINE_CAUSE,
    );
    for (const { split_id } of result) this.#splits.add(split_id);
  }

  /** Lets all that is dirty go on until it has nothing to add, or the commit is full. */
  async advance(control: Control, isFull: () => boolean): Promise<void> {
    for (const id of this.#splits) {
      if (isFull()) return;
      this.#splits.delete(id);
      await settle(() => control(`split ${id}`, (rows) => rows.splits.get(id), advanceSplit));
    }
    for (const id of this.#moves) {
      if (isFull()) return;
      this.#moves.delete(id);
      await settle(() => control(`move ${id}`, (rows) => rows.moves.get(id), advanceMove));
    }
  }

  /** Looks up the next time at which something falls due, where that may have changed. */
  async findDue(commit: Commit): Promise<void> {
    if (!this.#isDueMoved && (this.#dueAt === null || this.#dueAt > commit.now)) return;
    const where: Condition[] = [{ cell: "due_at", is: ">", value: commit.now }];
    const { result } = await commit.decide(
      (rows) => ({
        events: [],
        result: rows.splits.find(where, [{ cell: "due_at" }], 1)[0],
      }),
      ENGINE_CAUSE,
    );
    this.#dueAt = result?.due_at ?? null;
    this.#isDueMoved = false;
  }
}

async function settle(look: () => Promise<number>): Promise<void> {
  for (let round = 0; round < ROUNDS_MAX; round++) if ((await look()) === 0) return;
}
