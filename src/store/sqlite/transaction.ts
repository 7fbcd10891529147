import { assert } from "../../kernel/errors.ts";
import { epochMsOf, type Instant, instantOf } from "../../kernel/instant.ts";
import type { AnyRow, AnyTable, Key, KeyPart } from "../../kernel/table.ts";
import { assertContinuesHead } from "../ledger-head.ts";
import { encodeInto, type RowCodec, rowCodec, type StoredValue } from "../row-reader.ts";
import { ANSWERS, EVENT_TABLE, LEASES } from "../side-tables.ts";
import { insertInto, keyEquals, onConflictWriteOver, quotedName } from "../statements.ts";
import { SteadyClock } from "../steady-clock.ts";
import type { Flush, Head, TableChanges, Transaction, WorkspaceId } from "../store.ts";
import { type Connection, type Prepared, SQLITE } from "./connection.ts";
import { keptText } from "./long-text.ts";
import { SqliteReader } from "./reader.ts";

const MOVE_HEAD = "update heads set pos = ?, hash = ? where ws = ? and pos = ?";
const OF_RUNS = "ws = ? and run_pos in (select value from json_each(?))";
const FORGET_CHECKPOINTS = `delete from checkpoints where ${OF_RUNS}`;
const FORGET_PROGRESS = `delete from progress where ${OF_RUNS}`;
const OTHER_WORKSPACE = "select ws from workspaces where ws <> ? limit 1";
const SET_FOLD_VERSION = "update heads set fold_version = ? where ws = ?";

/** The inside of a commit, over the one connection that writes. */
export class SqliteTransaction extends SqliteReader implements Transaction {
  readonly start: Head;
  readonly now: Instant;
  readonly #writer: SqliteWriter;
  #flushed = false;
  #appendedPos: number | null = null;

  constructor(
    connection: Connection,
    writer: SqliteWriter,
    ws: WorkspaceId,
    start: Head,
    now: Instant,
  ) {
    super(connection, ws);
    this.#writer = writer;
    this.start = start;
    this.now = now;
  }

  /** The newest position that this transaction gave, or null when it appended nothing. */
  get appendedPos(): number | null {
    return this.#appendedPos;
  }

  /** SQLite waits for its one process as long as that takes. */
  async touch(): Promise<void> {
    this.assertOpen();
  }

  async flush(flush: Flush): Promise<void> {
    this.assertOpen();
    assert(!this.#flushed, "a transaction flushes at most once");
    this.#flushed = true;
    const { events, leasesGranted, leasesReleased, answers } = flush;
    assertContinuesHead(this.start, events);
    this.#writer.write(this.ws, [
      { table: EVENT_TABLE, inserted: events, updated: [], deleted: [] },
      ...flush.changes,
      {
        table: LEASES,
        inserted: [],
        updated: leasesGranted,
        deleted: leasesReleased.map((leaseId) => [leaseId]),
      },
      { table: ANSWERS, inserted: answers, updated: [], deleted: [] },
    ]);
    if (flush.runsFinished.length > 0) {
      const ended = [this.ws, JSON.stringify(flush.runsFinished)];
      this.connection.run(FORGET_CHECKPOINTS, ended);
      this.connection.run(FORGET_PROGRESS, ended);
    }
    const last = events.at(-1);
    if (last === undefined) return;
    const moved = this.connection.run(MOVE_HEAD, [last.pos, last.hash, this.ws, this.start.pos]);
    assert(moved === 1, `the head of workspace ${this.ws} is where the transaction found it`);
    this.#appendedPos = last.pos;
  }

  async clearRows(tables: readonly AnyTable[]): Promise<void> {
    this.assertOpen();
    const isAlone = this.connection.row(OTHER_WORKSPACE, [this.ws]) === null;
    for (const { name } of tables) {
      // All rows of a table go at once, without a look at each.
      if (isAlone) this.connection.run(`delete from ${SQLITE.table(name)}`);
      else this.connection.run(`delete from ${SQLITE.table(name)} where ws = ?`, [this.ws]);
    }
  }

  async writeRows(changes: readonly TableChanges[]): Promise<void> {
    this.assertOpen();
    this.#writer.write(this.ws, changes);
  }

  async setFoldVersion(version: number): Promise<void> {
    this.assertOpen();
    this.connection.run(SET_FOLD_VERSION, [version, this.ws]);
  }
}

