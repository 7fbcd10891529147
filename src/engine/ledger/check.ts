import { PawlError } from "../../kernel/errors.ts";
import { GENESIS_HASH, hashedText, type RecordedEvent } from "../../work/envelope.ts";
import { EVENTS, isEventType } from "../../work/events.ts";
import { foldingOf } from "../../work/fold.ts";
import type { Hash } from "../../kernel/canonical.ts";
import type { Instant } from "../../kernel/instant.ts";
import type {
  AcceptedFault,
  Damage,
  Head,
  Store,
  VerifiedNote,
  Workspace,
} from "../../store/store.ts";
import { folded, mayBePassedOver } from "./refold.ts";

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

  check(event: RecordedEvent): void {
    const { pos, hash } = event;
    this.#checkLink(event);
    const { tenant_id, workspace_id } = this.#workspace;
    const actual = this.#hash.sha256(hashedText(tenant_id, workspace_id, event));
    if (actual !== hash) this.#found(pos, "it is not what was recorded", `${actual} ${hash}`);
    else this.#checkMeaning(event);
    this.pos = pos;
    this.hash = hash;
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
  #checkMeaning(event: RecordedEvent): void {
    const { pos, type, subject_pos, hash } = event;
    if (isEventType(type)) {
      const { data } = folded(event);
      if (foldingOf(type).subject(data, pos) === subject_pos) return;
      this.#found(pos, "it is filed under another subject", `${hash} ${subject_pos}`);
      return;
    }
    if (mayBePassedOver(event)) {
      this.informational += 1;
      return;
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
