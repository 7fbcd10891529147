import { setImmediate as nextTurn } from "node:timers/promises";
import type { RecordedEvent } from "../../work/envelope.ts";
import type {
  Head,
  Reader,
  Store,
  WorkspaceId,
  Transaction,
  Workspace,
} from "../../store/store.ts";
import type { EventFilter } from "../../work/envelope.ts";
import { assert, PawlError, present } from "../../kernel/errors.ts";
import { isEventType, type EventData } from "../../work/events.ts";
import { type AnyRecorded, FOLD_VERSION, foldingOf, type Touch } from "../../work/fold.ts";
import type { AnyRow, AnyTable, Key } from "../../kernel/table.ts";
import { TABLES } from "../../work/tables.ts";
import { WorkingSet } from "../../work/working-set.ts";
import { damageRefusal } from "../../store/ledger-head.ts";
import { addIfMissing } from "../commit.ts";
import { taskOf } from "../../work/run/task-blocks.ts";
import type { RunAssetRow, RunRow, TaskRow } from "../../work/run/rows.ts";
import type { BackfillRow } from "../../work/backfill/rows.ts";

/** About how much one page brings: what is read, kept and worked on at once. */
export const PAGE_BYTES = 1 << 20;

const ITEMS_FIRST = 50;
const ITEMS_MAX = 5_000;

/** How many items make a page of about so many bytes, learnt from the pages before. */
export class PageSize {
  readonly #bytes: number;
  limit = ITEMS_FIRST;

  constructor(bytes: number) {
    this.#bytes = bytes;
  }

  /** So many items had so many bytes. Grows by a factor of four at most: the next may be larger. */
  read(items: number, bytes: number): void {
    if (items === 0) return;
    const fitting = Math.floor(this.#bytes / Math.max(1, bytes / items));
    this.limit = Math.max(1, Math.min(fitting, this.limit * 4, ITEMS_MAX));
  }
}

/** About how much events take. */
export function bytesOf(events: readonly RecordedEvent[]): number {
  return events.reduce((sum, { data, actor }) => sum + data.length + actor.length + 300, 0);
}

/**
 * Reads events of one snapshot page by page, and lets others have their turn between: so neither the
 * process nor the transaction rests for longer than a page takes to work on.
 */
export async function* eventPages(
  reader: Reader,
  filter: Omit<EventFilter, "limit" | "descending">,
): AsyncGenerator<RecordedEvent[]> {
  const size = new PageSize(PAGE_BYTES);
  let { after } = filter;
  for (;;) {
    const { limit } = size;
    const events = await reader.events({ ...filter, after, limit });
    if (events.length > 0) yield events;
    if (events.length < limit) return;
    size.read(events.length, bytesOf(events));
    after = events.at(-1)?.pos ?? after;
    await nextTurn();
  }
}

/** Some events in order of pos, and the head at that moment. */
export type LedgerPage = { events: RecordedEvent[]; head: Head };

/**
 * Reads a ledger page by page up to its head, each page in a read of its own: no transaction is held
 * open while a page is worked on, however long that takes.
 */
export async function* ledgerPages(
  store: Store,
  ws: WorkspaceId,
  after: number,
  options: { pageBytes?: number; through?: number } = {},
): AsyncGenerator<LedgerPage> {
  const size = new PageSize(options.pageBytes ?? PAGE_BYTES);
  let last = after;
  for (;;) {
    const page = await store.read(ws, async (reader): Promise<LedgerPage> => {
      const head = await reader.head();
      const through = Math.min(head.pos, options.through ?? head.pos);
      return { head, events: await reader.events({ after: last, through, limit: size.limit }) };
    });
    if (page.events.length === 0) return;
    size.read(page.events.length, bytesOf(page.events));
    last = page.events.at(-1)?.pos ?? last;
    yield page;
  }
}

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

/**
 * What is folded in memory before rows are written: bytes of events, and changed rows. By then most of
 * what a run needs has come and gone, and what all its partitions changed is written once.
 */
const UNWRITTEN_BYTES_MAX = 8 * PAGE_BYTES;
const UNWRITTEN_ROWS_MAX = 50_000;

/** Folds stored events page by page; the rows come out the same whatever is written when. */
export class Refold {
  readonly #set = new WorkingSet({ journaling: false });
  readonly #target: RefoldTarget;
  #unwrittenBytes = 0;
  /** The first event whose rows are not written; null when all are. */
  unwrittenFrom: number | null = null;

  constructor(target: RefoldTarget) {
    this.#target = target;
  }

  /** Whether it is time to write. */
  get isFull(): boolean {
    return (
      this.#unwrittenBytes >= UNWRITTEN_BYTES_MAX || this.#set.changedCount >= UNWRITTEN_ROWS_MAX
    );
  }

