import { describe, expect, test } from "vitest";
import { LedgerWorld, refsOf } from "../../../test/properties/ledger-world.ts";
import {
  claimMoveSteps,
  endMoveStep,
  type HeldMoveStep,
  moveAt,
  moveWorld,
  planned as plannedOf,
  workOff,
} from "../../../test/properties/move-world.ts";
import { PawlError } from "../../kernel/errors.ts";
import { MovePlan } from "./spec.ts";
import { shardWorkNames } from "../shard/spec.ts";
import { cancelRun } from "../run/cancel.ts";
import {
  cancelMove,
  excludeSegment,
  pauseMove,
  planMove,
  recopySegment,
  resumeMove,
  retrySegments,
  retuneMove,
  startMove,
  verifyMove,
} from "./commands.ts";
import { changeRouting } from "../routing/commands.ts";
import type { Decide } from "../decision.ts";
import { planSplit } from "../split/commands.ts";

const NAMES = ["a", "b", "c"];
const tenants = (moved: Record<string, string>) =>
  ({ by: "tenant", tenants: moved, default: "a" }) as const;

function worldOfShards(): LedgerWorld {
  const world = new LedgerWorld();
  const shards = NAMES.map((shard) => ({ shard, engine: "sqlite" }));
  const tables = [{ table: "t", shard_by: "tenant" }];
  world.publish({ kind: "shards", name: "shards", shards, tables });
  return world;
}

function planned(world: LedgerWorld, to: Record<string, string>, more: object = {}): string {
  const plan = MovePlan.parse({ from: tenants({}), to: tenants(to), ...more });
  const { move_id } = world.submit(planMove({ plan }));
  world.settle();
  return move_id;
}

/** Ends the one task that is there with these bounds, or with a failure for good. */
function surveyed(world: LedgerWorld, uppers: (string | null)[]): void {
  const [ref] = refsOf(world.claim(shardWorkNames(NAMES)));
  if (ref === undefined) throw new Error("Nothing is to be surveyed.");
  const bounds = uppers.map((upper) => ({ upper: upper === null ? null : [upper], rows: 10 }));
  const step = { work: "move", bounds, sealed: uppers.at(-1) === null } as const;
  world.report({ ...ref, outcome: "SUCCEEDED", step });
  world.settle();
}

/** Ends the look before the first copy: nothing stands in the way. */
function lookedAt(world: LedgerWorld): void {
  const [ref] = refsOf(world.claim(shardWorkNames(NAMES)));
  if (ref === undefined) throw new Error("Nothing is to be looked at.");
  world.report({ ...ref, outcome: "SUCCEEDED", step: { work: "move", equal: true } });
  world.settle();
}

function codeOf(world: LedgerWorld, decide: Decide<unknown>): string {
  try {
    world.evaluate(decide);
  } catch (error) {
    if (error instanceof PawlError) return error.code;
    throw error;
  }
  return "accepted";
}

