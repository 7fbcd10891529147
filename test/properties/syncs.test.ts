import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  addSync,
  pauseSync,
  removeSync,
  resumeSync,
  retuneSync,
  setHead,
} from "../../src/work/sync/commands.ts";
import { advanceSync } from "../../src/work/sync/advance.ts";
import { cancelRun } from "../../src/work/run/cancel.ts";
import { expireLeases } from "../../src/work/run/expire-leases.ts";
import { recordHead } from "../../src/work/sync/head.ts";
import {
  excludeSyncSegment,
  repairSync,
  retrySegment,
  verifySync,
} from "../../src/work/sync/repair.ts";
import { PawlError } from "../../src/kernel/errors.ts";
import type { ReportedResult } from "../../src/work/run/protocol.ts";
import type { SyncRow } from "../../src/work/sync/rows.ts";
import { claimSegments, endAttempt, type Held, SOURCE, SYNC, syncSpec } from "./sync-world.ts";
import { type HeldPromise, nextOf, SyncedWorld, type Working } from "./synced-world.ts";

/** One thing that happens; each number picks what, to whom and how. */
type Act = readonly [what: number, whom: number, how: number];

/** What happens more often stands there more often. */
const KINDS =
  "0 1 2 3 4 2 3 4 5 5 6 7 8 9 8 9 8 9 8 9 10 11 10 11 12 13 14 15 16 17 18 18 19 19 20 21 22"
    .split(" ")
    .map(Number);

const history: fc.Arbitrary<Act[]> = fc.array(
  fc.tuple(fc.constantFrom(...KINDS), fc.nat(11), fc.nat(11)),
  { maxLength: 150, size: "max" },
);

const spec: fc.Arbitrary<object> = fc.record({
  from: fc.constantFrom(0, 3),
  to: fc.constantFrom(null, null, 60),
  finality: fc.constantFrom(0, 2),
  splittable: fc.constantFrom(true, true, true, false),
  order: fc.constantFrom("oldest_first", "newest_first"),
  max_parallel: fc.constantFrom(1, 2, 4),
  segments: fc.constantFrom({ max: 3, min_size: 4 }, { max: 10, min_size: 1 }),
});

/** The world after a history; what is refused is part of it. */
function lived(own: object, acts: readonly Act[], held: readonly HeldPromise[] = []): SyncedWorld {
  const world = new SyncedWorld(held);
  const targets = [{ wallet: "a" }, { wallet: "b" }];
  world.publish(syncSpec({ targets, ...own }));
  world.grow(40);
  look(world, null);
  world.settle();
  for (const act of acts) {
    try {
      live(world, own, act);
    } catch (error) {
      if (!(error instanceof PawlError)) throw error;
    }
    world.settle();
    if (held.includes("I51")) world.checkHolders();
  }
  return world;
}

function look(world: SyncedWorld, fork: { block: number | null } | null): void {
  const head = world.chain.length - 1;
  if (head < 0) return;
  const safe = { block: head, hash: `${head}/${world.chain[head]}` };
  world.submit(
    recordHead({ sync: SYNC, source: SOURCE, outcome: { type: "seen", head, safe, fork } }),
  );
}

/** Rewrites what lies above an anchor, and has it seen at once. */
function rewrite(world: SyncedWorld, depth: number, fewer: number): void {
  const anchors = world.read((rows) => rows.syncSources.get(SYNC, SOURCE))?.anchors ?? [];
  const at = anchors.length - 2 - depth;
  if (anchors.length === 0) return;
  const block = anchors[at]?.block ?? null;
  world.rewrite(block ?? -1, fewer);
  look(world, { block });
}

/** Believes a head that is too far on, or finds out where it is. */
function believe(world: SyncedWorld, sync: SyncRow, further: number): void {
  const head = world.chain.length - 1;
  if (head < 0) return;
  if (world.believed === null) {
    world.believed = head + further;
    const outcome = { type: "seen", head: world.believed, safe: null, fork: null } as const;
    world.submit(recordHead({ sync: SYNC, source: SOURCE, outcome }));
    return;
  }
  const rewrites = () => world.read((rows) => rows.syncSources.get(SYNC, SOURCE))?.rewrites ?? 0;
  const before = rewrites();
  world.submit(setHead({ sync: sync.sync_id, head }));
  if (rewrites() > before) world.headWasCut();
  world.believed = null;
}

