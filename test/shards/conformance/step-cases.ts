import { expect, test } from "vitest";
import { MoveStep, SplitStep } from "../../../src/work/shard/step-protocol.ts";
import { tenantScope } from "../../../src/work/shard/spec.ts";
import { createTables, insertItems, policy, TABLES } from "./stage.ts";
import { moveStep, SplitStage } from "./step-stage.ts";
import type { ShardPair, Side } from "./shard-conformance.ts";

const SPLIT_TABLES = ["items", "parents", "children"] as const;

/** What a split goes through up to each of its ends, and so every step there is. */
const WAYS = {
  completed: [
    "check",
    "arm",
    "copy",
    "tail",
    "ddl",
    "tail",
    "cutover",
    "reverse",
    "finish",
    "remove",
  ],
  back: ["check", "arm", "copy", "tail", "cutover", "reverse", "cutback", "discard"],
} as const satisfies Record<string, readonly SplitStep[]>;

/** Every step of splits and moves, as a worker does it, through the driver. */
export function stepCases(pair: () => ShardPair): void {
  /** Two tenants that move, one that stays, and a split that knows nothing yet. */
  const staged = async (): Promise<SplitStage> => {
    await createTables(pair(), ...SPLIT_TABLES.map((table) => TABLES[table]));
    await pair().sql("source", insertItems("a", 1, 3, 5, 7, 9, 11, 13));
    await pair().sql("source", insertItems("b", 2, 4));
    await pair().sql("source", insertItems("stays", 6, 8));
    await pair().sql("source", "insert into parents (id, tenant) values (1, 'a'), (2, 'b')");
    const children = "insert into children (id, tenant, parent) values (1, 'a', 1), (2, 'b', 2)";
    await pair().sql("source", children);
    return new SplitStage(pair(), SPLIT_TABLES.map(policy), ["a", "b"]);
  };

  /** What tenants that move have on a shard, of all tables. */
  const rowsOn = async (side: Side): Promise<string[]> => {
    const found: string[] = [];
    for (const table of SPLIT_TABLES) {
      const which = `select * from ${table} where tenant <> 'stays' order by id`;
      const rows = await pair().sql(side, which);
      found.push(...rows.map((row) => `${table} ${row.map(String).join(" ")}`));
    }
    return found;
  };

  test("I57: every step of a split and of a move is gone through here", () => {
    expect(new Set(Object.values(WAYS).flat())).toEqual(new Set(SplitStep.options));
    expect(new Set(Object.keys(MOVES))).toEqual(new Set(MoveStep.options));
  });

  test("I54: a split goes from its check to its end, with a change of the schema on the way", async () => {
    const split = await staged();
    await split.run("check", "arm");
    await split.write("a", insertItems("a", 21, 22), "update items set n = 0 where id = 1");
    await split.run("copy");
    await split.write("a", "delete from items where id = 3");
    await split.run("tail");
    await split.step("ddl", { ddl: "alter table items add column extra integer" });
    await split.write("b", "update items set extra = 1 where id = 2");
    await split.run("tail");
    await split.write("a", insertItems("a", 23));
    const acknowledged = await rowsOn("source");
    const { checks, write_pause_ms } = await split.run("cutover");
    expect(checks?.every(({ ok }) => ok)).toBe(true);
    expect(write_pause_ms).toBeGreaterThan(0);
    expect(await rowsOn("target")).toEqual(acknowledged);

    await split.write("a", insertItems("a", 24), "update items set note = 'there' where id = 23");
    await split.step("ddl", { ddl: "alter table items add column later integer" });
    await split.write("b", "update items set later = 2 where id = 4");
    await split.run("reverse");
    expect(await rowsOn("source")).toEqual(await rowsOn("target"));
    const ended = await rowsOn("target");
    await split.run("finish");
    expect(await split.run("remove")).toMatchObject({ rows_removed: ended.length });
    expect(await rowsOn("source")).toEqual([]);
    expect(await rowsOn("target")).toEqual(ended);
    await split.write("b", "update items set n = 9 where id = 4");
    const late = pair().write("source", "a", 1, insertItems("a", 99));
    await expect(late).rejects.toMatchObject({ code: "EPOCH_STALE" });
  });

  test("I54: a split takes changes of the schema from before its copy along", async () => {
    const split = await staged();
    await split.run("check", "arm");
    await split.write("a", insertItems("a", 21));
    await split.step("ddl", { ddl: "alter table items add column extra integer default 7" });
    const [there] = await pair().target.describe([policy("items")]);
    expect(there?.columns.map(({ name }) => name)).toContain("extra");
    await split.write("a", "update items set extra = 1 where id = 1", insertItems("a", 22));
    await split.step("ddl", { ddl: "alter table items drop column note" });
    await split.step("ddl", { ddl: "alter table items rename column n to amount" });
    await split.write("b", "update items set amount = 5 where id = 2");
    await split.step("ddl", { ddl: "create index by_extra on items (extra)" });
    await split.run("copy");
    await split.write("b", "update items set extra = 2 where id = 4");
    await split.run("tail", "cutover");
    expect(await rowsOn("target")).toEqual(await rowsOn("source"));
    const shapes = await pair().source.describe([policy("items")]);
    expect(await pair().target.describe([policy("items")])).toEqual(shapes);
    await split.run("reverse", "cutback", "discard");
  });

  test("I57: a change of the schema before the copy is run once, also when its step is done again", async () => {
    const split = await staged();
    await split.run("check", "arm");
    const given = { n: 77, ddl: "alter table items add column extra integer" };
    await split.step("ddl", given);
    await split.step("ddl", given);
    await split.run("copy", "tail", "cutover");
    expect(await rowsOn("target")).toEqual(await rowsOn("source"));
  });

  test.each([
    ["nothing was armed", ["check"]],
    ["capture was armed", ["check", "arm"]],
    ["its schema was changed before the copy", ["check", "arm", "ddl"]],
    ["it was copied", ["check", "arm", "copy"]],
    ["it was caught up", ["check", "arm", "copy", "tail"]],
    ["its schema was changed", ["check", "arm", "copy", "tail", "ddl", "tail"]],
  ] as const)(
    "I56: a split is rolled back after %s, and run and planned again",
    async (_, steps) => {
      const split = await staged();
      for (const step of steps) {
        const ddl = step === "ddl" ? "alter table items add column extra integer" : null;
        await split.step(step, { ddl });
        await split.write("a", "update items set n = n + 1 where id = 1");
      }
      const before = await rowsOn("source");
      await split.run("discard");
      expect(await rowsOn("source")).toEqual(before);
      expect(await rowsOn("target")).toEqual([]);
      expect(await pair().target.fences(["a", "b"])).toEqual([]);
      expect(await pair().source.fences(["a", "b"])).toEqual([]);
      await pair().sql("source", insertItems("a", 31));

      split.runAgain();
      await split.run("arm", "copy", "tail");
      await split.write("a", "update items set n = n + 1 where id = 31");
      await split.run("tail");
      expect(await rowsOn("target")).toEqual(await rowsOn("source"));
      await split.run("discard");
      expect(await rowsOn("target")).toEqual([]);
      expect(await pair().source.fences(["a", "b"])).toEqual([]);

      split.planAgain();
      await split.run("check", "arm", "copy", "tail", "cutover");
      expect(await rowsOn("target")).toEqual(await rowsOn("source"));
      expect(await rowsOn("target")).toHaveLength(before.length + 1);
    },
  );

  test("I56: a split that was cut over goes back, there again, and back before its cutover", async () => {
    const split = await staged();
    await split.run("check", "arm", "copy", "tail", "cutover");
    await split.write("a", insertItems("a", 41), "delete from items where id = 5");
    await split.write("b", "delete from children where id = 2", "delete from parents where id = 2");
    await split.run("reverse");
    await split.write("a", insertItems("a", 42));
    const acknowledged = await rowsOn("target");
    await split.run("cutback");
    expect(await rowsOn("source")).toEqual(acknowledged);
    await split.write("a", insertItems("a", 43));
    const { rows_removed } = await split.run("discard");
    expect(rows_removed).toBe(acknowledged.length);
    expect(await rowsOn("target")).toEqual([]);
    const moved = { state: "moved", epoch: 3, shard: "source" };
    expect(await pair().target.fences(["a"])).toMatchObject([moved]);

    // The target has had the tenants, and goes on saying where they are.
    split.runAgain();
    await split.run("arm", "copy", "tail", "discard");
    expect(await pair().target.fences(["a"])).toMatchObject([moved]);
    expect(await rowsOn("target")).toEqual([]);
    split.runAgain();
    await split.run("arm", "copy", "tail", "cutover", "reverse");
    expect(await rowsOn("target")).toEqual(await rowsOn("source"));
    await split.run("cutback", "discard");
    expect(await rowsOn("target")).toEqual([]);
    split.planAgain();
    await split.run("check", "arm", "copy", "tail", "cutover", "reverse", "finish", "remove");
    expect(await rowsOn("source")).toEqual([]);
    expect(await rowsOn("target")).toHaveLength(acknowledged.length + 1);
  });

  test("I57: a split goes on, either way, once a schema that was changed past it is put back", async () => {
    const split = await staged();
    const changed = { code: "SCHEMA_CHANGED" };
    /** Changes the tables of the owner, writes meanwhile, and puts them back. */
    const strayed = async (side: Side, step: "tail" | "reverse", id: number): Promise<void> => {
      await pair().sql(side, "alter table items add column stray integer");
      await split.write("a", insertItems("a", id, id + 1), "update items set n = 7 where id = 1");
      await split.write("b", "update items set n = n + 1, stray = 1 where id = 2");
      await expect(split.run(step)).rejects.toMatchObject(changed);
      await pair().sql(side, "alter table items drop column stray");
      await split.write("a", `delete from items where id = ${id}`);
      await split.run(step);
    };
    await split.run("check", "arm", "copy", "tail");
    await strayed("source", "tail", 51);
    await split.run("cutover");
    expect(await rowsOn("target")).toEqual(await rowsOn("source"));
    await strayed("target", "reverse", 61);
    expect(await rowsOn("source")).toEqual(await rowsOn("target"));
    await split.run("cutback", "discard");
  });

  test("I56: a way back that has missed changes says what can still be done, which can be done", async () => {
    const split = await staged();
    await split.run("check", "arm", "copy", "tail", "cutover");
    const engine = pair().target.engine;
    if (engine === "postgres") {
      await pair().sql("target", "alter table items disable trigger _pawl_update");
    } else {
      const triggers = "select name from sqlite_schema where type = 'trigger'";
      for (const [name] of await pair().sql("target", triggers)) {
        await pair().sql("target", `drop trigger "${String(name)}"`);
      }
    }
    const broken = { code: "SCHEMA_CHANGED" };
    await expect(split.run("reverse")).rejects.toMatchObject(broken);
    const { message } = (await split.run("reverse").catch((error: unknown) => error)) as Error;
    expect(message).toMatch(/cannot be rolled back now; target serves on.*complete the split/s);
    await split.run("finish", "remove");
    expect(await rowsOn("source")).toEqual([]);
    expect(await rowsOn("target")).not.toEqual([]);
  });

  test("I57: names that every object has are names like others", async () => {
    const ddl = `create table "constructor" (id integer primary key, "hasOwnProperty" text not null,
      "toString" text, "__proto__" text)`;
    await createTables(pair(), ddl);
    const tenants = ["constructor", "toString", "hasOwnProperty", "valueOf", "__proto__"];
    for (const [id, tenant] of tenants.entries()) {
      await pair().sql("source", `insert into "constructor" values (${id}, '${tenant}', 'x', 'y')`);
    }
    const table = { table: "constructor", shard_by: "hasOwnProperty" };
    const split = new SplitStage(pair(), [table], tenants);
    await split.run("check", "arm");
    const { tenant_rows = {} } = await split.run("copy");
    expect(Object.entries(tenant_rows)).toEqual(tenants.slice(0, 4).map((tenant) => [tenant, 1]));
    await split.write("toString", `update "constructor" set "__proto__" = 'z' where id = 1`);
    await split.run("tail", "cutover");
    const rows = await pair().sql("target", `select * from "constructor" order by id`);
    expect(rows.map((row) => row.map(String).join(" "))).toEqual(
      tenants.map((tenant, id) => `${id} ${tenant} x ${id === 1 ? "z" : "y"}`),
    );
    await split.run("reverse", "cutback", "discard");
    expect(await pair().sql("target", `select id from "constructor"`)).toEqual([]);
  });

  test("I57: rows that name later ones of their table come along, or are refused before anything is armed", async () => {
    await createTables(pair(), TABLES.people);
    for (const row of ["8, 'a', null", "1, 'a', 8", "2, 'a', 8", "3, 'a', 1", "4, 'a', 3"]) {
      await pair().sql("source", `insert into people (id, tenant, boss) values (${row})`);
    }
    const split = new SplitStage(pair(), [policy("people")], ["a"]);
    const { checks = [] } = await split.run("check");
    const failed = checks.filter(({ ok }) => !ok);
    const move = { table: policy("people"), move_id: "people" };
    if (failed.length > 0) {
      for (const { note } of failed) expect(note).toMatch(/name others of it.*replication_role/);
      const unfit = { code: "TABLE_UNFIT" };
      await expect(split.run("arm")).rejects.toMatchObject(unfit);
      await expect(moveStep(pair(), "copy", move)).rejects.toMatchObject(unfit);
      expect(await pair().source.fences(["a"])).toEqual([]);
      expect(await pair().dump("target", "people")).toEqual([]);
      return;
    }
    await split.run("arm", "copy");
    await split.write("a", "update people set boss = 4 where id = 8");
    await split.run("tail", "cutover");
    await split.write("a", "update people set boss = null where boss = 8");
    await split.write("a", "delete from people where id = 8");
    await split.run("reverse");
    expect(await pair().dump("source", "people")).toEqual(await pair().dump("target", "people"));
    await split.run("cutback", "discard");
    expect(await moveStep(pair(), "copy", move)).toMatchObject({ rows: 4, equal: true });
  });

  test("I54: rows whose parent goes to another tenant are kept, or a foreign key that would act on them is refused before anything is armed", async () => {
    await createTables(pair(), TABLES.parents, TABLES.heirs);
    await pair().sql("source", "insert into parents (id, tenant) values (1, 'a'), (2, 'a')");
    await pair().sql(
      "source",
      "insert into heirs (id, tenant, parent) values (1, 'a', 1), (2, 'a', 2)",
    );
    const split = new SplitStage(pair(), [policy("parents"), policy("heirs")], ["a"]);
    const { checks = [] } = await split.run("check");
    const failed = checks.filter(({ ok }) => !ok);
    if (failed.length > 0) {
      expect(failed.map(({ check }) => check)).toEqual([
        "constraints of source",
        "constraints of target",
      ]);
      for (const { note } of failed) {
        expect(note).toMatch(
          /replication_role.*heirs to parents \(heirs_parent_fkey, on delete cascade\)/,
        );
      }
      await expect(split.run("arm")).rejects.toMatchObject({ code: "TABLE_UNFIT" });
      expect(await pair().source.fences(["a"])).toEqual([]);
    } else {
      await split.run("arm", "copy", "tail");
      await split.write("a", "update parents set tenant = 'stays' where id = 1");
      await split.run("tail", "cutover");
      expect(await pair().dump("target", "heirs")).toEqual(await pair().dump("source", "heirs"));
    }
    expect(await pair().dump("source", "heirs")).toHaveLength(2);
  });

  /** The steps of a move, each on the table `items` of tenant `a`. */
  const TABLE = policy("items");
  const copied = { table: TABLE };
  const MOVES: Record<MoveStep, () => Promise<void>> = {
    survey: async () => {
      const found = await moveStep(pair(), "survey", { table: TABLE, index: 0 });
      expect(found).toEqual({
        bounds: [
          { upper: ["11"], rows: 5 },
          { upper: null, rows: 2 },
        ],
        sealed: true,
      });
      const strategy = { type: "uniform", segments: 2 };
      const widths = await moveStep(pair(), "survey", { table: TABLE, strategy });
      expect(widths.bounds?.map(({ rows }) => rows)).toEqual([4, 3]);
    },
    copy: async () => {
      const report = await moveStep(pair(), "copy", copied);
      expect(report).toMatchObject({ rows: 7, equal: true, note: null });
      expect(await pair().dump("target", "items")).toHaveLength(7);
    },
    verify: async () => {
      await moveStep(pair(), "copy", copied);
      expect(await moveStep(pair(), "verify", copied)).toMatchObject({ rows: 7, equal: true });
      await pair().sql("target", "update items set n = 99 where id = 1");
      expect(await moveStep(pair(), "verify", copied)).toMatchObject({ equal: false });
    },
    remove: async () => {
      await moveStep(pair(), "copy", copied);
      await moveStep(pair(), "remove", copied);
      expect(await pair().dump("target", "items")).toEqual([]);
      // The copy was discarded, which nobody had verified; the next generation is removed at the source.
      const again = { ...copied, generation: 1 };
      const { rows = 0, digest = "" } = await moveStep(pair(), "copy", again);
      const verified = { ...again, rows, digest };
      await pair().sql("source", "update items set n = 99 where id = 1");
      expect(await moveStep(pair(), "remove", verified)).toMatchObject({ equal: false });
      await pair().sql("source", "update items set n = 1 where id = 1");
      const removed = await moveStep(pair(), "remove", verified);
      expect(removed).toMatchObject({ equal: true, rows_removed: 7 });
      expect(await rowsOn("source")).toHaveLength(2 + 4);
      expect(await pair().dump("target", "items")).toHaveLength(7);
    },
    check: async () => {
      const scope = tenantScope(["a"]);
      const places = [{ shard: "source", tables: [TABLE], scope }];
      const excluded = [
        { shard: "source", table: TABLE, scope, ranges: [{ lower: ["3"], upper: ["9"] }] },
      ];
      const found = await moveStep(pair(), "check", { places, excluded });
      const misplaced = [{ shard: "source", table: "items", rows: 4 }];
      expect(found).toMatchObject({ equal: false, misplaced, excepted: 3 });
      const lanes = [{ table: TABLE, from: "source", to: "target" }];
      expect(await moveStep(pair(), "check", { lanes })).toMatchObject({ equal: true });
      await pair().sql("target", "alter table items add column stray integer");
      const { equal, note } = await moveStep(pair(), "check", { lanes });
      expect(equal).toBe(false);
      expect(note).toContain("rows of items cannot go from source to target: table items differs");
    },
  };

  test.each(Object.entries(MOVES))("I49: a move does its step: %s", async (_, act) => {
    await staged();
    await act();
  });
}
