import { advanceMove } from "../work/move/advance.ts";
import { advanceSplit } from "../work/split/advance.ts";
import type { Controller } from "../work/decision.ts";
import type { Instant } from "../kernel/instant.ts";
import type { Rows } from "../work/rows.ts";
import { type Condition, type Key, keyText } from "../kernel/table.ts";
import { TABLES } from "../work/tables.ts";
import type { Reader } from "../store/store.ts";
import { type Commit, ENGINE_CAUSE, lookAt } from "./commit.ts";
import type { SyncSourceRow } from "../work/sync/rows.ts";
import {
  NOT_WHOLE,
  NOTHING_SWEPT,
  questionsBehind,
  unfinishedSyncs,
  unseenSyncs,
} from "../work/sync/look-up.ts";

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
      this.#splits.add(row.split_id);
      this.#isDueMoved = true;
    }
    commit.touchedSplits.clear();
    for (const row of commit.touchedMoves.values()) this.#moves.add(row.move_id);
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

/** Syncs that one look-up brings. */
const PAGE = 10_000;
/** Sources that are gone through at once while nothing else is to be done. */
const SOURCES_AT_ONCE = 200;

const LIVING: Condition = { cell: "state", is: "<>", value: "REMOVED" };

/** A question that several syncs are the answer to. */
type Spread = { where: readonly Condition[]; after: string };

/**
 * The syncs that their controller has to look at: those that a commit changed, those of a source
 * that moved, those of a definition that was published. One that has nothing to do is not among them.
 */
export class DirtySyncs {
  readonly #ids = new Set<string>();
  /** Not looked up yet; by what makes them dirty, so that several reasons are one. */
  readonly #spreads = new Map<string, Spread>();

  /** Whether everything was marked once since nothing was lost. */
  isSwept = false;
  #swept = NOTHING_SWEPT;

  get size(): number {
    return this.#ids.size + this.#spreads.size;
  }

  /** Marks what the decisions of a commit changed. */
  noteTouched(commit: Commit): void {
    for (const row of commit.touchedSyncs.values()) this.#ids.add(row.sync_id);
    commit.touchedSyncs.clear();
    for (const row of commit.touchedSyncSources.values()) this.#noteSource(row);
    commit.touchedSyncSources.clear();
    for (const name of commit.publishedSyncs) this.#spread([isNamed(name), LIVING]);
    commit.publishedSyncs.clear();
  }

  /** Marks everything that may have been left undone. */
  async sweep(commit: Commit): Promise<void> {
    const isFirst = !this.isSwept;
    const find = (rows: Rows): string[] => [
      ...unfinishedSyncs(rows, PAGE),
      ...(isFirst ? unseenSyncs(rows, PAGE) : []),
    ];
    const { result } = await commit.decide(
      (rows) => ({ events: [], result: find(rows) }),
      ENGINE_CAUSE,
    );
    for (const id of result) this.#ids.add(id);
    // Those that the last sweep has not come to yet must not wait behind the first ones again.
    if (!this.#spreads.has(nameOf([NOT_WHOLE]))) this.#spread([NOT_WHOLE]);
    const swept = isFirst ? NOTHING_SWEPT : this.#swept;
    const behind = await commit.decide(
      (rows) => ({ events: [], result: questionsBehind(rows, swept, PAGE) }),
      ENGINE_CAUSE,
    );
    for (const where of behind.result.questions) this.#spread(where);
    this.#swept = behind.result.swept;
    this.isSwept = true;
  }

  /** Whether there is anything for a sweep, looked up without the lock, some sources at a time. */
  async hasUnfinished(reader: Reader): Promise<boolean> {
    if (await hasRow(reader, [NOT_WHOLE])) return true;
    if ((await lookAt(reader, (rows) => unfinishedSyncs(rows, 1))).length > 0) return true;
    const { questions, swept } = await lookAt(reader, (rows) =>
      questionsBehind(rows, this.#swept, SOURCES_AT_ONCE),
    );
    for (const where of questions) if (await hasRow(reader, where)) return true;
    this.#swept = swept;
    return false;
  }

  /** Takes up to so many, with their rows and those of their sources loaded at once. */
  async take(commit: Commit, most: number): Promise<string[]> {
    if (this.#ids.size < most) await this.#lookUp(commit);
    const ids = [...this.#ids].slice(0, most);
    for (const id of ids) this.#ids.delete(id);
    if (ids.length > 1) {
      const need = (rows: Rows) => ({ events: [], result: needForSyncs(rows, ids) });
      await commit.decide(need, ENGINE_CAUSE);
    }
    return ids;
  }

  /** Puts back what was taken and could not be looked at any more. */
  putBack(ids: readonly string[]): void {
    for (const id of ids) this.#ids.add(id);
  }

  #noteSource({ name, source, rewrites }: SyncSourceRow): void {
    const own: Condition[] = [isNamed(name), { cell: "source", is: "=", value: source }];
    this.#spread([
      ...own,
      { cell: "state", is: "in", values: ["PENDING", "RUNNING", "FOLLOWING"] },
    ]);
    if (rewrites === 0) return;
    // What rests may lie above a fork.
    this.#spread([
      ...own,
      { cell: "state", is: "in", values: ["COMPLETE", "PAUSED"] },
      { cell: "rewrites_seen", is: "<", value: rewrites },
    ]);
  }

  #spread(where: readonly Condition[]): void {
    this.#spreads.set(nameOf(where), { where, after: "" });
  }

  /** Looks up a page of what is dirty for a common reason. */
  async #lookUp(commit: Commit): Promise<void> {
    for (const [name, { where, after }] of this.#spreads) {
      const { result } = await commit.decide((rows) => {
        const page: Condition[] = [...where, { cell: "sync_id", is: ">", value: after }];
        return { events: [], result: rows.syncs.find(page, [{ cell: "sync_id" }], PAGE) };
      }, ENGINE_CAUSE);
      for (const { sync_id } of result) this.#ids.add(sync_id);
      const last = result.at(-1);
      if (last === undefined || result.length < PAGE) this.#spreads.delete(name);
      else this.#spreads.set(name, { where, after: last.sync_id });
    }
  }
}

function nameOf(where: readonly Condition[]): string {
  return JSON.stringify(where);
}

async function hasRow(reader: Reader, where: readonly Condition[]): Promise<boolean> {
  const find = { table: TABLES.syncs, where, order: [{ cell: "sync_id" }], limit: 1 };
  return (await reader.find(find)).length > 0;
}

function isNamed(name: string): Condition {
  return { cell: "name", is: "=", value: name };
}

function needForSyncs(rows: Rows, ids: readonly string[]): null {
  rows.syncs.need(ids.map((id): Key => [id]));
  const sources = new Map<string, Key>();
  for (const id of ids) {
    const sync = rows.syncs.get(id);
    if (sync === null) continue;
    const key: Key = [sync.name, sync.source];
    sources.set(keyText(key), key);
  }
  rows.syncSources.need([...sources.values()]);
  return null;
}
