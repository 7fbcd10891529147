import { describe, expect, test } from "vitest";
import type { LedgerWorld } from "../../../test/properties/ledger-world.ts";
import {
  arm,
  bringOver,
  catchUp,
  claimStep,
  claimSteps,
  endStep,
  FINAL,
  loseWorker,
  plan,
  routeIn,
  say,
  splitAt,
  splitWorld,
} from "../../../test/properties/split-world.ts";
import { CUTOVER_AGAIN_MS } from "./advance.ts";
import { cancelRun } from "../run/cancel.ts";
import {
  changeSchema,
  completeSplit,
  requestCutover,
  resumeSplit,
  rollbackSplit,
  runBackfill,
  type SplitCommand,
  startDualWrite,
} from "./commands.ts";
import type { Decide } from "../decision.ts";

/** Has a command recorded, and what follows from it. */
function command(world: LedgerWorld, decide: Decide<unknown>): void {
  world.submit(decide);
  world.settle();
}

/** A world with a split whose tail is running and caught up. */
function caughtUp(own: Parameters<typeof plan>[1] = {}) {
  const world = splitWorld();
  const { split_id: split } = plan(world, own);
  return { world, split, tail: catchUp(world, split) };
}

/** A world with a split that was cut over, whose reverse stream is running. */
function cutOverWorld() {
  const world = splitWorld();
  const { split_id: split } = plan(world);
  bringOver(world, split);
  return { world, split, reverse: claimStep(world) };
}

describe("a split", () => {
  test("looks at both shards, then waits to be told", () => {
    const world = splitWorld();
    const { split_id: split } = plan(world, { tenants: ["t1", "t2"] });
    const held = claimStep(world);
    expect(held.step).toMatchObject({ step: "check", n: 1, tenants: ["t1", "t2"], epochs: [1, 1] });
    endStep(world, held);
    expect(splitAt(world)).toMatchObject({ phase: "planning", step_state: null, armed: 0 });
    expect(claimSteps(world)).toEqual([]);

    command(world, startDualWrite({ split }));
    endStep(world, claimStep(world));
    expect(splitAt(world)).toMatchObject({ phase: "dual_write", armed: 1 });
    expect(claimSteps(world)).toEqual([]);
  });

  test("copies, follows, and is caught up while its tail goes on", () => {
    const { world, tail } = caughtUp();
    expect(splitAt(world)).toMatchObject({
      phase: "cutover_pending",
      backfill_status: "completed",
      tail_status: "caught_up",
      total_rows_copied: 7,
      step: "tail",
      step_state: "RUNNING",
    });
    expect(say(world, tail)).toEqual({ status: "current", stop: false, routing_version: null });
  });

  test("cuts over, keeps the way back up to date, completes and is removed in the end", () => {
    const { world, split, tail } = caughtUp({ grace_ms: 60_000 });
    command(world, requestCutover({ split }));
    expect(say(world, tail).stop).toBe(true);
    endStep(world, tail);
    const held = claimStep(world);
    expect(held.step.step).toBe("cutover");
    expect(say(world, held, "commit").routing_version).toBe(2);
    expect(splitAt(world)).toMatchObject({ phase: "reversible", committing: 1, wanted: "cutover" });
    expect(routeIn(world, "t1")).toEqual({ tenant: "t1", shard: "b", epoch: 2, version: 2 });
    endStep(world, held);
    expect(splitAt(world)).toMatchObject({ committing: 0, wanted: null, write_pause_us: 12_500 });

    const reverse = claimStep(world);
    expect(reverse.step).toMatchObject({ step: "reverse", routing_version_cutover: 2 });
    command(world, completeSplit({ split }));
    expect(say(world, reverse).stop).toBe(true);
    endStep(world, reverse, { report: { rows_copied: 0 } });
    expect(claimStep(world).step.step).toBe("finish");
  });

  test("removes what is left on the source after the grace time", () => {
    const { world, split, reverse } = cutOverWorld();
    command(world, completeSplit({ split }));
    endStep(world, reverse);
    endStep(world, claimStep(world));
    expect(splitAt(world)).toMatchObject({ phase: "completed", wanted: null, removed_at: null });
    expect(claimSteps(world)).toEqual([]);
    world.pass(86_400_000 - 1);
    world.settle();
    expect(claimSteps(world)).toEqual([]);
    world.pass(1);
    world.settle();
    const removal = claimStep(world);
    expect(removal.step.step).toBe("remove");
    endStep(world, removal, { report: { rows_removed: 7 } });
    const removed = { removed_at: world.now, remove_after: null, due_at: null };
    expect(splitAt(world)).toMatchObject(removed);
    expect(plan(world, { source: "b", target: "c" }).phase).toBe("planning");
  });

  test("copies on where a schema was changed in between", () => {
    const world = splitWorld();
    const { split_id: split } = plan(world);
    arm(world, split);
    command(world, runBackfill({ split }));
    const copy = claimStep(world);
    command(world, changeSchema({ split, ddl: "alter table users add x" }));
    expect(say(world, copy).stop).toBe(true);
    const half = [{ table: "users", rows: 3, cursor: ["1"], done: false }];
    endStep(world, copy, { report: { tables: half } });
    const ddl = claimStep(world);
    expect(ddl.step).toMatchObject({ step: "ddl", ddl: "alter table users add x" });
    endStep(world, ddl);
    expect(splitAt(world)).toMatchObject({ phase: "backfill", wanted: null, ddl: null });
    expect(claimStep(world).step.step).toBe("copy");
  });

  test("goes on without a change of the schema that failed", () => {
    const { world, split, tail } = caughtUp();
    command(world, changeSchema({ split, ddl: "alter table users drop nothing" }));
    endStep(world, tail);
    endStep(world, claimStep(world), FINAL);
    expect(splitAt(world)).toMatchObject({ wanted: null, error: FINAL.error });
    expect(claimStep(world).step.step).toBe("tail");
  });
});

