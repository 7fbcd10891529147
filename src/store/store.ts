import type { Json } from "../kernel/canonical.ts";
import type { Instant } from "../kernel/instant.ts";
import type { AnyRow, AnyTable, Condition, Find, Key, Table } from "../kernel/table.ts";
import type { EventFilter, RecordedEvent } from "../work/envelope.ts";
import type { Learnt } from "../work/probe-protocol.ts";

/** A workspace as the store numbers it; every table's key begins with it. */
export type WorkspaceId = number;

/** Who a workspace is. */
export type Workspace = { ws: WorkspaceId; tenant_id: string; workspace_id: string };

/** The end of a workspace's ledger. */
export type Head = {
  /** Position of the newest event; 0 when there is none. */
  pos: number;
  /** Hash of the newest event; 64 zeros when there is none. */
  hash: string;
  /** Version of the fold that wrote the rows. Older code may read, not append. */
  fold_version: number;
  /** What was found to be wrong: as long as it stands, nothing is appended. */
  damage: Damage | null;
};

/** What a check found to be wrong with a ledger or its rows. */
export type Damage = {
  /** The first bad position; null when it is rows that differ. */
  pos: number | null;
  /** The table whose rows are not what the ledger says. */
  table: string | null;
  /** For people: what is wrong, and what can be done about it. */
  reason: string;
  found_at: Instant;
};

/** A fault of the ledger that a person has accepted: exactly this one is passed over from then on. */
export type AcceptedFault = {
  pos: number;
  reason: string;
  fingerprint: string;
  accepted_at: Instant;
};

/** How far a ledger was really read, from its first event on, and found in order. */
export type VerifiedNote = {
  pos: number;
  /** Hash of the event there. */
  hash: string;
  /** Which types of events the code knew that read it. */
  types: string;
  /** Unknown events that say they are informational, and were passed over. */
  informational: number;
};

/** What is noted beside a ledger about its state. */
export type LedgerNotes = {
  verified: VerifiedNote | null;
  damage: Damage | null;
  accepted: readonly AcceptedFault[];
};

/** What a commit writes: all of it or nothing. */
export type Flush = {
  /** In order of pos, directly after the head. */
  events: readonly RecordedEvent[];
  /** The newest version of each changed row, once. */
  changes: readonly TableChanges[];
  /** A lease that is there already is written over. */
  leasesGranted: readonly Lease[];
  leasesReleased: readonly string[];
  answers: readonly Answer[];
  /** Runs that ended: their checkpoints and progress go. */
  runsFinished: readonly number[];
};

/** The changed rows of one table. */
export type TableChanges = {
  table: AnyTable;
  /** Known to be absent from the database: written by plain insert. */
  inserted: readonly AnyRow[];
  /** Present in the database: written over, but for the cells that are fixed. */
  updated: readonly AnyRow[];
  /** Deleting what is not there is not an error. */
  deleted: readonly Key[];
};

/** What one claim gave to a worker, and until when. A side row: losing it costs a re-execution. */
export type Lease = {
  lease_id: string;
  worker_id: string;
  granted_at: Instant;
  expires_at: Instant;
  tasks: readonly LeasedTask[];
};

/** One task under a lease. `attempt` is the fence. */
export type LeasedTask = {
  run_pos: number;
  task_key: number;
  attempt: number;
  deadline_at: Instant;
};

/** The stored answer to a request with an idempotency key; scope is principal and operation. */
export type Answer = {
  scope: string;
  key: string;
  body_hash: string;
  status: number;
  answer: Json;
  stored_at: Instant;
};

/**
 * What a probe is for: looking for a poll sensor, evaluating a message or a person's wish, telling,
 * looking up how far a source of syncs has got.
 */
export type ProbeKind = "poll" | "message" | "manual" | "notification" | "head";

/**
 * Something to be done outside of any run, and leased from its own row. A side row: what is lost is
 * made again from the rows of the ledger, or was only to be told.
 */
