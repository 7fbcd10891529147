import { assert } from "../kernel/errors.ts";
import type { Rows, RowSet } from "./rows.ts";
import {
  type AnyRow,
  type AnyTable,
  type Condition,
  compareRows,
  type Find,
  fulfils,
  type Key,
  type KeyPart,
  keyOf,
  keyText,
  type Order,
} from "../kernel/table.ts";
import { TABLES, type TableName } from "./tables.ts";

/** Thrown by pure code that reads what is not in memory: load it, then run the code again. */
export class RowsMissing {
  readonly keys: readonly { table: AnyTable; keys: readonly Key[] }[];
  readonly find: Find | null;

  constructor(keys: readonly { table: AnyTable; keys: readonly Key[] }[], find: Find | null) {
    this.keys = keys;
    this.find = find;
  }
}

/** What a row is found by in memory: a number for most keys of numbers, which is found sooner than a text. */
type RowName = string | number;

/** Rows of one parent that have numbers for names. */
const NUMBERED_PARTS = 1_024;

/** A row in memory: null when it is known to be absent. */
type Entry = {
  readonly key: Key;
  readonly name: RowName;
  row: AnyRow | null;
  /** Whether the database has a row under this key. */
  stored: boolean;
  changed: boolean;
};

/** What the database answered to a look-up, as it would answer now but for what was changed since the last commit. */
type Found = {
  readonly find: Find;
  readonly rows: readonly AnyRow[];
  /** Whether it was asked for since the last commit. */
  isUsed: boolean;
};

/** Answers of one table that are kept between two commits, the characters of what was asked, and the rows of each. */
const ANSWERS_KEPT_MAX = 20;
const ASKED_LENGTH_MAX = 4_000;
const ANSWER_ROWS_MAX = 1_000;

/** The rows of one table that are in memory, with what was changed since the last commit. */
class TableSet implements RowSet<AnyRow> {
  readonly table: AnyTable;
  readonly entries = new Map<RowName, Entry>();
  readonly changed: Entry[] = [];
  readonly #owner: WorkingSet;
  readonly #isNumbered: boolean;
  /** Answers of the database to look-ups, by what was asked. */
  readonly #found = new Map<string, Found>();
  /** The last look-up that missed its answer, with the text of what was asked. */
  #asked: { find: Find; name: string } | null = null;

  constructor(owner: WorkingSet, table: AnyTable) {
    this.#owner = owner;
    this.table = table;
    const { key, cells } = table;
    this.#isNumbered = key.length <= 2 && key.every((cell) => cells[cell] === "int");
  }