/** Rows of one statement: 24 at a time are 1.3 to 1.4 times as fast as one by one. */
const STATEMENT_ROWS = [24, 4, 1];

/** A prepared write of so many rows, with the array that carries its parameters. */
type RowsWrite = { size: number; statement: Prepared; parameters: StoredValue[] };

/** A prepared write of the cells of a row that may change, followed by its key and the workspace. */
type RowChange = { codec: RowCodec; statement: Prepared; parameters: StoredValue[] };

/** The prepared writes of one table. */
type TableWrites = {
  codec: RowCodec;
  inserts: RowsWrite[];
  /** Writes over rows as a whole, or the cells that may change of rows of which some never do. */
  upserts: RowsWrite[];
  change: RowChange | null;
  remove: { statement: Prepared; parameters: KeyPart[] };
};

/** Writes changed rows through prepared statements. */
export class SqliteWriter {
  readonly #connection: Connection;
  readonly #writes = new Map<string, TableWrites>();

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  /** Writes all changes; inserting a row that is there is a mistake and fails. */
  write(ws: WorkspaceId, changes: readonly TableChanges[]): void {
    this.#connection.guard(() => {
      for (const { table, inserted, updated, deleted } of changes) {
        const writes = this.#writesOf(table);
        // Removal comes first, so that a new row may take over a unique value of a removed one.
        if (deleted.length > 0) removeRows(writes, ws, deleted);
        if (updated.length > 0) updateRows(writes, ws, updated);
        if (inserted.length > 0) writeRows(writes.codec, writes.inserts, ws, inserted);
      }
    });
  }

  #writesOf(table: AnyTable): TableWrites {
    let writes = this.#writes.get(table.name);
    if (writes === undefined) {
      writes = tableWrites(this.#connection, table);
      this.#writes.set(table.name, writes);
    }
    return writes;
  }
}

function tableWrites(connection: Connection, table: AnyTable): TableWrites {
  const codec = rowCodec(table);
  const width = codec.names.length + 1;
  const tuple = `(${Array.from({ length: width }, () => "?").join(", ")})`;
  const rowsWrites = (conflict: string): RowsWrite[] =>
    STATEMENT_ROWS.map((size) => {
      const tuples = Array.from({ length: size }, () => tuple).join(", ");
      return {
        size,
        statement: connection.prepared(`${insertInto(SQLITE, table)}\nvalues ${tuples}${conflict}`),
        parameters: Array.from<StoredValue>({ length: size * width }).fill(null),
      };
    });
  return {
    codec,
    inserts: rowsWrites(""),
    upserts: rowsWrites(`\n${onConflictWriteOver(table)}`),
    change: (table.fixed ?? []).length === 0 ? null : rowChange(connection, table),
    remove: {
      statement: connection.prepared(
        `delete from ${SQLITE.table(table.name)}\nwhere ${keyEquals(SQLITE, table, 1)}`,
      ),
      parameters: [],
    },
  };
}

function writeRows(
  codec: RowCodec,
  writes: readonly RowsWrite[],
  ws: WorkspaceId,
  rows: readonly AnyRow[],
): void {
  const width = codec.names.length + 1;
  let next = 0;
  for (const { size, statement, parameters } of writes) {
    for (; rows.length - next >= size; next += size) {
      for (let index = 0; index < size; index++) {
        parameters[index * width] = ws;
        encodeKept(parameters, index * width + 1, codec, rows[next + index] as AnyRow);
      }
      statement.run(parameters);
    }
  }
}

