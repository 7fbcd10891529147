import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { advanceMove } from "../../src/work/move/advance.ts";
import { cancelRun } from "../../src/work/run/cancel.ts";
import {
  cancelMove,
  pauseMove,
  resumeMove,
  retuneMove,
  startMove,
  verifyMove,
  excludeSegment,
  recopySegment,
  retrySegments,
} from "../../src/work/move/commands.ts";
import type { Decide } from "../../src/work/decision.ts";
import { PawlError } from "../../src/kernel/errors.ts";
import { EVENTS } from "../../src/work/events.ts";
import type { MoveRow, MoveSegmentRow } from "../../src/work/move/rows.ts";
import type { MoveReport } from "../../src/work/shard/step-protocol.ts";
import { MoveAudit } from "../simulation/audit-moves.ts";
import type { Audited } from "../simulation/audit-ledger.ts";
import { Violations } from "../simulation/violations.ts";
import type { LedgerWorld } from "./ledger-world.ts";
import {
  claimMoveSteps,
  endMoveStep,
  type HeldMoveStep,
  loseMoveWorker,
  moveAt,
  moveWorld,
  planned,
  soundMoveReport,
  workOff,
} from "./move-world.ts";

/** One thing that happens; each number picks what, to whom and how. */
type Act = readonly [what: number, whom: number, how: number];

/** What happens more often stands there more often. */
const KINDS = "0 1 2 2 2 2 2 2 3 3 3 4 5 5 5 6 6 7 8".split(" ").map(Number);

const history: fc.Arbitrary<Act[]> = fc.array(
  fc.tuple(fc.constantFrom(...KINDS), fc.nat(23), fc.nat(23)),
  { maxLength: 120, size: "max" },
);

type World = LedgerWorld & { held: HeldMoveStep[] };

/** The world after a history; what is refused is part of it. */
function lived(acts: readonly Act[]): World {
  const world: World = Object.assign(moveWorld(), { held: [] });
  const [[, concurrency, how] = [0, 3, 0]] = acts;
  const move = planned(world, {
    segment_concurrency: 1 + (concurrency % 5),
    keep_source: how % 4 === 0,
    retry_budget: how % 3 === 0 ? 5 : null,
  });
  if (how % 5 > 0) world.submit(startMove({ move }));
  for (const act of acts) {
    try {
      live(world, act);
    } catch (error) {
      if (!(error instanceof PawlError)) throw error;
    }
    world.settle();
  }
  return world;
}

function live(world: World, [what, whom, how]: Act): void {
  const moves = world.moves();
  const move = moves[whom % Math.max(1, moves.length)];
  const held = world.held[whom % Math.max(1, world.held.length)];
  switch (what) {
    case 0:
      if (moves.length < 3) planned(world, { keep_source: how > 11 }, whom === 0);
      return;
    case 1:
      world.held.push(...claimMoveSteps(world, 1 + (how % 4)));
      return;
    case 2:
      if (world.held.length === 0) world.held.push(...claimMoveSteps(world));
      for (const each of world.held.splice(0, 1 + (how % 6))) endMoveStep(world, each);
      return;
    case 3:
      if (held !== undefined) end(world, held, how);
      return;
    case 4:
      if (held !== undefined) loseMoveWorker(world, held);
      return;
    case 5:
    case 6:
      if (move !== undefined) world.submit(anyCommand(world, move, whom, how));
      return;
    case 7: {
      const segment = world.moveSegments(move?.move_id ?? "")[how];
      world.submit(cancelRun({ run_id: segment?.run_id ?? "none" }));
      return;
    }
    default:
      world.pass([1, 1_000, 15_000, 70_000][how % 4] ?? 1);
  }
}

/** Whatever somebody may ask of a move, whether it makes sense or not. */
function anyCommand(world: World, row: MoveRow, whom: number, how: number): Decide<unknown> {
  const { move_id: move } = row;
  const segment_index = whom % Math.max(1, world.moveSegments(move).length);
  const commands: Decide<unknown>[] = [
    startMove({ move }),
    startMove({ move }),
    pauseMove({ move }),
    resumeMove({ move }),
    resumeMove({ move }),
    resumeMove({ move }),
    retuneMove({ move, segment_concurrency: 1 + (whom % 6) }),
    verifyMove({ move }),
    retrySegments({ move, segment_index: null }),
    retrySegments({ move, segment_index }),
    recopySegment({ move, segment_index }),
    recopySegment({ move, segment_index }),
    excludeSegment({ move, segment_index, reason: "it may stay" }),
    excludeSegment({ move, segment_index, reason: "it may stay" }),
    ...(whom % 8 === 0 ? [cancelMove({ move })] : []),
  ];
  return commands[how % commands.length] ?? startMove({ move });
}

/** Two segments of a lane are cut, each while it is copied. */
const CUT_ALIKE: Act[] = [
  [1, 2, 2],
  [2, 0, 1],
  [2, 0, 0],
  [2, 0, 15],
  [2, 0, 0],
  [3, 5, 14],
  [3, 0, 14],
];