  /** The name of the row under a key. */
  nameOf(key: Key): RowName {
    if (!this.#isNumbered) return keyText(key);
    const first = Number(key[0]);
    if (key.length === 1) return first;
    const second = Number(key[1]);
    const name = first * NUMBERED_PARTS + second;
    const isDistinct = second >= 0 && second < NUMBERED_PARTS && Number.isSafeInteger(name);
    return isDistinct ? name : keyText(key);
  }

  get(...key: KeyPart[]): AnyRow | null {
    const entry = this.entries.get(this.nameOf(key));
    if (entry === undefined) throw new RowsMissing([{ table: this.table, keys: [key] }], null);
    return entry.row;
  }

  need(keys: readonly Key[]): void {
    const missing = keys.filter((key) => !this.entries.has(this.nameOf(key)));
    if (missing.length > 0) throw new RowsMissing([{ table: this.table, keys: missing }], null);
  }

  put(row: AnyRow): void {
    const key = keyOf(this.table, row);
    const entry = this.entries.get(this.nameOf(key));
    assert(
      entry !== undefined,
      () => `${this.table.name} ${keyText(key)} is read before it is written`,
    );
    this.#write(entry, row);
  }

  insert(row: AnyRow): void {
    const key = keyOf(this.table, row);
    const name = this.nameOf(key);
    const known = this.entries.get(name);
    assert(
      known === undefined || known.row === null,
      () => `${this.table.name} ${keyText(key)} is new`,
    );
    this.#write(known ?? { key, name, row: null, stored: false, changed: false }, row);
  }

  delete(...key: KeyPart[]): void {
    const name = this.nameOf(key);
    const known = this.entries.get(name);
    // Deleted without a look: it may be stored, so the database is told.
    this.#write(known ?? { key, name, row: null, stored: true, changed: false }, null);
  }

  find(where: readonly Condition[], order: readonly Order[], limit: number): AnyRow[] {
    const asked: Find = { table: this.table, where, order, limit };
    const name = JSON.stringify([where, order]);
    const found = this.#found.get(name);
    if (found === undefined || found.find.limit < limit) {
      this.#asked = { find: asked, name };
      throw new RowsMissing([], asked);
    }
    found.isUsed = true;
    const merged = this.#merge(found.rows, asked);
    const last = found.rows.length < found.find.limit ? undefined : found.rows.at(-1);
    if (last === undefined) return merged.slice(0, limit);
    // Beyond the last row that was read there may be stored rows that come before a changed one.
    const known = merged.findIndex((row) => compareRows(row, last, order) > 0);
    if ((known < 0 ? merged.length : known) < limit) {
      throw new RowsMissing([], { ...asked, limit: found.find.limit * 2 });
    }
    return merged.slice(0, limit);
  }

  /** Remembers what the database answered to a look-up. */
  answer(find: Find, rows: readonly AnyRow[]): void {
    const asked = this.#asked;
    const name = asked?.find === find ? asked.name : JSON.stringify([find.where, find.order]);
    this.#found.set(name, { find, rows, isUsed: true });
  }

  forgetAnswers(): void {
    this.#found.clear();
  }

  /**
   * The changes are about to be taken for stored: answers that left nothing out are kept as they would be
   * given then, if they were asked for; answers how many rows that are. Few are asked for in every commit.
   */
  keepAnswers(): number {
    const kept = [...this.#found].filter(([name, { find, rows, isUsed }]) => {
      const isWhole = rows.length < find.limit;
      const isSmall = rows.length <= ANSWER_ROWS_MAX && name.length <= ASKED_LENGTH_MAX;
      return isUsed && isWhole && isSmall;
    });
    this.#found.clear();
    let count = 0;
    for (const [name, { find, rows }] of kept.slice(0, ANSWERS_KEPT_MAX)) {
      const merged = this.#merge(rows, find);
      this.#found.set(name, { find, rows: merged, isUsed: false });
      count += merged.length;
    }
    return count;
  }

  #merge(rows: readonly AnyRow[], find: Find): AnyRow[] {
    const merged: AnyRow[] = [];
    for (const row of rows) {
      const entry = this.entries.get(this.nameOf(keyOf(this.table, row)));
      if (entry === undefined) merged.push(row);
      else if (!entry.changed && entry.row !== null) merged.push(entry.row);
    }
    let added = false;
    for (const entry of this.changed) {
      if (entry.row === null || !fulfils(entry.row, find)) continue;
      merged.push(entry.row);
      added = true;
    }
    if (added) merged.sort((a, b) => compareRows(a, b, find.order));
    return merged;
  }

  #write(entry: Entry, row: AnyRow | null): void {
    const isNew = !this.entries.has(entry.name);
    if (isNew) this.entries.set(entry.name, entry);
    if (this.#owner.isJournaling) {
      const { row: before, changed } = entry;
      this.#owner.journal.push({ set: this, entry, row: before, changed, isNew });
    }
    entry.row = row;
    if (!entry.changed) {
      entry.changed = true;
      this.changed.push(entry);
    }
  }
}

type Undo = {
  set: TableSet;
  entry: Entry;
  row: AnyRow | null;
  changed: boolean;
  /** Whether nothing was known of the row before: then nothing is known of it afterwards. */
  isNew: boolean;
};

