import type { ShardEngine, TablePolicy, Scope } from "../work/shard/spec.ts";
import type { ShardKey } from "../work/shard/step-protocol.ts";
import { PawlError } from "../kernel/errors.ts";

/*
 * One shard, whatever it is kept in. `conformance` in test/shards holds every driver to this page.
 *
 * Pawl's own objects in a shard are tables that begin with `_pawl_` (SQLite) or are in the schema
 * `_pawl` (PostgreSQL); `install` makes them and may be repeated. Failures of operation are
 * `PawlError`: SHARD_UNREACHABLE and SHARD_BUSY may pass, the others need a person.
 */

/** A place in the history of a shard's captured changes: an opaque text that the engine reads. */
export type Position = string;

/** What a table looks like: the same fingerprint means that rows of one fit the other. */
export type TableShape = {
  readonly table: string;
  readonly shard_by: string;
  /** In the order of the table; generated columns are left out. */
  readonly columns: readonly { readonly name: string; readonly type: string }[];
  /** Columns of the primary key, in its order. */
  readonly key: readonly string[];
  /** Other tables of the shard that its foreign keys name. */
  readonly references: readonly string[];
  readonly fingerprint: string;
};

/** Rows in the engine's own form, which only drivers of the same engine read. */
export type RowBatch = { readonly count: number; readonly bytes: number; readonly body: unknown };

/** One captured change of a row, or of the schema. */
export type RowChange = {
  /** Grows in the order in which changes of one row happened. */
  readonly id: string;
  readonly table: string;
  readonly op: "put" | "delete" | "ddl";
  readonly key: ShardKey;
  /** Whether the key is within what the cursor of the request has passed. */
  readonly covered: boolean;
  /** The row after the change, in the engine's own form; null for a deletion. */
  readonly image: unknown;
  /** Of a change of the schema: the statement, and the fingerprint of all tables after it. */
  readonly ddl: { readonly sql: string; readonly fingerprint: string } | null;
  readonly at: string;
};

/** How far a copy has got: tables before `table` are whole, of it what is up to `key`. */
export type StreamCursor = { readonly table: number; readonly key: ShardKey | null };

/**
 * The state of a stream, kept on the shard that it writes to, in one transaction with the rows. For
 * every key that the cursor has passed the target equals the source at `position`; keys beyond are
 * absent. While `reaching` is set, changes up to `after_id` of those between the two positions are
 * applied as well.
 */
export type StreamState = {
  readonly position: Position | null;
  readonly reaching: { readonly to: Position; readonly after_id: string } | null;
  readonly cursor: StreamCursor;
  readonly phase: "copy" | "tail";
  /** Rows copied, of all tables, in order. */
  readonly rows: readonly number[];
  /** The fingerprint of all tables that the rows were read with. */
  readonly fingerprint: string;
  /**
   * What was compared with the source since: tables before `table`, of it the keys below `below`,
   * all but what has changed after `from`; null when nothing was.
   */
  readonly verified: {
    readonly table: number;
    readonly below: ShardKey | null;
    readonly from: Position;
    /** Ranges and rows that were compared for it. */
    readonly ranges: number;
    readonly rows: number;
  } | null;
};

/** Who acts: every write that belongs to a plan carries the token of the step, and a lower one than the shard has seen is refused with COORDINATOR_STALE. */
export type Guard = { readonly plan: string; readonly token: number };

/** A range of a table's keys, as far as they are in scope: above `after`, from `from` on, below `below`. */
export type KeyRange = {
  readonly table: TableShape;
  readonly scope: Scope;
  readonly after?: ShardKey | null;
  readonly from?: ShardKey | null;
  readonly below?: ShardKey | null;
};

/** How many rows, and an order-independent digest of them. */
export type Digest = { readonly rows: number; readonly digest: string };

/** What is read from a source in one snapshot. */
export type ReadRequest = {
  readonly tables: readonly TableShape[];
  readonly scope: Scope;
  /** Changes after this position; null for none. */
  readonly from: Position | null;
  /** Up to this position instead of the present one. Only without a chunk. */
  readonly to?: Position | null;
  /** Of these changes, those with a greater id. */
  readonly after_id?: string | null;
  /** What `covered` is judged by; null covers all. */
  readonly cursor: StreamCursor | null;
  readonly changesMax: number;
  /** The next rows of a table, in the order of its key. */
  readonly chunk: (KeyRange & { readonly limit: number }) | null;
  /** Writes stand still until the answer is there: it may cost the shard more if it comes sooner. */
  readonly isAwaited?: boolean;
};

