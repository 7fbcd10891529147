import { syncStateChanged, stopRuns } from "../../work/sync/look-up.ts";
import type { Decide } from "../../work/decision.ts";
import { tilingFault } from "../../work/sync/advance.ts";
import type { Rows } from "../../work/rows.ts";
import type { SegmentRow, SyncRow, SyncSourceRow } from "../../work/sync/rows.ts";
import type { Condition, Key, Order } from "../../kernel/table.ts";
import { TABLES } from "../../work/tables.ts";
import type { Reader, Store, WorkspaceId } from "../../store/store.ts";
import { reasonOf } from "../commit-loop.ts";
import type { Environment } from "../config.ts";
import type { DefinitionRow } from "../../work/definition/rows.ts";
import type { SyncSpec } from "../../work/sync/spec.ts";

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

const BY_ID: Order[] = [{ cell: "sync_id" }];
/** Definitions that are gone through. */
const DEFINITIONS_MAX = 10_000;

const isState = (...values: SyncRow["state"][]): Condition => ({ cell: "state", is: "in", values });

const isNamed = (name: string): Condition => ({ cell: "name", is: "=", value: name });

const LIVING: Condition = { cell: "state", is: "<>", value: "REMOVED" };

/** The syncs that are not whole, of which there may be any number. */
export const NOT_WHOLE: Condition = isState("PENDING", "RUNNING");

/**
 * Of the syncs that are whole or stand still, at most so many of each sort whose rows say that something
 * was left undone.
 */
export function unfinishedSyncs(rows: Rows, limit: number): string[] {
  const ids = new Set<string>();
  const add = (...where: Condition[]): void => {
    for (const { sync_id } of rows.syncs.find(where, BY_ID, limit)) ids.add(sync_id);
  };
  add(isState("FOLLOWING"), { cell: "segments_pending", is: ">", value: 0 });
  add({ cell: "verify_waiting", is: ">", value: 0 }, LIVING);
  const specs = specsOf(rows);
  for (const [name, { to }] of specs) {
    // Of a range that was fixed and is no more, or ends later than it did.
    const own: Condition = { cell: "to_limit", is: "null" };
    const grown: Condition[] = to === null ? [] : [{ cell: "planned_to", is: "<", value: to }];
    add(isNamed(name), isState("COMPLETE"), own, ...grown);
  }
  for (const id of stoppedSyncs(rows, limit)) ids.add(id);
  return [...ids];
}

/** How far sources and definitions were gone through: what has not changed since is in order. */
export type Swept = { sources: number; definitions: number };

/** Nothing was gone through. */
export const NOTHING_SWEPT: Swept = { sources: 0, definitions: 0 };

/**
 * The questions that the syncs answer which their sources have left behind, of at most so many sources
 * that changed since, and what is gone through with them. There may be thousands of sources, so each
 * is a question by itself.
 */
export function questionsBehind(
  rows: Rows,
  swept: Swept,
  limit: number,
): { questions: Condition[][]; swept: Swept } {
  const specs = specsOf(rows);
  const definitions = definitionsOf(rows).reduce((max, one) => Math.max(max, one.row_version), 0);
  const since = definitions > swept.definitions ? 0 : swept.sources;
  const changed: Condition = { cell: "row_version", is: ">", value: since };
  const sources = rows.syncSources.find([changed], [{ cell: "row_version" }], limit);
  const questions = sources.flatMap((source) => questionsOf(source, specs.get(source.name)));
  return { questions, swept: { sources: sources.at(-1)?.row_version ?? since, definitions } };
}

function questionsOf(
  { name, source, head, rewrites }: SyncSourceRow,
  spec: SyncSpec | undefined,
): Condition[][] {
  if (spec === undefined) return [];
  const own: Condition[] = [isNamed(name), { cell: "source", is: "=", value: source }];
  const behind: Condition = { cell: "planned_to", is: "<", value: head - spec.finality };
  const unseen: Condition = { cell: "rewrites_seen", is: "<", value: rewrites };
  return [
    [...own, isState("FOLLOWING"), behind],
    ...(rewrites === 0 ? [] : [[...own, isState("FOLLOWING", "COMPLETE", "PAUSED"), unseen]]),
  ];
}

/**
 * The syncs that have not changed since their definition did: whoever published it may have died
 * before each of them was looked at. Worth a look once, when a server starts.
 */
export function unseenSyncs(rows: Rows, limit: number): string[] {
  const definitions = definitionsOf(rows);
  const names = definitions.map(({ name }) => name);
  const gone: Condition[] = [
    { cell: "name", is: "not in", values: names },
    { cell: "origin", is: "=", value: "code" },
  ];
  const older = definitions.map(({ name, row_version }): Condition[] => [
    isNamed(name),
    { cell: "row_version", is: "<", value: row_version },
  ]);
  return [gone, ...older].flatMap((where) =>
    rows.syncs.find([...where, LIVING], BY_ID, limit).map(({ sync_id }) => sync_id),
  );
}

/** Syncs that stand still while some of their runs may not have been told. */
function stoppedSyncs(rows: Rows, limit: number): string[] {
  const running = rows.segments.find(
    [{ cell: "run_pos", is: "not null" }],
    [{ cell: "sync_id" }, { cell: "segment_index" }],
    limit,
  );
  const ids = [...new Set(running.map(({ sync_id }) => sync_id))];
  rows.syncs.need(ids.map((id): Key => [id]));
  return ids.filter((id) => {
    const state = rows.syncs.get(id)?.state;
    return state === "PAUSED" || state === "REMOVED";
  });
}

function specsOf(rows: Rows): Map<string, SyncSpec> {
  const definitions = definitionsOf(rows);
  rows.specs.need(definitions.map(({ spec_hash }): Key => [spec_hash]));
  return new Map(
    definitions.flatMap(({ name, spec_hash }) => {
      const body = rows.specs.get(spec_hash)?.body;
      return body?.kind === "sync" ? [[name, body] as const] : [];
    }),
  );
}

function definitionsOf(rows: Rows): DefinitionRow[] {
  const ofSyncs: Condition = { cell: "kind", is: "=", value: "sync" };
  return rows.definitions.find([ofSyncs], [{ cell: "name" }], DEFINITIONS_MAX);
}
