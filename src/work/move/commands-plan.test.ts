import { describe, expect, test } from "vitest";
import { LedgerWorld } from "../../../test/properties/ledger-world.ts";
import { PawlError } from "../../kernel/errors.ts";
import { MovePlan } from "./spec.ts";
import { planMove } from "./commands.ts";

const SHARDS = {
  kind: "shards",
  name: "shards",
  shards: [
    { shard: "a", engine: "sqlite" },
    { shard: "b", engine: "sqlite" },
    { shard: "p", engine: "postgres" },
  ],
  tables: [
    { table: "customers", shard_by: "tenant" },
    { table: "orders", shard_by: "tenant" },
  ],
};
const on = (shard: string) => ({ by: "tenant", tenants: {}, default: shard }) as const;

function worldOfShards(): LedgerWorld {
  const world = new LedgerWorld();
  world.publish(SHARDS);
  return world;
}

function refusalOf(world: LedgerWorld, plan: object): PawlError {
  try {
    world.submit(planMove({ plan: MovePlan.parse(plan) }));
  } catch (error) {
    if (error instanceof PawlError) return error;
    throw error;
  }
  throw new Error("It was not refused.");
}

describe("planMove", () => {
  test("plans a lane for each table and each pair of shards, in the order of the tables", () => {
    const world = worldOfShards();
    const { move_id } = world.submit(
      planMove({ plan: MovePlan.parse({ from: on("a"), to: on("b") }) }),
    );
    expect(world.moves()[0]).toMatchObject({ move_id, state: "PLANNED", dry_run: 0, name: null });
    expect(
      world.moves()[0]?.lanes.map(({ table, order, from, to }) => [table.table, order, from, to]),
    ).toEqual([
      ["customers", 0, "a", "b"],
      ["orders", 1, "a", "b"],
    ]);
  });

  test("plans a definition by its name", () => {
    const world = worldOfShards();
    world.publish({ kind: "move", name: "off", from: on("a"), to: on("b"), tables: ["orders"] });
    world.submit(planMove({ move: "off" }, true));
    expect(world.moves()[0]).toMatchObject({ name: "off", dry_run: 1, segment_concurrency: 4 });
    expect(world.moves()[0]?.lanes).toHaveLength(1);
    expect(() => world.submit(planMove({ move: "of" }))).toThrow(/no definition of a move "of"/);
  });

  test("refuses what there is not, says what would fit, and what needs no move", () => {
    const world = worldOfShards();
    const unknown = refusalOf(world, { from: on("a"), to: on("bb") });
    expect(unknown.code).toBe("INPUT_INVALID");
    expect(unknown.message).toContain('names the shard "bb"');
    const table = refusalOf(world, { from: on("a"), to: on("b"), tables: ["order"] });
    expect(table.message).toContain('names the table "order"');
    expect(refusalOf(world, { from: on("a"), to: on("a") }).message).toContain("nothing to move");
    expect(refusalOf(new LedgerWorld(), { from: on("a"), to: on("b") }).message).toContain(
      "needs shards",
    );
  });

  test("refuses to move rows into another engine", () => {
    const { code, message } = refusalOf(worldOfShards(), { from: on("a"), to: on("p") });
    expect(code).toBe("INPUT_INVALID");
    expect(message).toContain("a is kept in sqlite and p in postgres");
  });
});
