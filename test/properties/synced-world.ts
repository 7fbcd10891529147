import { taskOf } from "../../src/work/run/task-blocks.ts";
import { expect } from "vitest";
import { tilingFault } from "../../src/work/sync/advance.ts";
import type { NewEvent } from "../../src/work/events.ts";
import type { SegmentStatus, SegmentRow, SyncRow } from "../../src/work/sync/rows.ts";
import { LedgerWorld } from "./ledger-world.ts";
import type { Held } from "./sync-world.ts";

/** An attempt at a segment that a worker holds, and what it keeps of it. */
export type Working = {
  held: Held;
  /** Everything up to here is stored. */
  done: number | null;
  quarantined: number[];
};

/** What an attempt kept as its checkpoint. */
type Checkpoint = Pick<Working, "done" | "quarantined">;

/** A promise that is looked after. */
export type HeldPromise = "I47" | "I48" | "I50" | "I51";

/**
 * A ledger of syncs, a source that may rewrite its blocks, and what was stored of it: rows of every
 * version of a block, which only an undo deletes. Whatever is recorded is held against the promises.
 */
export class SyncedWorld extends LedgerWorld {
  /** Which version of each block the source has. */
  readonly chain: number[] = [];
  /** The versions that are stored of each block, by target. */
  readonly stored = new Map<string, Map<number, Set<number>>>();
  /** A head that the source never had, while it is believed. */
  believed: number | null = null;
  readonly checkpoints = new Map<number, Checkpoint>();
  readonly working: Working[] = [];
  readonly #held: ReadonlySet<HeldPromise>;
  #versions = 0;

  constructor(held: readonly HeldPromise[]) {
    super();
    this.#held = new Set(held);
  }