describe("a cutover", () => {
  test("falls back to its tail when it cannot be had, and may be asked for again", () => {
    const { world, split, tail } = caughtUp();
    command(world, requestCutover({ split }));
    endStep(world, tail);
    endStep(world, claimStep(world), FINAL);
    expect(splitAt(world)).toMatchObject({
      phase: "cutover_pending",
      wanted: null,
      error: FINAL.error,
      routing_version_cutover: null,
    });
    const again = claimStep(world);
    expect(again.step.step).toBe("tail");
    command(world, requestCutover({ split }));
    endStep(world, again);
    expect(claimStep(world).step.step).toBe("cutover");
  });

  test("is resumed by the next worker when the first one dies, before the commit and after", () => {
    const { world, split, tail } = caughtUp();
    command(world, requestCutover({ split }));
    endStep(world, tail);
    const first = claimStep(world);
    loseWorker(world, first);
    expect(splitAt(world)).toMatchObject({ phase: "cutover_pending", wanted: "cutover" });
    expect(say(world, first, "commit")).toMatchObject({ status: "lost", routing_version: null });
    const second = claimStep(world);
    expect(second.step).toMatchObject({ step: "cutover", routing_version_cutover: null });
    expect(say(world, second, "commit").routing_version).toBe(2);
    expect(say(world, second, "commit").routing_version).toBe(2);
    loseWorker(world, second);
    const third = claimStep(world);
    expect(third.step).toMatchObject({ step: "cutover", n: 5, routing_version_cutover: 2 });
    expect(say(world, third, "commit").routing_version).toBe(2);
    endStep(world, third);
    expect(claimStep(world).step.step).toBe("reverse");
    expect(world.events.filter(({ type }) => type === "RoutingChanged")).toHaveLength(2);
  });

  test("stays to be finished when it fails after its commit record", () => {
    const { world, split, tail } = caughtUp();
    command(world, requestCutover({ split }));
    endStep(world, tail);
    const held = claimStep(world);
    say(world, held, "commit");
    endStep(world, held, FINAL);
    expect(splitAt(world)).toMatchObject({ phase: "reversible", step_state: "FAILED" });
    expect(claimSteps(world)).toEqual([]);
    command(world, resumeSplit({ split }));
    expect(claimStep(world).step).toMatchObject({ step: "cutover", routing_version_cutover: 2 });
  });

  test("is asked for by a split that cuts over by itself, again only after a while", () => {
    const { world, tail } = caughtUp({ auto_cutover: true });
    expect(splitAt(world)).toMatchObject({ wanted: "cutover" });
    endStep(world, tail);
    endStep(world, claimStep(world), FINAL);
    const next = claimStep(world);
    expect(next.step.step).toBe("tail");
    world.pass(CUTOVER_AGAIN_MS - 1);
    world.settle();
    expect(splitAt(world)).toMatchObject({ wanted: null });
    world.pass(1);
    world.settle();
    expect(splitAt(world)).toMatchObject({ wanted: "cutover", due_at: null });
    expect(say(world, next).stop).toBe(true);
  });

  test("is begun anew when somebody cancels its run", () => {
    const { world, split, tail } = caughtUp();
    command(world, requestCutover({ split }));
    endStep(world, tail);
    const held = claimStep(world);
    command(world, cancelRun({ run_id: held.run_id }));
    expect(say(world, held, "commit").routing_version).toBeNull();
    endStep(world, held, { outcome: "FAILED", report: {} });
    expect(claimStep(world).step).toMatchObject({ step: "cutover", n: 6 });
  });
});

