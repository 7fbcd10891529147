import { assert } from "../core/assert.ts";
import { PawlError } from "../core/errors.ts";
import type { RecordedEvent } from "../core/events/envelope.ts";
import { isEventType } from "../core/events/index.ts";
import { type AnyRecorded, FOLD_VERSION, foldingOf, type Touch } from "../core/fold/fold.ts";
import type { AnyRow, AnyTable, Key } from "../core/rows/table.ts";
import { TABLES } from "../core/rows/tables.ts";
import { WorkingSet } from "../core/rows/working-set.ts";
import type { Store, Transaction, Workspace } from "../store/store.ts";
import { damageRefusal } from "../store/ledger-head.ts";
import { addMissing } from "./commit.ts";
import { bytesOf, PAGE_BYTES, PageSize } from "./ledger-pages.ts";

/** Where a refold finds rows that it does not have in memory, and puts those it changed. */
export type RefoldTarget = {
  load(table: AnyTable, keys: readonly Key[]): Promise<AnyRow[]>;
  write(changes: ReturnType<WorkingSet["changes"]>): Promise<void>;
};

/** Whether an event that this code does not know may be passed over: it says so itself. */
export function mayBePassedOver(event: RecordedEvent): boolean {
  if (isEventType(event.type)) return false;
  return (JSON.parse(event.data) as { informational?: unknown }).informational === true;
}

/** An event as the fold takes it. */
export function folded(event: RecordedEvent): AnyRecorded {
  return {
    type: event.type as AnyRecorded["type"],
    data: JSON.parse(event.data) as AnyRecorded["data"],
    pos: event.pos,
    event_id: event.event_id,
    occurred_at: event.occurred_at,
  };
}

/** Folds one event into rows in memory, as if there were no others. */
export function foldAlone(set: WorkingSet, event: AnyRecorded): void {
  const folding = foldingOf(event.type);
  for (const [name, key] of folding.touches(event.data, event.pos)) {
    if (!set.has(TABLES[name], key)) set.loaded(TABLES[name], [key], []);
  }
  folding.apply(set.rows, event);
  set.accept();
}

/** Folds stored events in batches; the rows come out the same whatever the size of a batch. */
export class Refold {
  readonly #set = new WorkingSet({ journaling: false });
  readonly #target: RefoldTarget;

  constructor(target: RefoldTarget) {
    this.#target = target;
  }

  async fold(events: readonly AnyRecorded[]): Promise<void> {
    const missing = new Map<AnyTable, Map<string, Key>>();
    const firstPos = events[0]?.pos ?? 0;
    for (const event of events) {
      const touches = foldingOf(event.type).touches(event.data, event.pos);
      addMissing(
        this.#set,
        missing,
        touches.filter((touch) => !isMadeSince(touch, firstPos)),
      );
    }
    for (const [table, keys] of missing) {
      const all = [...keys.values()];
      this.#set.loaded(table, all, await this.#target.load(table, all));
    }
    for (const event of events) foldingOf(event.type).apply(this.#set.rows, event);
    await this.#target.write(this.#set.changes());
    this.#set.committed();
  }
}

/** Whether a touched row is keyed by the pos of an event of this batch, so that no store has it yet. */
function isMadeSince([table, [key]]: Touch, firstPos: number): boolean {
  const isOfRun = table === "runs" || table === "runAssets" || table === "tasks";
  return isOfRun && Number(key) >= firstPos;
}

/**
 * Refolds the whole ledger of a workspace over its rows, in one transaction. That of a damaged ledger
 * is refused with `LEDGER_CORRUPT`; of damaged rows it is the cure, and takes their mark away.
 */
export async function rebuildRows(
  store: Store,
  workspace: Workspace,
  options: { batch?: number; onProgress?: (pos: number, head: number) => void } = {},
): Promise<{ events: number }> {
  const { ws } = workspace;
  const { damage } = await store.ledgerNotes(ws);
  if (damage !== null && damage.table === null) throw damageRefusal(damage);
  const rebuild = async (transaction: Transaction): Promise<{ events: number }> => {
    await transaction.clearRows(Object.values(TABLES));
    const refold = new Refold(targetIn(transaction));
    const { pos: head } = transaction.start;
    // The fold of a page must not take longer than the store lets a transaction rest.
    const size = new PageSize(PAGE_BYTES);
    let after = 0;
    while (after < head) {
      const events = await transaction.events({ after, limit: options.batch ?? size.limit });
      assert(events.length > 0, "the ledger has all its events");
      size.read(events.length, bytesOf(events));
      await refold.fold(events.filter((event) => !mayBePassedOver(event)).map(folded));
      after = events.at(-1)?.pos ?? head;
      options.onProgress?.(after, head);
    }
    await transaction.setFoldVersion(FOLD_VERSION);
    return { events: head };
  };
  // Nobody else wants the workspace before its rows are what the fold says.
  const rebuilt = await store.transact(ws, rebuild, { isPatient: true });
  if (damage !== null) await store.markDamage(ws, null);
  return rebuilt;
}

/**
 * Folds the rows anew when an older fold wrote them; refuses rows that a newer one wrote, and to fold
 * a ledger that is damaged.
 */
export async function matchFoldVersion(store: Store, workspace: Workspace): Promise<void> {
  const { fold_version } = await store.read(workspace.ws, (reader) => reader.head());
  if (fold_version === FOLD_VERSION) return;
  if (fold_version < FOLD_VERSION) {
    await rebuildRows(store, workspace);
    return;
  }
  throw new PawlError(
    "LEDGER_NEWER",
    `The workspace ${workspace.workspace_id} was written by a newer version of Pawl ` +
      `(fold version ${fold_version}; this one has ${FOLD_VERSION}). Upgrade Pawl.`,
    { details: { fold_version, known_fold_version: FOLD_VERSION } },
  );
}

function targetIn(transaction: Transaction): RefoldTarget {
  return {
    load: (table, keys) => transaction.load(table, keys),
    write: (changes) => transaction.writeRows(changes),
  };
}
