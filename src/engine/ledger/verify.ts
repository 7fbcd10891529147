import { createHash, hash as nodeDigest } from "node:crypto";
import { canonicalJson, type Hash } from "../../kernel/canonical.ts";
import { PawlError } from "../../kernel/errors.ts";
import type { Instant } from "../../kernel/instant.ts";
import type { AnyTable, Key } from "../../kernel/table.ts";
import { openSqliteStore } from "../../store/sqlite/store.ts";
import type {
  AcceptedFault,
  Damage,
  Head,
  Reader,
  Store,
  VerifiedNote,
  Workspace,
} from "../../store/store.ts";
import { GENESIS_HASH, hashedText, type RecordedEvent } from "../../work/envelope.ts";
import { EVENTS, isEventType } from "../../work/events.ts";
import { type AnyRecorded, FOLD_VERSION, foldingOf } from "../../work/fold.ts";
import { TABLES } from "../../work/tables.ts";
import { nodeHash } from "../config.ts";
import {
  bytesOf,
  folded,
  ledgerPages,
  mayBePassedOver,
  PAGE_BYTES,
  PageSize,
  Refold,
} from "./refold.ts";

/** Most events that may come while rows are compared; with more of them, those are folded first. */
const TAIL_MAX = 1_000;

/** What a verification found to be in order. */
export type Verified = {
  events: number;
  state_hash: string;
  tables: Record<string, string>;
  /** Unknown events that say they are informational, and were passed over. */
  informational: number;
  /** Faults of the ledger that a person has accepted, now or before. */
  accepted: number;
  /** Whether an older version wrote the rows: those of the next start are told then, and none compared. */
  rows_outdated: boolean;
};

/**
 * Checks a workspace from its first event: the hash chain, and that folding all events anew gives
 * exactly the rows there are. Throws `LEDGER_CORRUPT` with the first bad position or table, and marks
 * the workspace, to which nothing is appended from then on. What is found in order loses its mark.
 *
 * With `accept` the ledger is taken as it stands: its faults are kept as accepted. Rows that differ
 * are not: for those there is `rebuildRows`.
 */
export async function verifyLedger(
  store: Store,
  workspace: Workspace,
  options: { onProgress?: (pos: number, head: number) => void; accept?: boolean } = {},
): Promise<Verified> {
  const { ws } = workspace;
  const { damage, accepted } = await store.ledgerNotes(ws);
  const { accept = false } = options;
  const check = new LedgerCheck(workspace, nodeHash, { accepted, accept });
  try {
    const { tables, isOutdated } = await compare(store, workspace, check, options.onProgress);
    await keepAccepted(store, workspace, accepted, check.faults);
    await store.saveVerified(ws, check.note);
    if (damage !== null) await store.markDamage(ws, null);
    const { pos: events, informational } = check;
    const known = accepted.length + check.faults.length;
    return {
      events,
      tables,
      state_hash: stateHashOf(tables),
      informational,
      accepted: known,
      rows_outdated: isOutdated,
    };
  } catch (error) {
    await keepAccepted(store, workspace, accepted, check.faults);
    await markIfCorrupt(store, workspace, error);
    throw error;
  }
}

/** Folds the ledger into a store of its own and compares the rows; answers their hashes. */
async function compare(
  store: Store,
  workspace: Workspace,
  check: LedgerCheck,
  onProgress: ((pos: number, head: number) => void) | undefined,
): Promise<{ tables: Record<string, string>; isOutdated: boolean }> {
  const scratch = await openSqliteStore({ path: ":memory:", clock: () => 0 });
  try {
    const { ws } = await scratch.workspace(workspace.tenant_id, workspace.workspace_id);
    const { more: tables, head: last } = await scratch.transact(ws, async (transaction) => {
      const refold = new Refold({
        load: (table, keys) => transaction.load(table, keys),
        write: (changes) => transaction.writeRows(changes),
      });
      const fold = (events: readonly RecordedEvent[]): Promise<void> =>
        checkAndFold(workspace, check, refold, events);
      for (;;) {
        for await (const { events, head } of ledgerPages(store, workspace.ws, check.pos)) {
          await fold(events);
          onProgress?.(check.pos, head.pos);
        }
        const end = await store.read(workspace.ws, (reader) =>
          readEnd(reader, check.pos, stateHashes),
        );
        if (end === null) continue;
        await fold(end.tail);
        await writeFolded(workspace, check, refold);
        check.checkHead(end.head);
        return end;
      }
    });
    const expected = await scratch.read(ws, stateHashes);
    // Whoever opens the workspace next folds its rows anew.
    if (last.fold_version < FOLD_VERSION) return { tables: expected, isOutdated: true };
    for (const [table, hash] of Object.entries(expected)) {
      if (tables[table] !== hash) throw rowsDiffer(workspace, table);
    }
    return { tables, isOutdated: false };
  } finally {
    await scratch.close();
  }
}

