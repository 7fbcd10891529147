import type { RowOf } from "../work/rows.ts";
import { type Context, type Decide, DECISION_ROOM, type Room } from "../work/decision.ts";
import { canonicalJson } from "../kernel/canonical.ts";
import { assert, PawlError } from "../kernel/errors.ts";
import {
  type Actor,
  ENVELOPE_VERSION,
  hashedText,
  holderOf,
  type RecordedEvent,
  eventBody,
} from "../work/envelope.ts";
import { EVENTS, type NewEvent } from "../work/events.ts";
import { foldingOf, type Touch } from "../work/fold.ts";
import { KINDS } from "../work/kinds.ts";
import { REQUIRES } from "../work/requires/wake.ts";
import { RUN } from "../work/run/settle.ts";
import { epochMsOf, type Instant } from "../kernel/instant.ts";
import type { Tenant } from "../work/keys.ts";
import { type AnyRow, type AnyTable, type Key, keyOf, keyText } from "../kernel/table.ts";
import { TABLES, type TableName } from "../work/tables.ts";
import { RowsMissing, WorkingSet } from "../work/working-set.ts";
import type { Answer, Lease, Reader, Transaction } from "../store/store.ts";
import { isGoodToken } from "./claim-queue.ts";
import type { Environment } from "./config.ts";

/** What a decision got recorded. */
export type RecordedDecision<Result> = {
  result: Result;
  /** Empty when there was nothing to record. */
  event_ids: string[];
  /** The position after the decision. */
  pos: number;
  at: Instant;
};

/** Who decides, and on whose request. */
export type DecisionCause = { actor: Actor; correlationId: string | null };

/** What the engine does by itself. */
export const ENGINE_CAUSE: DecisionCause = {
  actor: { principal: "pawl", token_id: null },
  correlationId: null,
};

/** Whatever goes on by itself: runs first, as their ends are what the others wait for. */
export const CONTROLLED = [RUN, REQUIRES, ...KINDS].flatMap(({ name, work }) =>
  work === undefined ? [] : [{ name, work }],
);

/** The tables whose changes lead to a look. */
const WATCHED = [
  ...new Set(
    CONTROLLED.flatMap(({ work: { table, causes = [] } }): TableName[] => [
      table,
      ...causes.map((cause) => cause.table),
    ]),
  ),
];

/** How often a decision may ask for more rows before it is taken to go in circles. */
const LOADS_MAX = 1_000;

/** Rows that are folded before the database is told that the transaction is still alive. */
const ROWS_FOLDED_UNTOLD = 2_000;

/** Loads what pure code missed; answers how many rows were looked up. */
export async function loadMissing(
  set: WorkingSet,
  reader: Reader,
  missing: RowsMissing,
): Promise<number> {
  let looked = 0;
  const load = async ({ table, keys }: { table: AnyTable; keys: readonly Key[] }) => {
    set.loaded(table, keys, await reader.load(table, keys));
    looked += keys.length;
  };
  await Promise.all(missing.keys.map(load));
  if (missing.find !== null) {
    const rows = await reader.find(missing.find);
    set.found(missing.find, rows);
    looked += rows.length;
  }
  return looked;
}

/** What pure code answers that looks at rows without a decision, all of one snapshot. */
export async function evaluateRows<Result>(
  reader: Reader,
  look: (rows: WorkingSet["rows"]) => Result,
): Promise<Result> {
  const set = new WorkingSet();
  for (;;) {
    try {
      return look(set.rows);
    } catch (error) {
      if (!(error instanceof RowsMissing)) throw error;
      await loadMissing(set, reader, error);
    }
  }
}

/** A part of what a commit may come to. */
export type CommitPart = { isFull(): boolean };

/**
 * One transaction: decisions are made one after the other, each on what its predecessors left; a
 * refused one leaves nothing; `flush` writes what all of them recorded, at once.
 */
