import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { pauseMove, resumeMove, startMove, verifyMove } from "../../src/work/move/commands.ts";
import { MoveWorld } from "./moves-world.ts";

const ON_A = { by: "tenant", tenants: {}, default: "a" } as const;
const ON_B = { by: "tenant", tenants: {}, default: "b" } as const;
const PLAN = { from: ON_A, to: ON_B, tables: ["customers"] };

describe("planning a move", () => {
  let world: MoveWorld;
  beforeEach(async () => {
    world = await MoveWorld.create(["a", "b", "c"]);
  });
  afterEach(() => world.close());

  const fill = (rows: number): void => {
    world.files.put(
      ON_A,
      Array.from({ length: rows }, (_, index) => `t${index % 5}`),
    );
  };

  test("tells in a dry run how large it would be, and writes nothing", async () => {
    fill(50);
    const before = world.files.rows();
    const move = world.plan({ ...PLAN, strategy: { type: "cardinality", rows: 7 } }, true);
    await world.work();
    expect(world.move(move)).toMatchObject({
      state: "PLANNED",
      segments_total: 8,
      rows_estimated: 50,
      lanes_sealed: 1,
    });
    expect(() => world.submit(startMove({ move }))).toThrow(/dry run/);
    expect(world.files.rows()).toEqual(before);
    const tables = world.files
      .database("a")
      .prepare("select name from sqlite_schema")
      .pluck()
      .all();
    expect(tables.filter((name) => String(name).startsWith("_pawl"))).toEqual([]);
  });

  test("I47: finds in a dry run rows that neither topology has a place for, before anything moves", async () => {
    fill(20);
    world.files
      .database("b")
      .exec("insert into customers (id, tenant, name) values (900, 't9', 'there already')");
    const before = world.files.rows();
    const to = { by: "tenant", tenants: { t1: "b" }, default: "a" } as const;
    const move = world.plan({ ...PLAN, to }, true);
    await world.work();
    expect(world.move(move)).toMatchObject({ state: "PAUSED", check_ok: 0 });
    expect(world.move(move).reason).toContain(
      "rows are where they do not belong: 1 of customers on b",
    );
    expect(world.files.rows()).toEqual(before);
    // Named on both sides they are where they belong.
    const named = world.plan(
      {
        ...PLAN,
        from: { ...ON_A, tenants: { t9: "b" } },
        to: { ...to, tenants: { ...to.tenants, t9: "b" } },
      },
      true,
    );
    await world.work();
    expect(world.move(named)).toMatchObject({ state: "PLANNED", check_ok: 1 });
    world.files.database("b").exec("delete from customers where id = 900");
    world.submit(resumeMove({ move }));
    await world.work();
    expect(world.move(move)).toMatchObject({ state: "PLANNED", check_ok: 1 });
  });

  test("finds in a dry run tables that differ, and names them", async () => {
    fill(20);
    world.files.database("b").exec("alter table orders add column stray integer");
    const move = world.plan({ from: ON_A, to: ON_B }, true);
    await world.work();
    expect(world.move(move).state).toBe("PAUSED");
    expect(world.move(move).reason).toContain(
      "rows of orders cannot go from a to b: table orders differs: only the target has stray",
    );
    world.files.database("b").exec("drop table orders");
    world.submit(resumeMove({ move }));
    await world.work();
    expect(world.move(move).state).toBe("PAUSED");
    expect(world.move(move).reason).toMatch(/rows of orders cannot go from a to b: .*orders/);
  });

  test("I47: looks before the first copy for rows that neither topology has a place for", async () => {
    fill(20);
    world.files
      .database("b")
      .exec("insert into customers (id, tenant, name) values (900, 't9', 'there already')");
    const before = world.files.rows();
    const to = { by: "tenant", tenants: { t1: "b" }, default: "a" } as const;
    const move = world.plan({ ...PLAN, to });
    world.submit(startMove({ move }));
    await world.work();
    expect(world.move(move)).toMatchObject({ state: "PAUSED", check_ok: 0, rows_copied: 0 });
    expect(world.move(move).reason).toContain(
      "it would not come to a good end: rows are where they do not belong: 1 of customers on b",
    );
    expect(world.files.rows()).toEqual(before);
    world.files.database("b").exec("delete from customers where id = 900");
    world.submit(resumeMove({ move }));
    await world.work();
    expect(world.move(move)).toMatchObject({ state: "COMPLETE", check_ok: 1, checks: 3 });
  });

  test("looks before the first copy for tables that differ, and sets no segment aside for them", async () => {
    fill(20);
    const before = world.files.rows();
    world.files.database("b").exec("alter table orders add column stray integer");
    const move = world.plan({ from: ON_A, to: ON_B });
    world.submit(startMove({ move }));
    await world.work();
    expect(world.move(move)).toMatchObject({ state: "PAUSED", segments_poisoned: 0 });
    expect(world.move(move).reason).toContain(
      "rows of orders cannot go from a to b: table orders differs: only the target has stray",
    );
    world.files.database("b").exec("alter table orders drop column stray");
    expect(world.files.rows()).toEqual(before);
    world.submit(resumeMove({ move }));
    await world.work();
    expect(world.move(move).state).toBe("COMPLETE");
  });

  test("I19: finds the same plan for the same rows, with the same names", async () => {
    fill(50);
    const plan = { ...PLAN, strategy: { type: "cardinality", rows: 7 } };
    const idsOf = async (): Promise<unknown[]> => {
      const move = world.plan(plan, true);
      await world.work();
      return world.moveSegments(move).map(({ lower, upper }) => [lower, upper]);
    };
    expect(await idsOf()).toEqual(await idsOf());
  });

  test("I47: surveys by pages, and stays some hundreds ahead of the copy", async () => {
    fill(1_300);
    const plan = { ...PLAN, strategy: { type: "cardinality", rows: 1 } };
    const move = world.plan(plan);
    world.submit(startMove({ move }));
    let most = 0;
    for (let round = 0; round < 12; round++) {
      await world.round(2);
      most = Math.max(most, world.move(move).segments_pending);
    }
    expect(most).toBeGreaterThan(300);
    expect(most).toBeLessThanOrEqual(600);
    expect(world.move(move).lanes[0]).toMatchObject({ pages: 3, sealed: false });
  });

  test("goes on with a survey from its last bound after a pause", async () => {
    fill(500);
    const move = world.plan({ ...PLAN, strategy: { type: "cardinality", rows: 1 } });
    await world.round();
    world.submit(pauseMove({ move }));
    expect(await world.round()).toBe(0);
    const { pages, after } = world.move(move).lanes[0] ?? {};
    expect({ pages, after }).toEqual({ pages: 1, after: ["200"] });
    world.submit(resumeMove({ move }));
    expect(world.move(move).state).toBe("PLANNED");
    await world.work();
    expect(world.moveSegments(move)).toHaveLength(500);
  });

  test("I47: cuts an integer key into equal widths", async () => {
    fill(40);
    const database = world.files.database("a");
    database.exec("delete from orders; delete from customers where id between 11 and 29");
    const move = world.plan({ ...PLAN, strategy: { type: "uniform", segments: 4 } });
    await world.work();
    expect(
      world.moveSegments(move).map(({ upper, rows_estimated }) => [upper, rows_estimated]),
    ).toEqual([
      [["10"], 10],
      [["20"], 1],
      [["30"], 0],
      [null, 10],
    ]);
    world.submit(startMove({ move }));
    await world.work();
    expect(world.move(move)).toMatchObject({ state: "COMPLETE", rows_removed: 21 });
  });

  test("says which key is unfit for equal widths", async () => {
    fill(10);
    const strategy = { type: "uniform", segments: 4 };
    const move = world.plan({ ...PLAN, tables: ["orders"], strategy });
    await world.work();
    expect(world.move(move).state).toBe("PAUSED");
    expect(world.move(move).reason).toContain("The key of orders has 2 columns (customer, line)");
  });

  test("I47: splits a segment that takes too long where its copy got to", async () => {
    fill(60);
    const strategy = { type: "adaptive", rows: 60, target_ms: 100 };
    const move = world.plan({ ...PLAN, strategy });
    await world.work();
    expect(world.moveSegments(move)).toHaveLength(1);
    world.submit(startMove({ move }));
    await world.work();
    const segments = world.moveSegments(move);
    expect(segments.length).toBeGreaterThan(2);
    expect(segments.every(({ state }) => state === "REMOVED")).toBe(true);
    expect(world.move(move)).toMatchObject({ state: "COMPLETE", rows_removed: 60 });
  });

  test("is no faster than it may be", async () => {
    fill(60);
    const move = world.plan({ ...PLAN, rows_per_second: 5, segment_concurrency: 1 });
    world.submit(startMove({ move }));
    const from = world.clock;
    await world.work();
    expect(world.move(move).state).toBe("COMPLETE");
    expect(world.clock - from).toBeGreaterThanOrEqual(12_000);
    // Time that was only waited is no work.
    expect(world.move(move).work_ms).toBeLessThan(6_000);
  });

  test("leaves the rows where they came from when that is wanted, and compares both sides", async () => {
    fill(30);
    const before = world.files.rows();
    const move = world.plan({ ...PLAN, tables: undefined, keep_source: true });
    world.submit(startMove({ move }));
    await world.work();
    expect(world.move(move)).toMatchObject({ state: "COMPLETE", rows_removed: 0 });
    const copies = world.files.placed(before, ON_B);
    expect(world.files.rows()).toEqual([...before, ...copies].toSorted());
    world.files.database("b").exec("update customers set name = 'other' where id = 7");
    world.submit(verifyMove({ move }));
    await world.work();
    expect(world.move(move)).toMatchObject({ verify_failed: 1, verify_waiting: 0, check_ok: 1 });
    const wrong = world.moveSegments(move).find(({ verify_ok }) => verify_ok === 0);
    expect(wrong?.verify_note).toBe("both sides have 30 rows, but not the same ones");
  });
});