describe("a step that failed for good", () => {
  test("stays until somebody has it tried again", () => {
    const world = splitWorld();
    const { split_id: split } = plan(world);
    arm(world, split);
    command(world, runBackfill({ split }));
    endStep(world, claimStep(world), FINAL);
    expect(splitAt(world)).toMatchObject({ backfill_status: "failed", failures: 1 });
    expect(claimSteps(world)).toEqual([]);
    const ways: ((given: SplitCommand) => Decide<unknown>)[] = [runBackfill, resumeSplit];
    for (const way of ways) {
      command(world, way({ split }));
      expect(splitAt(world).backfill_status).toBe("pending");
      const copy = claimStep(world);
      expect(copy.step.step).toBe("copy");
      endStep(world, copy, FINAL);
    }
  });

  test("has to be caught up and verified again before a cutover when it was the tail", () => {
    const { world, split, tail } = caughtUp({ auto_cutover: false });
    endStep(world, tail, FINAL);
    expect(() => world.submit(requestCutover({ split }))).toThrow("no luck");
    command(world, resumeSplit({ split }));
    expect(() => world.submit(requestCutover({ split }))).toThrow("caught up and verified again");
    say(world, claimStep(world), "caught_up");
    command(world, requestCutover({ split }));
    expect(splitAt(world).wanted).toBe("cutover");
  });
});

describe("a rollback", () => {
  test("of a plan needs no step, and frees the tenants", () => {
    const world = splitWorld();
    const { split_id: split } = plan(world);
    const check = claimStep(world);
    command(world, rollbackSplit({ split }));
    expect(splitAt(world)).toMatchObject({ phase: "rolled_back", wanted: null });
    expect(say(world, check).stop).toBe(true);
    endStep(world, check);
    expect(splitAt(world).step_state).toBeNull();
    expect(plan(world).phase).toBe("planning");
  });

  test("before the cutover stops what runs and discards the copy; the routing stays", () => {
    const { world, split, tail } = caughtUp();
    command(world, rollbackSplit({ split }));
    expect(say(world, tail).stop).toBe(true);
    endStep(world, tail);
    const discard = claimStep(world);
    expect(discard.step.step).toBe("discard");
    endStep(world, discard);
    expect(splitAt(world)).toMatchObject({ phase: "rolled_back", wanted: null });
    expect(routeIn(world, "t1")).toMatchObject({ shard: "a", epoch: 1 });
    expect(plan(world).phase).toBe("planning");
  });

  test("cancels at once what no worker has begun, or waits for its next attempt", () => {
    const world = splitWorld();
    const { split_id: split } = plan(world);
    arm(world, split);
    command(world, runBackfill({ split }));
    command(world, rollbackSplit({ split }));
    expect(claimStep(world).step.step).toBe("discard");

    const { world: other, split: same, tail } = caughtUp();
    command(other, rollbackSplit({ split: same }));
    endStep(other, tail, { outcome: "FAILED", report: {} });
    expect(claimStep(other).step.step).toBe("discard");
  });

  test("takes the place of a cutover that is not recorded, and of none that is", () => {
    const { world, split, tail } = caughtUp();
    command(world, requestCutover({ split }));
    endStep(world, tail);
    const held = claimStep(world);
    command(world, rollbackSplit({ split }));
    expect(say(world, held, "commit")).toMatchObject({ stop: true, routing_version: null });
    endStep(world, held, FINAL);
    expect(claimStep(world).step.step).toBe("discard");

    const other = caughtUp();
    command(other.world, requestCutover({ split: other.split }));
    endStep(other.world, other.tail);
    say(other.world, claimStep(other.world), "commit");
    expect(() => other.world.submit(rollbackSplit({ split: other.split }))).toThrow("is recorded");
  });

  test("after the cutover hands the tenants back, then discards", () => {
    const { world, split, reverse } = cutOverWorld();
    command(world, rollbackSplit({ split }));
    endStep(world, reverse);
    const cutback = claimStep(world);
    expect(cutback.step.step).toBe("cutback");
    expect(say(world, cutback, "commit")).toMatchObject({ stop: false, routing_version: 3 });
    expect(say(world, cutback)).toMatchObject({ stop: false, routing_version: 3 });
    expect(routeIn(world, "t1")).toMatchObject({ shard: "a", epoch: 3 });
    loseWorker(world, cutback);
    const again = claimStep(world);
    expect(again.step).toMatchObject({ step: "cutback", routing_version_rollback: 3 });
    endStep(world, again);
    endStep(world, claimStep(world));
    expect(splitAt(world)).toMatchObject({
      phase: "rolled_back",
      routing_version_cutover: 2,
      routing_version_rollback: 3,
    });
  });

  test("after the cutover falls back to the reverse stream when it cannot be had", () => {
    const { world, split, reverse } = cutOverWorld();
    command(world, rollbackSplit({ split }));
    endStep(world, reverse);
    endStep(world, claimStep(world), FINAL);
    expect(splitAt(world)).toMatchObject({ phase: "reversible", wanted: null });
    expect(claimStep(world).step.step).toBe("reverse");
  });

  test("takes the place of a completion that nobody has begun, and of none that was", () => {
    const { world, split, reverse } = cutOverWorld();
    command(world, completeSplit({ split }));
    endStep(world, reverse);
    command(world, rollbackSplit({ split }));
    expect(claimStep(world).step.step).toBe("cutback");

    const other = cutOverWorld();
    command(other.world, completeSplit({ split: other.split }));
    endStep(other.world, other.reverse);
    claimStep(other.world);
    expect(() => other.world.submit(rollbackSplit({ split: other.split }))).toThrow("taken down");
  });
});
