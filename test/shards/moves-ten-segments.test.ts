import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { startMove } from "../../src/work/move/commands.ts";
import { MoveWorld } from "./moves-world.ts";

const ALL_ON_A = { by: "tenant", tenants: {}, default: "a" } as const;
const ALL_ON_B = { by: "tenant", tenants: {}, default: "b" } as const;
const TENANTS = Array.from({ length: 100 }, (_, index) => `t${index % 7}`);

describe("a move of ten segments", () => {
  let world: MoveWorld;
  beforeEach(async () => {
    world = await MoveWorld.create(["a", "b"]);
    world.files.put(ALL_ON_A, TENANTS);
  });
  afterEach(() => world.close());

  const plan = {
    from: ALL_ON_A,
    to: ALL_ON_B,
    tables: ["customers"],
    strategy: { type: "cardinality", rows: 10 },
    segment_attempts: 1_000,
  };

  test("I47: is surveyed before it starts, and tiles its keys", async () => {
    const id = world.plan(plan);
    await world.work();
    const segments = world.moveSegments(id);
    expect(world.move(id)).toMatchObject({
      state: "PLANNED",
      lanes_sealed: 1,
      rows_estimated: 100,
    });
    expect(segments.map(({ lower, upper }) => [lower?.[0] ?? null, upper?.[0] ?? null])).toEqual(
      Array.from({ length: 10 }, (_, index) => [
        index === 0 ? null : String(index * 10),
        index === 9 ? null : String(index * 10 + 10),
      ]),
    );
  });

  test("I29, I49: resumes to completion without touching a finished segment", async () => {
    const before = world.files.rows();
    const id = world.plan(plan);
    await world.work();
    world.submit(startMove({ move: id }));
    world.faults = { kill: 0.1, freeze: 0, fail: 0.05 };
    await world.work();
    expect(world.move(id)).toMatchObject({ state: "COMPLETE", segments_removed: 10 });
    expect(world.move(id).retries).toBeGreaterThan(0);
    expect(world.repeated).toEqual([]);
    // Ten rows are four chunks: each was written once, whoever wrote it.
    expect([...world.writes.values()].every((writes) => writes >= 2)).toBe(true);
    const orders = before.filter((row) => row.includes(" orders "));
    const customers = before.filter((row) => row.includes(" customers "));
    expect(world.files.rows()).toEqual(
      [...orders, ...world.files.placed(customers, ALL_ON_B)].toSorted(),
    );
  });
});
