import { expect, test } from "vitest";
import type { RowBatch } from "../../../src/shards/shard.ts";
import {
  applying,
  armed,
  carryOver,
  changesSince,
  chunkOf,
  countOf,
  insertItems,
  lastImages,
  shapeOf,
  state,
  type TABLES,
} from "./stage.ts";
import type { ShardPair } from "./shard-conformance.ts";

/** What is written to a target, all or nothing. */
export function applyCases(pair: () => ShardPair): void {
  const itemsChunk = async (): Promise<{ table: string; rows: RowBatch }> => {
    const table = await shapeOf(pair().source, "items");
    const { chunk } = await pair().source.read(chunkOf(table));
    if (chunk === null) throw new Error("A chunk was asked for.");
    return { table: "items", rows: chunk.rows };
  };

  test("I54: moves rows and the state of the stream together", async () => {
    const { shapes } = await armed(pair(), "items");
    await pair().sql("source", insertItems("a", 1, 2));
    const chunk = await itemsChunk();
    const after = state({ cursor: { table: 0, key: ["2"] }, rows: [2] });
    await pair().target.apply(applying(shapes, { after, chunk }));
    expect(await pair().target.loadStream("plan-1")).toEqual(after);
    expect(await countOf(pair(), "target", "items")).toBe(2);
  });

  test("I54: refuses a state that is not the one before, and leaves nothing", async () => {
    const { shapes } = await armed(pair(), "items");
    await pair().sql("source", insertItems("a", 1));
    const chunk = await itemsChunk();
    const { target } = pair();
    const moved = { code: "STREAM_MOVED" };
    const before = state({ rows: [1] });
    await expect(target.apply(applying(shapes, { before, chunk }))).rejects.toMatchObject(moved);
    await target.apply(applying(shapes, { after: before }));
    await expect(target.apply(applying(shapes, { chunk }))).rejects.toMatchObject(moved);
    const other = { ...before, rows: [2] };
    await expect(target.apply(applying(shapes, { before: other, chunk }))).rejects.toMatchObject(
      moved,
    );
    expect(await countOf(pair(), "target", "items")).toBe(0);
    await target.apply(applying(shapes, { before, chunk }));
    expect(await countOf(pair(), "target", "items")).toBe(1);
  });

  test("I54: refuses rows that are there already, and leaves nothing", async () => {
    const { shapes } = await armed(pair(), "items");
    await pair().sql("source", insertItems("a", 1, 2, 3));
    await pair().sql("target", insertItems("b", 2));
    const conflict = pair().target.apply(applying(shapes, { chunk: await itemsChunk() }));
    await expect(conflict).rejects.toMatchObject({ code: "ROWS_CONFLICT" });
    expect(await countOf(pair(), "target", "items")).toBe(1);
    expect(await pair().target.loadStream("plan-1")).toBeNull();
  });

  test("I54: leaves nothing when the rows are not what they must be", async () => {
    const { shapes, position } = await armed(pair(), "items");
    await pair().sql("source", insertItems("a", 1, 2));
    const answer = await pair().source.read(changesSince(shapes, position));
    const changes = lastImages(answer);
    if (answer.changed === null) throw new Error("It was complete.");
    const fails = { code: "VERIFICATION_FAILED" };
    const fewer = { ...answer.changed, rows: 1 };
    const other = { ...answer.changed, digest: `${answer.changed.digest}0` };
    for (const changed of [fewer, other]) {
      const act = pair().target.apply(applying(shapes, { changes, changed }));
      await expect(act).rejects.toMatchObject(fails);
    }
    expect(await countOf(pair(), "target", "items")).toBe(0);
    expect(await pair().target.loadStream("plan-1")).toBeNull();
  });

  test("applies the last image of each key: new, changed and deleted rows", async () => {
    const { shapes, position } = await armed(pair(), "items");
    await pair().sql("source", insertItems("a", 1, 2, 3));
    const { position: middle } = await carryOver(pair(), shapes, position);
    await pair().sql("source", "update items set n = n + 1 where id = 1");
    await pair().sql("source", "update items set n = n + 1 where id = 1");
    await pair().sql("source", "delete from items where id = 2");
    await pair().sql("source", "update items set id = 30 where id = 3");
    await pair().sql("source", insertItems("a", 4));
    await pair().sql("source", "delete from items where id = 4");
    await carryOver(pair(), shapes, middle);
    expect(await pair().dump("target", "items")).toEqual(await pair().dump("source", "items"));
    expect(await countOf(pair(), "target", "items")).toBe(2);
  });

  test("swaps unique values within one batch", async () => {
    const { shapes, position } = await armed(pair(), "handles");
    await pair().sql(
      "source",
      "insert into handles (id, tenant, handle) values (1, 'a', 'x'), (2, 'a', 'y')",
    );
    const { position: middle } = await carryOver(pair(), shapes, position);
    const writing = await pair().begin("source", null);
    await writing.sql("update handles set handle = null where id = 1");
    await writing.sql("update handles set handle = 'x' where id = 2");
    await writing.sql("update handles set handle = 'y' where id = 1");
    await writing.commit();
    await carryOver(pair(), shapes, middle);
    expect(await pair().dump("target", "handles")).toEqual(await pair().dump("source", "handles"));
  });

  /**
   * Has statements run in one transaction at the source, takes them over, and compares. Where foreign
   * keys cannot be kept from acting, nothing is taken over.
   */
  const carriesOver = async (
    tables: readonly (keyof typeof TABLES)[],
    first: readonly string[],
    then: readonly string[],
  ): Promise<void> => {
    const { shapes, position } = await armed(pair(), ...tables);
    for (const sql of first) await pair().sql("source", sql);
    const runThen = async (): Promise<void> => {
      const writing = await pair().begin("source", null);
      for (const sql of then) await writing.sql(sql);
      await writing.commit();
    };
    const obstacles = await pair().target.obstacles(shapes, "changes");
    const acting = obstacles.filter((reason) => / on (delete|update) /.test(reason));
    if (acting.length > 0) {
      const refused = { code: "TABLE_UNFIT", message: expect.stringContaining(acting.join("; ")) };
      await expect(carryOver(pair(), shapes, position)).rejects.toMatchObject(refused);
      for (const table of tables) expect(await countOf(pair(), "target", table)).toBe(0);
      expect(await pair().target.loadStream("plan-1")).toBeNull();
      await runThen();
      return;
    }
    const { position: middle } = await carryOver(pair(), shapes, position);
    await runThen();
    await carryOver(pair(), shapes, middle);
    for (const table of tables) {
      expect(await pair().dump("target", table)).toEqual(await pair().dump("source", table));
    }
  };

  test("I54: keeps rows whose parent has left its own parent, which then goes", async () => {
    await carriesOver(
      ["parents", "heirs", "heirlooms"],
      [
        "insert into parents (id, tenant) values (1, 'a'), (2, 'a')",
        "insert into heirs (id, tenant, parent) values (1, 'a', 1)",
        "insert into heirlooms (id, tenant, heir) values (1, 'a', 1), (2, 'a', 1)",
      ],
      ["update heirs set parent = 2 where id = 1", "delete from parents where id = 1"],
    );
    expect(await countOf(pair(), "source", "heirlooms")).toBe(2);
  });

  test("I54: lets unique values change places between rows that others name", async () => {
    await carriesOver(
      ["accounts", "orders"],
      [
        "insert into accounts (id, tenant, mail) values (1, 'a', 'x'), (2, 'a', 'y'), (3, 'a', 'z')",
        "insert into orders (id, tenant, account) values (1, 'a', 1), (2, 'a', 2), (3, 'a', 3)",
      ],
      [
        "update accounts set mail = null where id in (1, 3)",
        "update accounts set mail = 'x' where id = 2",
        "update accounts set mail = 'y' where id = 1",
        "insert into accounts (id, tenant, mail) values (4, 'a', 'z')",
        "update orders set account = 4 where id = 3",
        "delete from accounts where id = 3",
      ],
    );
    const kept = await pair().sql("source", "select id, account from orders order by id");
    expect(kept).toEqual([
      [1, 1],
      [2, 2],
      [3, 4],
    ]);
  });

  test("I54: lets unique values that are never missing change places between rows that others name", async () => {
    await carriesOver(
      ["places", "visits"],
      [
        "insert into places (id, tenant, name) values (1, 'a', 'x'), (2, 'a', 'y'), (3, 'a', 'z')",
        "insert into visits (id, tenant, place) values (1, 'a', 1), (2, 'a', 2), (3, 'a', 3)",
      ],
      [
        "update places set name = 'free' where id = 1",
        "update places set name = 'x' where id = 2",
        "update places set name = 'y' where id = 1",
        "update visits set place = 1 where id = 3",
        "delete from places where id = 3",
        "insert into places (id, tenant, name) values (4, 'a', 'z')",
      ],
    );
    expect(await countOf(pair(), "target", "visits")).toBe(3);
  });

  test("I54: takes rows over that name others of their table", async () => {
    await carriesOver(
      ["people"],
      ["insert into people (id, tenant, boss) values (1, 'a', null), (2, 'a', 1), (3, 'a', 2)"],
      [
        "insert into people (id, tenant, boss) values (9, 'a', null)",
        "update people set boss = 9 where id in (1, 2)",
        "update people set boss = 1 where id = 3",
        "insert into people (id, tenant, boss) values (4, 'a', 3)",
      ],
    );
  });

  const FAMILY = [
    "insert into parents (id, tenant) values (1, 'a')",
    "insert into heirs (id, tenant, parent) values (1, 'a', 1)",
  ];

  test("fires no cascade for a row that is written anew", async () => {
    await carriesOver(["parents", "heirs"], FAMILY, [
      "update parents set tenant = 'a' where id = 1",
    ]);
    expect(await pair().sql("source", "select id, parent from heirs")).toEqual([[1, 1]]);
  });

  test("captures what a cascade deletes at the source", async () => {
    await carriesOver(["parents", "heirs"], FAMILY, ["delete from parents where id = 1"]);
    expect(await countOf(pair(), "source", "heirs")).toBe(0);
    expect(await countOf(pair(), "source", "parents")).toBe(0);
  });

  test("I54: overwrites and deletes no row that is out of scope", async () => {
    const { shapes, position } = await armed(pair(), "items");
    await pair().sql("target", insertItems("b", 1));
    await pair().sql("source", insertItems("a", 1));
    const { target } = pair();
    const dumped = await pair().dump("target", "items");
    const put = lastImages(await pair().source.read(changesSince(shapes, position)));
    const putting = target.apply(applying(shapes, { changes: put }));
    await expect(putting).rejects.toMatchObject({ code: "ROWS_CONFLICT" });
    expect(await target.loadStream("plan-1")).toBeNull();

    await pair().sql("source", "delete from items where id = 1");
    await carryOver(pair(), shapes, position);
    expect(await pair().dump("target", "items")).toEqual(dumped);
  });

  test("writes past capture and fences of the target", async () => {
    const { shapes, position } = await armed(pair(), "items");
    const { target } = pair();
    const there = await target.armCapture({ plan: "plan-1", token: 1 }, shapes);
    const incoming = { tenant: "a", epoch: 2, state: "incoming", shard: null } as const;
    await target.setFences({ plan: "plan-1", token: 1 }, [incoming]);
    await pair().sql("source", insertItems("a", 1));
    await carryOver(pair(), shapes, position);
    expect(await countOf(pair(), "target", "items")).toBe(1);
    expect(await target.lag(there)).toMatchObject({ events: 0 });
    const direct = pair().sql("target", insertItems("a", 2));
    await expect(direct).rejects.toMatchObject({ code: "NOT_ENTERED" });
  });

  test("runs a change of the schema with the state of the stream", async () => {
    const { shapes } = await armed(pair(), "items");
    const { target } = pair();
    const after = state({ fingerprint: "new" });
    const ddl = "alter table items add column more text";
    await target.apply(applying(shapes, { after, ddl }));
    const shape = await shapeOf(target, "items");
    expect(shape.columns.map(({ name }) => name)).toContain("more");
    expect(await target.loadStream("plan-1")).toEqual(after);
    const again = target.apply(applying(shapes, { before: after, after: state(), ddl }));
    await expect(again).rejects.toThrow("more");
    expect(await target.loadStream("plan-1")).toEqual(after);
  });
}
