import type pg from "pg";
import { assert, PawlError } from "../../kernel/errors.ts";
import { epochMsOf, type Instant, instantOf } from "../../kernel/instant.ts";
import type { AnyRow, AnyTable, Key } from "../../kernel/table.ts";
import { assertContinuesHead, decodeHead } from "../ledger-head.ts";
import { encodeInto, type RowCodec, rowCodec, type StoredValue } from "../row-reader.ts";
import { ANSWERS, EVENT_TABLE, LEASES } from "../side-tables.ts";
import { insertInto, onConflictWriteOver, type Statement } from "../statements.ts";
import { SteadyClock } from "../steady-clock.ts";
import type {
  Flush,
  Head,
  TableChanges,
  Transaction,
  TransactOptions,
  WorkspaceId,
} from "../store.ts";
import {
  arrayText,
  arrayType,
  type Connection,
  joinedArray,
  joinedText,
  POSTGRES,
} from "./connection.ts";
import { isInGrid, keyParts, PostgresReader, rowsAmong } from "./reader.ts";
import { rowsOf } from "./side-rows.ts";

// The row is locked in a statement of its own, so that the next one sees what its last holder
// wrote. The outer select makes the clock be read after the lock is held.
const LOCK_HEAD = `
select pos, hash, fold_version, damage, pawl.instant(clock_timestamp())
from (select pos, hash, fold_version, damage from pawl.heads where ws = $1 for update) head`;

/** After this long without a word the server is told that the transaction is alive. */
const TOUCH_MS = 250;
const TOUCH = "select 1";

// Who holds a workspace and is silent may be frozen: others want it.
const BEGIN = "begin; set local idle_in_transaction_session_timeout = '2s'";
const BEGIN_PATIENTLY = "begin; set local idle_in_transaction_session_timeout = '20s'";

// Sent along, and run once the lock is held: it sees what the last holder wrote.
const LAST_EVENT_AT = `
select occurred_at
from pawl.events
where ws = $1
order by pos desc
limit 1`;

const SET_FOLD_VERSION = "update pawl.heads set fold_version = $2 where ws = $1";

/** Locks the workspace and begins a transaction: one round trip. */
export async function beginTransaction(
  connection: Connection,
  ws: WorkspaceId,
  time: StoreTime,
  { isPatient = false }: TransactOptions,
): Promise<PostgresTransaction> {
  const askedMs = time.asked();
  const [, [row], [last]] = await Promise.all([
    connection.execute(isPatient ? BEGIN_PATIENTLY : BEGIN),
    connection.rows(LOCK_HEAD, [ws]),
    connection.rows(LAST_EVENT_AT, [ws]),
  ]);
  const start = decodeHead(ws, row ?? []);
  if (last !== undefined) time.atLeast(String(last[0]));
  return new PostgresTransaction(connection, ws, start, time.at(String(row?.[4]), askedMs));
}

/**
 * The inside of a commit. A flush is held back until the commit or the next read: so both go out
 * together, and the workspace is locked for one round trip less.
 */
export class PostgresTransaction extends PostgresReader implements Transaction {
  readonly start: Head;
  readonly now: Instant;
  #flushed = false;
  #heldBack: Statement | null = null;
  #appendedPos: number | null = null;

  constructor(connection: Connection, ws: WorkspaceId, start: Head, now: Instant) {
    super(connection, ws);
    this.start = start;
    this.now = now;
  }

  /** The newest position that this transaction gave, or null when it appended nothing. */
  get appendedPos(): number | null {
    return this.#appendedPos;
  }

  async touch(): Promise<void> {
    this.assertOpen();
    if (this.connection.quietMs() >= TOUCH_MS) await this.connection.execute(TOUCH);
  }

