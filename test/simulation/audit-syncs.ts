import type { EventData } from "../../src/work/events.ts";
import type { SegmentRow, SyncRow } from "../../src/work/sync/rows.ts";
import type { Audited } from "./audit-ledger.ts";
import type { ScratchRows } from "./audit-rows.ts";
import { AuditedSync, type AuditedSegment, faultOfTiles } from "./audited-sync.ts";
import type { AuditedSyncs, Check } from "./audited-syncs.ts";
import { SimulatedChain } from "./simulated-chain.ts";
import type { Violations } from "./violations.ts";

const LEGAL: Record<string, readonly string[]> = {
  PENDING: ["RUNNING", "PAUSED", "REMOVED"],
  RUNNING: ["COMPLETE", "FOLLOWING", "PAUSED", "REMOVED"],
  COMPLETE: ["RUNNING", "FOLLOWING", "PAUSED", "REMOVED"],
  FOLLOWING: ["RUNNING", "COMPLETE", "PAUSED", "REMOVED"],
  PAUSED: ["RUNNING", "PENDING", "REMOVED"],
  REMOVED: [],
};

/** Follows syncs, their segments and their sources through the ledger. */
export class SyncAudit {
  readonly #violations: Violations;
  readonly #syncs: AuditedSyncs;

  constructor(syncs: AuditedSyncs, violations: Violations) {
    this.#syncs = syncs;
    this.#violations = violations;
  }

  added({ data, pos }: Audited<"SyncsAdded">): void {
    for (const added of data.syncs) {
      const isTaken = [...this.#syncs.byId.values()].some(
        (sync) =>
          sync.name === data.name &&
          sync.state !== "REMOVED" &&
          sync.data.target_key === added.target_key,
      );
      const what = `${data.name}@${added.target_key} is added at ${pos} and was there`;
      this.#violations.check(!isTaken && !this.#syncs.byId.has(added.sync_id), "I47", what);
      const seen = this.#syncs.source(data.name, added.source).rewrites.length;
      this.#syncs.byId.set(added.sync_id, new AuditedSync(data.name, data.origin, added, seen));
    }
  }

  stateChanged({ data, pos }: Audited<"SyncStateChanged">): void {
    const sync = this.#syncs.get(data.sync_id);
    const check = this.#syncs.checking(sync, pos);
    const { from_state, to_state, state_version } = data;
    check(sync.state === from_state, "I47", `it is ${sync.state}, not ${from_state}`);
    check((LEGAL[from_state] ?? []).includes(to_state), "I47", `${from_state} to ${to_state}`);
    this.#version(sync, state_version, check);
    sync.state = to_state;
    if (to_state !== "COMPLETE" && to_state !== "FOLLOWING") return;
    const fault = sync.tilingFault();
    check(fault === null, "I47", `it is ${to_state}, but ${fault}`);
    check(sync.count("COMPLETE") === sync.segments.size, "I48", `${to_state} with open segments`);
    const wanted = this.#syncs.wantedTo(sync);
    const reached = sync.syncedTo();
    // What was complete and is to follow a head says so before anybody has looked at the head.
    const isUnknown = wanted === null && from_state === "COMPLETE";
    check(
      reached === sync.plannedTo && (isUnknown || (wanted !== null && reached >= wanted.to)),
      "I48",
      `it is ${to_state} at ${reached} of ${sync.plannedTo}, and ${wanted?.to} is wanted`,
    );
    check(
      this.#syncs.isEnd(sync, reached) === (to_state === "COMPLETE"),
      "I48",
      `${to_state}: ${reached}`,
    );
  }

  retuned({ data, pos }: Audited<"SyncRetuned">): void {
    const sync = this.#syncs.get(data.sync_id);
    this.#version(sync, data.state_version, this.#syncs.checking(sync, pos));
    sync.maxParallel = data.max_parallel;
  }

  headMoved({ data, pos }: Audited<"SyncHeadMoved">): void {
    const source = this.#syncs.source(data.name, data.source);
    const name = `the head of ${data.source} for ${data.name} at ${pos}`;
    const check: Check = (condition, promise, what) =>
      this.#violations.check(condition, promise, `${name}: ${what}`);
    check(data.n === source.moves + 1, "I50", `move ${data.n} follows ${source.moves}`);
    const isSafer = (data.anchor?.block ?? -1) > (source.anchors.at(-1)?.block ?? -1);
    const isNews = data.head > (source.head ?? -1) || (data.head === source.head && isSafer);
    check(isNews, "I50", `${data.head} follows ${source.head}`);
    source.moves = data.n;
    source.head = data.head;
    if (data.anchor === null) return;
    check(data.anchor.block <= data.head, "I50", `its anchor is ${data.anchor.block}`);
    if (data.anchor.block > (source.anchors.at(-1)?.block ?? -1)) source.anchors.push(data.anchor);
  }