export class Commit {
  readonly events: RecordedEvent[] = [];
  readonly now: Instant;
  /** When `now` was, by the clock that nobody sets. */
  readonly startedMs: number;
  readonly leasesGranted: Lease[] = [];
  readonly leasesReleased: string[] = [];
  readonly answers = new Map<string, Answer>();
  /** Definitions that were published or removed, since that was last taken note of. */
  readonly published: { kind: string; name: string }[] = [];
  /** Rows that the decisions changed since, of the tables that controllers look at. */
  readonly #touched = new Map(
    WATCHED.map((name): [AnyTable, Map<string, AnyRow>] => [TABLES[name], new Map()]),
  );
  /** How often rows were written. */
  rowsWritten = 0;
  #rowsLooked = 0;
  #bytesWritten = 0;
  readonly #runsFinished: number[] = [];
  readonly #goodTokens = new Map<string, boolean>();
  readonly #set: WorkingSet;
  readonly #transaction: Transaction;
  readonly #tenant: Tenant;
  readonly #environment: Environment;
  readonly #bounds: CommitSize["bounds"];
  readonly #room: CommitSize["room"];
  #pos: number;
  #hash: string;

  constructor(
    set: WorkingSet,
    transaction: Transaction,
    tenant: Tenant,
    environment: Environment,
    size: CommitSize,
  ) {
    this.#bounds = size.bounds;
    this.#room = size.room;
    this.#set = set;
    this.#transaction = transaction;
    this.#tenant = tenant;
    this.#environment = environment;
    this.#pos = transaction.start.pos;
    this.#hash = transaction.start.hash;
    this.now = transaction.now;
    this.startedMs = environment.elapsedMs();
  }

  get pos(): number {
    return this.#pos;
  }

  /** Some of what the commit may come to, from here on: full once that much was used. */
  part(share: number): CommitPart {
    const { events, rows, bytes, ms } = this.#bounds;
    const before = this.#used();
    return {
      isFull: () => {
        const used = this.#used();
        return (
          used.events - before.events >= events * share ||
          used.rows - before.rows >= rows * share ||
          used.bytes - before.bytes >= bytes * share ||
          used.ms - before.ms >= ms * share
        );
      },
    };
  }

  #used(): CommitSize["bounds"] {
    return {
      events: this.events.length,
      rows: this.rowsWritten + this.#rowsLooked,
      bytes: this.#bytesWritten,
      ms: this.#environment.elapsedMs() - this.startedMs,
    };
  }

  /** Makes a decision and folds what it records; throws its refusal, with nothing kept. */
  async decide<Result>(
    decide: Decide<Result>,
    cause: DecisionCause,
  ): Promise<RecordedDecision<Result>> {
    const context: Context = {
      now: this.now,
      nextPos: this.#pos + 1,
      hash: this.#environment.hash,
      tenant: this.#tenant,
      zoneDatabase: this.#environment.zoneDatabase,
      principal: cause.actor.principal,
      room: this.#room,
      holder: holderOf(cause.actor),
      random: () => this.#environment.random(),
      newId: () => this.#environment.newId(epochMsOf(this.now)),
    };
    for (let load = 0; load < LOADS_MAX; load++) {
      try {
        const { events, result } = decide(this.#set.rows, context);
        const event_ids: string[] = [];
        // Most decisions only look: there is nothing to fold for them.
        if (events.length > 0) {
          await this.#loadTouched(events);
          event_ids.push(...(await this.#record(events, cause)));
        }
        await this.#transaction.touch();
        return { result, event_ids, pos: this.#pos, at: this.now };
      } catch (error) {
        if (!(error instanceof RowsMissing)) throw error;
        this.#rowsLooked += await loadMissing(this.#set, this.#transaction, error);
      }
    }
    throw new PawlError("INTERNAL", "A decision asked for more and more rows and was given up.");
  }

  /** What the decisions changed since that was last taken note of. */
  touched<Name extends TableName>(name: Name): Iterable<RowOf<Name>> {
    return (this.#touched.get(TABLES[name])?.values() ?? []) as Iterable<RowOf<Name>>;
  }

  /** Takes a row for looked at, although it was changed. */
  untouch(name: TableName, id: string | number): void {
    this.#touched.get(TABLES[name])?.delete(String(id));
  }

  /** All changes so far were taken note of. */
  clearTouched(): void {
    for (const rows of this.#touched.values()) rows.clear();
    this.published.length = 0;
  }

  /** Whether what an actor asked for may still be done for it: each token is looked up once. */
  async isTokenGood({ token_id }: Actor): Promise<boolean> {
    if (token_id === null) return true;
    const known = this.#goodTokens.get(token_id);
    if (known !== undefined) return known;
    const isGood = isGoodToken(await this.#transaction.token(token_id), this.now);
    this.#goodTokens.set(token_id, isGood);
    return isGood;
  }

  /** The stored answer to a request, also when it was given earlier in this transaction. */
  async answerTo(scope: string, key: string): Promise<Answer | null> {
    return this.answers.get(`${scope}\u0000${key}`) ?? (await this.#transaction.answer(scope, key));
  }

  leases(limit: number): Promise<Lease[]> {
    return this.#transaction.leases(limit);
  }

  /** Writes everything. */
  async flush(): Promise<void> {
    const changes = this.#set.changes();
    const idle =
      this.events.length === 0 &&
      changes.length === 0 &&
      this.leasesGranted.length === 0 &&
      this.leasesReleased.length === 0 &&
      this.answers.size === 0;
    if (idle) return;
    await this.#transaction.flush({
      events: this.events,
      changes,
      leasesGranted: this.leasesGranted,
      leasesReleased: this.leasesReleased,
      answers: [...this.answers.values()],
      runsFinished: this.#runsFinished,
    });
  }

  async #loadTouched(events: readonly NewEvent[]): Promise<void> {
    const missing = new Map<AnyTable, Map<string, Key>>();
    for (const [index, event] of events.entries()) {
      const pos = this.#pos + 1 + index;
      addMissing(this.#set, missing, foldingOf(event.type).touches(event.data, pos));
    }
    // One beside the other: each is a way to the database and back, within the lock.
    const load = async (table: AnyTable, keys: readonly Key[]): Promise<void> => {
      this.#set.loaded(table, keys, await this.#transaction.load(table, keys));
      this.#rowsLooked += keys.length;
    };
    await Promise.all([...missing].map(([table, keys]) => load(table, [...keys.values()])));
  }

  /** Folds and hashes events; all of them or none. */
  async #record(events: readonly NewEvent[], cause: DecisionCause): Promise<string[]> {
    const actor = canonicalJson(cause.actor);
    const recorded: RecordedEvent[] = [];
    let pos = this.#pos;
    let hash = this.#hash;
    let told = 0;
    try {
      for (const event of events) {
        pos += 1;
        const one = this.#recorded(event, pos, hash, actor, cause.correlationId);
        hash = one.hash;
        recorded.push(one);
        apply(this.#set, event, one);
        if (this.#set.journal.length - told < ROWS_FOLDED_UNTOLD) continue;
        told = this.#set.journal.length;
        await this.#transaction.touch();
      }
    } catch (error) {
      this.#set.refuse();
      // A fold that reads what it did not announce is a bug, not a reason to load more.
      assert(!(error instanceof RowsMissing), "the fold touches only what the event announces");
      throw error;
    }
    this.#keep(events, recorded);
    this.#pos = pos;
    this.#hash = hash;
    return recorded.map(({ event_id }) => event_id);
  }

  #keep(events: readonly NewEvent[], recorded: readonly RecordedEvent[]): void {
    for (const { table, row } of this.#set.touched()) {
      this.#touched.get(table)?.set(keyText(keyOf(table, row)), row);
    }
    this.rowsWritten += this.#set.journal.length;
    this.#set.accept();
    for (const event of events) {
      if (event.type === "RunFinished") this.#runsFinished.push(event.data.run_pos);
      if (event.type !== "DefinitionsPublished") continue;
      const { specs, removed } = event.data;
      for (const { kind, name } of removed) this.published.push({ kind, name });
      for (const { name, body } of specs) this.published.push({ kind: body.kind, name });
    }
    for (const event of recorded) {
      this.events.push(event);
      this.#bytesWritten += event.data.length;
    }
  }

  #recorded(
    event: NewEvent,
    pos: number,
    prevHash: string,
    actor: string,
    correlationId: string | null,
  ): RecordedEvent {
    if (this.#environment.checksEvents) assertWellFormed(event);
    const data = eventBody(event);
    const envelope = {
      pos,
      v: ENVELOPE_VERSION,
      event_id: this.#environment.newId(epochMsOf(this.now)),
      type: event.type,
      idempotency_key: event.idempotency_key,
      occurred_at: this.now,
      actor,
      correlation_id: correlationId,
      data,
      prev_hash: prevHash,
    };
    const { tenant_id, workspace_id } = this.#tenant;
    const hash = this.#environment.hash.sha256(hashedText(tenant_id, workspace_id, envelope));
    const subject_pos = foldingOf(event.type).subject(event.data, pos);
    return { ...envelope, subject_pos, hash };
  }
}

function assertWellFormed({ type, data }: NewEvent): void {
  const { success, error } = EVENTS[type].safeParse(data);
  assert(success, `${type} is well formed: ${String(error?.message)}`);
}

function apply(set: WorkingSet, event: NewEvent, recorded: RecordedEvent): void {
  const { pos, event_id, occurred_at } = recorded;
  const folded = { type: event.type, data: event.data, pos, event_id, occurred_at };
  foldingOf(event.type).apply(set.rows, folded);
}

/** Collects the rows that are not in memory yet. */
export function addMissing(
  set: WorkingSet,
  missing: Map<AnyTable, Map<string, Key>>,
  touches: readonly Touch[],
): void {
  for (const touch of touches) addIfMissing(set, missing, touch);
}

/** The same for one row. */
export function addIfMissing(
  set: WorkingSet,
  missing: Map<AnyTable, Map<string, Key>>,
  [name, key]: Touch,
): void {
  const table = TABLES[name];
  if (set.has(table, key)) return;
  let keys = missing.get(table);
  if (keys === undefined) {
    keys = new Map();
    missing.set(table, keys);
  }
  keys.set(keyText(key), key);
}

/** What a commit may come to: whatever is left then waits for the next one. */
export type CommitBounds = {
  readonly events: number;
  /** Rows written and rows looked up. */
  readonly rows: number;
  /** Characters in the bodies of events. */
  readonly bytes: number;
  /** Time since the workspace was locked. */
  readonly ms: number;
};

/**
 * A commit of the whole size. It takes less than a second: others wait for the lock meanwhile, and
 * PostgreSQL ends a transaction of which it hears nothing for two.
 */
const WHOLE: CommitBounds = { events: 8_000, rows: 50_000, bytes: 16_000_000, ms: 1_000 };

/**
 * The part of a commit that each stage may fill. No stage is left out because one before it has much
 * to do, so each gets at least one decision into every commit.
 */
export const STAGE_PARTS = {
  reports: 0.25,
  commands: 0.15,
  sweep: 0.05,
  controllers: 0.45,
  claims: 0.1,
} as const;

/** Below this part of the whole size nothing is gained: single decisions are no smaller. */
const SIZE_MIN = 1 / 64;
/** By how much a commit that went well lets the next one grow. */
const GROWTH = 1.1;
/** At this size a smaller commit did not help either, so the next one may take longer. */
const PATIENT_FROM = 1 / 4;

/** How large the next commit may be: half of one that failed, and slowly more with each that goes well. */
export class CommitSize {
  #part = 1;

  /** What the next commit may come to. */
  get bounds(): CommitBounds {
    const { events, rows, bytes, ms } = WHOLE;
    const part = this.#part;
    return { events: events * part, rows: rows * part, bytes: bytes * part, ms: ms * part };
  }

  /** How much one of its decisions should record. */
  get room(): Room {
    const part = this.#part;
    return { rows: DECISION_ROOM.rows * part, bytes: DECISION_ROOM.bytes * part };
  }

  /** Whether a commit this small may take long: what it has to do cannot be cut any further. */
  get isPatient(): boolean {
    return this.#part <= PATIENT_FROM;
  }

  failed(): void {
    this.#part = Math.max(SIZE_MIN, this.#part / 2);
  }

  succeeded(): void {
    this.#part = Math.min(1, this.#part * GROWTH);
  }
}