  /** Folds events of so many bytes in memory. */
  async add(events: readonly AnyRecorded[], bytes: number): Promise<void> {
    this.#unwrittenBytes += bytes;
    this.unwrittenFrom ??= events[0]?.pos ?? null;
    const firstPos = this.unwrittenFrom ?? 0;
    const missing = new Map<AnyTable, Map<string, Key>>();
    for (const event of events) {
      for (const touch of foldingOf(event.type).touches(event.data, event.pos)) {
        if (!isMadeSince(touch, firstPos)) addIfMissing(this.#set, missing, touch);
      }
    }
    for (const [table, keys] of missing) {
      const all = [...keys.values()];
      this.#set.loaded(table, all, await this.#target.load(table, all));
    }
    for (const event of events) foldingOf(event.type).apply(this.#set.rows, event);
  }

  /** Writes all rows that are not written yet. */
  async write(): Promise<void> {
    await this.#target.write(this.#set.changes());
    this.#set.committed();
    this.unwrittenFrom = null;
    this.#unwrittenBytes = 0;
  }

  /** Folds events and writes their rows. */
  async fold(events: readonly AnyRecorded[]): Promise<void> {
    await this.add(events, 0);
    await this.write();
  }
}

/** Whether a touched row is keyed by the pos of an event whose rows are not written: no store has it. */
function isMadeSince([table, [key]]: Touch, firstPos: number): boolean {
  const isOfRun = table === "runs" || table === "runAssets" || table === "taskBlocks";
  return isOfRun && Number(key) >= firstPos;
}

/** Told how far a refold has got, and how far it goes. */
export type OnRefold = (pos: number, head: number) => void;

/**
 * Refolds the whole ledger of a workspace over its rows, in one transaction. That of a damaged ledger
 * is refused with `LEDGER_CORRUPT`; of damaged rows it is the cure, and takes their mark away.
 */
export async function rebuildRows(
  store: Store,
  workspace: Workspace,
  options: { batch?: number; onProgress?: OnRefold } = {},
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
      const bytes = bytesOf(events);
      size.read(events.length, bytes);
      const known = events.filter((event) => !mayBePassedOver(event)).map(folded);
      await refold.add(known, bytes);
      if (refold.isFull || options.batch !== undefined) await refold.write();
      after = events.at(-1)?.pos ?? head;
      options.onProgress?.(after, head);
    }
    await refold.write();
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
export async function matchFoldVersion(
  store: Store,
  workspace: Workspace,
  onProgress: OnRefold = () => undefined,
): Promise<void> {
  const { fold_version } = await store.read(workspace.ws, (reader) => reader.head());
  if (fold_version === FOLD_VERSION) return;
  if (fold_version < FOLD_VERSION) {
    await rebuildRows(store, workspace, { onProgress });
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

/** Everything that a run's events say of what it is part of. */
type PartOf = Required<Omit<EventData<"RunStarted">, "run_id" | "run_pos">>;

/**
 * Part of nothing: only the run itself is of interest, not what it means for its chunk, its segment
 * or its step. A kind of work that is left out here does not compile.
 */
const PART_OF_NOTHING: { [Field in keyof PartOf]: null | undefined } = {
  backfill_id: null,
  chunk_index: null,
  segment: undefined,
  shard_work: undefined,
  work: undefined,
};

/** The assets and tasks of a run that has ended, as they were when it did. Rows of ended runs go; the events stay. */
export async function refoldRun(
  reader: Reader,
  run: RunRow,
): Promise<{ assets: RunAssetRow[]; tasks: TaskRow[] }> {
  const set = new WorkingSet();
  for await (const event of eventsOfRun(reader, run.run_pos)) foldAlone(set, event);
  const assets = run.asset_selection.map((_, index) =>
    present(set.rows.runAssets.get(run.run_pos, index), "a run has its assets"),
  );
  const tasks = Array.from({ length: run.tasks_total }, (_, task) =>
    present(taskOf(set.rows, run.run_pos, task), "a run has its tasks"),
  );
  return { assets, tasks };
}

/** The events of a run before its end, as those of a run that is part of nothing. */
async function* eventsOfRun(reader: Reader, runPos: number): AsyncGenerator<AnyRecorded> {
  const alone = { ...PART_OF_NOTHING, trigger_source_ref: { type: "manual" } };
  for await (const page of eventPages(reader, { after: 0, subjects: [runPos] })) {
    for (const event of page) {
      if (event.type === "RunFinished") return;
      if (mayBePassedOver(event)) continue;
      const known = folded(event);
      yield { ...known, data: { ...known.data, ...alone } } as AnyRecorded;
    }
  }
}

/** More runs than this are found by reading through the ledger rather than one by one. */
const RUNS_LOOKED_UP_MAX = 2_000;

/** A backfill as it was after the event at `pos`; null when it did not exist then. */
export async function backfillAsOf(
  reader: Reader,
  backfillId: string,
  pos: number,
): Promise<BackfillRow | null> {
  const [now] = await reader.load(TABLES.backfills, [[backfillId]]);
  if (now === undefined || now.created_pos > pos) return null;
  const set = new WorkingSet();
  for await (const events of eventsOf(reader, now, pos)) {
    for (const event of events) {
      if (!mayBePassedOver(event)) foldFor(set, folded(event), backfillId);
    }
  }
  return set.rows.backfills.get(backfillId);
}

async function* eventsOf(
  reader: Reader,
  backfill: BackfillRow,
  through: number,
): AsyncGenerator<RecordedEvent[]> {
  const after = backfill.created_pos - 1;
  const chunks = await reader.find({
    table: TABLES.chunks,
    where: [
      { cell: "backfill_id", is: "=", value: backfill.backfill_id },
      { cell: "run_pos", is: "not null" },
    ],
    order: [{ cell: "chunk_index" }],
    limit: RUNS_LOOKED_UP_MAX + 1,
  });
  if (chunks.length <= RUNS_LOOKED_UP_MAX) {
    const runs = chunks.flatMap(({ run_pos }) => run_pos ?? []);
    const subjects = [backfill.created_pos, ...runs];
    yield* eventPages(reader, { after, through, subjects });
    return;
  }
  for await (const events of eventPages(reader, { after, through })) {
    yield events.filter(({ data }) => data.includes(backfill.backfill_id));
  }
}

/** Folds what an event means for one backfill. */
function foldFor(set: WorkingSet, event: AnyRecorded, backfillId: string): void {
  const about = (event.data as { backfill_id?: string | null }).backfill_id;
  if (about !== backfillId) return;
  const alone =
    event.type === "BackfillCreated"
      ? { ...(event.data as EventData<"BackfillCreated">), after_backfill_id: null }
      : event.data;
  foldAlone(set, { ...event, data: alone });
}