describe("commands about a move", () => {
  test("I31: are refused where they make no sense, and name what is legal", () => {
    const world = worldOfShards();
    const move = planned(world, { x: "b" });
    expect(codeOf(world, resumeMove({ move }))).toBe("STATE_ILLEGAL");
    expect(codeOf(world, verifyMove({ move }))).toBe("STATE_ILLEGAL");
    expect(codeOf(world, retrySegments({ move, segment_index: 0 }))).toBe("STATE_ILLEGAL");
    expect(codeOf(world, startMove({ move: "nothing" }))).toBe("MOVE_NOT_FOUND");
    expect(codeOf(world, retuneMove({ move }))).toBe("INPUT_INVALID");
    expect(codeOf(world, startMove({ move, expected_state_version: 7 }))).toBe(
      "STATE_VERSION_MISMATCH",
    );
    world.submit(cancelMove({ move, reason: "enough" }));
    expect(world.moves()[0]).toMatchObject({ state: "CANCELLED", reason: "enough" });
    expect(codeOf(world, startMove({ move }))).toBe("STATE_ILLEGAL");
    expect(codeOf(world, cancelMove({ move }))).toBe("STATE_ILLEGAL");
  });

  test("I31: a pause cancels what runs, and a resume asks for it again under the same generation", () => {
    const world = worldOfShards();
    const move = planned(world, { x: "b" });
    surveyed(world, ["10", null]);
    world.submit(startMove({ move }));
    world.settle();
    expect(world.moves()[0]).toMatchObject({ state: "RUNNING", segments_active: 0 });
    lookedAt(world);
    expect(world.moves()[0]).toMatchObject({ state: "RUNNING", segments_active: 2 });
    world.submit(pauseMove({ move }));
    world.settle();
    expect(world.moves()[0]).toMatchObject({ state: "PAUSED", segments_active: 0 });
    world.submit(resumeMove({ move }));
    world.settle();
    lookedAt(world);
    expect(world.moveSegments(move).map(({ runs, generation }) => [runs, generation])).toEqual([
      [2, 0],
      [2, 0],
    ]);
  });

  test("I30: never more segments run than may, also after that was lowered", () => {
    const world = worldOfShards();
    const move = planned(world, { x: "b" }, { segment_concurrency: 2 });
    surveyed(world, ["1", "2", "3", "4", null]);
    world.submit(startMove({ move }));
    world.settle();
    lookedAt(world);
    expect(world.moves()[0]?.segments_active).toBe(2);
    world.submit(retuneMove({ move, segment_concurrency: 4, rows_per_second: 9 }));
    world.settle();
    expect(world.moves()[0]).toMatchObject({ segments_active: 4, rows_per_second: 9 });
    world.submit(retuneMove({ move, segment_concurrency: 1 }));
    world.settle();
    expect(world.moves()[0]?.segments_active).toBe(4);
  });

  test("refuses to start over rows that another move has in hand, and only over those", () => {
    const world = worldOfShards();
    const first = planned(world, { x: "b" });
    const same = planned(world, { x: "c" });
    const other = planned(world, { y: "b" });
    world.submit(startMove({ move: first }));
    expect(() => world.submit(startMove({ move: same }))).toThrow(`Move ${first} (RUNNING)`);
    world.submit(startMove({ move: other }));
    world.submit(pauseMove({ move: first }));
    expect(codeOf(world, startMove({ move: same }))).toBe("STATE_ILLEGAL");
    world.submit(cancelMove({ move: first }));
    expect(codeOf(world, startMove({ move: same }))).toBe("accepted");
  });

  test("refuses to start over tenants that a split has in hand", () => {
    const world = worldOfShards();
    world.submit(changeRouting({ default_shard: "a", routes: [] }));
    const split = world.submit(planSplit({ source: "a", target: "c", tenants: ["x"] }));
    const move = planned(world, { x: "b" });
    const other = planned(world, { y: "b" });
    expect(() => world.submit(startMove({ move }))).toThrow(
      `Split ${split.split_id} has the tenant`,
    );
    expect(codeOf(world, startMove({ move: other }))).toBe("accepted");
  });

  test("says why a survey that cannot be made stops the move", () => {
    const world = worldOfShards();
    const move = planned(world, { x: "b" });
    const [ref] = refsOf(world.claim(shardWorkNames(NAMES)));
    if (ref === undefined) throw new Error("Nothing is to be surveyed.");
    const error = { class: "user", message: "there is no table t" };
    world.report({ ...ref, outcome: "FAILED", error, final: true });
    world.settle();
    expect(world.moves()[0]).toMatchObject({
      state: "PAUSED",
      reason: "the survey of t on a failed: there is no table t",
    });
    world.submit(resumeMove({ move }));
    world.settle();
    surveyed(world, [null]);
    expect(world.moves()[0]).toMatchObject({ state: "PLANNED", segments_total: 1 });
  });

  test("only what was quarantined is excluded, and with a reason", () => {
    const world = worldOfShards();
    const move = planned(world, { x: "b" });
    surveyed(world, [null]);
    world.submit(startMove({ move }));
    world.settle();
    lookedAt(world);
    const exclude = (reason: string) => excludeSegment({ move, segment_index: 0, reason });
    expect(codeOf(world, exclude("why"))).toBe("STATE_ILLEGAL");
    expect(codeOf(world, recopySegment({ move, segment_index: 7 }))).toBe("SEGMENT_NOT_FOUND");
    const [ref] = refsOf(world.claim(shardWorkNames(NAMES)));
    if (ref === undefined) throw new Error("Nothing is to be copied.");
    const error = { class: "user", message: "no" };
    world.report({ ...ref, outcome: "FAILED", error, final: true });
    world.settle();
    expect(codeOf(world, exclude(" "))).toBe("INPUT_INVALID");
    world.submit(exclude("it is a legacy row"));
    world.settle();
    // What may have been copied of it is taken away before the last look.
    expect(world.moveSegments(move)[0]).toMatchObject({ state: "EXCLUDED", step: "remove" });
  });
});

