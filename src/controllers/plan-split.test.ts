import { describe, expect, test } from "vitest";
import { LedgerWorld } from "../../test/properties/ledger-world.ts";
import { plan, shardsSpec, splitAt, splitWorld } from "../../test/properties/split-world.ts";
import { PawlError } from "../core/errors.ts";
import { MovePlan } from "../core/move-spec.ts";
import { cancelMove, pauseMove, startMove } from "./change-move.ts";
import { changeRouting } from "./change-routing.ts";
import { rollbackSplit } from "./change-split.ts";
import { planMove } from "./plan-move.ts";
import type { SplitInput } from "./plan-split.ts";

function refusal(world: LedgerWorld, own: Partial<SplitInput> = {}): PawlError {
  try {
    plan(world, own);
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
