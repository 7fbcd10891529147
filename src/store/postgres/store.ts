import type pg from "pg";
import { PawlError } from "../../kernel/errors.ts";
import { GENESIS_HASH } from "../../work/envelope.ts";
import type { Instant } from "../../kernel/instant.ts";
import { ReadTurns } from "../read-turns.ts";
import { AppendListeners, Mutex } from "../store-lists.ts";
import { decodeNotes } from "../ledger-head.ts";
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
  TransactOptions,
  Transaction,
  VerifiedNote,
  Workspace,
  WorkspaceId,
} from "../store.ts";
import { AppendListener, connectionPool, withConnection } from "./connection.ts";
import * as logRows from "./log-rows.ts";
import * as probeRows from "./probe-rows.ts";
import { readHead, SnapshotReader } from "./reader.ts";
import * as sampleRows from "./side-rows.ts";
import { analyseMisjudged, applySchemaSteps } from "./schema.ts";
import * as secretRows from "./side-rows.ts";
import * as sideRows from "./side-rows.ts";
import * as sourceRows from "./probe-rows.ts";
import { beginTransaction, StoreTime } from "./transaction.ts";

const WORKSPACES = "select ws, tenant_id, workspace_id from pawl.workspaces";
const FIND_WORKSPACE = `${WORKSPACES} where tenant_id = $1 and workspace_id = $2`;
const LIST_WORKSPACES = `${WORKSPACES} order by ws`;
const MAKE_WORKSPACE = `
with made as (
  insert into pawl.workspaces (tenant_id, workspace_id)
  values ($1, $2)
  on conflict do nothing
  returning ws
)
insert into pawl.heads (ws, pos, hash, fold_version, verified_pos)
select ws, 0, $3, 0, 0 from made`;
const FIND_SECRET = "select secret from pawl.tenant_secrets where tenant_id = $1";
const MAKE_SECRET = `
insert into pawl.tenant_secrets (tenant_id, secret)
values ($1, $2)
on conflict do nothing`;
const FIND_NOTES = "select verified, damage, accepted from pawl.heads where ws = $1";
const SAVE_VERIFIED = "update pawl.heads set verified = $2 where ws = $1";
const MARK_DAMAGE = "update pawl.heads set damage = $2 where ws = $1";
const SAVE_ACCEPTED = "update pawl.heads set accepted = $2 where ws = $1";
const SERVER = `
select current_setting('server_version'), current_setting('server_encoding'), current_database()`;

const DURABILITY = `
select current_setting('fsync'), current_setting('full_page_writes'),
  current_setting('synchronous_commit')`;

/** How often settings that make writes durable, and what is believed of tables, are looked at. */
const LOOK_AROUND_MS = 5_000;

/** Reads of those who ask at a time, of all and of one of them; the other connections are for all else. */
const TURNS = 6;
const TURNS_EACH = 4;

/** How to open a store on a PostgreSQL server. */
export type PostgresOptions = {
  url: string;
  /** Take a server that may lose acknowledged writes on power failure. */
  unsafe?: boolean;
};

/**
 * Opens the store in a PostgreSQL database and brings its schema up to date.
 *
 * Throws `STORE_UNAVAILABLE`, `LEDGER_NEWER`, and `CONFIG_INVALID` for a server that may not be used.
 */
export async function openPostgresStore({ url, unsafe }: PostgresOptions): Promise<Store> {
  const pool = connectionPool(url);
  try {
    const server = await checkServer(pool, unsafe === true);
    await applySchemaSteps(pool, server.description);
    return new PostgresStore(pool, url, server);
  } catch (error) {
    await pool.end();
    throw error;
  }
}