  /** Adds blocks to the source. */
  grow(blocks: number): void {
    for (let added = 0; added < blocks; added++) this.chain.push(this.#versions);
  }

  /** Gives all blocks above the fork another version, and the source fewer of them. */
  rewrite(fork: number, fewer: number): void {
    this.#versions += 1;
    this.chain.fill(this.#versions, fork + 1);
    const lost = Math.min(fewer, this.chain.length - 1 - Math.max(0, fork));
    this.chain.splice(this.chain.length - Math.max(0, lost));
  }

  /** Notes that somebody set the head, which counts as a rewrite of nothing. */
  headWasCut(): void {
    this.#versions += 1;
  }

  /** Begins to work on what was claimed, behind the checkpoint if there is one. */
  begin(held: Held): void {
    const { segment, run_pos } = held;
    if (segment.purpose === "verify") {
      this.working.push({ held, done: null, quarantined: [] });
      return;
    }
    const kept = this.checkpoints.get(run_pos) ?? {
      done: segment.last_processed_block,
      quarantined: [],
    };
    const working = { held, ...kept };
    if (segment.undo) {
      const rows = this.storedOf(segment.sync_id);
      for (let block = nextOf(working); block <= segment.to_block; block++) rows.delete(block);
    }
    this.working.push(working);
  }

  /** Stores some more blocks, but for those that fail; then keeps how far it got. */
  work(working: Working, blocks: number, fails: boolean): void {
    const { segment, run_pos } = working.held;
    // What the source has not got is no data to anybody, whatever its head is said to be.
    const there = Math.min(segment.to_block, this.chain.length - 1);
    const last = Math.min(there, nextOf(working) + blocks - 1);
    const rows = this.storedOf(segment.sync_id);
    for (let block = nextOf(working); block <= last; block++) {
      if (fails && segment.splittable && block === last) working.quarantined.push(block);
      else rows.set(block, (rows.get(block) ?? new Set()).add(this.chain[block] ?? -1));
      working.done = block;
    }
    this.checkpoints.set(run_pos, {
      done: working.done,
      quarantined: [...working.quarantined],
    });
  }

  storedOf(syncId: string): Map<number, Set<number>> {
    const rows = this.stored.get(syncId) ?? new Map<number, Set<number>>();
    this.stored.set(syncId, rows);
    return rows;
  }

  override record(events: readonly NewEvent[]): void {
    super.record(events);
    if (events.length === 0 || this.#held.size === 0) return;
    for (const sync of this.syncs()) {
      const segments = this.segments(sync.sync_id);
      if (this.#held.has("I47")) {
        expect(tilingFault(segments, sync.from_block, sync.planned_to)).toBeNull();
      }
      if (this.#held.has("I48")) expect(sync.synced_to).toBe(prefixOf(sync, segments));
      if (this.#held.has("I50")) this.#checkStored(sync, segments);
      if (!this.#held.has("I51")) continue;
      this.#checkRuns(segments);
      checkCounts(sync, segments);
    }
  }

  /** A run that works on what was opened again has been told to stop, and keeps its place. */
  #checkRuns(segments: readonly SegmentRow[]): void {
    for (const { run_pos, generation } of segments) {
      if (run_pos === null) continue;
      const run = this.read((rows) => rows.runs.get(run_pos));
      const source = run?.trigger_source_ref;
      if (source?.type !== "sync") throw new Error("The run is about no segment.");
      expect(run?.finished_at, "a segment's run goes on").toBeNull();
      if (source.generation === generation) continue;
      expect(source.generation).toBeLessThan(generation);
      expect(run?.cancel_requested_at).not.toBeNull();
    }
  }

  /** What is complete is stored as the source has it, once all its rewrites were answered. */
  #checkStored(sync: SyncRow, segments: readonly SegmentRow[]): void {
    const source = this.read((rows) => rows.syncSources.get(sync.name, sync.source));
    if ((source?.rewrites ?? 0) !== this.#versions) return;
    if (source !== null && sync.rewrites_seen < source.rewrites) return;
    const rows = this.storedOf(sync.sync_id);
    for (const { status, excluded, from_block, to_block } of segments) {
      if (status !== "COMPLETE" || excluded !== null) continue;
      for (let block = from_block; block <= to_block; block++) {
        const versions = [...(rows.get(block) ?? [])];
        expect(versions, `block ${block}`).toEqual([this.chain[block]]);
      }
    }
  }

  /** No two attempts that still hold their tasks work on the same block. */
  checkHolders(): void {
    const current = this.working.filter((one) => this.isCurrent(one));
    const fetching = current
      .map(({ held }) => held.segment)
      .filter(({ purpose }) => purpose === "fetch")
      .toSorted((a, b) => a.from_block - b.from_block);
    for (const [index, { sync_id, to_block }] of fetching.entries()) {
      const next = fetching.slice(index + 1).find((other) => other.sync_id === sync_id);
      if (next !== undefined) expect(next.from_block).toBeGreaterThan(to_block);
    }
  }

  /** Whether the attempt still holds its task. */
  isCurrent({ held }: Working): boolean {
    const [task] = held.tasks;
    const row = this.read((rows) => taskOf(rows, held.run_pos, task?.task_key ?? 0));
    return row?.state === "RUNNING" && row.attempt === task?.attempt;
  }
}

/** The block that an attempt goes on with. */
export function nextOf({ held, done }: Working): number {
  return done === null ? held.segment.from_block : done + 1;
}

function prefixOf(sync: SyncRow, segments: readonly SegmentRow[]): number {
  let end = sync.from_block - 1;
  for (const { status, to_block } of segments) {
    if (status !== "COMPLETE") return end;
    end = to_block;
  }
  return end;
}

function checkCounts(sync: SyncRow, segments: readonly SegmentRow[]): void {
  const count = (holds: (segment: SegmentRow) => boolean): number => segments.filter(holds).length;
  const is = (status: SegmentStatus) => count((segment) => segment.status === status);
  const size = ({ from_block, to_block }: SegmentRow): number => to_block - from_block + 1;
  const complete = segments.filter(({ status }) => status === "COMPLETE");
  expect({
    segments_total: sync.segments_total,
    segments_pending: sync.segments_pending,
    segments_queued: sync.segments_queued,
    segments_running: sync.segments_running,
    segments_failed: sync.segments_failed,
    segments_complete: sync.segments_complete,
    segments_quarantined: sync.segments_quarantined,
    blocks_complete: sync.blocks_complete,
    verify_waiting: sync.verify_waiting,
    verify_active: sync.verify_active,
  }).toEqual({
    segments_total: segments.length,
    segments_pending: is("PENDING"),
    segments_queued: count(({ status, run_pos }) => status === "PENDING" && run_pos !== null),
    segments_running: is("RUNNING"),
    segments_failed: is("FAILED"),
    segments_complete: is("COMPLETE"),
    segments_quarantined: is("QUARANTINED"),
    blocks_complete: complete.reduce((sum, segment) => sum + size(segment), 0),
    verify_waiting: count(({ verification }) => verification?.status === "REQUESTED"),
    verify_active: count(({ verification }) => verification?.status === "RUNNING"),
  });
}