  /** Nobody in a simulation sets a head, so nothing may come of it. */
  setByHand({ pos, type }: Audited<"SyncHeadSet" | "SyncPlanCut">): void {
    this.#violations.check(false, "I84", `${type} at ${pos}: nobody set a head`);
  }

  /** A rewrite goes back to something that still holds, and is never made up. */
  rewritten({ data, pos }: Audited<"SyncRewritten">): void {
    const source = this.#syncs.source(data.name, data.source);
    const name = `the rewrite of ${data.source} for ${data.name} at ${pos}`;
    const check: Check = (condition, promise, what) =>
      this.#violations.check(condition, promise, `${name}: ${what}`);
    check(data.n === source.rewrites.length + 1, "I50", `number ${data.n}`);
    const chain = this.#syncs.chain(data.source);
    const isOther = source.anchors.some(
      ({ block, hash }) => block > data.fork_block && chain.wasRewritten(block, hash),
    );
    check(isOther, "I50", `nothing above ${data.fork_block} was rewritten`);
    const isKnown =
      data.fork_block === -1 ||
      source.anchors.some(({ block }) => block === data.fork_block) ||
      // The look may have begun before the segment became part of a longer one.
      source.ends.has(data.fork_block);
    check(isKnown, "I50", `nothing is known of ${data.fork_block}`);
    source.rewrites.push({ n: data.n, forkBlock: data.fork_block });
    source.anchors = source.anchors.filter(({ block }) => block <= data.fork_block);
    for (const block of source.ends) if (block > data.fork_block) source.ends.delete(block);
    source.head = data.head;
    const { anchor = null } = data;
    if (anchor !== null && anchor.block > (source.anchors.at(-1)?.block ?? -1)) {
      source.anchors.push(anchor);
    }
  }

  planned({ data, pos }: Audited<"SyncSegmentsPlanned">): void {
    const sync = this.#syncs.get(data.sync_id);
    const check = this.#syncs.checking(sync, pos);
    const isFirst = sync.plannedTo === null;
    const start = isFirst ? sync.data.from_block : (sync.plannedTo ?? 0) + 1;
    check(data.first_index === sync.nextIndex, "I47", `indexes from ${data.first_index}`);
    check(data.from_block === start, "I47", `it plans from ${data.from_block}, not ${start}`);
    const mayGrow = sync.state !== "PAUSED" && sync.state !== "REMOVED";
    check(mayGrow, "I47", `it is planned while ${sync.state}`);
    const spec = this.#syncs.spec(sync.name);
    const wanted = this.#syncs.wantedTo(sync);
    let from = data.from_block;
    const sizes: number[] = [];
    for (const end of data.ends) {
      sizes.push(end - from + 1);
      sync.add(data.segment_kind, from, end, "PENDING");
      from = end + 1;
    }
    sync.plannedTo = from - 1;
    const isReached = wanted !== null && sync.plannedTo <= wanted.to;
    check(isReached, "I47", `it plans to ${sync.plannedTo}, and ${wanted?.to} is wanted`);
    if (!isFirst || spec === undefined) return;
    const total = sizes.reduce((sum, size) => sum + size, 0);
    const most = spec.splittable ? spec.segments.max : 1;
    check(sizes.length <= most, "I47", `${sizes.length} segments are more than ${most}`);
    const isEven = Math.max(...sizes) - Math.min(...sizes) <= 1;
    check(isEven, "I47", `sizes are ${sizes.join()}`);
    const isWorth = sizes.length === 1 || Math.min(...sizes) >= spec.segments.min_size;
    check(isWorth, "I47", `${total} blocks in ${sizes.length} segments`);
  }

