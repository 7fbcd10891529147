import { assert, PawlError } from "../kernel/errors.ts";
import type { RecordedEvent } from "../work/envelope.ts";
import type {
  AcceptedFault,
  Damage,
  Head,
  LedgerNotes,
  VerifiedNote,
  WorkspaceId,
} from "./store.ts";

/** A head from the values of its columns: pos, hash, fold_version, damage. */
export function decodeHead(ws: WorkspaceId, row: readonly unknown[]): Head {
  const [pos, hash, foldVersion, damage] = row;
  assert(
    typeof pos === "number" && typeof hash === "string" && typeof foldVersion === "number",
    () => `workspace ${ws} has a head`,
  );
  return { pos, hash, fold_version: foldVersion, damage: noteOf(damage) as Damage | null };
}

/** What is noted about a ledger, from the values of its columns: verified, damage, accepted. */
export function decodeNotes([verified, damage, accepted]: readonly unknown[]): LedgerNotes {
  return {
    verified: noteOf(verified) as VerifiedNote | null,
    damage: noteOf(damage) as Damage | null,
    accepted: (noteOf(accepted) as AcceptedFault[] | null) ?? [],
  };
}

/** What the store itself wrote as JSON; null where there is nothing. */
function noteOf(text: unknown): unknown {
  return typeof text === "string" ? JSON.parse(text) : null;
}

/** Makes sure that the events follow the head without a hole, in position and in hash. */
export function assertContinuesHead(head: Head, events: readonly RecordedEvent[]): void {
  if (head.damage !== null && events.length > 0) throw damageRefusal(head.damage);
  let { pos, hash } = head;
  for (const event of events) {
    assert(event.pos === pos + 1, () => `event ${event.pos} follows position ${pos}`);
    assert(
      event.prev_hash === hash,
      () => `event ${event.pos} carries the hash of its predecessor`,
    );
    pos = event.pos;
    hash = event.hash;
  }
}

/** The refusal to append to a damaged ledger. */
export function damageRefusal({ pos, table, reason, found_at }: Damage): PawlError {
  return new PawlError(
    "LEDGER_CORRUPT",
    `Since ${found_at} this workspace is served for reading only. ${reason}`,
    { details: table === null ? { pos, found_at } : { table, found_at } },
  );
}