/** What one snapshot of a source had. */
export type ReadAnswer = {
  /** The snapshot's own position, or `to`. */
  readonly position: Position;
  /** Changes of rows in scope, in the order of their ids, and every change of the schema. */
  readonly changes: readonly RowChange[];
  /** The last id that was looked at, also of rows out of scope; null when there was none. */
  readonly through_id: string | null;
  /** No change is left between `from` and the position. */
  readonly complete: boolean;
  readonly chunk: {
    readonly rows: RowBatch;
    readonly last: ShardKey | null;
    readonly ended: boolean;
  } | null;
  /** Of all tables, in the same snapshot. */
  readonly fingerprint: string;
  /** Rows of the changed keys in the same snapshot; null when not complete, or read up to `to`. */
  readonly changed: Digest | null;
};

/** What is written to a target in one transaction. */
export type ApplyRequest = {
  readonly guard: Guard;
  readonly stream: string;
  /** The state that the shard must have now (null for a new stream), else STREAM_MOVED. */
  readonly before: StreamState | null;
  readonly after: StreamState;
  readonly tables: readonly TableShape[];
  /**
   * Only rows in scope are deleted or replaced: a changed key that a row out of scope has (shards
   * may number their rows alike) is not deleted, and an image with it fails with ROWS_CONFLICT.
   */
  readonly scope: Scope;
  /** The last image of each changed key; a null image deletes. Keys of one table together. */
  readonly changes: readonly {
    readonly table: string;
    readonly rows: readonly { readonly key: ShardKey; readonly image: unknown }[];
  }[];
  /** A change of the schema, instead of changes of rows. */
  readonly ddl: string | null;
  /** Rows that must be new: a conflict fails with ROWS_CONFLICT. */
  readonly chunk: { readonly table: string; readonly rows: RowBatch } | null;
  /** What the rows of the changed keys must be afterwards, else VERIFICATION_FAILED; null not to look. */
  readonly changed: Digest | null;
};

/** A tenant's fence in a shard. */
export type Fence = {
  readonly tenant: string;
  readonly epoch: number;
  /**
   * `open`: writes of this epoch enter. `closed`: none do until `until` has passed on the shard's
   * clock, from when it counts as open. `held`: none do until somebody says how it ended.
   * `incoming`: the tenant is not here yet. `moved`: it is on `shard` now, under `epoch`.
   */
  readonly state: "open" | "closed" | "held" | "incoming" | "moved";
  readonly shard: string | null;
  readonly until: string | null;
};

/** How a fence has to stand. */
export type FenceStand = Pick<Fence, "tenant" | "epoch" | "state">;

/** What a removal takes at most, and what it depends on. */
export type RemoveOptions = {
  readonly limit: number;
  readonly expect: Digest | null;
  readonly fences?: readonly FenceStand[];
};

/** Where a sequence of a table's column stands. */
export type SequenceValue = {
  readonly table: string;
  readonly column: string;
  readonly value: string;
};

/** What a survey found: each bound is the first key of the next segment; null at the end. */
export type Survey = {
  readonly bounds: readonly { readonly upper: ShardKey | null; readonly rows: number }[];
  readonly sealed: boolean;
};

/** Whether only rows are copied, or changes of them are taken over as well. */
export type CopyKind = "rows" | "changes";

/** Everything that Pawl does with a shard. */
export interface Shard {
  readonly engine: ShardEngine;

  /** What the tables look like. Refuses with TABLE_UNFIT what has no primary key, no such column, is missing, or cannot be captured. */
  describe(tables: readonly TablePolicy[]): Promise<TableShape[]>;
  /** Triggers on the tables, other than Pawl's, that would fire for rows that are copied; empty where they can be kept from it. */
  firingTriggers(tables: readonly TableShape[]): Promise<string[]>;

  /** Constraints of the tables that rows cannot be copied past, each with the reason and what to do; empty where they can be kept from it. */
  obstacles(tables: readonly TableShape[], kind: CopyKind): Promise<string[]>;
  /**
   * Why texts do not stand for the tenants of these tables everywhere alike: the column that a table
   * is sharded by has several texts for one value, or writes a tenant otherwise; null when they do.
   */
  tenantProblem(tables: readonly TableShape[], tenants: readonly string[]): Promise<string | null>;
  /** Captures a write to each table in a transaction that is rolled back; why that fails, null when it does not. */
  tryCapture(tables: readonly TableShape[]): Promise<string | null>;

  /** Makes Pawl's own tables, once. */
  install(): Promise<void>;
  /** Lets a plan's step act from now on; refuses a token lower than one seen. */
  take(guard: Guard): Promise<void>;

