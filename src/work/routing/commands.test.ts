import { describe, expect, test } from "vitest";
import { LedgerWorld } from "../../../test/properties/ledger-world.ts";
import {
  bringOver,
  catchUp,
  claimStep,
  endStep,
  plan,
  routeIn,
  shardsSpec,
  splitAt,
  splitWorld,
} from "../../../test/properties/split-world.ts";
import { PawlError } from "../../kernel/errors.ts";
import { completeSplit } from "../split/commands.ts";
import { changeRouting, ROUTES_CHANGED_MAX, type RoutingInput } from "./commands.ts";

function refusal(world: LedgerWorld, input: RoutingInput): PawlError {
  try {
    world.submit(changeRouting(input));
  } catch (error) {
    if (error instanceof PawlError) return error;
    throw error;
  }
  throw new Error("It was not refused.");
}

const one = (tenant: string, shard: string): RoutingInput => ({ routes: [{ tenant, shard }] });

describe("changeRouting", () => {
  test("counts versions from 1, and gives what it names that version as its epoch", () => {
    const world = new LedgerWorld();
    world.publish(shardsSpec());
    expect(routeIn(world, "t1")).toBeNull();
    expect(world.submit(changeRouting(one("t1", "b")))).toEqual({ version: 1 });
    expect(routeIn(world, "t1")).toEqual({ tenant: "t1", shard: "b", epoch: 1, version: 1 });
    expect(routeIn(world, "t2")).toBeNull();
    world.submit(changeRouting({ expected_version: 1, default_shard: "a", routes: [] }));
    world.submit(changeRouting(one("t3", "c")));
    expect(routeIn(world, "t1")).toMatchObject({ shard: "b", epoch: 1, version: 3 });
    expect(routeIn(world, "t2")).toMatchObject({ shard: "a", epoch: 2 });
    expect(routeIn(world, "t3")).toMatchObject({ shard: "c", epoch: 3 });
  });

  test("keeps every version, with what it moved from where, and why", () => {
    const world = splitWorld();
    world.submit(changeRouting({ ...one("t1", "b"), reason: "it is there" }));
    world.submit(changeRouting(one("t1", "c")));
    const [, second, third] = world.read((rows) =>
      rows.routingVersions.find([], [{ cell: "version" }], 10),
    );
    expect(second).toMatchObject({
      version: 2,
      routes: [{ tenant: "t1", shard: "b", from: null }],
      reason: "it is there",
      cause: { type: "manual" },
      changed_by: "ann",
    });
    expect(third).toMatchObject({ routes: [{ tenant: "t1", shard: "c", from: "b" }] });
  });

  test("leaves out what is so already, so that epochs stay", () => {
    const world = splitWorld();
    world.submit(changeRouting(one("t1", "b")));
    const routes = [
      { tenant: "t1", shard: "b" },
      { tenant: "t2", shard: "b" },
    ];
    world.submit(changeRouting({ default_shard: "a", routes }));
    expect(routeIn(world, "t1")?.epoch).toBe(2);
    expect(routeIn(world, "t2")?.epoch).toBe(3);
    expect(routeIn(world, "t9")?.epoch).toBe(1);
    expect(refusal(world, { default_shard: "a", routes }).code).toBe("INPUT_INVALID");
  });

  test("I7: refuses another version than the current one", () => {
    const world = splitWorld();
    const { code, details } = refusal(world, { ...one("t1", "b"), expected_version: 0 });
    expect(code).toBe("STATE_VERSION_MISMATCH");
    expect(details).toEqual({ expected_version: 0, version: 1 });
  });

  test("refuses what says nothing, too much, or something twice", () => {
    const world = splitWorld();
    expect(refusal(world, { routes: [] }).message).toContain("default_shard, routes");
    const many = Array.from({ length: ROUTES_CHANGED_MAX + 1 }, (_, index) => ({
      tenant: `t${index}`,
      shard: "b",
    }));
    expect(refusal(world, { routes: many }).message).toContain("10001 routes");
    const twice = [...one("t1", "b").routes, ...one("t1", "c").routes];
    expect(refusal(world, { routes: twice }).message).toContain('"t1" stands there twice');
  });

  test("refuses shards that there are not, and names those there are", () => {
    const world = splitWorld();
    expect(refusal(world, one("t1", "bb")).message).toBe(
      'There is no shard "bb"; there are a, b, c, p.',
    );
    expect(refusal(world, { default_shard: "zebra", routes: [] }).code).toBe("SHARD_NOT_FOUND");
    expect(refusal(new LedgerWorld(), one("t1", "a")).message).toContain("has no shards");
  });

  test("I57: refuses tenants under a split, by name and by default, until it has ended", () => {
    const world = splitWorld();
    const { split_id } = plan(world);
    const { code, details } = refusal(world, one("t1", "c"));
    expect({ code, details }).toEqual({
      code: "SPLIT_OVERLAPS",
      details: { tenant: "t1", split_id },
    });
    expect(refusal(world, { default_shard: "c", routes: [] }).code).toBe("SPLIT_OVERLAPS");
    expect(world.submit(changeRouting(one("t2", "c")))).toEqual({ version: 2 });

    bringOver(world, split_id);
    // It has a route of its own now, so another default does not move it.
    expect(world.submit(changeRouting({ default_shard: "c", routes: [] }))).toEqual({ version: 4 });
    expect(routeIn(world, "t1")).toMatchObject({ shard: "b", epoch: 3 });
    expect(refusal(world, one("t1", "a")).code).toBe("SPLIT_OVERLAPS");
  });

  test("refuses a tenant that a split has placed, whose fences let in that epoch only", () => {
    const world = splitWorld();
    const { split_id } = plan(world);
    bringOver(world, split_id);
    world.submit(completeSplit({ split: split_id }));
    world.settle();
    while (splitAt(world, split_id).phase !== "completed") endStep(world, claimStep(world));

    const { code, message } = refusal(world, one("t1", "a"));

    expect(code).toBe("STATE_ILLEGAL");
    expect(message).toContain(`taken to b by the split ${split_id}`);
  });

  test("changes the routes of others while a split goes on, which does not mind", () => {
    const world = splitWorld();
    const { split_id } = plan(world);
    catchUp(world, split_id);
    expect(world.submit(changeRouting(one("t2", "c")))).toEqual({ version: 2 });
    expect(world.splits()[0]).toMatchObject({ routing_version_at_start: 1, epochs: [1] });
  });
});
