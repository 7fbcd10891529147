import { assert } from "../../kernel/errors.ts";
import type { Instant } from "../../kernel/instant.ts";
import type { AnyTable } from "../../kernel/table.ts";
import { assertContinuesHead } from "../ledger-head.ts";
import { ANSWERS, EVENT_TABLE, LEASES } from "../side-tables.ts";
import type { Flush, Head, TableChanges, Transaction, WorkspaceId } from "../store.ts";
import { type Connection, SQLITE } from "./connection.ts";
import { SqliteReader } from "./reader.ts";
import type { SqliteWriter } from "./writer.ts";

const MOVE_HEAD = "update heads set pos = ?, hash = ? where ws = ? and pos = ?";
const FORGET_CHECKPOINTS = "delete from checkpoints where ws = ? and run_pos = ?";
const FORGET_PROGRESS = "delete from progress where ws = ? and run_pos = ?";
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
    for (const runPos of flush.runsFinished) {
      this.connection.run(FORGET_CHECKPOINTS, [this.ws, runPos]);
      this.connection.run(FORGET_PROGRESS, [this.ws, runPos]);
    }
    const last = events.at(-1);
    if (last === undefined) return;
    const moved = this.connection.run(MOVE_HEAD, [last.pos, last.hash, this.ws, this.start.pos]);
    assert(moved === 1, `the head of workspace ${this.ws} is where the transaction found it`);
    this.#appendedPos = last.pos;
  }

  async clearRows(tables: readonly AnyTable[]): Promise<void> {
    this.assertOpen();
    for (const { name } of tables) {
      this.connection.run(`delete from ${SQLITE.table(name)} where ws = ?`, [this.ws]);
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
