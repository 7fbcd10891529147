import { makePrivateDirectory, makePrivateFile } from "../make-directory.ts";
import { dirname, resolve } from "node:path";
import { present } from "../../kernel/errors.ts";
import { GENESIS_HASH } from "../../work/envelope.ts";
import { type Instant, addMs, instantOf } from "../../kernel/instant.ts";
import { AppendListeners, Mutex } from "../store-lists.ts";
import type {
  AcceptedFault,
  Damage,
  LearntSource,
  LedgerNotes,
  NewProbe,
  Probe,
  ProbeClaim,
  ProbeEnd,
  ProbeFence,
  ProbeKind,
  Reader,
  Sample,
  SamplePoint,
  Secret,
  SharedSource,
  SourceUse,
  Store,
  TokenRow,
  Transaction,
  VerifiedNote,
  Workspace,
  WorkspaceId,
} from "../store.ts";
import { ReadTurns } from "../read-turns.ts";
import { Checkpointer } from "./checkpointer.ts";
import { Connection, unwritable } from "./connection.ts";
import * as logRows from "./log-rows.ts";
import * as probeRows from "./probe-rows.ts";
import { ReaderPool, readHead, SqliteReader } from "./reader.ts";
import * as sampleRows from "./side-rows.ts";
import { applySchemaSteps } from "./schema.ts";
import * as secretRows from "./side-rows.ts";
import * as sideRows from "./side-rows.ts";
import * as sourceRows from "./probe-rows.ts";
import { SqliteTransaction, SqliteWriter, StoreTime } from "./transaction.ts";

const WORKSPACES = "select ws, tenant_id, workspace_id from workspaces";
const FIND_WORKSPACE = `${WORKSPACES} where tenant_id = ? and workspace_id = ?`;
const LIST_WORKSPACES = `${WORKSPACES} order by ws`;
const MAKE_WORKSPACE = `
insert into workspaces (tenant_id, workspace_id)
values (?, ?)
on conflict do nothing`;
const MAKE_HEAD = `
insert into heads (ws, pos, hash, fold_version, verified_pos)
values (?, 0, ?, 0, 0)
on conflict do nothing`;

/** How to open an embedded store. */
export type SqliteOptions = {
  /** The database file, or `:memory:` for one that lives as long as the store. */
  path: string;
  /** Milliseconds since the start of 1970. */
  clock: () => number;
  /** Milliseconds of a clock that nobody sets: how time goes on while the other is set back. */
  elapsedMs?: () => number;
  /** Hears of files that were open to other users of the machine. */
  warn?: (sentence: string) => void;
};

/**
 * Opens the store in a file, which it makes when there is none, and brings its schema up to date.
 *
 * Throws `STORE_CORRUPT`, `STORE_LOCKED`, `DATA_DIRECTORY_UNWRITABLE`, `LEDGER_NEWER`.
 */
export async function openSqliteStore(options: SqliteOptions): Promise<Store> {
  const { path, clock, elapsedMs = () => 0 } = options;
  const inMemory = path === ":memory:";
  const place = inMemory ? path : resolve(path);
  if (!inMemory) makeParent(place, options.warn);
  const connection = new Connection(place, { readonly: false });
  try {
    applySchemaSteps(connection, place, instantOf(clock()));
    const time = new StoreTime(connection, clock, elapsedMs);
    return new SqliteStore(connection, inMemory ? null : place, time);
  } catch (error) {
    connection.close();
    throw error;
  }
}

function makeParent(path: string, warn: SqliteOptions["warn"]): void {
  try {
    makePrivateDirectory(dirname(path), warn);
    // The files beside it get the mode that the database has.
    makePrivateFile(path);
  } catch (error) {
    throw unwritable(`The database ${path}`, { details: { path }, cause: error });
  }
}

/** Reads of those who ask at a time, of all and of one of them; there is a reader more for the engine. */
const TURNS = 3;
const TURNS_EACH = 2;

type SideWrite = { write: () => void; succeed: () => void; fail: (error: unknown) => void };

/**
 * One connection writes, behind a mutex; a few others read. In memory there is one connection only,
 * so there a read waits its turn like a transaction.
 */