export type Probe = {
  probe_id: string;
  kind: ProbeKind;
  /** Whom it is about: the id of a sensor or of a webhook, the name of a sync. */
  subject: string;
  due_at: Instant;
  /** The fence: grows by one with each lease. */
  attempt: number;
  /** Until when somebody is at it; null when nobody is. */
  leased_until: Instant | null;
  /** Who has leased it last: the holder of a token; null for the server itself. */
  leased_by: string | null;
  /** What it remembers from one time to the next. */
  value: Json;
};

/** A probe as it begins: due, and never leased. */
export type NewProbe = Pick<Probe, "probe_id" | "kind" | "subject" | "due_at" | "value">;

/** Which probes to lease: of these kinds, and about these only when they are named. */
export type ProbeClaim = {
  kinds: readonly ProbeKind[];
  subjects: readonly string[] | null;
  limit: number;
  ttlMs: number;
  holder: string | null;
};

/** One lease on a probe. */
export type ProbeFence = Pick<Probe, "probe_id" | "attempt" | "leased_by">;

/** How a lease on a probe ended; without a due time the probe is gone. */
export type ProbeEnd = { probe_id: string; attempt: number; due_at: Instant | null; value: Json };

/** A secret that messages are signed with; several while one takes over from another. */
export type Secret = {
  kind: "sensor" | "webhook";
  id: string;
  secret: string;
  created_at: Instant;
  /** From when on it is no use; null while it is the current one. */
  expires_at: Instant | null;
};

/** A source that a worker uses, and what it learnt about it; null when it has nothing to add. */
export type SourceUse = { source: string; learnt: Learnt | null };

/** What all workers together know of a source, and how many use it. */
export type SharedSource = { source: string; learnt: Learnt; workers: number };

/** The same with the time at which it was learnt. */
export type LearntSource = SharedSource & { learnt_at: Instant };

/**
 * What a series came to within a bucket of ten seconds, which begins `at` seconds after the start of
 * 1970. A side row: it is only to be looked at.
 */
export type Sample = { series: string; at: number; value: number };

/** A bucket of a series: when it begins, and what it holds. */
export type SamplePoint = [at: number, value: number];

/** Rows in canonical form; the key of the last is null where there is none. */
export type RowTexts = { texts: string[]; lastKey: Key | null };

/** The value of a cell that is no document. */
export type CellValue = string | number | null;

/** A count of rows that share the values of some cells. */
export type GroupCount = { values: AnyRow; count: number };

/** Reads of one workspace, all of one snapshot. */
export interface Reader {
  head(): Promise<Head>;
  /** The rows that exist, in any order. */
  load<Row extends AnyRow>(table: Table<Row>, keys: readonly Key[]): Promise<Row[]>;
  find<Row extends AnyRow>(find: Find<Row>): Promise<Row[]>;
  /** As `find`, but only these cells, as arrays: for very many rows, best along an index of them. */
  findCells(find: Find, cells: readonly string[]): Promise<CellValue[][]>;
  /** The canonical texts of rows, as `canonicalJson` writes them, and the key of the last. */
  findTexts(find: Find): Promise<RowTexts>;
  countBy(
    table: AnyTable,
    where: readonly Condition[],
    cells: readonly string[],
  ): Promise<GroupCount[]>;
  events(filter: EventFilter): Promise<RecordedEvent[]>;
  /** The types of the events after a position, in any order. */
  eventTypes(after: number): Promise<string[]>;
  answer(scope: string, key: string): Promise<Answer | null>;
  lease(leaseId: string): Promise<Lease | null>;
  /** Leases in order of expiry. */
  leases(limit: number): Promise<Lease[]>;
  checkpoints(tasks: readonly { run_pos: number; task_key: number }[]): Promise<Checkpoint[]>;
  progress(runPos: number): Promise<Fenced<Progress & { at: Instant }>[]>;
  /** Log lines of a task in the order they came; `after` is the number of the last line seen. */
  logs(
    runPos: number,
    taskKey: number,
    after: number,
    limit: number,
  ): Promise<(LogLine & { line: number })[]>;
  /** Log lines of a run, task by task, each in the order they came. */
  runLogs(
    runPos: number,
    which: RunLogFilter,
    limit: number,
  ): Promise<(LogLine & { line: number })[]>;
  /** How much these runs have logged; none for those that have not. */
  runLogSizes(runPositions: readonly number[]): Promise<RunLogSize[]>;
  /** The probes that exist, in any order. */
  probes(probeIds: readonly string[]): Promise<Probe[]>;
  /** Probes of a kind, those due soonest first, behind one of them; about one subject only when it is named. */
  probesOf(
    kind: ProbeKind,
    subject: string | null,
    limit: number,
    after?: Pick<Probe, "due_at" | "probe_id"> | null,
  ): Promise<Probe[]>;
  /** A token of the workspace, also one that has ended. */
  token(tokenId: string): Promise<Omit<TokenRow, "ws"> | null>;
}