  /** Only what is above the fork is opened again, and all of it. */
  reopened({ data, pos }: Audited<"SyncSegmentsReopened">): void {
    const sync = this.#syncs.get(data.sync_id);
    const check = this.#syncs.checking(sync, pos);
    check(data.n === sync.reopenings + 1, "I50", `reopening ${data.n}`);
    sync.reopenings = data.n;
    for (const split of data.splits) this.#split(sync, split, check);
    const source = this.#syncs.source(sync.name, sync.data.source);
    const unseen = source.rewrites.filter(({ n }) => n > sync.rewritesSeen);
    const isRewrite = data.cause === "rewrite";
    // What one event cannot hold follows in the next, and only the last answers the rewrites.
    const isLast = data.rewrites_seen !== null;
    check(isRewrite || !isLast, "I50", `${data.cause} answers rewrites`);
    const forkBlock = isRewrite ? Math.min(...unseen.map(({ forkBlock: each }) => each)) : -1;
    for (const { segment_index, generation } of data.segments) {
      const segment = sync.segment(segment_index);
      const name = `segment ${segment_index} (${segment.from} to ${segment.to})`;
      check(generation === segment.generation + 1, "I51", `${name} has generation ${generation}`);
      // What is being worked on is begun again as a whole.
      const above = segment.status === "COMPLETE" ? segment.from : segment.to;
      check(above > forkBlock, "I50", `${name} is opened again, the fork is ${forkBlock}`);
      Object.assign(segment, {
        generation,
        status: "PENDING",
        lastProcessed: null,
        setAside: new Set(),
        isExcluded: false,
        verification: null,
      } satisfies Partial<AuditedSegment>);
    }
    if (isLast) {
      sync.rewritesSeen = source.rewrites.length;
      check(data.rewrites_seen === sync.rewritesSeen, "I50", `${data.rewrites_seen} rewrites`);
      const left = [...sync.segments.values()].filter(
        ({ status, to }) => status !== "PENDING" && to > forkBlock,
      );
      check(left.length === 0, "I50", `${left.length} segments above ${forkBlock} are left`);
      check(data.undo || data.segments.length === 0, "I50", "what was stored is not void");
    }
    check(data.synced_to === sync.syncedTo(), "I48", `${data.synced_to}, not ${sync.syncedTo()}`);
  }

