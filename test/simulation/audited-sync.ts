import type { EventData } from "../../src/work/events.ts";
import type { SegmentStatus, SyncRow, SyncState } from "../../src/work/sync/rows.ts";
import { StoredRows } from "./simulated-database.ts";

/** A segment as the auditor follows it through the ledger. */
export type AuditedSegment = {
  index: number;
  kind: "history" | "tail";
  from: number;
  to: number;
  generation: number;
  status: SegmentStatus;
  /** The run that works on it, or that has to end before another may. */
  runPos: number | null;
  /** As its last attempt said. */
  lastProcessed: number | null;
  setAside: ReadonlySet<number>;
  isExcluded: boolean;
  verification: "REQUESTED" | "RUNNING" | "PASSED" | "FAILED" | "ERROR" | null;
};

type Added = EventData<"SyncsAdded">["syncs"][number];

/** A sync as the auditor follows it through the ledger. */
export class AuditedSync {
  readonly data: Added;
  readonly name: string;
  readonly origin: "code" | "api";
  readonly segments = new Map<number, AuditedSegment>();
  /** What the user's database holds by now. */
  readonly stored = new StoredRows();
  state: SyncState = "PENDING";
  version = 1;
  maxParallel: number | null;
  plannedTo: number | null = null;
  nextIndex = 0;
  reopenings = 0;
  verifications = 0;
  rewritesSeen: number;

  constructor(name: string, origin: "code" | "api", data: Added, rewritesSeen: number) {
    this.name = name;
    this.origin = origin;
    this.data = data;
    this.maxParallel = data.max_parallel;
    this.rewritesSeen = rewritesSeen;
  }

  get acts(): boolean {
    return this.state === "RUNNING" || this.state === "FOLLOWING";
  }

  /** Its segments by block. */
  inOrder(): AuditedSegment[] {
    return [...this.segments.values()].toSorted((a, b) => a.from - b.from);
  }

  segment(index: number): AuditedSegment {
    const segment = this.segments.get(index);
    if (segment === undefined) throw new Error(`Sync ${this.name} has no segment ${index}.`);
    return segment;
  }

  add(kind: AuditedSegment["kind"], from: number, to: number, status: SegmentStatus) {
    const segment: AuditedSegment = {
      index: this.nextIndex,
      kind,
      from,
      to,
      generation: 0,
      status,
      runPos: null,
      lastProcessed: null,
      setAside: new Set(),
      isExcluded: false,
      verification: null,
    };
    this.segments.set(segment.index, segment);
    this.nextIndex += 1;
    return segment;
  }

  count(status: SegmentStatus): number {
    return [...this.segments.values()].filter((segment) => segment.status === status).length;
  }

  /** The end of the longest complete prefix, found by walking along it. */
  syncedTo(): number {
    let to = this.data.from_block - 1;
    for (const segment of this.inOrder()) {
      if (segment.status !== "COMPLETE" || segment.from !== to + 1) break;
      to = segment.to;
    }
    return to;
  }

  /** What is wrong with the tiling of everything that is planned; null when nothing is. */
  tilingFault(): string | null {
    return faultOfTiles(this.inOrder(), this.data.from_block, this.plannedTo);
  }

  /** What the row of the sync must say. */
  expectedRow(): Partial<SyncRow> {
    const segments = [...this.segments.values()];
    const complete = segments.filter(({ status }) => status === "COMPLETE");
    const queued = segments.filter(({ status, runPos }) => status === "PENDING" && runPos !== null);
    return {
      state: this.state,
      state_version: this.version,
      max_parallel: this.maxParallel,
      planned_to: this.plannedTo,
      next_segment: this.nextIndex,
      synced_to: this.syncedTo(),
      segments_total: segments.length,
      segments_pending: this.count("PENDING"),
      segments_queued: queued.length,
      segments_running: this.count("RUNNING"),
      segments_failed: this.count("FAILED"),
      segments_complete: complete.length,
      segments_quarantined: this.count("QUARANTINED"),
      blocks_complete: complete.reduce((sum, { from, to }) => sum + to - from + 1, 0),
      rewrites_seen: this.rewritesSeen,
      reopenings: this.reopenings,
      verifications: this.verifications,
      verify_waiting: segments.filter(({ verification }) => verification === "REQUESTED").length,
      verify_active: segments.filter(({ verification }) => verification === "RUNNING").length,
    };
  }
}

/** What is wrong with pieces, in order, that must cover a range without hole or overlap. */
export function faultOfTiles(
  tiles: readonly { from: number; to: number }[],
  from: number,
  to: number | null,
): string | null {
  let next = from;
  for (const tile of tiles) {
    if (tile.from !== next || tile.to < tile.from) {
      return `${tile.from} to ${tile.to} stands where ${next} should`;
    }
    next = tile.to + 1;
  }
  const end = to ?? from - 1;
  return next === end + 1 ? null : `it ends at ${next - 1}, not ${end}`;
}