/** How a transaction is run: whether to wait longer than usual for a body that is at something else. */
export type TransactOptions = { isPatient?: boolean };

/** The inside of a commit: the workspace lock is held, rows are current. */
export interface Transaction extends Reader {
  /** The head at the time of locking. */
  readonly start: Head;
  /** The store's clock, read once after locking. */
  readonly now: Instant;
  /** Says, where the database wants to hear it, that the body goes on: to be called between long steps. */
  touch(): Promise<void>;
  /**
   * Writes everything, and the head after the last event. At most once in a transaction. Refuses
   * events with `LEDGER_CORRUPT` while the workspace is marked as damaged.
   */
  flush(flush: Flush): Promise<void>;
  /** Empties the tables that the fold writes: the beginning of a refold. */
  clearRows(tables: readonly AnyTable[]): Promise<void>;
  /** Writes rows without events: the steps of a refold. */
  writeRows(changes: readonly TableChanges[]): Promise<void>;
  setFoldVersion(version: number): Promise<void>;
}

/** An access token, by the hash of its secret part. */
export type TokenRow = {
  token_id: string;
  ws: WorkspaceId;
  principal: string;
  secret_hash: string;
  /** `read`, `write`, `work`, `admin`. */
  verbs: readonly string[];
  created_at: Instant;
  expires_at: Instant | null;
  revoked_at: Instant | null;
};

/**
 * Where the ledger and its rows live. One suite, `test/conformance`, says what every
 * implementation does; nothing above this layer knows which one it has.
 *
 * Failures of operation are `PawlError`: `STORE_UNAVAILABLE`, `STORE_LOCKED`, `STORE_CORRUPT`,
 * `LEDGER_NEWER`, `DATA_DIRECTORY_UNWRITABLE`.
 */
export interface Store extends SaidStore {
  /** For people: `SQLite 3.53 (/path/pawl.db)`. */
  readonly description: string;
  /** Why an acknowledged write may be lost on power failure, or null when it cannot. */
  readonly unsafe: string | null;
  /** Finds the workspace, or makes it. */
  workspace(tenantId: string, workspaceId: string): Promise<Workspace>;
  workspaces(): Promise<Workspace[]>;
  /**
   * Runs `body` under the workspace lock in one transaction and commits it, durably, before the
   * promise resolves. When `body` throws, nothing is written. A body that keeps the database waiting
   * may be ended for it, later when it is to be patient.
   */
  transact<Result>(
    ws: WorkspaceId,
    body: (transaction: Transaction) => Promise<Result>,
    options?: TransactOptions,
  ): Promise<Result>;
  /**
   * Runs `body` on one snapshot; it never waits for a transaction. With the name of who asks it waits
   * its turn among those who ask, who go round; of connections they leave some to all else.
   */
  read<Result>(
    ws: WorkspaceId,
    body: (reader: Reader) => Promise<Result>,
    asker?: string | null,
  ): Promise<Result>;