type LedgerEnd<More> = { head: Head; tail: RecordedEvent[]; more: More };

/**
 * The last events and the head, and what else is to be read beside them, in one snapshot, in which
 * nothing is folded. Null when too much has come since the position.
 */
async function readEnd<More>(
  reader: Reader,
  after: number,
  readMore: (reader: Reader) => Promise<More>,
): Promise<LedgerEnd<More> | null> {
  // By the events, not by the head, which may say more than there is; also beyond it.
  const tail = await reader.events({ after, limit: TAIL_MAX + 1 });
  if (tail.length > TAIL_MAX) return null;
  return { head: await reader.head(), tail, more: await readMore(reader) };
}

async function checkAndFold(
  workspace: Workspace,
  check: LedgerCheck,
  refold: Refold,
  page: readonly RecordedEvent[],
): Promise<void> {
  const checked = page.map((event) => check.check(event));
  await telling(workspace, page[0]?.pos ?? check.pos, check.pos, () => {
    const known = page.flatMap((event, at) => {
      return checked[at] ?? (mayBePassedOver(event) ? [] : folded(event));
    });
    return refold.add(known, bytesOf(page));
  });
  if (refold.isFull) await writeFolded(workspace, check, refold);
}

async function writeFolded(
  workspace: Workspace,
  check: LedgerCheck,
  refold: Refold,
): Promise<void> {
  const first = refold.unwrittenFrom ?? check.pos;
  await telling(workspace, first, check.pos, () => refold.write());
}

/** Folds, and tells between which events what it throws lies. */
async function telling(
  { tenant_id, workspace_id }: Workspace,
  first: number,
  last: number,
  fold: () => Promise<void>,
): Promise<void> {
  try {
    await fold();
  } catch (error) {
    // An event that somebody accepted may say anything, so whatever its fold throws is about it.
    if (error instanceof PawlError) throw error;
    const reason = error instanceof Error ? error.message : String(error);
    throw new PawlError(
      "LEDGER_CORRUPT",
      `The ledger of ${tenant_id}/${workspace_id} is damaged: its events from position ${first} to ` +
        `${last} cannot be folded (${reason}). Put back a backup.`,
      { details: { pos: first }, cause: error },
    );
  }
}

function rowsDiffer({ tenant_id, workspace_id }: Workspace, table: string): PawlError {
  return new PawlError(
    "LEDGER_CORRUPT",
    `The rows of ${table} in ${tenant_id}/${workspace_id} are not what the ledger says. Run ` +
      "`pawl rebuild` to fold them anew.",
    { details: { table } },
  );
}

/** The hash of every table's rows, in key order and canonical form: equal rows, equal hash, in any store. */
export async function stateHashes(reader: Reader): Promise<Record<string, string>> {
  const hashes: Record<string, string> = {};
  for (const table of Object.values(TABLES)) hashes[table.name] = await tableHash(reader, table);
  return hashes;
}

/** One hash over all tables. */
export function stateHashOf(tables: Record<string, string>): string {
  return nodeDigest("sha256", canonicalJson(tables), "hex");
}

async function tableHash(reader: Reader, table: AnyTable): Promise<string> {
  const digest = createHash("sha256");
  const order = table.key.map((cell) => ({ cell }));
  const size = new PageSize(PAGE_BYTES);
  let after: Key | null = null;
  for (;;) {
    const { limit } = size;
    const where = after === null ? [] : [{ cells: table.key, is: "after", key: after } as const];
    const { texts, lastKey } = await reader.findTexts({ table, where, order, limit });
    if (texts.length > 0) digest.update(`${texts.join("\n")}\n`);
    const bytes = texts.reduce((sum, text) => sum + text.length + 1, 0);
    size.read(texts.length, bytes);
    if (texts.length < limit || lastKey === null) return digest.digest("hex");
    after = lastKey;
  }
}