function live(world: SyncedWorld, own: object, [what, whom, how]: Act): void {
  const syncs = world.syncs();
  const sync = syncs[whom % syncs.length];
  const working = world.working[whom % Math.max(1, world.working.length)];
  switch (what) {
    case 0:
    case 1:
      world.grow(1 + how * (whom % 3));
      look(world, null);
      return;
    case 2:
    case 3:
    case 4: {
      for (const held of claimSegments(world, 1 + how)) {
        world.begin(held);
        expectSafe(world, own, held);
      }
      for (const one of world.syncs()) expectWithinLimit(own, one);
      return;
    }
    case 5:
      world.pass([1, 1_000, 10_000, 40_000][how % 4] ?? 1);
      return;
    case 6:
      rewrite(world, how % 4, whom > 7 ? how : 0);
      return;
    case 7:
      if (how % 3 === 0) world.checkpoints.clear();
      return;
    case 22:
      if (sync !== undefined) believe(world, sync, 1 + how * 20);
      return;
    case 8:
    case 9:
    case 10:
    case 11:
    case 12:
    case 13:
    case 14:
    case 15:
      if (working !== undefined) attempt(world, working, what, how);
      return;
    default:
      if (sync !== undefined) command(world, sync, what, whom, how);
  }
}

function expectWithinLimit(own: object, sync: SyncRow): void {
  const { max_parallel, splittable } = own as { max_parallel: number; splittable: boolean };
  // One that was retuned may still run what was begun before.
  if (sync.max_parallel !== null) return;
  expect(sync.segments_running).toBeLessThanOrEqual(splittable ? max_parallel : 1);
}

/** Nothing is fetched closer to the head than is safe. */
function expectSafe(world: SyncedWorld, own: object, { segment }: Held): void {
  const { finality } = own as { finality: number };
  const head = Math.max(world.believed ?? 0, world.chain.length - 1);
  if (segment.purpose === "fetch") expect(segment.to_block).toBeLessThanOrEqual(head - finality);
}

/** An attempt goes on, or ends in one of its ways. */
function attempt(world: SyncedWorld, working: Working, what: number, how: number): void {
  const { segment, run_pos, tasks } = working.held;
  const isCurrent = world.isCurrent(working);
  const isFetch = segment.purpose === "fetch";
  if (isCurrent && isFetch && what < 12) {
    const isEnd = what === 8 || what === 9;
    const blocks = isEnd ? segment.to_block - nextOf(working) + 1 : 1 + (how % 4);
    world.work(working, blocks, how > 7);
    if (!isEnd) return;
  }
  world.working.splice(world.working.indexOf(working), 1);
  if (what === 15) {
    const [task] = tasks;
    if (task === undefined) return;
    const { task_key, attempt: fence } = task;
    const held = { run_pos, task_key, attempt: fence, deadline_at: world.now };
    const lease = { lease_id: "l", worker_id: "w", expires_at: world.now, tasks: [held] };
    world.submit((rows, context) => {
      const { events } = expireLeases(rows, [lease], context);
      return { events, result: null };
    });
    return;
  }
  endAttempt(world, working.held, {
    ...(endOf(working, what, how) satisfies Partial<ReportedResult>),
    segment: {
      last_processed_block: working.done,
      end_hash: how % 2 === 0 ? null : `${segment.to_block}/${world.chain[segment.to_block]}`,
      quarantined: working.quarantined.map((block) => ({
        block,
        error: { class: "user", message: "poison" },
      })),
      verification: isFetch ? null : { ok: how % 3 > 0, note: null },
    },
  });
}

function endOf({ held, done }: Working, what: number, how: number) {
  const isDone = held.segment.purpose === "verify" || done === held.segment.to_block;
  // A worker that says so without having all is not believed.
  if (isDone || how === 0) return { outcome: "SUCCEEDED" } as const;
  if (what === 14) return { outcome: "CANCELLED" } as const;
  if (what === 13) return { outcome: "FAILED", released: true } as const;
  if (how === 1) return { outcome: "FAILED", final: true } as const;
  const error = { class: how % 2 === 0 ? "stalled" : "user", message: "no" };
  return { outcome: "FAILED", error } as const;
}

/** Somebody wants something of a sync. */
function command(
  world: SyncedWorld,
  { sync_id, state, target, segments_total }: SyncRow,
  what: number,
  whom: number,
  how: number,
): void {
  const sync = sync_id;
  const segments = world.segments(sync);
  const some = segments[how % Math.max(1, segments_total)];
  const aside = segments.find(({ status }) => status === "QUARANTINED")?.segment_index ?? 0;
  switch (what) {
    case 16:
      world.submit(state === "PAUSED" ? resumeSync({ sync }) : pauseSync({ sync }));
      return;
    case 17: {
      const [from_block, to_block] = [whom * 5, whom * 5 + how];
      // What is repaired was lost: whatever is not fetched again is missed.
      const { result } = world.evaluate(repairSync({ sync, from_block, to_block }));
      for (let block = from_block; block <= to_block; block++) {
        world.storedOf(sync).delete(block);
      }
      world.submit(repairSync({ sync, from_block, to_block }));
      expect(result.segments).toBeLessThanOrEqual(segments_total);
      return;
    }
    case 18:
      world.submit(verifySync({ sync, from_block: how * 3, repair: whom % 2 === 0 }));
      return;
    case 19:
      world.submit(
        how % 2 === 0
          ? retrySegment({ sync, segment_index: aside })
          : excludeSyncSegment({ sync, segment_index: aside, reason: "never there" }),
      );
      return;
    case 20: {
      const run_id = some?.run_id ?? "none";
      world.submit(cancelRun({ run_id }));
      return;
    }
    default:
      changeOthers(world, { sync_id, state, target }, how);
  }
}