/** Rows to be written, as a store takes them. */
export type SetChanges = {
  table: AnyTable;
  inserted: AnyRow[];
  updated: AnyRow[];
  deleted: Key[];
};

/** Most rows that stay in memory between two commits. */
const ROWS_KEPT_MAX = 100_000;
/** What a block counts, which has up to a hundred neighbours in it. */
const BLOCK_WEIGHT = 5;
const BLOCKS: ReadonlySet<AnyTable> = new Set([TABLES.taskBlocks, TABLES.partitionBlocks]);
/** What the key of a partition, and a character of the configuration, count in the row of a run. */
const KEY_WEIGHT = 1 / 10;
const CONFIG_WEIGHT = 1 / 1_000;

/**
 * The rows that are in memory, what has been changed in this transaction, and what the current
 * decision changed: `refuse` takes the latter back, `accept` keeps it, `takeChanges` hands all
 * that was kept to the store.
 */
export class WorkingSet {
  readonly journal: Undo[] = [];
  /** Whether changes can be taken back; a refold never does. */
  readonly isJournaling: boolean;
  readonly rows: Rows;
  readonly #sets = new Map<string, TableSet>();
  /** What the stored runs in memory weigh beyond other rows. */
  #runsWeight = 0;

  constructor(options: { journaling: boolean } = { journaling: true }) {
    this.isJournaling = options.journaling;
    const rows: Partial<Record<TableName, TableSet>> = {};
    for (const name of Object.keys(TABLES) as TableName[]) {
      const set = new TableSet(this, TABLES[name]);
      rows[name] = set;
      this.#sets.set(set.table.name, set);
    }
    this.rows = rows as unknown as Rows;
  }

  /** Whether the row is in memory, be it absent or present. */
  has(table: AnyTable, key: Key): boolean {
    const set = this.#set(table);
    return set.entries.has(set.nameOf(key));
  }

  /** Takes rows from the database into memory; keys without a row are known to be absent from now on. */
  loaded(table: AnyTable, keys: readonly Key[], rows: readonly AnyRow[]): void {
    const set = this.#set(table);
    const { entries } = set;
    for (const row of rows) {
      const key = keyOf(table, row);
      const name = set.nameOf(key);
      if (entries.has(name)) continue;
      entries.set(name, { key, name, row, stored: true, changed: false });
      if (table === TABLES.runs) this.#runsWeight += weightOf(row);
    }
    for (const key of keys) {
      const name = set.nameOf(key);
      if (entries.has(name)) continue;
      entries.set(name, { key, name, row: null, stored: false, changed: false });
    }
  }

  /** Takes the database's answer to a look-up into memory. */
  found(find: Find, rows: readonly AnyRow[]): void {
    this.#set(find.table).answer(find, rows);
  }

  /** The rows that the current decision changed, as they are now; one that it changed twice comes twice. */
  *touched(): Generator<{ table: AnyTable; row: AnyRow }> {
    for (const { set, entry } of this.journal) {
      if (entry.row !== null) yield { table: set.table, row: entry.row };
    }
  }

  /** Keeps what the current decision changed. */
  accept(): void {
    this.journal.length = 0;
  }

  /** Takes back what the current decision changed. */
  refuse(): void {
    for (let index = this.journal.length - 1; index >= 0; index--) {
      const undo = this.journal[index];
      if (undo === undefined) continue;
      undo.entry.row = undo.row;
      if (undo.isNew) undo.set.entries.delete(undo.entry.name);
      if (undo.entry.changed && !undo.changed) {
        undo.entry.changed = false;
        const { changed } = undo.set;
        // Changes are taken back in reverse order, so it is the last one.
        assert(changed[changed.length - 1] === undo.entry, "changes are taken back in order");
        changed.pop();
      }
    }
    this.journal.length = 0;
  }

