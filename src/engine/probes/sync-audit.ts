import { syncStateChanged, stopRuns } from "../../work/sync/look-up.ts";
import type { Decide } from "../../work/decision.ts";
import { tilingFault } from "../../work/sync/advance.ts";
import type { Rows } from "../../work/rows.ts";
import type { SegmentRow, SyncRow } from "../../work/sync/rows.ts";
import type { Condition } from "../../kernel/table.ts";
import { TABLES } from "../../work/tables.ts";
import type { Reader, Store, WorkspaceId } from "../../store/store.ts";
import { reasonOf } from "../commit-loop.ts";
import type { Environment } from "../config.ts";

/** Segments that one look-up brings. */
const PAGE = 2_000;

/** The order in which segments tile a range; of several with one beginning, which none should have. */
const BY_BLOCK = [{ cell: "from_block" }, { cell: "segment_index" }];

/** What is wrong with a sync by all its segments, in order of their blocks; null when nothing is. */
export function syncFault(sync: SyncRow, segments: readonly SegmentRow[]): string | null {
  const fault = tilingFault(segments, sync.from_block, sync.planned_to);
  if (fault !== null) return fault;
  if (segments.length !== sync.segments_total) {
    return `there are ${segments.length} segments, and ${sync.segments_total} are counted`;
  }
  const open = segments.find(({ status }) => status !== "COMPLETE");
  if (open === undefined || sync.synced_to < open.from_block) return null;
  return (
    `it counts as synced to ${sync.synced_to}, but segment ${open.segment_index} ` +
    `(${open.from_block} to ${open.to_block}) is ${open.status}`
  );
}

function pageOf(syncId: string, last: SegmentRow | undefined): Condition[] {
  const own: Condition = { cell: "sync_id", is: "=", value: syncId };
  if (last === undefined) return [own];
  const key = [last.from_block, last.segment_index];
  return [own, { cells: ["from_block", "segment_index"], is: "after", key }];
}

/** All segments of a sync, in order of their blocks. */
export async function readSegments(reader: Reader, syncId: string): Promise<SegmentRow[]> {
  const segments: SegmentRow[] = [];
  for (;;) {
    const where = pageOf(syncId, segments.at(-1));
    const find = { table: TABLES.segments, where, order: BY_BLOCK, limit: PAGE };
    const page = await reader.find(find);
    segments.push(...page);
    if (page.length < PAGE) return segments;
  }
}

function segmentsIn(rows: Rows, syncId: string): SegmentRow[] {
  const segments: SegmentRow[] = [];
  for (;;) {
    const page = rows.segments.find(pageOf(syncId, segments.at(-1)), BY_BLOCK, PAGE);
    segments.push(...page);
    if (page.length < PAGE) return segments;
  }
}

/** Pauses a sync whose segments are not whole, and answers what is wrong; null when nothing is. */
export function pauseFaulty(syncId: string): Decide<string | null> {
  return (rows, context) => {
    const sync = rows.syncs.get(syncId);
    if (sync === null || sync.state === "REMOVED") return { events: [], result: null };
    const fault = syncFault(sync, segmentsIn(rows, syncId));
    if (fault === null || sync.state === "PAUSED") return { events: [], result: fault };
    const reason = `its segments do not add up: ${fault}`;
    const paused = syncStateChanged(sync, "PAUSED", { reason });
    return { events: [paused, ...stopRuns(rows, sync, false, context)], result: fault };
  };
}

/** How often each sync is gone through. */
const ROUND_MS = 3_600_000;
/** How often some of them are. */
const STEP_MS = 10_000;

/** The syncs that have segments to be gone through. */
const PLANNED: Condition[] = [
  { cell: "state", is: "<>", value: "REMOVED" },
  { cell: "planned_to", is: "not null" },
];

/** What came of audits, since the server started. */
export type AuditCounts = { audits: number; faults: number };

/**
 * Goes through the segments of all syncs, a few at a time, and checks that they tile their range.
 * Reads without the lock; what it finds is looked at again under it, and stops the sync.
 */
export class SyncAudit {
  readonly #store: Store;
  readonly #ws: WorkspaceId;
  readonly #environment: Environment;
  readonly #confirm: (syncId: string) => Promise<string | null>;
  readonly counts: AuditCounts = { audits: 0, faults: 0 };
  #cancelTimer: (() => void) | null = null;
  #stopped = false;
  #auditing: Promise<void> = Promise.resolve();
  /** The last sync that was gone through in this round, and how many follow in each step. */
  #after = "";
  #perStep = 1;
  #nextRoundMs: number | null = null;

  /** `confirm` looks again under the lock, stops the sync, and answers what is wrong with it. */
  constructor(
    store: Store,
    ws: WorkspaceId,
    environment: Environment,
    confirm: (syncId: string) => Promise<string | null>,
  ) {
    this.#store = store;
    this.#ws = ws;
    this.#environment = environment;
    this.#confirm = confirm;
  }

  start(): void {
    this.#cancelTimer = this.#environment.timer(STEP_MS, () => {
      this.#auditing = this.step().finally(() => {
        if (!this.#stopped) this.start();
      });
    });
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    this.#cancelTimer?.();
    await this.#auditing;
  }

  /** Goes through the next few. */
  async step(): Promise<void> {
    try {
      const elapsedMs = this.#environment.elapsedMs();
      const isOver = this.#after === "";
      if (isOver && this.#nextRoundMs !== null && elapsedMs < this.#nextRoundMs) return;
      if (isOver) await this.#beginRound(elapsedMs);
      const syncs = await this.#next();
      for (const { sync_id } of syncs) if (!this.#stopped) await this.#audit(sync_id);
      this.#after = syncs.length < this.#perStep ? "" : (syncs.at(-1)?.sync_id ?? "");
    } catch (error) {
      if (this.#stopped) return;
      this.#environment.warn("an audit of syncs failed", { reason: reasonOf(error) });
    }
  }

  async #beginRound(elapsedMs: number): Promise<void> {
    this.#nextRoundMs = elapsedMs + ROUND_MS;
    const groups = await this.#store.read(this.#ws, (reader) =>
      reader.countBy(TABLES.syncs, PLANNED, []),
    );
    const count = groups[0]?.count ?? 0;
    this.#perStep = Math.max(1, Math.ceil((count * STEP_MS) / ROUND_MS));
  }

  async #next(): Promise<SyncRow[]> {
    const find = {
      table: TABLES.syncs,
      where: [...PLANNED, { cell: "sync_id", is: ">", value: this.#after } as const],
      order: [{ cell: "sync_id" }],
      limit: this.#perStep,
    };
    return this.#store.read(this.#ws, (reader) => reader.find(find));
  }

  async #audit(syncId: string): Promise<void> {
    const suspected = await this.#store.read(this.#ws, async (reader) => {
      const [sync] = await reader.load(TABLES.syncs, [[syncId]]);
      return sync === undefined ? null : syncFault(sync, await readSegments(reader, syncId));
    });
    this.counts.audits += 1;
    if (suspected === null) return;
    const fault = await this.#confirm(syncId);
    if (fault === null) return;
    this.counts.faults += 1;
    this.#environment.warn("a sync has a fault and was paused", { sync_id: syncId, fault });
  }
}
