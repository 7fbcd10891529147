import { expect, test } from "vitest";
import { createTables, enrol, GUARD, policy, shapeOf, shapesOf, TABLES } from "./stage.ts";
import type { ShardPair } from "./shard-conformance.ts";

/** What a table looks like, and what is refused. */
export function schemaCases(pair: () => ShardPair): void {
  test("says columns, key and references of a table", async () => {
    await createTables(pair(), TABLES.lines, TABLES.parents, TABLES.children);
    const [lines, , children] = await shapesOf(pair().source, "lines", "parents", "children");
    expect(lines).toMatchObject({ table: "lines", shard_by: "tenant", key: ["sku", "line"] });
    expect(lines?.columns.map(({ name }) => name)).toEqual(["tenant", "sku", "line", "note"]);
    expect(lines?.references).toEqual([]);
    expect(children?.references).toEqual(["parents"]);
  });

  test("gives equal tables the same fingerprint and others another one", async () => {
    await createTables(pair(), TABLES.items, TABLES.lines);
    const { source, target } = pair();
    const before = await shapeOf(source, "items");
    expect((await shapeOf(target, "items")).fingerprint).toBe(before.fingerprint);
    expect((await shapeOf(source, "lines")).fingerprint).not.toBe(before.fingerprint);
    await pair().sql("source", "alter table items add column more text");
    expect((await shapeOf(source, "items")).fingerprint).not.toBe(before.fingerprint);
  });

  test("keeps the fingerprint of a table when its changes are captured", async () => {
    await createTables(pair(), TABLES.items);
    const { source } = pair();
    await enrol(source);
    const before = await shapeOf(source, "items");
    await source.armCapture(GUARD, [before]);
    expect(await shapeOf(source, "items")).toEqual(before);
  });

  test("refuses a table that is missing, has no key, or lacks the column", async () => {
    await createTables(pair(), TABLES.items, pair().dialect.keyless);
    const { source } = pair();
    const unfit = { code: "TABLE_UNFIT" };
    await expect(source.describe([policy("absent")])).rejects.toMatchObject(unfit);
    await expect(source.describe([policy("keyless")])).rejects.toMatchObject(unfit);
    const other = { table: "items", shard_by: "owner" };
    await expect(source.describe([other])).rejects.toMatchObject(unfit);
  });

  test("names no trigger of Pawl among those that fire for copied rows", async () => {
    await createTables(pair(), TABLES.items);
    const { source } = pair();
    await enrol(source);
    const shapes = await shapesOf(source, "items");
    await source.armCapture(GUARD, shapes);
    expect(await source.firingTriggers(shapes)).toEqual([]);
  });

  test("installs as often as it is asked, also by many at once", async () => {
    const { source } = pair();
    const other = await pair().open("source");
    await Promise.all([source.install(), other.install(), source.install()]);
    await source.install();
    await source.take(GUARD);
    await other.close();
  });

  test("says where sequences stand and moves them on, never back", async () => {
    await createTables(pair(), pair().dialect.serials);
    const { source, target } = pair();
    const shapes = await shapesOf(source, "serials");
    await pair().sql("source", "insert into serials (tenant) values ('a'), ('a'), ('a')");
    const values = await source.sequences(shapes);
    expect(values).toEqual([{ table: "serials", column: "id", value: "3" }]);
    await target.advanceSequences(values);
    await pair().sql("target", "insert into serials (tenant) values ('a')");
    expect(await pair().sql("target", "select id from serials")).toEqual([[4]]);
    await target.advanceSequences(values);
    expect(await target.sequences(shapes)).toMatchObject([{ value: "4" }]);
  });

  test("tells of no lag where there is no replica", async () => {
    expect(await pair().source.replicationLagMs()).toBeNull();
  });
}