  // Side rows, without the workspace lock. The fence is checked in the statement that writes.
  /** Extends the leases that still exist to now + ttlMs, and says which those are. */
  renewLeases(ws: WorkspaceId, leaseIds: readonly string[], ttlMs: number): Promise<string[]>;
  /** Writes probes that are not there yet, and leaves those that are as they are. */
  addProbes(ws: WorkspaceId, probes: readonly NewProbe[]): Promise<void>;
  /** Makes probes due at a time, sooner or later than they were; what is leased stays leased. */
  rescheduleProbes(
    ws: WorkspaceId,
    probes: readonly Pick<Probe, "probe_id" | "due_at">[],
  ): Promise<void>;
  /** Leases probes that are due and free, soonest first, and adds one to their attempt. */
  leaseProbes(ws: WorkspaceId, claim: ProbeClaim): Promise<Probe[]>;
  /** Ends leases; answers per item whether the fence was current, even if the time had run out. */
  settleProbes(ws: WorkspaceId, ends: readonly ProbeEnd[]): Promise<boolean[]>;
  /** Keeps leases on probes for so long from now; answers which of them are still current. */
  renewProbes(ws: WorkspaceId, fences: readonly ProbeFence[], ttlMs: number): Promise<boolean[]>;
  /** Forgets all probes of these kinds about a subject, leased or not. */
  removeProbes(ws: WorkspaceId, kinds: readonly ProbeKind[], subject: string): Promise<void>;
  /**
   * Notes that a worker uses these sources, keeps what it learnt about them, and answers what is
   * known of each. Of a source that no sync has nothing is kept. Whoever has not used a source within
   * so many milliseconds is forgotten, and whoever has longest not when they are too many.
   */
  exchangeSources(
    ws: WorkspaceId,
    workerId: string,
    sources: readonly SourceUse[],
    usedWithinMs: number,
  ): Promise<SharedSource[]>;
  /** The sources about which something was learnt, with who used them within so many milliseconds. */
  learntSources(ws: WorkspaceId, usedWithinMs: number): Promise<LearntSource[]>;

  /** Adds to what buckets hold: what several servers count is counted together. */
  addSamples(ws: WorkspaceId, samples: readonly Sample[]): Promise<void>;
  /** Writes over what buckets hold: the last word is it. */
  setSamples(ws: WorkspaceId, samples: readonly Sample[]): Promise<void>;
  /** The buckets of a series that begin from a time on and before another, in order. */
  samples(ws: WorkspaceId, series: string, from: number, until: number): Promise<SamplePoint[]>;
  /** Drops the oldest buckets of those that begin before a time, so many at most; answers how many. */
  pruneSamples(ws: WorkspaceId, before: number, limit: number): Promise<number>;
  /** The secrets of a sensor or a webhook, newest first, also expired ones. */
  secrets(ws: WorkspaceId, kind: Secret["kind"], id: string): Promise<Secret[]>;
  /** Keeps a new secret; the ones before it expire at `previousExpireAt`, or earlier if they did. */
  addSecret(ws: WorkspaceId, secret: Secret, previousExpireAt: Instant): Promise<void>;

  /** Forgets stored answers older than this. */
  pruneAnswers(ws: WorkspaceId, before: Instant): Promise<number>;

  tokenByHash(secretHash: string): Promise<TokenRow | null>;
  tokens(ws: WorkspaceId): Promise<TokenRow[]>;
  saveToken(token: TokenRow): Promise<void>;
  /** Answers whether there was such a token. */
  revokeToken(ws: WorkspaceId, tokenId: string): Promise<boolean>;

  /** The tenant's secret for run ids: made by the first caller from `fresh`, then always the same. */
  tenantSecret(tenantId: string, fresh: string): Promise<string>;
  /** What checks of the ledger have found. */
  ledgerNotes(ws: WorkspaceId): Promise<LedgerNotes>;
  saveVerified(ws: WorkspaceId, note: VerifiedNote): Promise<void>;
  /** Marks the workspace as damaged, from the next transaction on; null takes the mark away. */
  markDamage(ws: WorkspaceId, damage: Damage | null): Promise<void>;
  /** Keeps what a person has accepted, in place of what was kept before. */
  saveAccepted(ws: WorkspaceId, faults: readonly AcceptedFault[]): Promise<void>;