function changeOthers(
  world: SyncedWorld,
  { sync_id: sync, state, target }: Pick<SyncRow, "sync_id" | "state" | "target">,
  how: number,
): void {
  if (how < 4) world.submit(retuneSync({ sync, max_parallel: 1 + how }));
  else if (how < 7) world.submit(addSync({ name: SYNC, target: { wallet: `${how}` } }));
  else if (how === 7) world.submit(removeSync({ sync }));
  else if (state === "REMOVED") world.submit(addSync({ name: SYNC, target }));
}

/** Lets workers that never fail do all there is to do. */
function finish(world: SyncedWorld): void {
  for (const working of world.working.splice(0)) endHonestly(world, working);
  for (let round = 0; round < 200; round++) {
    for (const { sync_id: sync, state } of world.syncs()) {
      if (state === "PAUSED") world.submit(resumeSync({ sync }));
      for (const { segment_index, status } of world.segments(sync)) {
        if (status !== "QUARANTINED" || state === "REMOVED") continue;
        world.submit(retrySegment({ sync, segment_index }));
      }
    }
    world.pass(400_000);
    world.settle();
    const held = claimSegments(world);
    for (const one of held) world.begin(one);
    for (const working of world.working.splice(0)) endHonestly(world, working);
    const isOpen = ({ state, segments_complete, segments_total }: SyncRow): boolean =>
      state !== "REMOVED" && segments_complete < segments_total;
    if (held.length === 0 && !world.syncs().some(isOpen)) return;
  }
  throw new Error("The syncs do not come to an end.");
}

function endHonestly(world: SyncedWorld, working: Working): void {
  const { segment } = working.held;
  const isFetch = segment.purpose === "fetch";
  if (isFetch && world.isCurrent(working)) {
    world.work(working, segment.to_block - nextOf(working) + 1, false);
  }
  // What it quarantined before stays so until it is tried again.
  const quarantined = working.quarantined.map((block) => ({
    block,
    error: { class: "user", message: "poison" },
  }));
  endAttempt(world, working.held, { segment: isFetch ? { quarantined } : {} });
}

function holds(promise: HeldPromise): void {
  fc.assert(
    fc.property(spec, history, (own, acts) => {
      lived(own, acts, [promise]);
    }),
    { numRuns: 40 },
  );
}

// Goal: the promises about ranges, on every history that could have happened. Method: live a random
// history of a source, workers and people with the real decisions, with a model of what is stored;
// `SyncedWorld` holds every recorded decision against the rows and the model.
describe("syncs", () => {
  test("I47: tile their range, whatever is split, merged, opened again or added", () => {
    holds("I47");
  });

  test("I48: know the end of their complete prefix, whatever ends in which order", () => {
    holds("I48");
  });

  test("I50: hold what is complete as the source has it, after any rewrite", () => {
    holds("I50");
  });

  test("I51: stop what works on a segment before another may, and count all right", () => {
    holds("I51");
  });

  test("settle: once they have had their way they have nothing to add", () => {
    fc.assert(
      fc.property(spec, history, (own, acts) => {
        const world = lived(own, acts);
        const context = world.context();
        for (const sync of world.syncs()) {
          expect(world.read((rows) => advanceSync(rows, sync, context))).toEqual([]);
        }
      }),
      { numRuns: 40 },
    );
  });

  test("I37: come to an end, with everything stored, once faults stop and a worker is there", () => {
    fc.assert(
      fc.property(spec, history, (own, acts) => {
        const world = lived(own, acts, ["I50"]);
        // So far that all that was ever planned is safe again, and a head that never was is passed.
        const { head = 0 } = world.read((rows) => rows.syncSources.get(SYNC, SOURCE)) ?? {};
        world.grow(100 + Math.max(0, head - world.chain.length));
        look(world, null);
        world.settle();
        finish(world);
        for (const sync of world.syncs()) {
          if (sync.state === "REMOVED") continue;
          expect(["COMPLETE", "FOLLOWING", "PENDING"]).toContain(sync.state);
          expect(sync.synced_to).toBe(sync.planned_to ?? sync.from_block - 1);
        }
      }),
      { numRuns: 12 },
    );
  });
});