/**
 * Checks the part of the ledger that came since it was last verified, as a server does at its start,
 * and notes how far that is; all of it when what was known to that check is not what is known here.
 * Answers what is damaged, now or before: then the workspace is marked. Throws `LEDGER_NEWER` for an
 * event that only a newer version understands.
 */
export async function verifyTail(store: Store, workspace: Workspace): Promise<Damage | null> {
  const { ws } = workspace;
  const { verified, damage, accepted } = await store.ledgerNotes(ws);
  if (damage !== null) return damage;
  const after = verified?.types === knownTypes(nodeHash) ? verified : undefined;
  const check = new LedgerCheck(workspace, nodeHash, { after, accepted });
  try {
    await checkRest(store, workspace, check);
  } catch (error) {
    const found = await markIfCorrupt(store, workspace, error);
    if (found === null) throw error;
    return found;
  }
  if (verified === null || check.pos > verified.pos || after === undefined) {
    await store.saveVerified(ws, check.note);
  }
  return null;
}

/** Checks everything from where the check stands up to the head. */
async function checkRest(store: Store, { ws }: Workspace, check: LedgerCheck): Promise<void> {
  const { pos } = check;
  const [first] = await store.read(ws, (reader) => reader.events({ after: pos - 1, limit: 1 }));
  check.checkStart(first);
  for (;;) {
    for await (const { events } of ledgerPages(store, ws, check.pos)) {
      for (const event of events) check.check(event);
    }
    const end = await store.read(ws, (reader) => readEnd(reader, check.pos, async () => null));
    if (end === null) continue;
    for (const event of end.tail) check.check(event);
    check.checkHead(end.head);
    return;
  }
}

/** Most faults of one ledger that can be accepted: with more of them it is another ledger. */
const ACCEPTED_MAX = 100;

/** Which types of events this code knows, in one word. */
export function knownTypes(hash: Hash): string {
  return hash.sha256(Object.keys(EVENTS).toSorted().join("\n"));
}

/** What is wrong at a place; the fingerprint is of exactly what stands there. */
type Fault = Omit<AcceptedFault, "accepted_at">;

/** Where a check begins, and what it passes over. */
export type LedgerCheckOptions = {
  after?: Pick<VerifiedNote, "pos" | "hash" | "informational"> | undefined;
  accepted?: readonly AcceptedFault[];
  /** Faults are collected instead of thrown: a person has said that they will be accepted. */
  accept?: boolean;
};

/**
 * Checks events in order of pos: that they follow each other, are what was recorded, are filed where
 * they belong, and can be understood. Throws `LEDGER_CORRUPT` for a fault that nobody has accepted,
 * `LEDGER_NEWER` for an event that this code does not know and that is not informational.
 */
export class LedgerCheck {
  readonly #workspace: Workspace;
  readonly #hash: Hash;
  readonly #accepted: ReadonlySet<string>;
  readonly #accept: boolean;
  /** Faults that are not accepted yet, when they are collected. */
  readonly faults: Fault[] = [];
  /** Unknown events that say they are informational, from the first event on. */
  informational: number;
  pos: number;
  hash: string;

  constructor(workspace: Workspace, hash: Hash, options: LedgerCheckOptions = {}) {
    const { after, accepted = [], accept = false } = options;
    this.#workspace = workspace;
    this.#hash = hash;
    this.#accepted = new Set(accepted.map(({ fingerprint }) => fingerprint));
    this.#accept = accept;
    this.pos = after?.pos ?? 0;
    this.hash = after?.hash ?? GENESIS_HASH;
    this.informational = after?.informational ?? 0;
  }

  /** Answers the event as the fold takes it; null where its data was not looked at. */
  check(event: RecordedEvent): AnyRecorded | null {
    const { pos, hash } = event;
    this.#checkLink(event);
    const { tenant_id, workspace_id } = this.#workspace;
    const actual = this.#hash.sha256(hashedText(tenant_id, workspace_id, event));
    const isRecorded = actual === hash;
    if (!isRecorded) this.#found(pos, "it is not what was recorded", `${actual} ${hash}`);
    const known = isRecorded ? this.#checkMeaning(event) : null;
    this.pos = pos;
    this.hash = hash;
    return known;
  }

