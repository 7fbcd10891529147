import { describe, expect, test } from "vitest";
import { LedgerWorld } from "../../../test/properties/ledger-world.ts";
import {
  bringOver,
  catchUp,
  claimStep,
  claimSteps,
  endStep,
  plan,
  say,
  shardsSpec,
  splitAt,
  splitWorld,
} from "../../../test/properties/split-world.ts";
import { PawlError } from "../../kernel/errors.ts";
import { MovePlan } from "../move/spec.ts";
import { cancelMove, pauseMove, planMove, startMove } from "../move/commands.ts";
import { changeRouting } from "../routing/commands.ts";
import {
  completeSplit,
  planSplit,
  requestCutover,
  rollbackSplit,
  runBackfill,
  type SplitInput,
  startDualWrite,
} from "./commands.ts";
import type { Decide } from "../decision.ts";

function refusal(world: LedgerWorld, own: Partial<SplitInput> = {}): PawlError {
  return refused(() => plan(world, own));
}

function refusedBy(world: LedgerWorld, decide: Decide<unknown>): PawlError {
  return refused(() => world.submit(decide));
}

function refused(ask: () => unknown): PawlError {
  try {
    ask();
  } catch (error) {
    if (error instanceof PawlError) return error;
    throw error;
  }
  throw new Error("It was not refused.");
}

describe("planSplit", () => {
  test("keeps the tables and the epochs as they are now", () => {
    const world = splitWorld();
    world.submit(changeRouting({ routes: [{ tenant: "t2", shard: "b" }] }));
    world.submit(changeRouting({ routes: [{ tenant: "t2", shard: "a" }] }));
    const planned = plan(world, { tenants: ["t1", "t2"], description: "more room" });
    expect(planned).toEqual({
      split_id: splitAt(world).split_id,
      phase: "planning",
      state_version: 1,
      wanted: null,
      routing_version_cutover: null,
      routing_version_rollback: null,
    });
    world.publish(shardsSpec({ tables: [{ table: "others", shard_by: "tenant" }] }));
    expect(splitAt(world)).toMatchObject({
      description: "more room",
      epochs: [1, 3],
      routing_version_at_start: 3,
      tables: [{ table: "users" }, { table: "orders" }],
      lag_limit_ms: 1_000,
      fence_wait_ms: 1_000,
      fence_hold_ms: 5_000,
      grace_ms: 86_400_000,
      auto_cutover: 0,
      planned_by: "ann",
    });
  });

  test("refuses no tenants, too many, and one twice", () => {
    const world = splitWorld();
    expect(refusal(world, { tenants: [] }).message).toContain("at least one tenant");
    const many = Array.from({ length: 1_001 }, (_, index) => `t${index}`);
    expect(refusal(world, { tenants: many }).message).toContain("1001 tenants");
    expect(refusal(world, { tenants: ["x", "y", "x"] }).message).toContain(
      '"x" stands there twice',
    );
  });

  test("refuses shards that are none, the same, or of different engines", () => {
    const world = splitWorld();
    const unknown = refusal(world, { target: "q" });
    expect([unknown.code, unknown.details["shards"]]).toEqual([
      "SHARD_NOT_FOUND",
      ["a", "b", "c", "p"],
    ]);
    expect(refusal(world, { target: "a" }).message).toContain("both a");
    expect(refusal(world, { target: "p" }).message).toContain(
      "a is kept in sqlite and p in postgres",
    );
    expect(refusal(new LedgerWorld()).message).toContain("has no shards");
  });

  test("refuses tenants whose rows a move has in hand, whether that goes on or is paused", () => {
    const world = splitWorld();
    const from = { by: "tenant", tenants: {}, default: "a" } as const;
    const to = { by: "tenant", tenants: { t1: "b" }, default: "a" } as const;
    const planned = { plan: MovePlan.parse({ from, to }) };
    const { move_id: move } = world.submit(planMove(planned));
    // What is only planned has nothing in hand; it is refused itself when it is to start.
    const { split_id: split } = plan(world);
    world.submit(rollbackSplit({ split }));
    world.submit(startMove({ move }));
    expect(refusal(world).message).toContain('may have rows of the tenant "t1" in hand');
    plan(world, { tenants: ["t2"] });
    world.submit(pauseMove({ move }));
    expect(refusal(world).details).toMatchObject({ tenant: "t1", move_id: move });
    world.submit(cancelMove({ move }));
    plan(world);
  });

  test("refuses tenants that nobody knows to be on the source, and says where they are", () => {
    const world = new LedgerWorld();
    world.publish(shardsSpec());
    expect(refusal(world).message).toContain("pawl routing set");
    world.submit(changeRouting({ routes: [{ tenant: "t1", shard: "b" }] }));
    expect(refusal(world).message).toContain('"t1" is not on a now; it is routed to b');
    expect(refusal(world, { tenants: ["t2"] }).message).toContain("routed to nowhere");
  });

  test("refuses times that are none", () => {
    const world = splitWorld();
    expect(refusal(world, { lag_limit_ms: 0 }).message).toContain("lag_limit_ms is 0");
    expect(refusal(world, { grace_ms: 1.5 }).code).toBe("INPUT_INVALID");
    expect(plan(world, { grace_ms: 0 }).phase).toBe("planning");
  });

  test("I57: refuses a tenant that another active split is about, and names that", () => {
    const world = splitWorld();
    const { split_id } = plan(world, { tenants: ["t1", "t2"] });
    const { code, details } = refusal(world, { target: "c", tenants: ["t3", "t2"] });
    expect({ code, details }).toEqual({
      code: "SPLIT_OVERLAPS",
      details: { tenant: "t2", split_id },
    });
    expect(plan(world, { target: "c", tenants: ["t3"] }).phase).toBe("planning");
    world.submit(rollbackSplit({ split: split_id }));
    expect(plan(world, { target: "c", tenants: ["t2"] }).phase).toBe("planning");
  });
});