  #split(
    sync: AuditedSync,
    { segment_index, tiles }: EventData<"SyncSegmentsReopened">["splits"][number],
    check: Check,
  ): void {
    const segment = sync.segment(segment_index);
    check(
      segment.status === "COMPLETE",
      "I51",
      `segment ${segment_index} is cut: ${segment.status}`,
    );
    const pieces = tiles.map(({ from_block, to_block }) => ({ from: from_block, to: to_block }));
    const fault = faultOfTiles(pieces, segment.from, segment.to);
    check(fault === null, "I47", `the pieces of ${segment_index}: ${fault}`);
    sync.segments.delete(segment_index);
    for (const { segment_index: index, from_block, to_block } of tiles) {
      check(index === sync.nextIndex, "I47", `a piece has the index ${index}`);
      const piece = sync.add(segment.kind, from_block, to_block, "COMPLETE");
      piece.isExcluded = segment.isExcluded;
    }
  }

  excluded({ data, pos }: Audited<"SyncSegmentExcluded">): void {
    const sync = this.#syncs.get(data.sync_id);
    const check = this.#syncs.checking(sync, pos);
    const segment = sync.segment(data.segment_index);
    const isAside = segment.status === "QUARANTINED" && segment.generation === data.generation;
    check(isAside, "I48", `segment ${data.segment_index} is excluded while ${segment.status}`);
    segment.status = "COMPLETE";
    segment.isExcluded = true;
    check(data.synced_to === sync.syncedTo(), "I48", `${data.synced_to}, not ${sync.syncedTo()}`);
  }

  verifyRequested({ data, pos }: Audited<"SyncVerifyRequested">): void {
    const sync = this.#syncs.get(data.sync_id);
    const check = this.#syncs.checking(sync, pos);
    check(data.n === sync.verifications + 1, "I48", `verification ${data.n}`);
    sync.verifications = data.n;
    for (const index of data.segments) {
      const segment = sync.segment(index);
      check(segment.status === "COMPLETE", "I48", `segment ${index} is ${segment.status}`);
      segment.verification = "REQUESTED";
    }
  }

  /** The refolded rows of the sync that an event is about are what the auditor expects. */
  compareRows({ type, data, pos }: Audited, scratch: ScratchRows): void {
    const id = syncIdOf(data);
    const sync = id === null ? undefined : this.#syncs.byId.get(id);
    if (id === null || sync === undefined) return;
    const check = this.#syncs.checking(sync, pos);
    const row = JSON.parse(scratch.text("syncs", id) ?? "{}") as SyncRow;
    for (const [cell, value] of Object.entries(sync.expectedRow())) {
      const found = row[cell as keyof SyncRow];
      const promise = cell === "synced_to" ? "I48" : "I47";
      check(found === value, promise, `${cell} is ${JSON.stringify([found, value])}`);
    }
    const reshapes = type === "RunFinished" || type.startsWith("SyncSegments");
    if (reshapes) this.#compareSegments(sync, scratch, check);
  }

  #compareSegments(sync: AuditedSync, scratch: ScratchRows, check: Check): void {
    const rows = scratch
      .textsUnder("segments", sync.data.sync_id)
      .map((text) => JSON.parse(text) as SegmentRow)
      .toSorted((a, b) => a.from_block - b.from_block);
    const tiles = rows.map(({ from_block, to_block }) => ({ from: from_block, to: to_block }));
    const fault = faultOfTiles(tiles, sync.data.from_block, sync.plannedTo);
    check(fault === null, "I47", `its rows: ${fault}`);
    for (const row of rows) {
      const segment = sync.segments.get(row.segment_index);
      const isSame =
        segment !== undefined &&
        segment.from === row.from_block &&
        segment.to === row.to_block &&
        segment.status === row.status &&
        segment.generation === row.generation &&
        segment.runPos === row.run_pos &&
        segment.isExcluded === (row.excluded !== null) &&
        segment.verification === (row.verification?.status ?? null);
      const what = `segment ${row.segment_index} is ${JSON.stringify(row)}`;
      check(isSame, "I47", `${what}, not ${JSON.stringify(segment)}`);
    }
  }

  /** Once all is calm the database is the chain, as far as the sync says, and that is all of it. */
  auditEnd(): void {
    this.#syncs.catchUp(Number.POSITIVE_INFINITY);
    for (const sync of this.#syncs.byId.values()) {
      const spec = this.#syncs.spec(sync.name);
      if (sync.state === "REMOVED" || sync.state === "PAUSED" || spec === undefined) continue;
      const chain = this.#syncs.chain(sync.data.source);
      const check = this.#syncs.checking(sync, 0);
      for (const segment of sync.inOrder()) this.#isChain(sync, segment, chain, check);
      const fixed = sync.data.to_limit ?? spec.to;
      const safe = chain.head - spec.finality;
      const end = Math.min(safe, fixed ?? safe);
      // What was planned when it was safe may have to wait for a head that does not move any more.
      const open = sync.inOrder().find(({ status }) => status !== "COMPLETE");
      const waitsForHead = spec.has.head && (open?.to ?? -1) > safe;
      if (end < sync.data.from_block || waitsForHead) continue;
      const isThere = sync.syncedTo() >= end;
      check(isThere, "I48", `it is synced to ${sync.syncedTo()} of ${end} (${sync.state})`);
      const whole = this.#syncs.isEnd(sync, sync.syncedTo()) ? "COMPLETE" : "FOLLOWING";
      check(sync.state === whole, "I48", `it is ${sync.state}, not ${whole}`);
    }
  }

  #isChain(sync: AuditedSync, segment: AuditedSegment, chain: SimulatedChain, check: Check): void {
    if (segment.status !== "COMPLETE" || segment.isExcluded) return;
    for (let block = segment.from; block <= segment.to; block++) {
      const found = sync.stored.at(block);
      const expected = SimulatedChain.hasRow(block) ? [chain.hashOf(block)] : [];
      if (found.join() === expected.join()) continue;
      const promise = found.length > expected.length ? "I49" : "I48";
      check(
        false,
        promise,
        `block ${block} is ${found.join() || "missing"}, not ${expected.join()}`,
      );
      return;
    }
  }

  #version(sync: AuditedSync, version: number, check: Check): void {
    check(version === sync.version + 1, "I7", `version ${version} follows ${sync.version}`);
    sync.version = version;
  }
}

/** The sync that an event is about. */
function syncIdOf(data: Audited["data"]): string | null {
  if ("sync_id" in data) return data.sync_id;
  if ("segment" in data && data.segment !== undefined) return data.segment.sync_id;
  if (!("trigger_source_ref" in data)) return null;
  return data.trigger_source_ref.type === "sync" ? data.trigger_source_ref.sync_id : null;
}