/** An attempt comes to one of its ends. */
function end(world: World, held: HeldMoveStep, how: number): void {
  world.held.splice(world.held.indexOf(held), 1);
  const sound = soundMoveReport(held.step);
  const error = { class: "user", message: "no luck" };
  const unequal: MoveReport = { ...sound, equal: false, note: "they differ" };
  // A worker cuts a segment within its own keys, which no other has.
  const { index, generation } = held.step;
  const split: MoveReport = { ...sound, split_at: [`${5 + how}.${index}.${generation}`] };
  const ends: Parameters<typeof endMoveStep>[2][] = [
    {},
    held.step.step === "copy" ? { report: split } : {},
    held.step.step === "copy" ? { report: split } : {},
    { report: unequal },
    { report: unequal },
    { outcome: "FAILED", report: {}, error },
    { outcome: "FAILED", report: {}, error },
    { outcome: "FAILED", released: true, report: {} },
    { outcome: "FAILED", final: true, report: {}, error },
    { outcome: "FAILED", final: true, report: {}, error },
    { outcome: "CANCELLED", report: {} },
    { report: {} },
  ];
  endMoveStep(world, held, ends[how % ends.length]);
}

const count = (segments: readonly MoveSegmentRow[], is: (one: MoveSegmentRow) => boolean): number =>
  segments.filter(is).length;

const sum = (segments: readonly MoveSegmentRow[], of: (one: MoveSegmentRow) => number): number =>
  segments.reduce((total, segment) => total + of(segment), 0);

/** The counters of a move as its segments say. */
function recounted(move: MoveRow, segments: readonly MoveSegmentRow[]): Partial<MoveRow> {
  return {
    next_segment: segments.length,
    segments_total: segments.length,
    segments_pending: count(segments, ({ state }) => state === "PENDING"),
    segments_active: count(segments, ({ run_pos }) => run_pos !== null),
    segments_copied: count(segments, ({ state }) => state === "COPIED"),
    segments_removed: count(segments, ({ state }) => state === "REMOVED"),
    segments_poisoned: count(segments, ({ state }) => state === "POISONED"),
    segments_excluded: count(segments, ({ state }) => state === "EXCLUDED"),
    segments_discarding: count(
      segments,
      ({ state, leftover }) => state === "EXCLUDED" && leftover === 1,
    ),
    rows_estimated: sum(segments, ({ rows_estimated }) => rows_estimated),
    rows_copied: sum(segments, ({ rows_copied }) => rows_copied),
    bytes_copied: sum(segments, ({ bytes_copied }) => bytes_copied),
    verify_waiting: count(
      segments,
      ({ state, verify_n }) => state === "COPIED" && verify_n < move.verifications,
    ),
  };
}

// Goal: what the ledger promises about moves, on every history that could have happened. Method: live
// a random history of operators, workers and time with the real decisions, and hold the rows against
// what an auditor that shares nothing with the fold understood of every event.
describe("moves", () => {
  test("I33: count their segments as they are", () => {
    fc.assert(
      fc.property(history, (acts) => {
        const world = lived(acts);
        for (const move of world.moves()) {
          expect(move).toMatchObject(recounted(move, world.moveSegments(move.move_id)));
        }
      }),
      { numRuns: 60 },
    );
  });

  test("I29, I31, I47: record only what fits what was recorded before", () => {
    const seen = new Set<string>();
    fc.assert(
      fc.property(history, (acts) => {
        const violations = new Violations();
        const audit = new MoveAudit(violations);
        for (const { type, data, pos } of lived(acts).events) {
          expect(EVENTS[type].safeParse(data).error).toBeUndefined();
          audit.see({ type, data, pos, occurred_at: "2026-03-10T00:00:00.000Z" } as Audited);
          seen.add(type);
        }
        expect(violations.list).toEqual([]);
      }),
      { numRuns: 60, examples: [[CUT_ALIKE]] },
    );
    // Histories that never get anywhere would prove nothing.
    expect(seen).toContain("MoveChecked");
  });

  test("settle: once they have had their way they have nothing to add", () => {
    fc.assert(
      fc.property(history, (acts) => {
        const world = lived(acts);
        const context = world.context();
        for (const move of world.moves()) {
          expect(world.read((rows) => advanceMove(rows, move, context))).toEqual([]);
        }
      }),
      { numRuns: 30 },
    );
  });

  test("I37: come to an end once faults stop and a worker is there", () => {
    fc.assert(
      fc.property(history, (acts) => {
        const world = lived(acts);
        for (const held of world.held.splice(0)) loseMoveWorker(world, held);
        workOff(world);
        const open = world
          .moves()
          .filter(({ state, dry_run }) => dry_run === 0 && state !== "CANCELLED");
        // One may have to wait for another that has the same rows in hand.
        for (const _ of open) for (const { move_id } of open) bringToEnd(world, move_id);
        for (const { move_id } of open) expect(moveAt(world, move_id).state).toBe("COMPLETE");
        for (const move of world.moves()) {
          expect(move).toMatchObject({ segments_active: 0, check_run_pos: null });
          // What was cancelled is not compared any more, whoever had asked for it.
          if (move.state !== "CANCELLED") expect(move.verify_waiting).toBe(0);
        }
      }),
      { numRuns: 40 },
    );
  });
});

/** Does what an operator would who makes no mistakes. */
function bringToEnd(world: World, move: string): void {
  const tried = (decide: Decide<unknown>): void => {
    try {
      world.submit(decide);
    } catch (error) {
      if (!(error instanceof PawlError)) throw error;
    }
    workOff(world);
  };
  for (let turn = 0; turn < 5 && moveAt(world, move).state !== "COMPLETE"; turn++) {
    tried(resumeMove({ move }));
    tried(startMove({ move }));
    tried(retrySegments({ move, segment_index: null }));
  }
}
