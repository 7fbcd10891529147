import { assert, PawlError } from "../../kernel/errors.ts";
import type { Instant } from "../../kernel/instant.ts";
import type { AnyTable } from "../../kernel/table.ts";
import { assertContinuesHead, decodeHead } from "../ledger-head.ts";
import { ANSWERS, EVENT_TABLE, LEASES } from "../side-tables.ts";
import type { Statement } from "../statements.ts";
import type {
  Flush,
  Head,
  TableChanges,
  TransactOptions,
  Transaction,
  WorkspaceId,
} from "../store.ts";
import { type Connection, POSTGRES, arrayText } from "./connection.ts";
import { PostgresReader } from "./reader.ts";
import type { StoreTime } from "./store-time.ts";
import { WriteStatement } from "./writer.ts";

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
