import type { SegmentEndField } from "../../src/work/run/events.ts";
import { type AuditedSegment, type AuditedSync, faultOfTiles } from "./audited-sync.ts";

/** What the end of a run is held against. */
export type SegmentEndAudit = {
  sync: AuditedSync;
  segment: AuditedSegment;
  outcome: "SUCCEEDED" | "FAILED" | "CANCELLED";
  check: (condition: boolean, promise: string, what: string) => void;
  /** Checks that everything up to a block is stored. */
  holds: (to: number) => void;
};

/** Follows what the end of its run makes of the current generation of a segment. */
export function auditSegmentEnd(end: SegmentEndField, audit: SegmentEndAudit): void {
  const { sync, segment, outcome, check } = audit;
  const name = `segment ${segment.index}`;
  switch (end.becomes) {
    case "complete":
      check(outcome === "SUCCEEDED", "I48", `${name} is complete after ${outcome}`);
      check(segment.setAside.size === 0, "I48", `${name} is complete without some of its blocks`);
      check(segment.lastProcessed === segment.to, "I48", `${name} is at ${segment.lastProcessed}`);
      audit.holds(segment.to);
      segment.status = "COMPLETE";
      if (end.merged_into !== null) merge(audit, end.merged_into);
      break;
    case "pending":
      check(outcome !== "FAILED", "I48", `${name} is pending after ${outcome}`);
      segment.status = "PENDING";
      segment.generation += 1;
      if (end.undo) Object.assign(segment, { lastProcessed: null, setAside: new Set() });
      return;
    case "quarantined":
      // A block that stands alone and was quarantined cannot be cut any further.
      check(
        outcome === "FAILED" || (segment.from === segment.to && segment.setAside.size === 1),
        "I48",
        `${name} is quarantined after ${outcome}`,
      );
      segment.status = "QUARANTINED";
      return;
    case "split":
      check(outcome === "SUCCEEDED", "I48", `${name} is split after ${outcome}`);
      audit.holds(segment.to);
      split(end, audit);
      break;
    default:
      return;
  }
  const expected = sync.syncedTo();
  check(end.synced_to === expected, "I48", `synced to ${end.synced_to}, not ${expected}`);
}

/** Only complete neighbours at the tail become one. */
function merge({ sync, segment, check }: SegmentEndAudit, into: number): void {
  const before = sync.segment(into);
  const isNeighbour =
    before.status === "COMPLETE" && before.to === segment.from - 1 && !before.isExcluded;
  const what = `segment ${segment.index} is merged into ${JSON.stringify(before)}`;
  check(isNeighbour && before.kind === "tail" && segment.kind === "tail", "I47", what);
  before.to = segment.to;
  sync.segments.delete(segment.index);
}

/** What could not be fetched stands alone, block by block, and the rest is complete. */
function split(
  end: Extract<SegmentEndField, { becomes: "split" }>,
  { sync, segment, check }: SegmentEndAudit,
): void {
  const pieces = end.tiles.map(({ from_block, to_block }) => ({ from: from_block, to: to_block }));
  const fault = faultOfTiles(pieces, segment.from, segment.to);
  check(fault === null, "I47", `the pieces of segment ${segment.index}: ${fault}`);
  sync.segments.delete(segment.index);
  const aside = new Set<number>();
  for (const { segment_index, from_block, to_block, error } of end.tiles) {
    check(segment_index === sync.nextIndex, "I47", `a piece has the index ${segment_index}`);
    sync.add(segment.kind, from_block, to_block, error === null ? "COMPLETE" : "QUARANTINED");
    if (error === null) continue;
    check(from_block === to_block, "I48", `${from_block} to ${to_block} are quarantined at once`);
    aside.add(from_block);
  }
  const isSame = [...segment.setAside].every((block) => aside.has(block));
  check(isSame && aside.size === segment.setAside.size, "I48", "others are quarantined than said");
}