/** Works until a step of a kind is held; that one is not ended. */
function untilStep(world: LedgerWorld, step: HeldMoveStep["step"]["step"]): HeldMoveStep {
  for (let turn = 0; turn < 100; turn++) {
    const held = claimMoveSteps(world);
    const found = held.find((each) => each.step.step === step);
    for (const each of held) if (each !== found) endMoveStep(world, each);
    if (found !== undefined) return found;
    world.pass(60_000);
    world.settle();
  }
  throw new Error(`There is no ${step}.`);
}

/** A dry run whose look a worker has in hand. */
function beingLookedAt(): { world: LedgerWorld; move: string; look: HeldMoveStep } {
  const world = moveWorld();
  const move = plannedOf(world, {}, true);
  return { world, move, look: untilStep(world, "check") };
}

/** A complete move, with a comparison of a copy that somebody asked for and a worker has in hand. */
function beingCompared(): { world: LedgerWorld; move: string; comparison: HeldMoveStep } {
  const world = moveWorld();
  const move = plannedOf(world, { keep_source: true });
  world.submit(startMove({ move }));
  workOff(world);
  world.submit(verifyMove({ move }));
  world.settle();
  return { world, move, comparison: untilStep(world, "verify") };
}

const findingsOf = (world: LedgerWorld) =>
  world.events.filter(({ type }) => type === "MoveChecked").map(({ data }) => data);

/** How an attempt ends whose worker heard that its run was cancelled. */
const CANCELLED: Parameters<typeof endMoveStep>[2] = {
  outcome: "CANCELLED",
  report: { misplaced: [{ shard: "b", table: "users", rows: 1 }], excepted: 0 },
  error: { class: "cancelled", message: "The task was cancelled." },
};
const BROKEN = {
  outcome: "FAILED",
  final: true,
  report: {},
  error: { class: "user", message: "b does not answer" },
} as const;

