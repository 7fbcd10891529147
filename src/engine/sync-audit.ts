import type { SyncRow } from "../core/rows/sync-rows.ts";
import type { Condition } from "../core/rows/table.ts";
import { TABLES } from "../core/rows/tables.ts";
import type { Store, WorkspaceId } from "../store/store.ts";
import { reasonOf } from "./commit-loop.ts";
import type { Environment } from "./environment.ts";
import { readSegments, syncFault } from "./sync-fault.ts";

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
    return (await this.#store.read(this.#ws, (reader) => reader.find(find))) as SyncRow[];
  }

  async #audit(syncId: string): Promise<void> {
    const suspected = await this.#store.read(this.#ws, async (reader) => {
      const [sync] = (await reader.load(TABLES.syncs, [[syncId]])) as SyncRow[];
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
