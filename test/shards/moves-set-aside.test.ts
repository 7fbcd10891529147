import { afterEach, beforeEach, describe, expect, test } from "vitest";
import {
  pauseMove,
  resumeMove,
  startMove,
  verifyMove,
  excludeSegment,
  recopySegment,
  retrySegments,
} from "../../src/work/move/commands.ts";
import { NO_FAULTS } from "./moves-faults.ts";
import { MoveWorld } from "./moves-world.ts";

const ON_A = { by: "tenant", tenants: {}, default: "a" } as const;
const ON_B = { by: "tenant", tenants: {}, default: "b" } as const;
const TENANTS = Array.from({ length: 30 }, (_, index) => `t${index % 4}`);
const PLAN = { from: ON_A, to: ON_B, strategy: { type: "cardinality", rows: 10 } };

describe("a move that meets something unexpected", () => {
  let world: MoveWorld;
  beforeEach(async () => {
    world = await MoveWorld.create(["a", "b"]);
    world.files.put(ON_A, TENANTS);
  });
  afterEach(() => world.close());

  const started = (plan: object = {}): string => {
    const move = world.plan({ ...PLAN, ...plan });
    world.submit(startMove({ move }));
    world.settle();
    return move;
  };
  const idsOn = (shard: string): number[] =>
    world.files
      .database(shard)
      .prepare("select id from customers order by id")
      .pluck()
      .all() as number[];
  /** Works until everything is copied and nothing has been removed yet. */
  const copied = async (move: string): Promise<void> => {
    while (world.move(move).segments_removed === 0) {
      const { lanes_sealed, lanes, segments_pending, segments_active } = world.move(move);
      const isCopied = lanes_sealed === lanes.length && segments_pending === 0;
      if (isCopied && segments_active > 0) return;
      await world.round(1);
    }
    throw new Error("Something was removed already.");
  };

  const strangerOnTarget = (): void => {
    world.files.database("b").exec("insert into customers values (15, 't1', 'stranger')");
  };

  test("sets aside a segment whose place is taken, and goes on with the rest", async () => {
    strangerOnTarget();
    const move = started();
    await world.work();
    expect(world.move(move)).toMatchObject({ state: "RUNNING", segments_poisoned: 1 });
    expect(world.move(move)).toMatchObject({ segments_pending: 0, segments_removed: 0 });
    const poisoned = world.moveSegments(move).find(({ state }) => state === "POISONED");
    expect(poisoned?.error?.message).toContain("b has rows of customers");
    // Nothing is removed while a part is not where it should be.
    expect(idsOn("a")).toHaveLength(30);
  });

  test("replaces what was in the way when the segment is copied again", async () => {
    strangerOnTarget();
    const move = started();
    await world.work();
    const index = world.moveSegments(move).findIndex(({ state }) => state === "POISONED");
    world.submit(recopySegment({ move, segment_index: index }));
    await world.work();
    expect(world.move(move).state).toBe("COMPLETE");
    expect(idsOn("a")).toEqual([]);
    expect(idsOn("b")).toHaveLength(30);
    const name = world.files.database("b").prepare("select name from customers where id = 15");
    expect(name.pluck().get()).toBe("c15");
  });

  test("leaves an excluded segment on both sides as it is, and says so in the end", async () => {
    strangerOnTarget();
    const move = started();
    await world.work();
    const index = world.moveSegments(move).findIndex(({ state }) => state === "POISONED");
    world.submit(excludeSegment({ move, segment_index: index, reason: "it is a legacy row" }));
    await world.work();
    expect(world.move(move)).toMatchObject({ state: "COMPLETE", segments_excluded: 1 });
    expect(world.move(move).check_report).toMatchObject({ equal: true, excepted: 10 });
    expect(idsOn("a")).toEqual([10, 11, 12, 13, 14, 15, 16, 17, 18, 19]);
    expect(idsOn("b")).toContain(15);
    expect(idsOn("b")).toHaveLength(21);
  });

  test("takes what was copied of an excluded segment away again", async () => {
    const move = started({ segment_attempts: 1 });
    await copied(move);
    // The removal of the first finds its copy changed, so it is quarantined with all its rows there.
    world.files.database("b").exec("update customers set name = 'changed' where id = 15");
    await world.work();
    const index = world.moveSegments(move).findIndex(({ state }) => state === "POISONED");
    expect(world.moveSegments(move)[index]?.error?.message).toContain(
      "changed since it was verified",
    );
    expect(idsOn("a")).toContain(15);
    world.submit(excludeSegment({ move, segment_index: index, reason: "leave it" }));
    await world.work();
    expect(world.move(move)).toMatchObject({ state: "COMPLETE", segments_discarding: 0 });
    expect(idsOn("b").filter((id) => id >= 10 && id < 20)).toEqual([]);
    expect(idsOn("a")).toEqual([10, 11, 12, 13, 14, 15, 16, 17, 18, 19]);
  });

  test("I29: copies again, as the next generation, what changed on the source since", async () => {
    const move = started();
    await copied(move);
    world.files.database("a").exec("update customers set name = 'newer' where id = 3");
    await world.work();
    expect(world.move(move).state).toBe("COMPLETE");
    expect(world.moveSegments(move).map(({ generation }) => generation)).toContain(1);
    const name = world.files.database("b").prepare("select name from customers where id = 3");
    expect(name.pluck().get()).toBe("newer");
    expect(idsOn("a")).toEqual([]);
  });

  test("I54: does not empty the target when a removal was lost and the source was written since", async () => {
    const move = started({ tables: ["customers"], segment_concurrency: 1 });
    await copied(move);
    // Every removal comes to its end on the source, and nobody hears of it.
    world.faults = { ...NO_FAULTS, killAfter: "remove" };
    await world.round();
    world.faults = NO_FAULTS;
    expect(idsOn("a")).toHaveLength(20);
    const gone = TENANTS.map((_, id) => id).find((id) => !idsOn("a").includes(id)) ?? 0;
    world.files.database("a").exec(`insert into customers values (${gone}, 't1', 'late')`);
    await world.work();
    const poisoned = world.moveSegments(move).find(({ state }) => state === "POISONED");
    expect(poisoned?.error?.message).toContain("when a worker was lost");
    expect(idsOn("b")).toHaveLength(30);
  });

  test("I54: loses nothing when a segment is copied again whose removal nobody has heard of", async () => {
    const move = started({ tables: ["customers"], segment_concurrency: 1 });
    await copied(move);
    world.faults = { ...NO_FAULTS, killAfter: "remove" };
    await world.round();
    world.faults = NO_FAULTS;
    const index = world.moveSegments(move).findIndex(({ run_pos }) => run_pos !== null);
    world.submit(pauseMove({ move }));
    world.settle();
    world.submit(recopySegment({ move, segment_index: index }));
    world.submit(resumeMove({ move }));
    await world.work();
    expect(world.move(move).state).toBe("COMPLETE");
    expect(world.moveSegments(move)[index]).toMatchObject({ generation: 1, state: "REMOVED" });
    expect(idsOn("b")).toHaveLength(30);
  });

  test("pauses when the budget of failures is used up, and counts anew from there", async () => {
    const move = started({ retry_budget: 3, segment_attempts: 100 });
    await world.round();
    await world.round();
    world.faults = { ...NO_FAULTS, fail: 1 };
    for (let round = 0; round < 10; round++) await world.round();
    expect(world.move(move).state).toBe("PAUSED");
    expect(world.move(move).reason).toContain("all that its budget allows");
    world.faults = NO_FAULTS;
    world.submit(resumeMove({ move }));
    await world.work();
    expect(world.move(move).state).toBe("COMPLETE");
  });

  test("I38: sets a segment aside after as many failures as it may have, and retries it from where it was", async () => {
    const move = started({ segment_attempts: 2, tables: ["customers"] });
    await world.round();
    await world.round();
    world.faults = { ...NO_FAULTS, fail: 1 };
    for (let round = 0; round < 12; round++) await world.round();
    const { segments_poisoned, state } = world.move(move);
    expect({ segments_poisoned, state }).toEqual({ segments_poisoned: 3, state: "RUNNING" });
    expect(world.moveSegments(move).map(({ failures }) => failures)).toEqual([2, 2, 2]);
    world.faults = NO_FAULTS;
    world.submit(retrySegments({ move, segment_index: null }));
    await world.work();
    expect(world.move(move).state).toBe("COMPLETE");
    expect(world.moveSegments(move).map(({ generation }) => generation)).toEqual([0, 0, 0]);
  });

  test("is not complete before every row is where it belongs", async () => {
    const move = started();
    while (world.move(move).checks < 2) await world.round();
    world.files.database("a").exec("insert into customers values (7, 't1', 'late')");
    await world.work();
    expect(world.move(move)).toMatchObject({ state: "PAUSED", segments_copied: 0 });
    expect(world.move(move).reason).toContain("1 of customers on a");
    world.files.database("a").exec("delete from customers");
    world.submit(resumeMove({ move }));
    await world.work();
    expect(world.move(move)).toMatchObject({ state: "COMPLETE", checks: 3, check_ok: 1 });
  });

  test("takes along what is written behind the last key while it is under way", async () => {
    const move = started();
    await copied(move);
    world.files.database("a").exec("insert into customers values (999, 't1', 'late')");
    await world.work();
    expect(world.move(move).state).toBe("COMPLETE");
    expect(idsOn("b")).toContain(999);
  });

  test("tells at any later time which rows are not where they belong", async () => {
    const move = started();
    await world.work();
    world.files.database("a").exec("insert into customers values (1000, 't1', 'later')");
    world.submit(verifyMove({ move }));
    await world.work();
    expect(world.move(move)).toMatchObject({ state: "COMPLETE", check_ok: 0 });
    expect(world.move(move).check_report?.misplaced).toEqual([
      { shard: "a", table: "customers", rows: 1 },
    ]);
    world.files.database("a").exec("delete from customers where id = 1000");
    world.submit(verifyMove({ move }));
    await world.work();
    expect(world.move(move)).toMatchObject({ state: "COMPLETE", check_ok: 1, checks: 4 });
  });
});
