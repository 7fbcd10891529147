import { present } from "../kernel/errors.ts";
import type { Instant } from "../kernel/instant.ts";
import {
  type AnyRow,
  type AnyTable,
  afterRow,
  type Condition,
  type Order,
} from "../kernel/table.ts";
import type { Reader } from "../store/store.ts";
import type { ControlledWork, Question, WorkKind } from "../work/kind.ts";
import type { Rows } from "../work/rows.ts";
import { soonestRetry } from "../work/run/retries.ts";
import { TABLES } from "../work/tables.ts";
import {
  CONTROLLED,
  type Commit,
  type CommitPart,
  ENGINE_CAUSE,
  evaluateRows,
  STAGE_PARTS,
} from "./commit.ts";
import { isStoreFailure, reasonOf } from "./commit-loop.ts";
import type { Environment } from "./config.ts";

const WEIGHTS = CONTROLLED.reduce((sum, { work }) => sum + work.weight, 0);

/** A row that its controller failed on. */
type Poisoned = { dirty: DirtyWork; id: RowId; reason: string };

/**
 * Which work the controllers have to look at. What a commit changed is dirty; so is everything
 * unfinished after a start.
 */
export class Controllers {
  readonly #kinds = CONTROLLED.map(
    (kind) => new DirtyWork(kind, (STAGE_PARTS.controllers * kind.work.weight) / WEIGHTS),
  );
  readonly #poisoned = new Map<string, Poisoned>();
  #sweep = false;
  #nextRetryAt: Instant | null = null;

  hasDirty(): boolean {
    return this.#sweep || this.#dirty > 0;
  }

  get #dirty(): number {
    return this.#kinds.reduce((sum, { size }) => sum + size, 0);
  }

  /** Everything unfinished is to be looked at. */
  sweepAll(): void {
    this.#sweep = true;
  }

  /** A commit failed: what was taken for looked at in it was not. */
  lost(): void {
    for (const kind of this.#kinds) kind.lost();
    this.#sweep = true;
  }

  poisoned(): Record<string, string> {
    return Object.fromEntries([...this.#poisoned].map(([name, { reason }]) => [name, reason]));
  }

  /** The next time at which a task may be tried again, as of the last commit. */
  nextRetryAt(): Instant | null {
    return this.#nextRetryAt;
  }

  /** The next time at which work is due by the time alone, as of the last commit. */
  nextTickAt(): Instant | null {
    const times = this.#kinds.flatMap(({ dueAt }) => dueAt ?? []);
    return times.toSorted()[0] ?? null;
  }

  /** The next due time of each kind of work, passed or not, looked up without the lock. */
  async dueTimes(reader: Reader): Promise<(Instant | null)[]> {
    const times: (Instant | null)[] = [];
    for (const kind of this.#kinds) times.push(await kind.nextDueAt(reader));
    return times;
  }

  /** Whether any work is not finished when the ledger ends at a position, looked up without the lock. */
  async hasUnfinished(reader: Reader, pos: number): Promise<boolean> {
    if (this.#poisoned.size > 0) return true;
    for (const kind of this.#kinds) if (await kind.hasUnfinished(reader, pos)) return true;
    return false;
  }

  /** Marks what has fallen due; answers whether there may be more. */
  async findDue(commit: Commit): Promise<boolean> {
    let isMore = false;
    for (const kind of this.#kinds) isMore = (await kind.markDue(commit)) || isMore;
    return isMore;
  }

  /**
   * Lets the controllers add what follows from the rows, until they settle or one of them has filled
   * its part of the commit: what is left stays dirty for the next.
   */
  async run(commit: Commit, environment: Environment): Promise<void> {
    const isSweep = this.#sweep;
    if (isSweep) await this.#markUnfinished(commit);
    this.noteTouched(commit);
    const whole = commit.part(STAGE_PARTS.controllers);
    while (this.#dirty > 0 && !whole.isFull()) {
      if (await this.#pass(commit, environment)) break;
    }
    // A commit about none of these leaves the retries as they were.
    const mayHaveChanged =
      isSweep ||
      this.#nextRetryAt !== null ||
      commit.events.some(({ type }) => type === "TasksFinished" || type === "TaskLeaseExpired");
    if (mayHaveChanged) await this.#findNextRetry(commit);
    for (const kind of this.#kinds) await kind.findNextDue(commit);
  }

  /** Asks every controller about what is dirty; answers whether one of them left something. */
  async #pass(commit: Commit, environment: Environment): Promise<boolean> {
    let isCut = false;
    for (const kind of this.#kinds) {
      const look = (id: RowId): Promise<number> => this.#control(commit, environment, kind, id);
      isCut = (await kind.advance(commit, look)) || isCut;
      this.noteTouched(commit);
    }
    return isCut;
  }

  /** Answers how many events the controller added. */
  async #control(
    commit: Commit,
    environment: Environment,
    dirty: DirtyWork,
    id: RowId,
  ): Promise<number> {
    const { table } = dirty.work;
    const name = `${dirty.name} ${id}`;
    try {
      const { event_ids } = await commit.decide((rows, context) => {
        const row = rows[table].get(id);
        return { events: row === null ? [] : dirty.work.advance(rows, row, context), result: null };
      }, ENGINE_CAUSE);
      this.#poisoned.delete(name);
      return event_ids.length;
    } catch (error) {
      // A bug about one entity must not stop the others: it is shown, and tried again after a sweep.
      if (isStoreFailure(error)) throw error;
      const reason = reasonOf(error);
      this.#poisoned.set(name, { dirty, id, reason });
      environment.warn("a controller failed", { entity: name, reason });
      return 0;
    }
  }

  /** Marks what the decisions of a commit changed since that was last done. */
  noteTouched(commit: Commit): void {
    for (const kind of this.#kinds) kind.noteTouched(commit);
    commit.clearTouched();
  }

  async #markUnfinished(commit: Commit): Promise<void> {
    for (const kind of this.#kinds) await kind.sweep(commit);
    for (const { dirty, id } of this.#poisoned.values()) dirty.add([id]);
    this.#sweep = false;
  }

  async #findNextRetry(commit: Commit): Promise<void> {
    const { result } = await commit.decide((rows, { now }) => {
      const soonest = soonestRetry(rows);
      if (soonest === null || soonest > now) return { events: [], result: soonest };
      // What is due already and was not taken waits for a slot or a worker, not for the time.
      const where: Condition[] = [{ cell: "retry_at", is: ">", value: now }];
      const [next] = rows.taskRetries.find(where, [{ cell: "retry_at" }], 1);
      return { events: [], result: next?.retry_at ?? null };
    }, ENGINE_CAUSE);
    this.#nextRetryAt = result;
  }
}

/** Something that a controller lets go on. */
export type Controlled = Required<Pick<WorkKind, "name" | "work">>;

/** The id of a row: the one cell of its key. */
export type RowId = string | number;

/** How many sources of unfinished work are gone through at once while nothing else is to be done. */
const IDLE_LIMIT = 200;

/** Lets the controller look at one row; answers how many events it added. */
export type Look = (id: RowId) => Promise<number>;

/**
 * Which rows of one kind of work the controller has to look at: those that a commit changed, those
 * that fell due, and after a sweep everything unfinished. Level-triggered: looking once too often
 * changes nothing.
 */
export class DirtyWork {
  readonly name: string;
  readonly work: ControlledWork;
  readonly #share: number;
  readonly #table: AnyTable;
  readonly #idCell: string;
  readonly #ids = new Set<RowId>();
  /** Questions whose answers are dirty and not looked up yet, with the place where each goes on. */
  readonly #questions = new Map<string, { question: Question; after: AnyRow | null }>();
  /** How far the last sweep went; null when everything is to be gone through. */
  #swept: unknown = null;
  /** Where the ledger ended when nothing was left for a sweep. */
  #finishedPos: number | null = null;
  /** When the next row falls due, as of the last look. */
  #dueAt: Instant | null = null;
  #isDueMoved = true;

  /** `share` is the part of a commit that it may fill. */
  constructor({ name, work }: Controlled, share: number) {
    this.name = name;
    this.work = work;
    this.#share = share;
    this.#table = TABLES[work.table];
    this.#idCell = present(this.#table.key[0], "a table has a key");
  }

  get size(): number {
    return this.#ids.size + this.#questions.size;
  }

  /** When the next row has something to do by the time alone. */
  get dueAt(): Instant | null {
    return this.#dueAt;
  }

  /** A commit failed: what was taken for looked at in it was not. */
  lost(): void {
    this.#swept = null;
    this.#finishedPos = null;
    // What was taken of their answers is to be looked up again.
    for (const [name, { question }] of this.#questions) {
      this.#questions.set(name, { question, after: null });
    }
  }

  add(ids: Iterable<RowId>): void {
    for (const id of ids) this.#ids.add(id);
  }

  /** Marks what the decisions of a commit changed. */
  noteTouched(commit: Commit): void {
    const { due } = this.work;
    for (const row of commit.touched(this.work.table)) {
      this.add(this.work.changed?.(row, commit.now) ?? [this.#idOf(row)]);
      // One that is no longer due at the time that is known for the next is looked up when it comes.
      const cells: AnyRow = row;
      if (due !== undefined && cells[due.cell] !== null) this.#isDueMoved = true;
    }
    for (const cause of this.work.causes ?? []) {
      for (const row of commit.touched(cause.table)) this.#ask(...cause.questions(row));
    }
    for (const definition of commit.published) {
      const question = this.work.published?.(definition) ?? null;
      if (question !== null) this.#ask(question);
    }
  }

  /** Marks everything that may have been left undone. */
  async sweep(commit: Commit): Promise<void> {
    const { open, page } = this.work;
    // What the last sweep has not come to yet must not wait behind the first ones again.
    this.#ask(...open.filter((question) => !this.#questions.has(nameOf(question))));
    this.#isDueMoved = true;
    this.#finishedPos = null;
    if (this.work.unfinished === undefined) return;
    const { result } = await commit.decide(
      (rows) => ({ events: [], result: this.work.unfinished?.(rows, this.#swept, page) }),
      ENGINE_CAUSE,
    );
    if (result === undefined) return;
    this.add(result.keys);
    this.#ask(...result.questions);
    this.#swept = result.swept;
  }

  /** Whether there is anything for a sweep when the ledger ends at `pos`, looked up without the lock. */
  async hasUnfinished(reader: Reader, pos: number): Promise<boolean> {
    if (this.#finishedPos === pos) return false;
    if (await this.#hasAnswer(reader, this.work.open)) return true;
    const look = (rows: Rows) => this.work.unfinished?.(rows, this.#swept, IDLE_LIMIT);
    const found = await evaluateRows(reader, look);
    if (found !== undefined) {
      if (found.keys.length > 0) return true;
      if (await this.#hasAnswer(reader, found.questions)) return true;
      const isAll = JSON.stringify(found.swept) === JSON.stringify(this.#swept);
      this.#swept = found.swept;
      if (!isAll) return false;
    }
    this.#finishedPos = pos;
    return false;
  }

  /** The next due time, passed or not, looked up without the lock. */
  async nextDueAt(reader: Reader): Promise<Instant | null> {
    const { due } = this.work;
    if (due === undefined) return null;
    const where: Condition[] = [...due.where, { cell: due.cell, is: "not null" }];
    const find = { table: this.#table, where, order: [{ cell: due.cell }], limit: 1 };
    const [next] = await reader.find(find);
    return (next?.[due.cell] as Instant | undefined) ?? null;
  }

  /** Marks what has fallen due; answers whether there may be more. */
  async markDue(commit: Commit): Promise<boolean> {
    const { due, table } = this.work;
    if (due === undefined) return false;
    const where = [...due.where, isDue(due.cell, commit.now)];
    const { result } = await commit.decide(
      (rows) => ({ events: [], result: rows[table].find(where, due.order, due.limit) }),
      ENGINE_CAUSE,
    );
    for (const row of result) this.#ids.add(this.#idOf(row));
    return result.length === due.limit;
  }

  /** Lets rows go on, as many as there is room for; answers whether some have to wait for the next commit. */
  async advance(commit: Commit, look: Look): Promise<boolean> {
    if (this.size === 0) return false;
    const part = commit.part(this.#share);
    const rowsBefore = commit.rowsWritten;
    const ids = await this.#take(commit);
    for (const [index, id] of ids.entries()) {
      const rows = commit.rowsWritten - rowsBefore;
      if (index > 0 && (part.isFull() || rows > (this.work.rowsMost ?? Infinity))) {
        this.add(ids.slice(index));
        return true;
      }
      await this.#settle(commit, look, id);
    }
    return this.#isCut(part);
  }

  /** Whether something is left that this commit does not come to. */
  #isCut(part: CommitPart): boolean {
    const isMore = this.work.most !== undefined && this.#ids.size > 0;
    return part.isFull() || this.#questions.size > 0 || isMore;
  }

  /** Takes what is dirty, with its rows loaded at once. */
  async #take(commit: Commit): Promise<RowId[]> {
    const { most = Number.MAX_SAFE_INTEGER } = this.work;
    if (this.#ids.size < most) await this.#lookUp(commit);
    const ids = [...this.#ids].slice(0, most);
    for (const id of ids) this.#ids.delete(id);
    if (ids.length > 1 && this.work.need !== undefined) {
      const load = (rows: Rows) => ({
        events: [],
        result: this.work.need?.(rows, ids.map(String)),
      });
      await commit.decide(load, ENGINE_CAUSE);
    }
    return ids;
  }

  /** Lets one row go on until it has nothing to add. */
  async #settle(commit: Commit, look: Look, id: RowId): Promise<void> {
    const { rounds, repeats, table } = this.work;
    for (let round = 0; round < rounds; round++) {
      if ((await look(id)) > 0) continue;
      // Whatever changes it from here on makes it dirty again.
      if (this.work.changed === undefined) commit.untouch(table, id);
      return;
    }
    if (repeats === true) this.#ids.add(id);
  }

  /** Looks up the next time at which something falls due, where that may have changed. */
  async findNextDue(commit: Commit): Promise<void> {
    const { due, table } = this.work;
    if (due?.hasTimer !== true) return;
    // One that has passed was decided by another server, of which nothing is heard here.
    if (!this.#isDueMoved && (this.#dueAt === null || this.#dueAt > commit.now)) return;
    const where: Condition[] = [...due.where, { cell: due.cell, is: ">", value: commit.now }];
    const { result } = await commit.decide(
      (rows) => ({ events: [], result: rows[table].find(where, [{ cell: due.cell }], 1) }),
      ENGINE_CAUSE,
    );
    const [next] = result as readonly AnyRow[];
    this.#dueAt = (next?.[due.cell] as Instant | undefined) ?? null;
    this.#isDueMoved = false;
  }

  #ask(...questions: readonly Question[]): void {
    for (const question of questions) {
      this.#questions.set(nameOf(question), { question, after: null });
    }
  }

  /** Looks up a page of the answers to each question. */
  async #lookUp(commit: Commit): Promise<void> {
    const { table, page } = this.work;
    for (const [name, { question, after }] of this.#questions) {
      const order = this.#orderOf(question);
      const where = after === null ? question.where : [...question.where, afterRow(after, order)];
      const { result } = await commit.decide(
        (rows) => ({ events: [], result: rows[table].find(where, order, page) }),
        ENGINE_CAUSE,
      );
      this.add(result.map((row) => this.#idOf(row)));
      const last = result.at(-1);
      if (last === undefined || result.length < page) this.#questions.delete(name);
      else this.#questions.set(name, { question, after: last });
    }
  }

  async #hasAnswer(reader: Reader, questions: readonly Question[]): Promise<boolean> {
    for (const question of questions) {
      const find = {
        table: this.#table,
        where: question.where,
        order: this.#orderOf(question),
        limit: 1,
      };
      if ((await reader.find(find)).length > 0) return true;
    }
    return false;
  }

  #orderOf({ order }: Question): readonly Order[] {
    return order ?? [{ cell: this.#idCell }];
  }

  #idOf(row: AnyRow): RowId {
    return row[this.#idCell] as RowId;
  }
}

function nameOf(question: Question): string {
  return JSON.stringify(question);
}

function isDue(cell: string, now: Instant): Condition {
  return { cell, is: "<=", value: now };
}