  /** Checks that the event at which an earlier check ended is still the one that it saw. */
  checkStart(event: RecordedEvent | undefined): void {
    if (this.pos === 0 || (event?.pos === this.pos && event.hash === this.hash)) return;
    this.#found(this.pos, "it is not the event that was checked before", event?.hash ?? "none");
  }

  /** Checks that the head tells of the same end. */
  checkHead({ pos, hash }: Pick<Head, "pos" | "hash">): void {
    if (pos < this.pos) throw corrupt(this.#workspace, pos + 1, `the head says ${pos} is the last`);
    // What would be appended next, and must follow.
    this.#checkLink({ pos: pos + 1, prev_hash: hash });
  }

  /** What may be noted now. */
  get note(): VerifiedNote {
    const { pos, hash, informational } = this;
    return { pos, hash, types: knownTypes(this.#hash), informational };
  }

  #checkLink({ pos, prev_hash }: Pick<RecordedEvent, "pos" | "prev_hash">): void {
    const link = `${this.pos} ${this.hash} ${pos} ${prev_hash}`;
    if (pos !== this.pos + 1) {
      const missing = this.pos + 1;
      this.#found(missing, `event ${missing} is missing; ${pos} comes next`, link);
    } else if (prev_hash !== this.hash) {
      this.#found(pos, "it does not follow the event before it", link);
    }
  }

  /** The subject is not hashed, as it follows from the data: it is checked against that. */
  #checkMeaning(event: RecordedEvent): AnyRecorded | null {
    const { pos, type, subject_pos, hash } = event;
    if (isEventType(type)) {
      const known = folded(event);
      if (foldingOf(type).subject(known.data, pos) !== subject_pos) {
        this.#found(pos, "it is filed under another subject", `${hash} ${subject_pos}`);
      }
      return known;
    }
    if (mayBePassedOver(event)) {
      this.informational += 1;
      return null;
    }
    const { tenant_id, workspace_id } = this.#workspace;
    throw new PawlError(
      "LEDGER_NEWER",
      `The ledger of ${tenant_id}/${workspace_id} has an event at position ${pos} that this version ` +
        `of Pawl does not know: ${type}. Upgrade Pawl.`,
      { details: { pos, type } },
    );
  }

  #found(pos: number, reason: string, what: string): void {
    const fingerprint = this.#hash.sha256(`${pos} ${reason} ${what}`);
    if (this.#accepted.has(fingerprint)) return;
    if (!this.#accept) throw corrupt(this.#workspace, pos, reason);
    this.faults.push({ pos, reason, fingerprint });
    if (this.faults.length <= ACCEPTED_MAX) return;
    throw corrupt(this.#workspace, pos, `it has more than ${ACCEPTED_MAX} faults`);
  }
}

function corrupt({ tenant_id, workspace_id }: Workspace, pos: number, why: string): PawlError {
  return new PawlError(
    "LEDGER_CORRUPT",
    `The ledger of ${tenant_id}/${workspace_id} is damaged at position ${pos}: ${why}. ` +
      "Put back a backup, or take it as it stands with `pawl verify --accept`.",
    { details: { pos } },
  );
}

/** Keeps what a person accepts now, beside what was accepted before. */
export async function keepAccepted(
  store: Store,
  { ws }: Workspace,
  accepted: readonly AcceptedFault[],
  faults: readonly Fault[],
): Promise<void> {
  if (faults.length === 0) return;
  const accepted_at = await store.now();
  await store.saveAccepted(ws, [
    ...accepted,
    ...faults.map((fault) => ({ ...fault, accepted_at })),
  ]);
}

/** Marks the workspace when a check has found it damaged; any other failure says nothing about it. */
export async function markIfCorrupt(
  store: Store,
  { ws }: Workspace,
  error: unknown,
): Promise<Damage | null> {
  if (!(error instanceof PawlError) || error.code !== "LEDGER_CORRUPT") return null;
  const found_at: Instant = await store.now();
  const { pos = null, table = null } = error.details as Partial<Pick<Damage, "pos" | "table">>;
  const damage = { pos, table, reason: error.message, found_at };
  await store.markDamage(ws, damage);
  return damage;
}