/** What makes the server lose or damage what was acknowledged when the power fails; null if nothing. */
async function unsafeSetting(pool: pg.Pool): Promise<string | null> {
  const [row] = await sideRows.rowsOf(pool, DURABILITY, []);
  const [fsync, fullPageWrites, synchronousCommit] = (row ?? []).map(String);
  const isFlushed = synchronousCommit === "on" || synchronousCommit === "remote_apply";
  const unsafe = [
    ...(fsync === "on" ? [] : [`fsync = ${fsync}`]),
    ...(fullPageWrites === "on" ? [] : [`full_page_writes = ${fullPageWrites}`]),
    ...(isFlushed ? [] : [`synchronous_commit = ${synchronousCommit}`]),
  ];
  return unsafe.length === 0 ? null : `The server runs with ${unsafe.join(" and ")}.`;
}

type Server = { description: string; unsafe: string | null };

async function checkServer(pool: pg.Pool, takeUnsafe: boolean): Promise<Server> {
  const [row] = await sideRows.rowsOf(pool, SERVER, []);
  const [version, encoding, database] = (row ?? []).map(String);
  const description = `PostgreSQL ${version?.split(" ")[0]} (${database})`;
  if (encoding !== "UTF8") {
    throw new PawlError(
      "CONFIG_INVALID",
      `The database is encoded in ${encoding}. Make one with encoding UTF8.`,
    );
  }
  const unsafe = await unsafeSetting(pool);
  if (unsafe !== null && !takeUnsafe) {
    throw new PawlError(
      "CONFIG_INVALID",
      `${unsafe} It may lose work that was acknowledged. Set it to on, or start with --unsafe.`,
      { details: { unsafe } },
    );
  }
  return { description, unsafe };
}

/** A pool of connections; the head row of a workspace is the lock that its transactions take. */
class PostgresStore implements Store {
  readonly description: string;
  #unsafe: string | null;
  #lookDueMs = 0;
  readonly #pool: pg.Pool;
  readonly #readTurns = new ReadTurns(TURNS, TURNS_EACH);
  readonly #time: StoreTime;
  readonly #listeners = new AppendListeners();
  readonly #listener: AppendListener;
  /** One transaction of this process per workspace, so that waiting ones take no connection. */
  readonly #mutexes = new Map<WorkspaceId, Mutex>();
  #closed: Promise<void> | null = null;

  constructor(pool: pg.Pool, url: string, { description, unsafe }: Server) {
    this.#pool = pool;
    this.#time = new StoreTime(pool, () => performance.now());
    this.description = description;
    this.#unsafe = unsafe;
    this.#listener = new AppendListener(url, this.#listeners);
  }

  get unsafe(): string | null {
    return this.#unsafe;
  }