/** What a split says of itself before anything was done about it. */
const AT_THE_BEGINNING = {
  wanted: null,
  checks: null,
  armed: 0,
  dual_write_started_at: null,
  backfill_status: "pending",
  backfill_started_at: null,
  backfill_completed_at: null,
  total_rows_copied: 0,
  table_progress: [],
  tenant_rows: {},
  tail_status: "pending",
  last_event_id: null,
  last_event_ts: null,
  tail_lag_events: null,
  tail_lag_ms: null,
  verification: null,
} as const;

describe("a split that was rolled back", () => {
  /** Takes a split back from where it is, with whoever is at work on it. */
  function takeBack(world: LedgerWorld, split: string): void {
    world.submit(rollbackSplit({ split }));
    world.settle();
    for (const held of claimSteps(world)) {
      if (held.step.step === "cutback") say(world, held, "commit");
      endStep(world, held);
    }
    for (const held of claimSteps(world)) endStep(world, held);
    expect(splitAt(world, split).phase).toBe("rolled_back");
  }

  test("I56: is at its beginning again, before its cutover and after it", () => {
    const world = splitWorld();
    const { split_id: split } = plan(world);
    const tail = catchUp(world, split);
    expect(splitAt(world)).toMatchObject({ backfill_status: "completed", total_rows_copied: 7 });
    world.submit(rollbackSplit({ split }));
    world.settle();
    endStep(world, tail);
    takeBack(world, split);
    expect(splitAt(world)).toMatchObject(AT_THE_BEGINNING);

    const { split_id: other } = plan(world, { tenants: ["t2"] });
    bringOver(world, other);
    takeBack(world, other);
    expect(splitAt(world, other)).toMatchObject({
      ...AT_THE_BEGINNING,
      // What happened stays on record until the plan is run again.
      routing_version_cutover: 2,
      routing_version_rollback: 3,
    });
  });

  test("I56: can be run again, up to its end, as the routing and the tables are by then", () => {
    const world = splitWorld();
    const { split_id: split } = plan(world);
    bringOver(world, split);
    takeBack(world, split);
    world.publish(shardsSpec({ tables: [{ table: "users", shard_by: "tenant" }] }));
    const { steps, state_version } = splitAt(world);
    expect(world.submit(startDualWrite({ split }))).toMatchObject({
      phase: "dual_write",
      state_version: state_version + 1,
      routing_version_cutover: null,
      routing_version_rollback: null,
    });
    expect(splitAt(world)).toMatchObject({
      ...AT_THE_BEGINNING,
      epochs: [3],
      tables: [{ table: "users", shard_by: "tenant" }],
      routing_version_at_start: 3,
      routing_version_cutover: null,
      routing_version_rollback: null,
      cutover_at: null,
      finished_at: null,
      write_pause_us: null,
      steps,
    });
    const same = planSplit({ source: "a", target: "b", tenants: ["t1"] });
    expect(refusedBy(world, same).code).toBe("SPLIT_OVERLAPS");
    world.settle();
    endStep(world, claimStep(world));
    world.submit(runBackfill({ split }));
    world.settle();
    endStep(world, claimStep(world));
    const tail = claimStep(world);
    say(world, tail, "caught_up");
    world.submit(requestCutover({ split }));
    world.settle();
    endStep(world, tail);
    const cutover = claimStep(world);
    expect(say(world, cutover, "commit").routing_version).toBe(4);
    endStep(world, cutover);
    world.submit(completeSplit({ split }));
    world.settle();
    for (const held of claimSteps(world)) endStep(world, held);
    for (const held of claimSteps(world)) endStep(world, held);
    expect(splitAt(world)).toMatchObject({ phase: "completed", routing_version_cutover: 4 });
  });

  test("I57: is not run again while its tenants are elsewhere, or under another split", () => {
    const world = splitWorld();
    const { split_id: split } = plan(world);
    world.submit(rollbackSplit({ split }));
    world.settle();
    const { split_id: other } = plan(world);
    expect(refusedBy(world, startDualWrite({ split })).code).toBe("SPLIT_OVERLAPS");
    world.submit(rollbackSplit({ split: other }));
    world.submit(changeRouting({ routes: [{ tenant: "t1", shard: "c" }] }));
    expect(refusedBy(world, startDualWrite({ split })).message).toContain("is not on a now");
    world.submit(changeRouting({ routes: [{ tenant: "t1", shard: "a" }] }));
    expect(world.submit(startDualWrite({ split })).phase).toBe("dual_write");
  });
});
