import type { Rows } from "../core/rows/rows.ts";
import type { SyncRow, SyncSourceRow } from "../core/rows/sync-rows.ts";
import { type Condition, type Key, keyText } from "../core/rows/table.ts";
import { TABLES } from "../core/rows/tables.ts";
import type { Reader } from "../store/store.ts";
import { type Commit, ENGINE_CAUSE, lookAt } from "./commit.ts";
import {
  NOT_WHOLE,
  NOTHING_SWEPT,
  questionsBehind,
  unfinishedSyncs,
  unseenSyncs,
} from "./unfinished-syncs.ts";

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
    for (const row of commit.touchedSyncs.values()) this.#ids.add((row as SyncRow).sync_id);
    commit.touchedSyncs.clear();
    for (const row of commit.touchedSyncSources.values()) this.#noteSource(row as SyncSourceRow);
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
    if (await isAny(reader, [NOT_WHOLE])) return true;
    if ((await lookAt(reader, (rows) => unfinishedSyncs(rows, 1))).length > 0) return true;
    const { questions, swept } = await lookAt(reader, (rows) =>
      questionsBehind(rows, this.#swept, SOURCES_AT_ONCE),
    );
    for (const where of questions) if (await isAny(reader, where)) return true;
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

async function isAny(reader: Reader, where: readonly Condition[]): Promise<boolean> {
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
