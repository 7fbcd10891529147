import { expect, test } from "vitest";
import {
  applying,
  armed,
  changesSince,
  createTables,
  GUARD,
  insertItems,
  policy,
  state,
  TABLES as MADE,
} from "./stage.ts";
import { SplitStage } from "./step-stage.ts";
import type { ShardPair, Side } from "./shard-conformance.ts";

const REFUSED = { code: "INPUT_INVALID" };
const TABLES = [policy("items")];

/** What a split runs as a change of the schema, and what it does not. */
export function ddlCases(pair: () => ShardPair): void {
  const others = async (): Promise<void> => {
    for (const side of ["source", "target"] as const) {
      await pair().sql(side, "create table payroll (id integer primary key, salary integer)");
      await pair().sql(side, "create index by_salary on payroll (salary)");
      await pair().sql(side, "insert into payroll values (1, 100)");
    }
  };
  const STATEMENTS = [
    "update payroll set salary = 0",
    "select 1; update payroll set salary = 0",
    "alter table items add column x integer; update payroll set salary = 0",
    "alter table payroll add column x integer",
    "alter table elsewhere.items add column x integer",
    "drop table items",
    "drop index by_salary",
    "create index found on payroll (id)",
    "create table more (id integer)",
    "create trigger t after insert on items begin select 1; end",
    "alter table items rename to payroll2",
    "alter table items add column x integer default (1 + 1)",
  ];

  test("I81: runs nothing but changes of columns and indexes, and of no other table", async () => {
    const { position } = await armed(pair(), "items");
    const { source } = pair();
    await others();
    for (const sql of STATEMENTS) {
      await expect(source.runDdl(GUARD, sql, TABLES), sql).rejects.toMatchObject(REFUSED);
    }
    expect(await source.lag(position)).toMatchObject({ events: 0 });
    expect(await pair().sql("source", "select * from payroll")).toEqual([[1, 100]]);
  });

  test("I81: takes over nothing else from the log of the other shard either", async () => {
    const { shapes } = await armed(pair(), "items");
    const { target } = pair();
    await others();
    for (const ddl of STATEMENTS) {
      const request = applying(shapes, { ddl, after: state({ phase: "tail" }) });
      await expect(target.apply(request), ddl).rejects.toMatchObject(REFUSED);
    }
    expect(await target.loadStream("plan-1")).toBeNull();
    expect(await pair().sql("target", "select * from payroll")).toEqual([[1, 100]]);
  });

  test("I81: runs every form that it knows", async () => {
    const { position } = await armed(pair(), "items");
    const { source, target } = pair();
    await source.runDdl(GUARD, "alter table items add column x integer default 7;", TABLES);
    await source.runDdl(GUARD, "alter table items rename x to y", TABLES);
    await source.runDdl(GUARD, "create index items_y on items (y desc, n)", TABLES);
    await source.runDdl(GUARD, "drop index items_y", TABLES);
    await source.runDdl(GUARD, "drop index if exists items_y", TABLES);
    await source.runDdl(GUARD, 'alter table items add column "the note" text', TABLES);
    await source.runDdl(GUARD, "alter table items drop column note", TABLES);
    await pair().sql("source", "insert into items (id, tenant, n, y) values (1, 'a', 1, 2)");
    const shapes = await source.describe(TABLES);
    const names = shapes[0]?.columns.map(({ name }) => name);
    expect(names).toEqual(["id", "tenant", "n", "y", "the note"]);
    const { changes } = await source.read(changesSince(shapes, position));
    expect(changes.map(({ op }) => op)).toEqual([...Array<string>(7).fill("ddl"), "put"]);
    let before = null;
    for (const { ddl, id } of changes) {
      if (ddl === null) continue;
      const after = state({ reaching: { to: position, after_id: id }, phase: "tail" });
      const tables = await target.describe(TABLES);
      await target.apply(applying(tables, { ddl: ddl.sql, before, after }));
      before = after;
    }
    expect(await target.describe(TABLES)).toEqual(shapes);
  });

  test("I81: says what the database has against a statement", async () => {
    await armed(pair(), "items");
    const { source } = pair();
    const running = source.runDdl(GUARD, "alter table items drop column absent", TABLES);
    await expect(running).rejects.toMatchObject({
      ...REFUSED,
      message: expect.stringContaining("absent"),
    });
  });

  test("I81: a worker that was not told to changes no schema", async () => {
    const { shapes } = await armed(pair(), "items");
    await pair().source.disarmCapture(GUARD);
    await pair().sql("source", insertItems("a", 1));
    const split = new SplitStage(pair(), TABLES, ["a"]);
    split.plan = 2;
    split.allowsDdl = false;
    await split.run("check", "arm");
    const running = split.step("ddl", { ddl: "alter table items add column x integer" });
    await expect(running).rejects.toMatchObject({ code: "DDL_NOT_ALLOWED" });
    expect(await pair().source.describe(TABLES)).toEqual(shapes);
  });

  test("I81: a worker that was not told to takes no change of the schema over, either way", async () => {
    await createTables(pair(), MADE.items);
    await pair().sql("source", insertItems("a", 1, 2));
    const split = new SplitStage(pair(), TABLES, ["a"]);
    const refused = {
      code: "DDL_NOT_ALLOWED",
      message: expect.stringMatching(/`allowDdl: true`.*resume/s),
    };
    const columns = async (side: Side): Promise<string[] | undefined> =>
      (await pair()[side].describe(TABLES))[0]?.columns.map(({ name }) => name);
    const before = ["id", "tenant", "n", "note"];
    await split.run("check", "arm", "copy", "tail");
    await split.step("ddl", { ddl: "alter table items add column x integer" });
    await split.write("a", "update items set x = 1 where id = 1");
    split.allowsDdl = false;
    await expect(split.run("tail")).rejects.toMatchObject(refused);
    await expect(split.run("cutover")).rejects.toMatchObject(refused);
    expect(await columns("target")).toEqual(before);
    await split.write("a", insertItems("a", 3));

    split.allowsDdl = true;
    await split.run("tail", "cutover");
    expect(await pair().dump("target", "items")).toEqual(await pair().dump("source", "items"));
    await split.step("ddl", { ddl: "alter table items add column y integer" });
    split.allowsDdl = false;
    await expect(split.run("reverse")).rejects.toMatchObject(refused);
    await expect(split.run("cutback")).rejects.toMatchObject(refused);
    expect(await columns("source")).toEqual([...before, "x"]);
    // Nobody is kept from an end by what stands in a log: it gives the way back up.
    expect(await split.run("finish")).toMatchObject({ checks: [{ ok: false }] });
  });
}
