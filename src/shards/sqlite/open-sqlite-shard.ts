import { PawlError } from "../../kernel/errors.ts";
import type { TablePolicy } from "../../work/shard/spec.ts";
import type { ShardKey } from "../../work/shard/step-protocol.ts";
import type {
  ApplyRequest,
  Digest,
  Fence,
  FenceStand,
  Guard,
  KeyRange,
  Position,
  ReadAnswer,
  ReadRequest,
  RemoveOptions,
  SequenceValue,
  Shard,
  StreamState,
  Survey,
  TableShape,
} from "../shard.ts";
import { apply } from "./apply.ts";
import * as capture from "./capture.ts";
import * as fences from "./tenants.ts";
import { install, take } from "./plans.ts";
import * as ranges from "./ranges.ts";
import { readSnapshot } from "./read.ts";
import { runDdl } from "./capture.ts";
import * as sequences from "./tenants.ts";
import { type FlushFile, SqliteTransactions } from "./connection.ts";
import * as streams from "./plans.ts";
import { refuseNullKeys, tableDetail } from "./table-detail.ts";
import { tenantProblem } from "./tenants.ts";

/** Where a shard is, and how long a lock in it may be waited for. */
export type SqliteShardOptions = {
  readonly file: string;
  readonly busyTimeoutMs?: number;
  /** How files are brought to the disk. */
  readonly flush?: FlushFile;
  /** Whether others use it over the network: they are not told where the file is. */
  readonly isServed?: boolean;
};

/** Opens a shard that is an SQLite file. Throws SHARD_UNREACHABLE when there is none. */
export async function openSqliteShard({
  file,
  busyTimeoutMs = 5_000,
  ...options
}: SqliteShardOptions): Promise<Shard> {
  const transactions = new SqliteTransactions(file, busyTimeoutMs, options);
  try {
    await transactions.read(() => null);
  } catch (error) {
    transactions.close();
    throw error;
  }
  return new SqliteShard(transactions);
}

class SqliteShard implements Shard {
  readonly engine = "sqlite";
  readonly #transactions: SqliteTransactions;
  /** Where the last removal from a range ended, so that the next need not pass over the rest again. */
  readonly #removedTo = new Map<string, ShardKey>();

  constructor(transactions: SqliteTransactions) {
    this.#transactions = transactions;
  }

