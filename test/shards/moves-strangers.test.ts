import { afterEach, beforeEach, describe, expect, test } from "vitest";
import {
  cancelMove,
  startMove,
  excludeSegment,
  recopySegment,
} from "../../src/work/move/commands.ts";
import type { MoveSegmentRow } from "../../src/work/move/rows.ts";
import { NO_FAULTS } from "./moves-faults.ts";
import { MoveWorld } from "./moves-world.ts";

const ON_A = { by: "tenant", tenants: {}, default: "a" } as const;
const ON_B = { by: "tenant", tenants: {}, default: "b" } as const;
const TENANTS = Array.from({ length: 30 }, (_, index) => `t${index % 4}`);
const PLAN = { from: ON_A, to: ON_B, tables: ["customers"] };

describe("a move onto a shard that others write to", () => {
  let world: MoveWorld;
  beforeEach(async () => {
    world = await MoveWorld.create(["a", "b"]);
    world.files.put(ON_A, TENANTS);
  });
  afterEach(() => world.close());

  const started = (rows: number): string => {
    const strategy = { type: "cardinality", rows };
    const move = world.plan({ ...PLAN, strategy, segment_concurrency: 1 });
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
  const poisonedOf = (move: string): MoveSegmentRow => {
    const found = world.moveSegments(move).find(({ state }) => state === "POISONED");
    if (found === undefined) throw new Error("Nothing was quarantined.");
    return found;
  };

  /** A move one segment of which has a row that somebody wrote on the target while it was copied. */
  const disturbed = async (): Promise<string> => {
    const move = started(10);
    await world.round();
    await world.round();
    world.faults = { ...NO_FAULTS, killAfter: "apply" };
    await world.round();
    world.faults = NO_FAULTS;
    expect(idsOn("b")).toEqual([0, 1, 2]);
    world.files.database("b").exec("insert into customers values (-5, 't1', 'a stranger')");
    await world.work();
    return move;
  };

  test("sets aside, and does not copy again by itself, what somebody else wrote among", async () => {
    const move = await disturbed();
    expect(poisonedOf(move).error?.message).toContain("somebody else writes there");
    expect(poisonedOf(move).generation).toBe(0);
    expect(idsOn("b")).toContain(-5);
  });

  test("leaves the copy of an excluded segment where somebody else wrote among it", async () => {
    const move = await disturbed();
    const { segment_index } = poisonedOf(move);
    world.submit(excludeSegment({ move, segment_index, reason: "let it be" }));
    await world.work();
    expect(world.move(move)).toMatchObject({ state: "COMPLETE", segments_excluded: 1 });
    expect(idsOn("b")).toContain(-5);
  });

  test("does not delete what an earlier one has moved, when it is planned once more", async () => {
    const first = started(10);
    while (world.move(first).segments_removed === 0) await world.round(1);
    world.submit(cancelMove({ move: first }));
    await world.work();
    expect(idsOn("a").length).toBeLessThan(30);
    const second = started(100);
    await world.work();
    const { segment_index, error } = poisonedOf(second);
    expect(error?.message).toContain("b has rows of customers that are only now to come");
    world.submit(recopySegment({ move: second, segment_index }));
    await world.work();
    expect(poisonedOf(second).error?.message).toContain("would delete them for good");
    expect(new Set([...idsOn("a"), ...idsOn("b")]).size).toBe(30);
  });

  test("replaces what a cancelled one has copied and not removed", async () => {
    const first = started(10);
    while (world.move(first).segments_copied < 2) await world.round(1);
    world.submit(cancelMove({ move: first }));
    await world.work();
    const second = started(100);
    await world.work();
    world.submit(recopySegment({ move: second, segment_index: 0 }));
    await world.work();
    expect(world.move(second).state).toBe("COMPLETE");
    expect(idsOn("a")).toEqual([]);
    expect(idsOn("b")).toHaveLength(30);
  });
});
