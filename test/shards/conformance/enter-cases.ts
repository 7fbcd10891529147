import { expect, test } from "vitest";
import type { Fence } from "../../../src/shards/shard.ts";
import { armed, changesSince, countOf, createTables, GUARD, insertItems, TABLES } from "./stage.ts";
import type { ShardPair } from "./shard-conformance.ts";

const COUNT = "select count(*) from items";

/** How applications get in, and who does not. */
export function enterCases(pair: () => ShardPair): void {
  const fence = async (state: Fence["state"], epoch = 3): Promise<void> => {
    const shard = state === "moved" ? "elsewhere" : null;
    await pair().source.setFences(GUARD, [{ tenant: "a", epoch, state, shard }]);
  };
  const write = (epoch: number, id: number): Promise<void> =>
    pair().write("source", "a", epoch, insertItems("a", id));
  const read = (epoch: number): Promise<unknown[][]> => pair().read("source", "a", epoch, COUNT);

  test("lets everybody in where Pawl's tables are not", async () => {
    await createTables(pair(), TABLES.items);
    await write(7, 1);
    expect(await read(7)).toEqual([[1]]);
  });

  test("lets in whoever has no fence", async () => {
    await armed(pair(), "items");
    await write(7, 1);
    expect(await read(7)).toEqual([[1]]);
  });

  test("I53: lets in the epoch of an open fence and no other", async () => {
    await armed(pair(), "items");
    await fence("open");
    await write(3, 1);
    expect(await read(3)).toEqual([[1]]);
    const stale = { code: "EPOCH_STALE", details: { tenant: "a", epoch: 3 } };
    for (const epoch of [2, 4]) {
      await expect(write(epoch, 2)).rejects.toMatchObject(stale);
      await expect(read(epoch)).rejects.toMatchObject(stale);
    }
    expect(await countOf(pair(), "source", "items")).toBe(1);
  });

  test("I58: lets reads in and keeps writes out while closed or held", async () => {
    await armed(pair(), "items");
    await fence("open");
    await pair().source.closeFences(GUARD, ["a"], { waitMs: 20_000, holdMs: 60_000 });
    const closed = { code: "FENCE_CLOSED", details: { tenant: "a" } };
    await expect(write(3, 1)).rejects.toMatchObject(closed);
    expect(await read(3)).toEqual([[0]]);
    await pair().source.holdFences(GUARD, ["a"]);
    await expect(write(3, 1)).rejects.toMatchObject(closed);
    expect(await read(3)).toEqual([[0]]);
    await expect(read(2)).rejects.toMatchObject({ code: "EPOCH_STALE" });
    expect(await countOf(pair(), "source", "items")).toBe(0);
  });

  test("I58: refuses reads and writes of who has moved, with the new epoch and shard", async () => {
    await armed(pair(), "items");
    await fence("moved", 4);
    const stale = { code: "EPOCH_STALE", details: { tenant: "a", epoch: 4, shard: "elsewhere" } };
    for (const epoch of [3, 4]) {
      await expect(write(epoch, 1)).rejects.toMatchObject(stale);
      await expect(read(epoch)).rejects.toMatchObject(stale);
    }
  });

  test("I58: refuses reads and writes of who is not here yet", async () => {
    await armed(pair(), "items");
    await fence("incoming", 4);
    const stale = { code: "EPOCH_STALE", details: { tenant: "a", epoch: 4 } };
    for (const epoch of [3, 4]) {
      await expect(write(epoch, 1)).rejects.toMatchObject(stale);
      await expect(read(epoch)).rejects.toMatchObject(stale);
    }
  });

  test("I53: refuses a write to a fenced tenant that did not enter, of any kind", async () => {
    await armed(pair(), "items");
    await pair().sql("source", insertItems("a", 1));
    await fence("open");
    const refused = { code: "NOT_ENTERED" };
    const plain = [
      insertItems("a", 2),
      "update items set n = 9 where id = 1",
      "delete from items where id = 1",
      "insert into items (id, tenant, n) values (1, 'a', 1) on conflict (id) do update set n = 9",
    ];
    for (const sql of plain) {
      await expect(pair().sql("source", sql), sql).rejects.toMatchObject(refused);
    }
    expect(await pair().sql("source", "select id, n from items")).toEqual([[1, 1]]);
  });

  test("I53: lets writes of tenants without a fence pass without entering", async () => {
    await armed(pair(), "items");
    await fence("open");
    await pair().sql("source", insertItems("b", 1));
    await pair().sql("source", "update items set n = 9 where id = 1");
    await pair().sql("source", "delete from items where id = 1");
    expect(await countOf(pair(), "source", "items")).toBe(0);
  });

  test("I53: refuses to carry a row to or from a fenced tenant that was not entered", async () => {
    await armed(pair(), "items");
    await pair().sql("source", insertItems("b", 1));
    await fence("open");
    const refused = { code: "NOT_ENTERED" };
    const give = pair().sql("source", "update items set tenant = 'a' where id = 1");
    await expect(give).rejects.toMatchObject(refused);
    await write(3, 2);
    const take = pair().sql("source", "update items set tenant = 'b' where id = 2");
    await expect(take).rejects.toMatchObject(refused);
    const other = pair().write("source", "b", 1, "update items set n = 5 where id = 2");
    await expect(other).rejects.toMatchObject(refused);
  });

  test("I53: lets nobody write after the transaction that entered", async () => {
    await armed(pair(), "items");
    await fence("open");
    await write(3, 1);
    await expect(pair().sql("source", insertItems("a", 2))).rejects.toMatchObject({
      code: "NOT_ENTERED",
    });
    const writing = await pair().begin("source", { tenant: "a", epoch: 3 });
    await writing.rollback();
    await expect(pair().sql("source", insertItems("a", 2))).rejects.toMatchObject({
      code: "NOT_ENTERED",
    });
  });

  test("captures what was written after entering", async () => {
    const { shapes, position } = await armed(pair(), "items");
    await fence("open");
    await write(3, 1);
    const answer = await pair().source.read(changesSince(shapes, position));
    expect(answer.changes).toHaveLength(1);
  });

  test("takes fences that are dropped, or disarmed, for no fences", async () => {
    await armed(pair(), "items");
    await fence("moved", 4);
    await pair().source.dropFences(GUARD, ["a"]);
    await pair().sql("source", insertItems("a", 1));
    await fence("open");
    await pair().source.disarmCapture(GUARD);
    await pair().sql("source", insertItems("a", 2));
    expect(await countOf(pair(), "source", "items")).toBe(2);
  });
}
