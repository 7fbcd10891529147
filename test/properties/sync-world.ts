import { recordHead } from "../../src/work/sync/head.ts";
import { currentSync } from "../../src/work/sync/look-up.ts";
import { workNameOf } from "../../src/work/sync/spec.ts";
import type { ClaimedGroup, ReportedResult } from "../../src/work/run/protocol.ts";
import type { SegmentRow, SyncRow } from "../../src/work/sync/rows.ts";
import type { ClaimedSegment, SegmentReport } from "../../src/work/sync/segment-protocol.ts";
import type { HeadOutcome } from "../../src/work/probe-protocol.ts";
import { LedgerWorld } from "./ledger-world.ts";

/** The name and the source of the syncs of a test. */
export const SYNC = "logs";
export const SOURCE = "chain";

/** A spec of syncs, written with what matters only. */
export function syncSpec(own: object = {}): object {
  return {
    kind: "sync",
    name: SYNC,
    source: SOURCE,
    targets: [{ wallet: "a" }],
    from: 0,
    segments: { max: 10, min_size: 10 },
    max_parallel: 2,
    has: { head: true, hash: true, verify: true },
    retry: { max_attempts: null, delay_ms: 1_000, jitter: 0 },
    ...own,
  };
}

/** A world with one definition of syncs, and its head where that is given. */
export function syncWorld(own: object = {}, head?: number): LedgerWorld {
  const world = new LedgerWorld();
  world.publish(syncSpec(own));
  if (head !== undefined) seeHead(world, head);
  world.settle();
  return world;
}

/** Lets a worker see the head of the source, and the hash that is safe under it where syncs have hashes. */
export function seeHead(
  world: LedgerWorld,
  head: number,
  more: Partial<Extract<HeadOutcome, { type: "seen" }>> = {},
): "recorded" | "unchanged" {
  const spec = world.read((rows) => currentSync(rows, SYNC))?.spec;
  const block = spec?.has.hash === true ? head - spec.finality : -1;
  const safe = block < 0 ? null : { block, hash: `hash ${block}` };
  const outcome = { type: "seen", head, safe, fork: null, ...more } as const;
  const result = world.submit(recordHead({ sync: SYNC, source: SOURCE, outcome }));
  world.settle();
  return result;
}

/** The first sync there is. */
export function onlySync(world: LedgerWorld): SyncRow {
  const [sync] = world.syncs();
  if (sync === undefined) throw new Error("There is no sync.");
  return sync;
}

/** The segments of the first sync, by their blocks. */
export function segmentsOf(world: LedgerWorld): SegmentRow[] {
  return world.segments(onlySync(world).sync_id);
}

/** The segments of the first sync as text: where each is and how it stands. */
export function strip(world: LedgerWorld): string[] {
  return segmentsOf(world).map(
    ({ from_block, to_block, status }) => `${from_block}-${to_block} ${status}`,
  );
}

/** A claimed task of a segment. */
export type Held = ClaimedGroup & { segment: ClaimedSegment };

/** Claims segments for a worker. */
export function claimSegments(world: LedgerWorld, slots = 100): Held[] {
  return world.claim([workNameOf(SYNC)], slots).map((group) => {
    if (group.segment === undefined) throw new Error("The task is about no segment.");
    return { ...group, segment: group.segment };
  });
}

/** Reports how an attempt at a segment ended: by default, that all of it is stored. */
export function endAttempt(
  world: LedgerWorld,
  { run_pos, tasks, segment }: Held,
  own: Partial<Omit<ReportedResult, "segment">> & { segment?: Partial<SegmentReport> } = {},
): "recorded" | "lost" {
  const [task] = tasks;
  if (task === undefined) throw new Error("The group has no task.");
  const { task_key, attempt } = task;
  const { segment: ownReport, ...result } = own;
  const isFetch = segment.purpose === "fetch";
  const report: SegmentReport = {
    last_processed_block: segment.to_block,
    end_hash: null,
    rows: 1,
    blocks: segment.to_block - segment.from_block + 1,
    work_ms: 10,
    requests: 1,
    quarantined: [],
    verification: isFetch ? null : { ok: true, note: null },
    ...ownReport,
  };
  const [verdict] = world.report({
    run_pos,
    task_key,
    attempt,
    outcome: "SUCCEEDED",
    segment: report,
    ...result,
  });
  world.settle();
  return verdict ?? "lost";
}

/** Fetches all that can be fetched, as a worker that never fails. */
export function fetchAll(world: LedgerWorld): void {
  for (;;) {
    const held = claimSegments(world);
    if (held.length === 0) return;
    for (const one of held) endAttempt(world, one);
  }
}