  async flush(flush: Flush): Promise<void> {
    this.assertOpen();
    assert(!this.#flushed, "a transaction flushes at most once");
    this.#flushed = true;
    assertContinuesHead(this.start, flush.events);
    this.#heldBack = flushStatement(this.ws, this.start, flush);
    this.#appendedPos = flush.events.at(-1)?.pos ?? null;
  }

  async clearRows(tables: readonly AnyTable[]): Promise<void> {
    await this.settle();
    for (const { name } of tables) {
      const sql = `delete from ${POSTGRES.table(name)} where ws = $1`;
      await this.connection.rows(sql, [this.ws]);
    }
  }

  async writeRows(changes: readonly TableChanges[]): Promise<void> {
    await this.settle();
    const writes = new WriteStatement(this.ws);
    for (const change of changes) writes.addChanges(change);
    const statement = writes.build("1");
    if (statement !== null) await this.connection.rows(statement.sql, statement.parameters);
  }

  async setFoldVersion(version: number): Promise<void> {
    await this.settle();
    await this.connection.rows(SET_FOLD_VERSION, [this.ws, version]);
  }

  /** Makes everything durable, or throws and nothing is written. */
  async commit(): Promise<void> {
    const statement = this.#heldBack;
    this.#heldBack = null;
    const written =
      statement === null ? null : this.connection.rows(statement.sql, statement.parameters);
    const committed = this.connection.execute("commit");
    // PostgreSQL answers the commit of a failed transaction with a rollback, not with an error.
    const [write, commit] = await Promise.allSettled([written, committed]);
    if (write.status === "rejected") throw write.reason;
    if (commit.status === "rejected") throw commit.reason;
    if (commit.value !== "COMMIT") {
      throw new PawlError("STORE_UNAVAILABLE", "PostgreSQL rolled the transaction back.");
    }
  }

  protected override async settle(): Promise<void> {
    await super.settle();
    const statement = this.#heldBack;
    this.#heldBack = null;
    if (statement !== null) await this.connection.rows(statement.sql, statement.parameters);
  }
}

function flushStatement(ws: WorkspaceId, start: Head, flush: Flush): Statement | null {
  const { events, changes, leasesGranted, leasesReleased, answers, runsFinished } = flush;
  const writes = new WriteStatement(ws);
  writes.addChanges({ table: EVENT_TABLE, inserted: events, updated: [], deleted: [] });
  for (const change of changes) writes.addChanges(change);
  const released = leasesReleased.map((leaseId) => [leaseId]);
  writes.addChanges({ table: LEASES, inserted: [], updated: leasesGranted, deleted: released });
  writes.addChanges({ table: ANSWERS, inserted: answers, updated: [], deleted: [] });
  if (runsFinished.length > 0) {
    for (const table of ["checkpoints", "progress"]) {
      writes.add(
        (first) => `delete from pawl.${table} where ws = $1 and run_pos = any($${first}::bigint[])`,
        [arrayText(runsFinished)],
      );
    }
  }
  const last = events.at(-1);
  if (last === undefined) return writes.build("1");
  const head = writes.add(
    (first) =>
      `update pawl.heads set pos = $${first}, hash = $${first + 1}\n` +
      `where ws = $1 and pos = $${first + 2}\nreturning pawl.announce(ws, pos)`,
    [last.pos, last.hash, start.pos],
  );
  return writes.build(`pawl.expect_rows((select count(*) from ${head}), 1)`);
}

/**
 * Collects writes into one statement, a part (`with … as (…)`) for each table and kind of write: a
 * round trip under the workspace lock is dearer than any of them. All parts see the database as it
 * was before, which is right because no two touch the same row.
 */
export class WriteStatement {
  readonly #parts: string[] = [];
  readonly #parameters: unknown[];

  constructor(ws: WorkspaceId) {
    this.#parameters = [ws];
  }

  /** Adds rows to insert, write over and delete. */
  addChanges({ table, inserted, updated, deleted }: TableChanges): void {
    if (deleted.length > 0) this.#addDelete(table, deleted);
    if (updated.length > 0) this.#addRows(table, updated, `\n${onConflictWriteOver(table)}`);
    if (inserted.length > 0) this.#addRows(table, inserted, "");
  }

  /** Adds any other write; its parameters are numbered from the one that `sql` is given. */
  add(sql: (first: number) => string, parameters: readonly unknown[]): string {
    const name = `part_${this.#parts.length + 1}`;
    this.#parts.push(`${name} as (\n${sql(this.#parameters.length + 1)}\n)`);
    this.#parameters.push(...parameters);
    return name;
  }