class SqliteStore implements Store {
  readonly description: string;
  readonly unsafe: string | null;
  readonly #connection: Connection;
  readonly #writer: SqliteWriter;
  readonly #readers: ReaderPool | null;
  readonly #readTurns = new ReadTurns(TURNS, TURNS_EACH);
  readonly #checkpointer: Checkpointer | null;
  readonly #time: StoreTime;
  readonly #mutex = new Mutex();
  readonly #listeners = new AppendListeners();
  #sideWrites: SideWrite[] = [];
  #closed: Promise<void> | null = null;

  constructor(connection: Connection, path: string | null, time: StoreTime) {
    this.#connection = connection;
    connection.isOpen = true;
    this.#time = time;
    this.#writer = new SqliteWriter(connection);
    this.#readers = path === null ? null : new ReaderPool(path);
    this.#checkpointer = path === null ? null : new Checkpointer(connection, path);
    const version = connection.row("select sqlite_version()")?.[0];
    this.description = `SQLite ${String(version)} (${path ?? ":memory:"})`;
    this.unsafe = path === null ? "The store is in memory and ends with the process." : null;
  }

  async workspace(tenantId: string, workspaceId: string): Promise<Workspace> {
    const known = this.#plain.row(FIND_WORKSPACE, [tenantId, workspaceId]);
    if (known !== null) return decodeWorkspace(known);
    return this.#sideWrite(() => {
      this.#connection.run(MAKE_WORKSPACE, [tenantId, workspaceId]);
      const made = this.#connection.row(FIND_WORKSPACE, [tenantId, workspaceId]);
      const workspace = decodeWorkspace(present(made, "a workspace that was made is there"));
      this.#connection.run(MAKE_HEAD, [workspace.ws, GENESIS_HASH]);
      return workspace;
    });
  }

  async workspaces(): Promise<Workspace[]> {
    return this.#plain.rows(LIST_WORKSPACES).map(decodeWorkspace);
  }

  transact<Result>(
    ws: WorkspaceId,
    body: (transaction: Transaction) => Promise<Result>,
  ): Promise<Result> {
    return this.#mutex.run(async () => {
      this.#connection.begin();
      try {
        const start = readHead(this.#connection, ws);
        const now = this.#time.afterEvent(ws, start.pos);
        const transaction = new SqliteTransaction(this.#connection, this.#writer, ws, start, now);
        const result = await body(transaction).finally(() => transaction.end());
        this.#connection.commit();
        this.#checkpointer?.committed();
        const pos = transaction.appendedPos;
        if (pos !== null) this.#listeners.appended(ws, pos);
        return result;
      } finally {
        this.#connection.rollback();
      }
    });
  }

  read<Result>(
    ws: WorkspaceId,
    body: (reader: Reader) => Promise<Result>,
    asker: string | null = null,
  ): Promise<Result> {
    if (asker === null) return this.#read(ws, body);
    return this.#readTurns.run(asker, () => this.#read(ws, body));
  }

  #read<Result>(ws: WorkspaceId, body: (reader: Reader) => Promise<Result>): Promise<Result> {
    const readers = this.#readers;
    const look = (connection: Connection): Promise<Result> => {
      const reader = new SqliteReader(connection, ws);
      return body(reader).finally(() => reader.end());
    };
    // Nobody writes while it is a read's turn, so that one needs no snapshot.
    if (readers === null) return this.#mutex.run(() => look(this.#connection));
    return readers.use(async (connection) => {
      connection.run("begin");
      try {
        // SQLite takes its snapshot at the first look, not at `begin`.
        readHead(connection, ws);
        return await look(connection);
      } finally {
        connection.rollback();
      }
    });
  }

  renewLeases(ws: WorkspaceId, leaseIds: readonly string[], ttlMs: number): Promise<string[]> {
    return this.#sideWrite((now) => {
      return sideRows.renewLeases(this.#connection, ws, leaseIds, addMs(now, ttlMs));
    });
  }

  saveCheckpoints: Store["saveCheckpoints"] = (ws, holder, items) =>
    this.#sideWrite((now) => sideRows.saveCheckpoints(this.#connection, ws, holder, items, now));
  saveProgress: Store["saveProgress"] = (ws, holder, items) =>
    this.#sideWrite((now) => sideRows.saveProgress(this.#connection, ws, holder, items, now));
  appendLogs: Store["appendLogs"] = (ws, holder, lines, quota) =>
    this.#sideWrite((now) => logRows.appendLogs(this.#connection, ws, holder, lines, quota, now));
  logBytes: Store["logBytes"] = async (ws) => logRows.logBytes(this.#plain, ws);
  pruneLogs: Store["pruneLogs"] = (ws, pruning) =>
    this.#sideWrite(() => logRows.pruneLogs(this.#connection, ws, pruning));

  checkpointBytes: Store["checkpointBytes"] = (ws) =>
    this.#sideWrite(() => sideRows.checkpointBytes(this.#connection, ws));

  addProbes(ws: WorkspaceId, probes: readonly NewProbe[]): Promise<void> {
    return this.#sideWrite(() => probeRows.addProbes(this.#connection, ws, probes));
  }

  rescheduleProbes(
    ws: WorkspaceId,
    probes: readonly Pick<Probe, "probe_id" | "due_at">[],
  ): Promise<void> {
    return this.#sideWrite(() => probeRows.rescheduleProbes(this.#connection, ws, probes));
  }

  async leaseProbes(ws: WorkspaceId, claim: ProbeClaim): Promise<Probe[]> {
    // Looked for first beside the writer: when nothing is due, nobody waits for its turn.
    if (!probeRows.isAnyDue(this.#plain, ws, claim, this.#time.now())) return [];
    return this.#sideWrite((now) => probeRows.leaseProbes(this.#connection, ws, claim, now));
  }

  settleProbes(ws: WorkspaceId, ends: readonly ProbeEnd[]): Promise<boolean[]> {
    return this.#sideWrite(() => probeRows.settleProbes(this.#connection, ws, ends));
  }

  renewProbes(ws: WorkspaceId, fences: readonly ProbeFence[], ttlMs: number): Promise<boolean[]> {
    return this.#sideWrite((now) =>
      probeRows.renewProbes(this.#connection, ws, fences, addMs(now, ttlMs)),
    );
  }

  removeProbes(ws: WorkspaceId, kinds: readonly ProbeKind[], subject: string): Promise<void> {
    return this.#sideWrite(() => probeRows.removeProbes(this.#connection, ws, kinds, subject));
  }

  exchangeSources(
    ws: WorkspaceId,
    workerId: string,
    sources: readonly SourceUse[],
    usedWithinMs: number,
  ): Promise<SharedSource[]> {
    return this.#sideWrite((now) => {
      const connection = this.#connection;
      return sourceRows.exchangeSources(connection, ws, workerId, sources, usedWithinMs, now);
    });
  }

  async learntSources(ws: WorkspaceId, usedWithinMs: number): Promise<LearntSource[]> {
    const since = addMs(this.#time.now(), -usedWithinMs);
    return sourceRows.learntSources(this.#plain, ws, since);
  }

  addSamples(ws: WorkspaceId, samples: readonly Sample[]): Promise<void> {
    return this.#sideWrite(() => sampleRows.addSamples(this.#connection, ws, samples));
  }

  setSamples(ws: WorkspaceId, samples: readonly Sample[]): Promise<void> {
    return this.#sideWrite(() => sampleRows.setSamples(this.#connection, ws, samples));
  }

  async samples(
    ws: WorkspaceId,
    series: string,
    from: number,
    until: number,
  ): Promise<SamplePoint[]> {
    return sampleRows.samplesOf(this.#plain, ws, series, from, until);
  }

  pruneSamples(ws: WorkspaceId, before: number, limit: number): Promise<number> {
    return this.#sideWrite(() => sampleRows.pruneSamples(this.#connection, ws, before, limit));
  }

  async secrets(ws: WorkspaceId, kind: Secret["kind"], id: string): Promise<Secret[]> {
    return secretRows.secretsOf(this.#plain, ws, kind, id);
  }

  addSecret(ws: WorkspaceId, secret: Secret, previousExpireAt: Instant): Promise<void> {
    return this.#sideWrite(() => {
      secretRows.addSecret(this.#connection, ws, secret, previousExpireAt);
    });
  }

  pruneAnswers(ws: WorkspaceId, before: Instant): Promise<number> {
    return this.#sideWrite(() => sideRows.pruneAnswers(this.#connection, ws, before));
  }

  async tokenByHash(secretHash: string): Promise<TokenRow | null> {
    return sideRows.tokenByHash(this.#plain, secretHash);
  }

  async tokens(ws: WorkspaceId): Promise<TokenRow[]> {
    return sideRows.tokensOf(this.#plain, ws);
  }

  saveToken(token: TokenRow): Promise<void> {
    return this.#sideWrite(() => sideRows.saveToken(this.#connection, token));
  }

  revokeToken(ws: WorkspaceId, tokenId: string): Promise<boolean> {
    return this.#sideWrite((now) => sideRows.revokeToken(this.#connection, ws, tokenId, now));
  }

  tenantSecret(tenantId: string, fresh: string): Promise<string> {
    return this.#sideWrite(() => secretRows.tenantSecret(this.#connection, tenantId, fresh));
  }

  async ledgerNotes(ws: WorkspaceId): Promise<LedgerNotes> {
    return sideRows.ledgerNotes(this.#plain, ws);
  }

  saveVerified(ws: WorkspaceId, note: VerifiedNote): Promise<void> {
    return this.#sideWrite(() => sideRows.saveNote(this.#connection, ws, "verified", note));
  }

  markDamage(ws: WorkspaceId, damage: Damage | null): Promise<void> {
    return this.#sideWrite(() => sideRows.saveNote(this.#connection, ws, "damage", damage));
  }

  saveAccepted(ws: WorkspaceId, faults: readonly AcceptedFault[]): Promise<void> {
    return this.#sideWrite(() => sideRows.saveNote(this.#connection, ws, "accepted", faults));
  }

  onAppend(listener: (ws: WorkspaceId, pos: number) => void): () => void {
    return this.#listeners.add(listener);
  }

  async now(): Promise<Instant> {
    return this.#time.now();
  }

  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  async #close(): Promise<void> {
    await this.#readTurns.ended();
    await this.#mutex.run(async () => {
      await this.#checkpointer?.close();
      await this.#readers?.close();
      this.#connection.close();
    });
  }

  /**
   * For single look-ups outside a snapshot. In memory it is the writing connection: what is looked
   * up this way is written only by side writes, which never pause half-way.
   */
  get #plain(): Connection {
    return this.#readers?.plain ?? this.#connection;
  }

  /** Runs the write with all others that are waiting in one transaction: one sync serves them all. */
  #sideWrite<Result>(write: (now: Instant) => Result): Promise<Result> {
    return new Promise((succeed, fail) => {
      let result: Result;
      this.#sideWrites.push({
        write: () => {
          result = write(this.#time.now());
        },
        succeed: () => succeed(result),
        fail,
      });
      if (this.#sideWrites.length === 1) void this.#mutex.run(async () => this.#drain());
    });
  }

  #drain(): void {
    const writes = this.#sideWrites;
    this.#sideWrites = [];
    this.#writeTogether(writes);
  }

  #writeTogether(writes: readonly SideWrite[]): void {
    try {
      this.#connection.begin();
      for (const { write } of writes) write();
      this.#time.note();
      this.#connection.commit();
    } catch (error) {
      this.#connection.rollback();
      // One that cannot be written must not take the others with it.
      if (writes.length > 1) for (const write of writes) this.#writeTogether([write]);
      else for (const { fail } of writes) fail(error);
      return;
    }
    this.#checkpointer?.committed();
    for (const { succeed } of writes) succeed();
  }
}

function decodeWorkspace([ws, tenantId, workspaceId]: readonly unknown[]): Workspace {
  return { ws: Number(ws), tenant_id: String(tenantId), workspace_id: String(workspaceId) };
}
