import type { EventData } from "../../src/work/events.ts";
import type { Audited } from "./audit-ledger.ts";
import { auditSegmentEnd, type SegmentEndAudit } from "./audit-segment-ends.ts";
import type { AuditedSegment, AuditedSync } from "./audited-sync.ts";
import type { AuditedSyncs, Check } from "./audited-syncs.ts";
import { SimulatedChain } from "./simulated-chain.ts";
import type { Violations } from "./violations.ts";

/** What runs of segments are about. */
type RunOf = { sync: AuditedSync; purpose: "fetch" | "verify" };

/** Follows the runs of segments through the ledger and the user's database. */
export class SegmentAudit {
  readonly #syncs: AuditedSyncs;
  readonly #violations: Violations;
  readonly #runs = new Map<number, RunOf>();

  constructor(syncs: AuditedSyncs, violations: Violations) {
    this.#syncs = syncs;
    this.#violations = violations;
  }

  /** A run of a segment: of its current generation, alone, and only while there is room. */
  requested({ data, pos }: Audited<"RunRequested">): void {
    const source = data.trigger_source_ref;
    if (source.type !== "sync") return;
    const sync = this.#syncs.get(source.sync_id);
    const segment = sync.segment(source.segment_index);
    const check = this.#syncs.checking(sync, pos);
    const { generation, purpose } = source;
    const name = `segment ${segment.index} of generation ${segment.generation}`;
    check(generation === segment.generation, "I51", `${name} is run as ${generation}`);
    this.#runs.set(pos, { sync, purpose });
    check(segment.runPos === null, "I51", `${name} is run while run ${segment.runPos} is open`);
    segment.runPos = pos;
    const base = `sync:${source.sync_id}:segment:${segment.index}`;
    const key = generation === 0 ? base : `${base}:gen:${generation}`;
    if (purpose === "verify") {
      check(segment.verification === "REQUESTED", "I48", `${name} is ${segment.verification}`);
      check(data.run_key.startsWith(`${key}:verify:`), "I19", `its key is ${data.run_key}`);
      segment.verification = "RUNNING";
      return;
    }
    check(data.run_key === key, "I19", `its key is ${data.run_key}`);
    check(segment.status === "PENDING", "I51", `${name} is run while ${segment.status}`);
    check(sync.acts, "I51", `${name} is run while ${sync.state}`);
    const row = sync.expectedRow();
    const active = (row.segments_queued ?? 0) + (row.segments_running ?? 0);
    check(active <= this.#syncs.maxParallel(sync), "I51", `${name} makes ${active} active`);
    const wanted = this.#syncs.wantedTo(sync, "head");
    const isSafe = wanted !== null && segment.to <= wanted.to;
    check(isSafe, "I50", `${name} ends at ${segment.to}, and ${wanted?.to} is safe`);
  }

  tasksStarted({ data, pos }: Audited<"TasksStarted">): void {
    const run = this.#runs.get(data.run_pos);
    this.#violations.check(
      (run === undefined) === (data.segment === undefined),
      "I51",
      `the tasks at ${pos} say nothing of their segment`,
    );
    if (run === undefined || data.segment === undefined || run.purpose === "verify") return;
    const { sync } = run;
    const check = this.#syncs.checking(sync, pos);
    const segment = sync.segment(data.segment.segment_index);
    const name = `segment ${segment.index}`;
    check(segment.generation === data.segment.generation, "I51", `${name} is another by now`);
    check(segment.runPos === data.run_pos, "I51", `${name} is run ${segment.runPos}'s`);
    check(sync.acts, "I51", `${name} starts while ${sync.state}`);
    segment.status = "RUNNING";
    const running = sync.count("RUNNING");
    check(running <= this.#syncs.maxParallel(sync), "I51", `${running} segments run at once`);
  }

  tasksFinished({ data, pos }: Audited<"TasksFinished">): void {
    for (const result of data.results) this.#ended(data, result, pos);
  }

  leaseExpired({ data, pos }: Audited<"TaskLeaseExpired">): void {
    this.#ended(data, data.result, pos);
  }

  /** An attempt has ended: what it says of how far it got is in the database. */
  #ended(
    { run_pos, segment: ref }: EventData<"TaskLeaseExpired"> | EventData<"TasksFinished">,
    result: EventData<"TaskLeaseExpired">["result"],
    pos: number,
  ): void {
    const run = this.#runs.get(run_pos);
    if (run === undefined || ref === undefined) return;
    const { sync, purpose } = run;
    const segment = sync.segments.get(ref.segment_index);
    // Nothing of an earlier generation counts.
    if (segment === undefined || segment.generation !== ref.generation) return;
    const report = result.segment;
    const isAgain = result.retry_at !== undefined;
    if (purpose === "verify") {
      const found = report?.verification ?? null;
      if (isAgain || segment.verification === null) return;
      segment.verification = found === null ? "ERROR" : found.ok ? "PASSED" : "FAILED";
      return;
    }
    if (isAgain) {
      const isBack =
        result.released === true || ["lease-lost", "stalled"].includes(result.error?.class ?? "");
      segment.status = isBack ? "PENDING" : "FAILED";
    }
    if (report === undefined) return;
    segment.lastProcessed = report.last_processed_block;
    segment.setAside = new Set(report.quarantined.map(({ block }) => block));
    const check = this.#syncs.checking(sync, pos);
    const to = report.last_processed_block ?? segment.from - 1;
    const isInside = to >= segment.from - 1 && to <= segment.to;
    check(isInside, "I48", `segment ${segment.index} got to ${to}`);
    this.#holds(sync, segment, to, check);
  }

  runFinished({ data, pos }: Audited<"RunFinished">): void {
    const run = this.#runs.get(data.run_pos);
    if (run === undefined) return;
    const { sync, purpose } = run;
    const check = this.#syncs.checking(sync, pos);
    const end = data.segment_end;
    check(end !== undefined && data.segment !== undefined, "I51", "a run ends without a word");
    if (end === undefined || data.segment === undefined) return;
    const segment = sync.segments.get(data.segment.segment_index);
    const isCurrent =
      segment !== undefined &&
      purpose === "fetch" &&
      segment.generation === data.segment.generation;
    check(isCurrent === (end.becomes !== "released"), "I51", `it becomes ${end.becomes}`);
    if (segment === undefined) return;
    if (segment.runPos === data.run_pos) segment.runPos = null;
    if (!isCurrent) return;
    const audit: SegmentEndAudit = {
      sync,
      segment,
      outcome: data.outcome,
      check,
      holds: (to) => this.#holds(sync, segment, to, check),
    };
    const { to } = segment;
    auditSegmentEnd(end, audit);
    const isComplete = [...sync.segments.values()].some(
      (each) => each.to === to && each.status === "COMPLETE",
    );
    if (isComplete) this.#syncs.source(sync.name, sync.data.source).ends.add(to);
  }

  /** Everything from the segment's beginning is stored, but what was quarantined. */
  #holds(sync: AuditedSync, segment: AuditedSegment, to: number, check: Check): void {
    for (let block = segment.from; block <= to; block++) {
      if (!SimulatedChain.hasRow(block) || segment.setAside.has(block)) continue;
      if (sync.stored.at(block).length > 0) continue;
      check(false, "I48", `segment ${segment.index} got to ${to}, and ${block} is not stored`);
      return;
    }
  }
}