  describe(tables: readonly TablePolicy[]): Promise<TableShape[]> {
    return this.#transactions.read((db) =>
      tables.map((policy) => {
        const detail = tableDetail(db, policy);
        refuseNullKeys(db, detail);
        return detail.shape;
      }),
    );
  }

  firingTriggers(tables: readonly TableShape[]): Promise<string[]> {
    return this.#transactions.read((db) =>
      tables.flatMap(({ table }) =>
        db.all(capture.USER_TRIGGERS, table).map(([name]) => String(name)),
      ),
    );
  }

  /** Foreign keys do not fire for what is copied, and changed rows are deleted before any is inserted. */
  obstacles(): Promise<string[]> {
    return Promise.resolve([]);
  }

  tenantProblem(tables: readonly TableShape[], tenants: readonly string[]): Promise<string | null> {
    return this.#transactions.read((db) => tenantProblem(db, tables, tenants));
  }

  async tryCapture(tables: readonly TableShape[]): Promise<string | null> {
    for (const table of tables) {
      const problem = await this.#transactions.tryOut((db) => capture.tryCapture(db, table));
      if (problem !== null) return `Changes of ${table.table} cannot be captured: ${problem}`;
    }
    return null;
  }

  install(): Promise<void> {
    return this.#transactions.write(install);
  }

  take(guard: Guard): Promise<void> {
    return this.#transactions.write((db) => take(db, guard));
  }

  armCapture(guard: Guard, tables: readonly TableShape[]): Promise<Position> {
    return this.#transactions.write((db) => capture.armCapture(db, guard, tables));
  }

  async disarmCapture(guard: Guard): Promise<void> {
    await this.#transactions.write((db) => capture.disarmCapture(db, guard));
    await this.#prune();
  }

  async position(): Promise<Position> {
    const read = await this.#transactions.readPosition((db) => ({
      position: capture.position(db),
    }));
    return read.position;
  }

  lag(from: Position): Promise<{ events: number; oldest_at: string | null }> {
    return this.#transactions.read((db) => capture.lag(db, from));
  }

  async release(guard: Guard, position: Position): Promise<number> {
    await this.#transactions.write((db) => capture.release(db, guard, position));
    return this.#prune();
  }

  read(request: ReadRequest): Promise<ReadAnswer> {
    // A position that is read up to was flushed when it was read.
    const { to = null } = request;
    return to === null
      ? this.#transactions.readPosition((db) => readSnapshot(db, request))
      : this.#transactions.read((db) => readSnapshot(db, request));
  }

  apply(request: ApplyRequest): Promise<void> {
    return this.#transactions.write((db) => apply(db, request));
  }

  loadStream(stream: string): Promise<StreamState | null> {
    return this.#transactions.read((db) => streams.loadStream(db, stream));
  }

  listStreams(plan: string): Promise<{ stream: string; state: StreamState }[]> {
    return this.#transactions.read((db) => streams.listStreams(db, plan));
  }

  dropStream(guard: Guard, stream: string): Promise<void> {
    return this.#transactions.write((db) => streams.dropStream(db, guard, stream));
  }

  digest(range: KeyRange): Promise<Digest & { position: Position }> {
    return this.#transactions.readPosition(async (db) => ({
      position: capture.position(db),
      ...(await ranges.digestOfRange(db, range)),
    }));
  }

  survey(range: KeyRange, rows: number, limit: number): Promise<Survey> {
    return this.#transactions.read((db) => ranges.survey(db, range, rows, limit));
  }

  tenantRows(range: KeyRange): Promise<Record<string, number>> {
    return this.#transactions.read((db) => ranges.tenantRows(db, range));
  }

  keyBounds(range: KeyRange): Promise<{ least: string; greatest: string } | null> {
    return this.#transactions.read((db) => ranges.keyBounds(db, range));
  }

  async remove(
    guard: Guard,
    range: KeyRange,
    { limit, expect, fences: stand = [] }: RemoveOptions,
  ): Promise<number | null> {
    if (expect !== null) {
      return this.#transactions.write((db) => {
        fences.requireFences(db, stand);
        return ranges.removeRange(db, guard, range, expect);
      });
    }
    const name = JSON.stringify({ ...range, table: range.table.table });
    const after = this.#removedTo.get(name) ?? null;
    const rest = after === null ? range : { ...range, from: null, after };
    const next = { guard, limit, stand, name };
    const removed = await this.#removeNext(rest, next);
    if (removed === limit || after === null) return removed;
    // The rest is gone; rows may have come to where it has been.
    this.#removedTo.delete(name);
    return removed + (await this.#removeNext(range, { ...next, limit: limit - removed }));
  }

  fences(tenants: readonly string[]): Promise<Fence[]> {
    return this.#transactions.read((db) => fences.fences(db, tenants));
  }

  setFences(guard: Guard, given: readonly Omit<Fence, "until">[]): Promise<void> {
    return this.#transactions.write((db) => fences.setFences(db, guard, given));
  }

  async closeFences(
    guard: Guard,
    tenants: readonly string[],
    { waitMs, holdMs }: { waitMs: number; holdMs: number },
  ): Promise<void> {
    try {
      await this.#transactions.write(
        (db) => fences.closeFences(db, guard, tenants, holdMs),
        waitMs,
      );
    } catch (error) {
      if (!(error instanceof PawlError) || error.code !== "SHARD_BUSY") throw error;
      throw new PawlError(
        "FENCE_BUSY",
        `A write under way did not end within ${waitMs} ms, so no fence was closed. Look for long transactions.`,
        { details: { tenants: [...tenants], wait_ms: waitMs }, cause: error },
      );
    }
  }

  holdFences(guard: Guard, tenants: readonly string[]): Promise<void> {
    return this.#transactions.write((db) => fences.holdFences(db, guard, tenants));
  }

  dropFences(guard: Guard, tenants: readonly string[]): Promise<void> {
    return this.#transactions.write((db) => fences.dropFences(db, guard, tenants));
  }

  sequences(tables: readonly TableShape[]): Promise<SequenceValue[]> {
    return this.#transactions.read((db) => sequences.sequences(db, tables));
  }

  advanceSequences(values: readonly SequenceValue[]): Promise<void> {
    return this.#transactions.write((db) => sequences.advanceSequences(db, values));
  }

  runDdl(guard: Guard, sql: string, tables: readonly TablePolicy[]): Promise<void> {
    return this.#transactions.write((db) => runDdl(db, guard, sql, tables));
  }

  /** Copies of a file are nothing that SQLite knows of. */
  replicationLagMs(): Promise<null> {
    return Promise.resolve(null);
  }

  close(): Promise<void> {
    this.#transactions.close();
    return Promise.resolve();
  }

  /** Looks for the next rows without holding the lock, then deletes those. */
  async #removeNext(
    range: KeyRange,
    next: { guard: Guard; limit: number; stand: readonly FenceStand[]; name: string },
  ): Promise<number> {
    const { guard, limit, stand, name } = next;
    const upTo = await this.#transactions.read((db) => ranges.lastOfNext(db, range, limit));
    const removed = await this.#transactions.write((db) => {
      fences.requireFences(db, stand);
      return ranges.removeRangeRows(db, guard, range, { limit, upTo });
    });
    if (upTo !== null && removed === limit) this.#removedTo.set(name, upTo);
    return removed;
  }

  async #prune(): Promise<number> {
    for (let total = 0; ; ) {
      const { deleted, more } = await this.#transactions.write(capture.prune);
      total += deleted;
      if (!more) return total;
    }
  }
}