function rowChange(connection: Connection, table: AnyTable): RowChange {
  const { name, key, fixed = [], long = [] } = table;
  const changing = Object.keys(table.cells).filter(
    (cell) => !key.includes(cell) && !fixed.includes(cell),
  );
  const cells = Object.entries(table.cells).toSorted(
    ([one], [other]) => Number(key.includes(one)) - Number(key.includes(other)),
  );
  const codec = rowCodec({
    name,
    key,
    cells: Object.fromEntries(cells.filter(([cell]) => !fixed.includes(cell))),
    long: long.filter((cell) => changing.includes(cell)),
  });
  const equals = (cell: string): string => `${quotedName(cell)} = ?`;
  const keys = codec.names.slice(changing.length);
  const sql =
    `update ${SQLITE.table(name)}\nset ${changing.map(equals).join(", ")}\n` +
    `where ${[...keys, "ws"].map(equals).join(" and ")}`;
  return { codec, statement: connection.prepared(sql), parameters: [] };
}

function updateRows(writes: TableWrites, ws: WorkspaceId, rows: readonly AnyRow[]): void {
  const { change } = writes;
  if (change === null) {
    writeRows(writes.codec, writes.upserts, ws, rows);
    return;
  }
  const { codec, statement, parameters } = change;
  parameters[codec.names.length] = ws;
  for (const row of rows) {
    encodeKept(parameters, 0, codec, row);
    // What was deleted without a look and made again in one commit may not have been there.
    if (statement.run(parameters).changes === 0) writeRows(writes.codec, writes.inserts, ws, [row]);
  }
}

/** As `encodeInto`, with long texts as they are kept. */
function encodeKept(values: StoredValue[], offset: number, codec: RowCodec, row: AnyRow): void {
  encodeInto(values, offset, codec, row);
  for (const at of codec.long) values[offset + at] = keptText(values[offset + at] ?? null);
}

function removeRows(
  { remove: { statement, parameters } }: TableWrites,
  ws: WorkspaceId,
  keys: readonly Key[],
): void {
  parameters[0] = ws;
  for (const key of keys) {
    for (let index = 0; index < key.length; index++) parameters[index + 1] = key[index] as KeyPart;
    statement.run(parameters);
  }
}

const FIND_SEEN = "select seen_at from clock where id = 1";
const NOTE_SEEN = `
insert into clock (id, seen_at)
values (1, ?)
on conflict (id) do update set seen_at = excluded.seen_at`;
const TOTAL_CHANGES = "select total_changes()";
const EVENT_AT = "select occurred_at from events where ws = ? and pos = ?";

/** How old the note of the time may be: so much of it may come again after a restart. */
const NOTED_EVERY_MS = 1_000;

/**
 * The time of an embedded store: never before its newest event, nor before what an earlier process
 * has seen. That is noted with what is written anyway, so it costs no write of its own.
 */
export class StoreTime {
  readonly #connection: Connection;
  readonly #clock: () => number;
  readonly #steady: SteadyClock;
  #notedMs: number;
  /** Rows that the connection had changed when the time was last noted. */
  #changes = 0;

  constructor(connection: Connection, clock: () => number, elapsedMs: () => number) {
    this.#connection = connection;
    this.#clock = clock;
    this.#steady = new SteadyClock(elapsedMs);
    const [seenAt] = connection.row(FIND_SEEN) ?? [];
    this.#notedMs = typeof seenAt === "string" ? epochMsOf(seenAt) : Number.NEGATIVE_INFINITY;
    this.#steady.atLeast(this.#notedMs);
  }

  now(): Instant {
    return instantOf(this.#steady.at(this.#clock()));
  }

  /** The time of a transaction that follows the event at a position. */
  afterEvent(ws: WorkspaceId, pos: number): Instant {
    const [at] = this.#connection.row(EVENT_AT, [ws, pos]) ?? [];
    if (typeof at === "string") this.#steady.atLeast(epochMsOf(at));
    return this.now();
  }

  /** Notes how late it is, at the end of a transaction that wrote something. */
  note(): void {
    const ms = this.#steady.at(this.#clock());
    if (ms - this.#notedMs < NOTED_EVERY_MS) return;
    const changes = this.#totalChanges();
    if (changes === this.#changes) return;
    this.#connection.run(NOTE_SEEN, [instantOf(ms)]);
    this.#notedMs = ms;
    this.#changes = this.#totalChanges();
  }

  #totalChanges(): number {
    return Number(this.#connection.row(TOTAL_CHANGES)?.[0]);
  }
}