describe("a look or a comparison that was broken off", () => {
  test("I31: finds nothing in a dry run, and is done again", () => {
    const { world, move, look } = beingLookedAt();
    world.submit(cancelRun({ run_id: look.run_id, reason: "the shard is busy" }));
    endMoveStep(world, look, CANCELLED);
    expect(findingsOf(world)).toEqual([]);
    expect(moveAt(world, move)).toMatchObject({ state: "PLANNED", reason: null, check_ok: null });
    workOff(world);
    expect(moveAt(world, move)).toMatchObject({ state: "PLANNED", check_ok: 1, checks: 2 });
  });

  test("I31: finds nothing in a dry run that is paused meanwhile; it is looked again after the resume", () => {
    const { world, move, look } = beingLookedAt();
    world.submit(pauseMove({ move, reason: "not now" }));
    world.submit(cancelRun({ run_id: look.run_id }));
    endMoveStep(world, look, CANCELLED);
    expect(findingsOf(world)).toEqual([]);
    expect(moveAt(world, move)).toMatchObject({ state: "PAUSED", reason: "not now" });
    expect(workOff(world)).toBe(0);
    world.submit(resumeMove({ move }));
    expect(workOff(world)).toBe(1);
    expect(moveAt(world, move)).toMatchObject({ state: "PLANNED", check_ok: 1 });
  });

  test("I31: goes on over a pause and a resume of a dry run, and counts", () => {
    const { world, move, look } = beingLookedAt();
    world.submit(pauseMove({ move }));
    world.submit(resumeMove({ move }));
    world.settle();
    endMoveStep(world, look);
    expect(moveAt(world, move)).toMatchObject({ state: "PLANNED", check_ok: 1, checks: 1 });
  });

  test("I31: says nothing against a running move, which is looked at again", () => {
    const world = moveWorld();
    const move = plannedOf(world);
    world.submit(startMove({ move }));
    world.settle();
    const look = untilStep(world, "check");
    world.submit(cancelRun({ run_id: look.run_id }));
    endMoveStep(world, look, CANCELLED);
    expect(moveAt(world, move)).toMatchObject({ state: "RUNNING", check_ok: null });
    workOff(world);
    expect(moveAt(world, move).state).toBe("COMPLETE");
  });

  test("I31: leaves a cancelled move without a finding, whatever was under way", () => {
    const { world, move, look } = beingLookedAt();
    world.submit(cancelMove({ move }));
    endMoveStep(world, look, CANCELLED);
    expect(findingsOf(world)).toEqual([]);
    expect(moveAt(world, move)).toMatchObject({ state: "CANCELLED", check_ok: null });
  });

  test("I31: is no verdict on a copy, and is not begun again", () => {
    const { world, move, comparison } = beingCompared();
    world.submit(cancelRun({ run_id: comparison.run_id, reason: "too slow" }));
    endMoveStep(world, comparison, { ...CANCELLED, report: {} });
    const note = "both sides could not be compared: its run was cancelled: too slow";
    expect(findingsOf(world).at(-1)).toMatchObject({ ok: false, report: { note } });
    workOff(world);
    expect(moveAt(world, move)).toMatchObject({ verify_failed: 1, verify_waiting: 0, check_ok: 1 });
  });

  test("I31: ends the look at a complete move, which nobody could stop otherwise", () => {
    const { world, move, comparison } = beingCompared();
    endMoveStep(world, comparison);
    const look = untilStep(world, "check");
    world.submit(cancelRun({ run_id: look.run_id }));
    endMoveStep(world, look, CANCELLED);
    expect(workOff(world)).toBe(0);
    const note = "the shards could not be looked at: its run was cancelled: ann asked for it";
    expect(moveAt(world, move)).toMatchObject({ state: "COMPLETE", check_ok: 0 });
    expect(moveAt(world, move).check_report).toEqual({ note });
  });

  test("is no verdict when it failed: it says that nobody could look, and why", () => {
    const note = "the shards could not be looked at: b does not answer";
    const { world, move, look } = beingLookedAt();
    endMoveStep(world, look, BROKEN);
    expect(moveAt(world, move)).toMatchObject({ state: "PAUSED", reason: note, check_ok: 0 });
    expect(findingsOf(world)).toMatchObject([{ ok: false, report: { note } }]);
    world.submit(resumeMove({ move }));
    workOff(world);
    expect(moveAt(world, move)).toMatchObject({ state: "PLANNED", check_ok: 1 });

    const other = beingCompared();
    endMoveStep(other.world, other.comparison, BROKEN);
    expect(findingsOf(other.world).at(-1)).toMatchObject({
      ok: false,
      report: { note: "both sides could not be compared: b does not answer" },
    });
  });

  test("is no verdict when it ended without a finding", () => {
    const { world, move, look } = beingLookedAt();
    endMoveStep(world, look, { report: {} });
    expect(moveAt(world, move)).toMatchObject({
      state: "PAUSED",
      reason: "the shards could not be looked at: its run came to nothing",
    });
  });
});