  /** Has changes of the tables captured and their fences checked, for this plan too; proven by a marker. Answers the position after which the log is complete. May be repeated: the first position stays. */
  armCapture(guard: Guard, tables: readonly TableShape[]): Promise<Position>;
  /** This plan needs no capture any more; what no plan needs is taken away. */
  disarmCapture(guard: Guard): Promise<void>;
  /** The present position. */
  position(): Promise<Position>;
  /** How many captured changes lie behind a position, counted up to 100,000, and when the first of them was made. */
  lag(from: Position): Promise<{ events: number; oldest_at: string | null }>;
  /** The plan has no use for changes up to a position; what nobody needs is deleted. Answers how many were. Refuses a position before one that it was said for earlier: VERIFICATION_FAILED. */
  release(guard: Guard, position: Position): Promise<number>;

  read(request: ReadRequest): Promise<ReadAnswer>;
  apply(request: ApplyRequest): Promise<void>;
  /** The state of a stream into this shard. */
  loadStream(stream: string): Promise<StreamState | null>;
  /** The streams of a plan into this shard, by name. */
  listStreams(plan: string): Promise<{ stream: string; state: StreamState }[]>;
  dropStream(guard: Guard, stream: string): Promise<void>;

  /** Count and digest of a range, with the position of the snapshot it was made in. */
  digest(range: KeyRange): Promise<Digest & { position: Position }>;
  /** Bounds that cut a range into pieces of so many rows, up to `limit` of them. */
  survey(range: KeyRange, rows: number, limit: number): Promise<Survey>;
  /** How many rows of a range each tenant has. */
  tenantRows(range: KeyRange): Promise<Record<string, number>>;
  /** The least and greatest key of an integer key of one column, for equal widths; null when empty. */
  keyBounds(range: KeyRange): Promise<{ least: string; greatest: string } | null>;
  /**
   * Deletes up to `limit` rows of a range in one transaction. With `expect`, all of the range, and
   * only if what is deleted has that digest; else nothing is deleted and the answer is null. With
   * `fences`, only while the fences of these tenants stand so, else STATE_ILLEGAL.
   */
  remove(guard: Guard, range: KeyRange, options: RemoveOptions): Promise<number | null>;

  fences(tenants: readonly string[]): Promise<Fence[]>;
  /** Sets fences as they are given, after writes that are under way have ended. */
  setFences(guard: Guard, fences: readonly Omit<Fence, "until">[]): Promise<void>;
  /** Waits for writes under way and closes the fences for at most so long. Throws FENCE_BUSY when that cannot be had in time: all are as before then. */
  closeFences(
    guard: Guard,
    tenants: readonly string[],
    options: { waitMs: number; holdMs: number },
  ): Promise<void>;
  /** Makes closed fences held. Throws FENCE_EXPIRED when one is not closed any more. */
  holdFences(guard: Guard, tenants: readonly string[]): Promise<void>;
  dropFences(guard: Guard, tenants: readonly string[]): Promise<void>;

  sequences(tables: readonly TableShape[]): Promise<SequenceValue[]>;
  /** Moves sequences on to these values where they are behind. */
  advanceSequences(values: readonly SequenceValue[]): Promise<void>;

  /** Runs a statement that changes the schema and captures it as a change, in one transaction. */
  runDdl(guard: Guard, sql: string, tables: readonly TablePolicy[]): Promise<void>;

  /** How far replicas of this shard are behind, in ms; null when there are none or it cannot be told. */
  replicationLagMs(): Promise<number | null>;

  close(): Promise<void>;
}

/** Says that a fence does not stand as it has to, so that rows behind it stay. */
export function otherFence(wanted: FenceStand, found: FenceStand | undefined): PawlError {
  const spelled = ({ state, epoch }: Pick<Fence, "state" | "epoch">): string =>
    `${state} under epoch ${epoch}`;
  const now = found === undefined ? "not there" : spelled(found);
  return new PawlError(
    "STATE_ILLEGAL",
    `No rows of ${wanted.tenant} were removed: its fence is ${now}, and not ${spelled(wanted)}. The ` +
      "tenant has come back since, or somebody has changed its fence.",
    {
      details: { tenant: wanted.tenant, epoch: found?.epoch ?? null, state: found?.state ?? null },
    },
  );
}

/** Says that the history of a shard ends before a position that was read from it earlier. */
export function wentBack(from: Position | null, present: Position): PawlError {
  return new PawlError(
    "VERIFICATION_FAILED",
    `The shard is at position ${present}, before ${from}, which was read from it earlier: it was ` +
      "restored from a backup, or has lost its last transactions. What was copied since is not its " +
      "own any more: roll back and begin again.",
    { details: { position: present, from } },
  );
}

/** Says that changes behind a position were given up already. */
export function positionGivenUp(position: Position, released: Position): PawlError {
  return new PawlError(
    "VERIFICATION_FAILED",
    `A stream stands at position ${position}, and changes up to ${released} were given up because it ` +
      "had them: the shard that it leads to was restored from a backup. Roll back and begin again.",
    { details: { position, released } },
  );
}