  /** How many rows are changed. */
  get changedCount(): number {
    let count = 0;
    for (const { changed } of this.#sets.values()) count += changed.length;
    return count;
  }

  /** What the accepted decisions changed, each row once. */
  changes(): SetChanges[] {
    const all: SetChanges[] = [];
    for (const { table, changed } of this.#sets.values()) {
      if (changed.length === 0) continue;
      const changes: SetChanges = { table, inserted: [], updated: [], deleted: [] };
      for (const entry of changed) {
        if (entry.row === null) {
          if (entry.stored) changes.deleted.push(entry.key);
        } else if (entry.stored) changes.updated.push(entry.row);
        else changes.inserted.push(entry.row);
      }
      all.push(changes);
    }
    return all;
  }

  /** The changes are in the database. */
  committed(): void {
    let kept = 0;
    const blocks = this.#set(TABLES.partitionBlocks);
    // What this commit did not change is not about to change: neighbours are made together.
    for (const entry of blocks.entries.values()) {
      if (!entry.changed) blocks.entries.delete(entry.name);
    }
    for (const set of this.#sets.values()) {
      kept += set.keepAnswers();
      for (const entry of set.changed) {
        entry.changed = false;
        const wasStored = entry.stored;
        entry.stored = entry.row !== null;
        const isKept = entry.row !== null && !isSettled(set.table, entry.row);
        if (!isKept) set.entries.delete(entry.name);
        if (set.table !== TABLES.runs || isKept === wasStored) continue;
        // What a run weighs never changes, and runs are never deleted.
        this.#runsWeight += weightOf(entry.row) * (isKept ? 1 : -1);
      }
      set.changed.length = 0;
      kept += set.entries.size * (BLOCKS.has(set.table) ? BLOCK_WEIGHT : 1);
    }
    if (kept + this.#runsWeight > ROWS_KEPT_MAX) this.forget();
  }

  /** Forgets every row: somebody else wrote, or a commit failed. */
  forget(): void {
    for (const set of this.#sets.values()) {
      set.entries.clear();
      set.changed.length = 0;
    }
    this.forgetAnswers();
    this.#runsWeight = 0;
    this.journal.length = 0;
  }

  /** Forgets what look-ups answered. */
  forgetAnswers(): void {
    for (const set of this.#sets.values()) set.forgetAnswers();
  }

  #set(table: AnyTable): TableSet {
    const set = this.#sets.get(table.name);
    assert(set !== undefined, () => `${table.name} is a table of the fold`);
    return set;
  }
}

/** What the row of a run weighs beyond others. */
function weightOf(row: AnyRow | null): number {
  const keys = row?.["partition_keys"];
  const ofKeys = Array.isArray(keys) ? keys.length * KEY_WEIGHT : 0;
  return ofKeys + lengthOf(row?.["config"]) * CONFIG_WEIGHT;
}

/** Lengths of configurations, which all states of a run's row share. */
const LENGTHS = new WeakMap<object, number>();

function lengthOf(config: unknown): number {
  if (typeof config === "string") return config.length;
  if (typeof config !== "object" || config === null) return 0;
  const known = LENGTHS.get(config);
  if (known !== undefined) return known;
  const { length } = JSON.stringify(config);
  LENGTHS.set(config, length);
  return length;
}

const TERMINAL = new Set<unknown>(["SUCCEEDED", "FAILED", "CANCELLED", "SPLIT"]);

/** Rows that are unlikely to be read again soon, so that memory follows the active work. */
function isSettled(table: AnyTable, row: AnyRow): boolean {
  switch (table) {
    case TABLES.partitionMetadata:
    case TABLES.runKeys:
    case TABLES.requestKeys:
    case TABLES.dynamicKeys:
      return true;
    case TABLES.runs:
    case TABLES.chunks:
      return TERMINAL.has(row["state"]);
    case TABLES.segments:
    case TABLES.moveSegments:
      return row["run_pos"] === null;
    default:
      return false;
  }
}
