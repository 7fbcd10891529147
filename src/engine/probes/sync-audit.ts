import {
  AUDIT_PAGE,
  BY_BLOCK,
  pauseFaulty,
  segmentsAfter,
  syncFault,
} from "../../work/sync/repair.ts";
import type { SegmentRow, SyncRow } from "../../work/sync/rows.ts";
import type { Condition } from "../../kernel/table.ts";
import { TABLES } from "../../work/tables.ts";
import type { Reader } from "../../store/store.ts";
import { ENGINE_CAUSE } from "../commit.ts";
import { reasonOf } from "../commit-loop.ts";
import type { PollHost } from "./polls.ts";

/** All segments of a sync, in order of their blocks. */
async function readSegments(reader: Reader, syncId: string): Promise<SegmentRow[]> {
  const segments: SegmentRow[] = [];
  for (;;) {
    const where = segmentsAfter(syncId, segments.at(-1));
    const find = { table: TABLES.segments, where, order: BY_BLOCK, limit: AUDIT_PAGE };
    const page = await reader.find(find);
    segments.push(...page);
    if (page.length < AUDIT_PAGE) return segments;
  }
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
  readonly #host: PollHost;
  readonly counts: AuditCounts = { audits: 0, faults: 0 };
  #cancelTimer: (() => void) | null = null;
  #stopped = false;
  #auditing: Promise<void> = Promise.resolve();
  /** The last sync that was gone through in this round, and how many follow in each step. */
  #after = "";
  #perStep = 1;
  #nextRoundMs: number | null = null;

  constructor(host: PollHost) {
    this.#host = host;
  }

  start(): void {
    this.#cancelTimer = this.#host.environment.timer(STEP_MS, () => {
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
      const elapsedMs = this.#host.environment.elapsedMs();
      const isOver = this.#after === "";
      if (isOver && this.#nextRoundMs !== null && elapsedMs < this.#nextRoundMs) return;
      if (isOver) await this.#beginRound(elapsedMs);
      const syncs = await this.#next();
      for (const { sync_id } of syncs) if (!this.#stopped) await this.#audit(sync_id);
      this.#after = syncs.length < this.#perStep ? "" : (syncs.at(-1)?.sync_id ?? "");
    } catch (error) {
      if (this.#stopped) return;
      this.#host.environment.warn("an audit of syncs failed", { reason: reasonOf(error) });
    }
  }

  async #beginRound(elapsedMs: number): Promise<void> {
    this.#nextRoundMs = elapsedMs + ROUND_MS;
    const groups = await this.#read((reader) => reader.countBy(TABLES.syncs, PLANNED, []));
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
    return this.#read((reader) => reader.find(find));
  }

  async #audit(syncId: string): Promise<void> {
    const suspected = await this.#read(async (reader) => {
      const [sync] = await reader.load(TABLES.syncs, [[syncId]]);
      return sync === undefined ? null : syncFault(sync, await readSegments(reader, syncId));
    });
    this.counts.audits += 1;
    if (suspected === null) return;
    const fault = await this.#host.record(pauseFaulty(syncId), ENGINE_CAUSE);
    if (fault === null) return;
    this.counts.faults += 1;
    this.#host.environment.warn("a sync has a fault and was paused", { sync_id: syncId, fault });
  }

  #read<Result>(body: (reader: Reader) => Promise<Result>): Promise<Result> {
    return this.#host.store.read(this.#host.ws, body);
  }
}