  /**
   * Calls back, soon, after another process or this one appended to the workspace; answers a
   * function that ends it. SQLite hears only its own process.
   */
  onAppend(listener: (ws: WorkspaceId, pos: number) => void): () => void;
  /** The store's clock, without a lock. */
  now(): Promise<Instant>;
  close(): Promise<void>;
}

/** A value that a running attempt saves; refused when the fence has moved. */
export type Fenced<Value> = { run_pos: number; task_key: number; attempt: number } & Value;

/** Keeps what attempts say, of those that are current and that this holder claimed; answers which. */
type KeepSaid<Value> = (ws: WorkspaceId, holder: string, said: Said<Value>) => Kept;
type Said<Value> = readonly Fenced<Value>[];
type Kept = Promise<boolean[]>;

/** How many bytes of log lines a run may have, and the line that stands where more were dropped. */
export type LogQuota = {
  runBytesMax: number;
  /** The same with lines that end an attempt; as many as of others when it is left out. */
  endBytesMax?: number;
  notice: string;
};

/** A line for the log of a task. */
export type SaidLine = {
  message: string;
  fields: Json;
  /** The error that ends the attempt. */
  ends_attempt?: boolean | undefined;
};

/** What became of a log line: `dropped` when there was no room for it, `lost` by the fence. */
export type LineVerdict = "kept" | "dropped" | "lost";

/** Which log lines to drop: of ended runs, those first that began to log first. */
export type LogPruning = {
  /** Only of runs that have not logged since; null for all. */
  silentSince: Instant | null;
  /** Enough has gone with so many bytes; the log of the last run goes as a whole. */
  bytesEnough: number;
  linesMax: number;
};

/** How far an attempt got, by its own word. */
export type Progress = { done: number; total: number | null; note: string | null };

/** A kept checkpoint, and who saved it; null when that is not on record. */
export type Checkpoint = Fenced<{ value: Json; saved_at: Instant; holder: string | null }>;

/** The bytes of the checkpoints of a run that the holder of one token saved; nobody on record is "". */
export type CheckpointSize = { run_pos: number; holder: string; bytes: number };

/** Which log lines of a run: all where a part is null. */
export type RunLogFilter = {
  /** Those behind this one. */
  after: readonly [taskKey: number, line: number] | null;
  /** Ascending. */
  tasks: readonly number[] | null;
  /** Those since then. There is no index by time: all lines of the run, or of the tasks, are gone through. */
  since: Instant | null;
};

/** How much a run has logged: from when to when, what is kept, and how many lines were dropped. */
export type RunLogSize = {
  run_pos: number;
  began_at: Instant;
  last_at: Instant;
  bytes: number;
  dropped: number;
};

/** A line that a task logged. */
export type LogLine = Fenced<{ at: Instant; message: string; fields: Json }>;

/**
 * Where what tasks say is kept, beside the ledger and without its lock: a part of every store. The
 * fence is checked in the statement that writes.
 */
export interface SaidStore {
  saveCheckpoints: KeepSaid<{ value: Json }>;
  saveProgress: KeepSaid<Progress>;
  /** Keeps log lines within the run's quota; one line says, in each task's log, where it was cut. */
  appendLogs(
    ws: WorkspaceId,
    holder: string,
    lines: readonly Fenced<SaidLine>[],
    quota: LogQuota,
  ): Promise<LineVerdict[]>;
  /** The bytes of all kept log lines, as they count. */
  logBytes(ws: WorkspaceId): Promise<number>;
  /** Drops old log lines of ended runs, so many at most; answers how many, and the bytes they had. */
  pruneLogs(ws: WorkspaceId, pruning: LogPruning): Promise<{ lines: number; bytes: number }>;
  /** The bytes of all kept checkpoints, by run and by who saved them. */
  checkpointBytes(ws: WorkspaceId): Promise<CheckpointSize[]>;
}