  /** The statement, which selects `result`; null when there is nothing to write. */
  build(result: string): Statement | null {
    if (this.#parts.length === 0) return null;
    const sql = `with ${this.#parts.join(",\n")}\nselect ${result}`;
    return { sql, parameters: this.#parameters };
  }

  #addRows(table: AnyTable, rows: readonly AnyRow[], conflict: string): void {
    const codec = rowCodec(table);
    const columns = columnsOf(codec, rows);
    const isText = (index: number): boolean => codec.kinds[index] !== "int";
    const joined = columns.map((column, index) => (isText(index) ? joinedText(column) : null));
    const isJoined = joined.every((text, index) => text !== null || !isText(index));
    this.add(
      (first) => {
        const arrays = codec.kinds.map((kind, index) => {
          const parameter = `$${first + index}`;
          if (isJoined && isText(index)) return joinedArray(parameter);
          return `${parameter}::${arrayType(kind)}`;
        });
        return (
          `${insertInto(POSTGRES, table)}\n` +
          `select $1::bigint, * from unnest(${arrays.join(", ")})${conflict}`
        );
      },
      columns.map((column, index) => (isJoined ? joined[index] : null) ?? arrayText(column)),
    );
  }

  #addDelete(table: AnyTable, keys: readonly Key[]): void {
    const parts = keyParts(table, keys);
    // All combinations may go only when they are just the keys: mostly so, as in all tasks of a run.
    const columns = parts.isGrid ? parts.distinct : parts.columns;
    const where = (first: number): string =>
      parts.isGrid
        ? isInGrid(table, first)
        : `ctid = any (array(select found.ctid from ${rowsAmong(table, first, "ctid")}))`;
    this.add(
      (first) => `delete from ${POSTGRES.table(table.name)}\nwhere ${where(first)}`,
      columns.map(arrayText),
    );
  }
}

/** The rows' values, cell by cell. */
function columnsOf(codec: RowCodec, rows: readonly AnyRow[]): StoredValue[][] {
  const width = codec.names.length;
  const values: StoredValue[] = Array.from<StoredValue>({ length: width }).fill(null);
  const columns: StoredValue[][] = Array.from({ length: width }, () => []);
  for (const row of rows) {
    encodeInto(values, 0, codec, row);
    for (let index = 0; index < width; index++) columns[index]?.push(values[index] ?? null);
  }
  return columns;
}

const NOW = "select pawl.instant(clock_timestamp()), (select seen_at from pawl.clock where id = 1)";
const NOTE_SEEN = `
insert into pawl.clock as known (id, seen_at)
values (1, $1)
on conflict (id) do update set seen_at = greatest(known.seen_at, excluded.seen_at)
returning seen_at`;

/** How old the note of the time may be: so much of it may come again after a restart. */
const NOTED_EVERY_MS = 5_000;

/**
 * The time of a store on PostgreSQL: that of the database's clock, but never before the newest event,
 * nor before what any server has seen, and it goes on while that clock is set back.
 */
export class StoreTime {
  readonly #pool: pg.Pool;
  readonly #steady: SteadyClock;
  #aheadMs = 0;
  #notedMs = Number.NEGATIVE_INFINITY;

  constructor(pool: pg.Pool, elapsedMs: () => number) {
    this.#pool = pool;
    this.#steady = new SteadyClock(elapsedMs);
  }

  /** How far the time is ahead of the database's clock, as last seen. */
  get aheadMs(): number {
    return this.#aheadMs;
  }

  /** Asks the database. */
  async now(): Promise<Instant> {
    const askedMs = this.asked();
    const [row] = await rowsOf(this.#pool, NOW, []);
    const [clock, seenAt] = row ?? [];
    if (typeof seenAt === "string") this.atLeast(seenAt);
    return this.at(String(clock), askedMs);
  }

  /** When the database is asked, to be told with its answer: how long that takes is no time of its clock. */
  asked(): number {
    return this.#steady.elapsedMs();
  }

  /** The time at which the database's clock says so, in the answer to what was asked then. */
  at(clock: Instant, askedMs: number): Instant {
    const clockMs = epochMsOf(clock);
    const ms = this.#steady.at(clockMs, askedMs);
    this.#aheadMs = ms - clockMs;
    return instantOf(ms);
  }

  /** It is at least so late. */
  atLeast(instant: Instant): void {
    this.#steady.atLeast(epochMsOf(instant));
  }

  /** Notes how late it is, now and then, beside something that was written. */
  async note(now: Instant): Promise<void> {
    const ms = epochMsOf(now);
    if (ms - this.#notedMs < NOTED_EVERY_MS) return;
    this.#notedMs = ms;
    const [row] = await rowsOf(this.#pool, NOTE_SEEN, [now]);
    if (row !== undefined) this.atLeast(String(row[0]));
  }
}
