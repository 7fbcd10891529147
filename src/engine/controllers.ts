import type { Instant } from "../kernel/instant.ts";
import type { Reader } from "../store/store.ts";
import { type Commit, CONTROLLED, ENGINE_CAUSE, STAGE_PARTS } from "./commit.ts";
import { isStoreFailure, reasonOf } from "./commit-loop.ts";
import type { Environment } from "./config.ts";
import { DirtyWork, type RowId } from "./dirty.ts";

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
    this.#noteTouched(commit);
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
      this.#noteTouched(commit);
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

  #noteTouched(commit: Commit): void {
    for (const kind of this.#kinds) kind.noteTouched(commit);
    commit.clearTouched();
  }

  async #markUnfinished(commit: Commit): Promise<void> {
    for (const kind of this.#kinds) await kind.sweep(commit);
    for (const { dirty, id } of this.#poisoned.values()) dirty.add([id]);
    this.#sweep = false;
  }

  async #findNextRetry(commit: Commit): Promise<void> {
    const { result } = await commit.decide(
      (rows, { now }) => ({
        events: [],
        // What is due already and was not taken waits for a slot or a worker, not for the time.
        result: rows.tasks.find(
          [
            { cell: "state", is: "=", value: "RETRY_WAIT" },
            { cell: "retry_at", is: ">", value: now },
          ],
          [{ cell: "retry_at" }],
          1,
        )[0],
      }),
      ENGINE_CAUSE,
    );
    this.#nextRetryAt = result?.retry_at ?? null;
  }
}