  async workspace(tenantId: string, workspaceId: string): Promise<Workspace> {
    const find = (): Promise<unknown[][]> =>
      sideRows.rowsOf(this.#pool, FIND_WORKSPACE, [tenantId, workspaceId]);
    let [row] = await find();
    if (row === undefined) {
      await sideRows.rowsOf(this.#pool, MAKE_WORKSPACE, [tenantId, workspaceId, GENESIS_HASH]);
      [row] = await find();
    }
    return decodeWorkspace(row ?? []);
  }

  async workspaces(): Promise<Workspace[]> {
    return (await sideRows.rowsOf(this.#pool, LIST_WORKSPACES, [])).map(decodeWorkspace);
  }

  transact<Result>(
    ws: WorkspaceId,
    body: (transaction: Transaction) => Promise<Result>,
    options: TransactOptions = {},
  ): Promise<Result> {
    return this.#mutexOf(ws).run(() =>
      withConnection(this.#pool, async (connection) => {
        try {
          const transaction = await beginTransaction(connection, ws, this.#time, options);
          const result = await body(transaction).finally(() => transaction.end());
          await transaction.commit();
          const pos = transaction.appendedPos;
          if (pos !== null) this.#listeners.appended(ws, pos);
          return result;
        } catch (error) {
          if (!connection.failed) await connection.execute("rollback");
          throw error;
        }
      }),
    );
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
    return withConnection(this.#pool, async (connection) => {
      // The snapshot is taken by the first look, which goes out together with the beginning.
      const [, head] = await Promise.all([
        connection.execute("begin isolation level repeatable read read only"),
        readHead(connection, ws),
      ]);
      const reader = new SnapshotReader(connection, ws, head);
      try {
        return await body(reader).finally(() => reader.end());
      } finally {
        if (!connection.failed) await connection.execute("commit");
      }
    });
  }

  renewLeases(ws: WorkspaceId, leaseIds: readonly string[], ttlMs: number): Promise<string[]> {
    return sideRows.renewLeases(this.#pool, ws, leaseIds, ttlMs, this.#time.aheadMs);
  }

  saveCheckpoints: Store["saveCheckpoints"] = (ws, holder, items) =>
    sideRows.saveCheckpoints(this.#pool, ws, holder, items);
  saveProgress: Store["saveProgress"] = (ws, holder, items) =>
    sideRows.saveProgress(this.#pool, ws, holder, items);
  appendLogs: Store["appendLogs"] = (ws, holder, lines, quota) =>
    logRows.appendLogs(this.#pool, ws, holder, lines, quota);
  logBytes: Store["logBytes"] = (ws) => logRows.logBytes(this.#pool, ws);
  pruneLogs: Store["pruneLogs"] = (ws, pruning) => logRows.pruneLogs(this.#pool, ws, pruning);

  checkpointBytes: Store["checkpointBytes"] = (ws) => sideRows.checkpointBytes(this.#pool, ws);

  addProbes(ws: WorkspaceId, probes: readonly NewProbe[]): Promise<void> {
    return probeRows.addProbes(this.#pool, ws, probes);
  }

  rescheduleProbes(
    ws: WorkspaceId,
    probes: readonly Pick<Probe, "probe_id" | "due_at">[],
  ): Promise<void> {
    return probeRows.rescheduleProbes(this.#pool, ws, probes);
  }

  leaseProbes(ws: WorkspaceId, claim: ProbeClaim): Promise<Probe[]> {
    return probeRows.leaseProbes(this.#pool, ws, claim, this.#time.aheadMs);
  }

  settleProbes(ws: WorkspaceId, ends: readonly ProbeEnd[]): Promise<boolean[]> {
    return probeRows.settleProbes(this.#pool, ws, ends);
  }

  renewProbes(ws: WorkspaceId, fences: readonly ProbeFence[], ttlMs: number): Promise<boolean[]> {
    return probeRows.renewProbes(this.#pool, ws, fences, ttlMs + this.#time.aheadMs);
  }

  removeProbes(ws: WorkspaceId, kinds: readonly ProbeKind[], subject: string): Promise<void> {
    return probeRows.removeProbes(this.#pool, ws, kinds, subject);
  }

  exchangeSources(
    ws: WorkspaceId,
    workerId: string,
    sources: readonly SourceUse[],
    usedWithinMs: number,
  ): Promise<SharedSource[]> {
    return sourceRows.exchangeSources(this.#pool, ws, workerId, sources, usedWithinMs);
  }

  learntSources(ws: WorkspaceId, usedWithinMs: number): Promise<LearntSource[]> {
    return sourceRows.learntSources(this.#pool, ws, usedWithinMs);
  }

  addSamples(ws: WorkspaceId, samples: readonly Sample[]): Promise<void> {
    return sampleRows.addSamples(this.#pool, ws, samples);
  }

  setSamples(ws: WorkspaceId, samples: readonly Sample[]): Promise<void> {
    return sampleRows.setSamples(this.#pool, ws, samples);
  }

  samples(ws: WorkspaceId, series: string, from: number, until: number): Promise<SamplePoint[]> {
    return sampleRows.samplesOf(this.#pool, ws, series, from, until);
  }

  pruneSamples(ws: WorkspaceId, before: number, limit: number): Promise<number> {
    return sampleRows.pruneSamples(this.#pool, ws, before, limit);
  }

  secrets(ws: WorkspaceId, kind: Secret["kind"], id: string): Promise<Secret[]> {
    return secretRows.secretsOf(this.#pool, ws, kind, id);
  }

  addSecret(ws: WorkspaceId, secret: Secret, previousExpireAt: Instant): Promise<void> {
    return secretRows.addSecret(this.#pool, ws, secret, previousExpireAt);
  }

  pruneAnswers(ws: WorkspaceId, before: Instant): Promise<number> {
    return sideRows.pruneAnswers(this.#pool, ws, before);
  }

  tokenByHash(secretHash: string): Promise<TokenRow | null> {
    return sideRows.tokenByHash(this.#pool, secretHash);
  }

  tokens(ws: WorkspaceId): Promise<TokenRow[]> {
    return sideRows.tokensOf(this.#pool, ws);
  }

  saveToken(token: TokenRow): Promise<void> {
    return sideRows.saveToken(this.#pool, token);
  }

  revokeToken(ws: WorkspaceId, tokenId: string): Promise<boolean> {
    return sideRows.revokeToken(this.#pool, ws, tokenId);
  }

  async tenantSecret(tenantId: string, fresh: string): Promise<string> {
    // Looked up in a statement of its own, which sees what a concurrent caller has made.
    await sideRows.rowsOf(this.#pool, MAKE_SECRET, [tenantId, fresh]);
    const [row] = await sideRows.rowsOf(this.#pool, FIND_SECRET, [tenantId]);
    return String(row?.[0]);
  }

  async ledgerNotes(ws: WorkspaceId): Promise<LedgerNotes> {
    const [row] = await sideRows.rowsOf(this.#pool, FIND_NOTES, [ws]);
    return decodeNotes(row ?? []);
  }

  saveVerified(ws: WorkspaceId, note: VerifiedNote): Promise<void> {
    return this.#saveNote(SAVE_VERIFIED, ws, note);
  }

  markDamage(ws: WorkspaceId, damage: Damage | null): Promise<void> {
    return this.#saveNote(MARK_DAMAGE, ws, damage);
  }

  saveAccepted(ws: WorkspaceId, faults: readonly AcceptedFault[]): Promise<void> {
    return this.#saveNote(SAVE_ACCEPTED, ws, faults);
  }

  async #saveNote(sql: string, ws: WorkspaceId, note: object | null): Promise<void> {
    await sideRows.rowsOf(this.#pool, sql, [ws, note === null ? null : JSON.stringify(note)]);
  }

  onAppend(listener: (ws: WorkspaceId, pos: number) => void): () => void {
    this.#listener.start();
    return this.#listeners.add(listener);
  }

  async now(): Promise<Instant> {
    const now = await this.#time.now();
    // Whoever looks for what is due asks often enough.
    await this.#time.note(now);
    await this.#lookAround();
    return now;
  }

  /** Settings change by a reload while the server runs, and tables grow: both are looked at again. */
  async #lookAround(): Promise<void> {
    if (performance.now() < this.#lookDueMs) return;
    this.#lookDueMs = performance.now() + LOOK_AROUND_MS;
    this.#unsafe = await unsafeSetting(this.#pool);
    await analyseMisjudged(this.#pool);
  }

  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  async #close(): Promise<void> {
    await this.#readTurns.ended();
    await this.#listener.close();
    await Promise.all([...this.#mutexes.values()].map((mutex) => mutex.run(async () => undefined)));
    await this.#pool.end();
  }

  #mutexOf(ws: WorkspaceId): Mutex {
    let mutex = this.#mutexes.get(ws);
    if (mutex === undefined) {
      mutex = new Mutex();
      this.#mutexes.set(ws, mutex);
    }
    return mutex;
  }
}

function decodeWorkspace([ws, tenantId, workspaceId]: readonly unknown[]): Workspace {
  return { ws: Number(ws), tenant_id: String(tenantId), workspace_id: String(workspaceId) };
}
