import { expect, test } from "vitest";
import type { Guard } from "../../../src/shards/shard.ts";
import { tenantScope } from "../../../src/work/shard/spec.ts";
import { createTables, insertItems, policy, shapeOf, TABLES } from "./stage.ts";
import { moveStep, SplitStage } from "./step-stage.ts";
import type { ShardPair } from "./shard-conformance.ts";

/** Somebody who writes past capture and fences. */
const STRANGER: Guard = { plan: "stranger", token: 1 };
const UNPROVEN = { code: "VERIFICATION_FAILED" };

/** What is removed when a split or a move is over, and what is not. */
export function removalCases(pair: () => ShardPair): void {
  /** A split of tenant `a` that was cut over, with twelve rows on both shards. */
  const cutOver = async (): Promise<SplitStage> => {
    await createTables(pair(), TABLES.items);
    await pair().sql("source", insertItems("a", 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12));
    await pair().sql("source", insertItems("stays", 20, 21));
    const split = new SplitStage(pair(), [policy("items")], ["a"]);
    await split.run("check", "arm", "copy", "tail", "cutover", "reverse");
    return split;
  };
  const idsOn = async (side: "source" | "target"): Promise<unknown[]> => {
    const rows = await pair().sql(side, "select id from items where tenant = 'a' order by id");
    return rows.map(([id]) => id);
  };

  test("I80: rows that the target has changed since are removed from the source", async () => {
    const split = await cutOver();
    await split.write("a", "update items set n = -1 where id = 3", insertItems("a", 13));
    expect(await split.run("finish")).toMatchObject({ checks: [{ ok: true, note: null }] });
    await split.write("a", "update items set note = 'later'", "delete from items where id = 5");
    expect(await split.run("remove")).toMatchObject({ rows_removed: 13 });
    expect(await idsOn("source")).toEqual([]);
    expect(await idsOn("target")).toHaveLength(12);
    expect(await pair().source.listStreams("plan-1")).toEqual([]);
    expect(await pair().sql("source", "select count(*) from items")).toEqual([[2]]);
  });

  test("I80: rows that somebody wrote to the source past the router stay there", async () => {
    const split = await cutOver();
    await split.run("finish");
    await pair().sql("source", insertItems("a", 50));
    await pair().sql("source", "update items set note = 'here' where id = 2");
    await split.write("a", "update items set note = 'there' where id = 9");
    const removing = split.run("remove");
    await expect(removing).rejects.toMatchObject({ ...UNPROVEN, details: { tables: ["items"] } });
    const left = await idsOn("source");
    expect(left).toContain(50);
    expect(left).toContain(2);
    expect(left.length).toBeLessThan(6);

    // What is left goes once it is on the target too, or was taken away by hand.
    await split.write("a", insertItems("a", 50));
    await pair().sql("source", "delete from items where tenant = 'a' and id <> 50");
    expect(await split.run("remove")).toMatchObject({ rows_removed: 1 });
    expect(await idsOn("source")).toEqual([]);
    expect(await idsOn("target")).toHaveLength(13);
  });

  test("I80: a row that is not on the target when a split is finished stays on the source", async () => {
    const split = await cutOver();
    const { source, target } = pair();
    const table = await shapeOf(target, "items");
    await target.take(STRANGER);
    const range = { table, scope: tenantScope(["a"]), from: ["4"], below: ["5"] };
    await target.remove(STRANGER, range, { limit: 1, expect: null });
    const { checks } = await split.run("finish");
    expect(checks).toMatchObject([{ ok: false }]);
    await expect(split.run("remove")).rejects.toMatchObject(UNPROVEN);
    expect(await idsOn("source")).toEqual([4]);
    expect(await source.fences(["a"])).toMatchObject([{ state: "moved" }]);
  });

  test("I80: rows of a split that nothing was noted of are compared with the target as it is", async () => {
    const split = await cutOver();
    await split.run("finish");
    for (const { stream } of await pair().source.listStreams("plan-1")) {
      await pair().source.dropStream({ plan: "plan-1", token: 7 }, stream);
    }
    await split.write("a", "update items set n = 99 where id = 7");
    await expect(split.run("remove")).rejects.toMatchObject({ ...UNPROVEN, details: { left: 1 } });
    expect(await idsOn("source")).toEqual([7]);
    await split.write("a", "update items set n = 7 where id = 7");
    expect(await split.run("remove")).toMatchObject({ rows_removed: 1 });
  });

  test("I80: a finish that was cut short is made anew", async () => {
    const split = await cutOver();
    const { source } = pair();
    const shape = await shapeOf(source, "items");
    await split.step("finish", { tables: [{ table: shape.table, shard_by: "tenant" }] });
    const marks = await source.listStreams("plan-1");
    expect(marks.map(({ state }) => state.rows[0])).toEqual([3, 3, 3, 3]);
    await split.run("finish");
    expect(await source.listStreams("plan-1")).toEqual(marks);
    expect(await split.run("remove")).toMatchObject({ rows_removed: 12 });
  });

  test("I80: a split or a move by a column with several texts for a value is refused", async () => {
    for (const [at, { table, ddl, one }] of pair().dialect.loose.entries()) {
      await createTables(pair(), ...ddl);
      await pair().sql("source", `insert into ${table} (id, tenant) values (1, ${one})`);
      const split = new SplitStage(pair(), [policy(table)], ["1"]);
      split.plan = at;
      const { checks = [] } = await split.run("check");
      const failed = checks.filter(({ ok }) => !ok).map(({ check }) => check);
      expect(failed, table).toEqual(["tenants of source", "tenants of target"]);
      await expect(split.run("arm"), table).rejects.toMatchObject({ code: "TABLE_UNFIT" });
      // Nothing was armed: everybody writes as before.
      await pair().sql("source", `update ${table} set id = 2`);

      const survey = (scope: Parameters<typeof moveStep>[2]) =>
        moveStep(pair(), "survey", { table: policy(table), ...scope });
      await expect(survey({}), table).rejects.toMatchObject({ code: "TABLE_UNFIT" });
      const hashed = { is: "hash" as const, modulus: 2, buckets: [0] };
      const byHash = { scope: [{ any: [hashed], negate: false }] };
      await expect(survey(byHash), table).rejects.toMatchObject({ code: "TABLE_UNFIT" });
      const all = { is: "between" as const, from: null, below: null };
      const byRange = { scope: [{ any: [all], negate: false }] };
      expect(await survey(byRange), table).toMatchObject({ bounds: [{ rows: 1 }] });
    }
  });
}
