import { expect, test } from "vitest";
import { armed, changesSince, GUARD, insertItems, policy, spelled } from "./stage.ts";
import type { ShardPair } from "./shard-conformance.ts";

/** Which changes are captured, and for how long they are kept. */
export function captureCases(pair: () => ShardPair): void {
  test("captures inserts, updates and deletes in the order they were made", async () => {
    const { shapes, position } = await armed(pair(), "items");
    await pair().sql("source", insertItems("a", 1, 2));
    await pair().sql("source", "update items set n = 7 where id = 1");
    await pair().sql("source", "delete from items where id = 2");
    const answer = await pair().source.read(changesSince(shapes, position));
    expect(spelled(answer.changes)).toEqual([
      "put items 1",
      "put items 2",
      "put items 1",
      "delete items 2",
    ]);
    expect(answer.complete).toBe(true);
    expect(answer.changes.map(({ image }) => image === null)).toEqual([false, false, false, true]);
    expect(answer.changes.every(({ at }) => Math.abs(Date.parse(at) - Date.now()) < 600_000)).toBe(
      true,
    );
    expect(answer.through_id).toBe(answer.changes.at(-1)?.id);
  });

  test("captures an update that finds a row in its way", async () => {
    const { shapes, position } = await armed(pair(), "items");
    const upsert = (n: number): string =>
      `insert into items (id, tenant, n) values (1, 'a', ${n}) on conflict (id) do update set n = excluded.n`;
    await pair().sql("source", upsert(1));
    await pair().sql("source", upsert(2));
    const answer = await pair().source.read(changesSince(shapes, position));
    expect(spelled(answer.changes)).toEqual(["put items 1", "put items 1"]);
  });

  test("takes a changed key for a deletion and a new row", async () => {
    const { shapes, position } = await armed(pair(), "items");
    await pair().sql("source", insertItems("a", 1));
    await pair().sql("source", "update items set id = 9 where id = 1");
    const answer = await pair().source.read(changesSince(shapes, position));
    expect(spelled(answer.changes)).toEqual(["put items 1", "delete items 1", "put items 9"]);
  });

  test("takes a changed tenant for a deletion at the old one and a new row at the new one", async () => {
    const { shapes, position } = await armed(pair(), "items");
    await pair().sql("source", insertItems("a", 1));
    await pair().sql("source", insertItems("b", 2));
    await pair().sql("source", "update items set tenant = 'b' where id = 1");
    await pair().sql("source", "update items set tenant = 'a' where id = 2");
    const answer = await pair().source.read(changesSince(shapes, position));
    expect(spelled(answer.changes)).toEqual(["put items 1", "delete items 1", "put items 2"]);
  });

  test("captures nothing of a write that was rolled back", async () => {
    const { shapes, position } = await armed(pair(), "items");
    const writing = await pair().begin("source", null);
    await writing.sql(insertItems("a", 1));
    await writing.rollback();
    const answer = await pair().source.read(changesSince(shapes, position));
    expect(answer).toMatchObject({ changes: [], complete: true });
  });

  test("passes over changes of other tenants", async () => {
    const { shapes, position } = await armed(pair(), "items");
    await pair().sql("source", insertItems("b", 1, 2, 3));
    const one = await pair().source.read(changesSince(shapes, position, { changesMax: 2 }));
    expect(one).toMatchObject({ changes: [], complete: false });
    expect(one.through_id).not.toBeNull();
    const rest = { changesMax: 2, to: one.position, after_id: one.through_id };
    const two = await pair().source.read(changesSince(shapes, position, rest));
    expect(two).toMatchObject({ changes: [], complete: true });
    const later = await pair().source.read(changesSince(shapes, one.position));
    expect(later).toMatchObject({ changes: [], through_id: null, complete: true });
  });

  test("keeps its first position when it is armed again, and captures once", async () => {
    const { shapes, position } = await armed(pair(), "items");
    await pair().sql("source", insertItems("a", 1));
    expect(await pair().source.armCapture(GUARD, shapes)).toBe(position);
    await pair().sql("source", insertItems("a", 2));
    const answer = await pair().source.read(changesSince(shapes, position));
    expect(spelled(answer.changes)).toEqual(["put items 1", "put items 2"]);
  });

  test("captures on for another plan when one needs it no more", async () => {
    const { shapes, position } = await armed(pair(), "items");
    const { source } = pair();
    const other = { plan: "plan-2", token: 1 };
    await source.take(other);
    await source.armCapture(other, shapes);
    await source.disarmCapture(GUARD);
    await source.disarmCapture(GUARD);
    await pair().sql("source", insertItems("a", 1));
    expect((await source.read(changesSince(shapes, position))).changes).toHaveLength(1);
    await source.disarmCapture(other);
    await pair().sql("source", insertItems("a", 2));
    expect(await source.lag(position)).toMatchObject({ events: 0 });
    expect(await source.firingTriggers(shapes)).toEqual([]);
  });

  test("deletes changes that nobody needs, and those only", async () => {
    const { shapes, position } = await armed(pair(), "items");
    const { source } = pair();
    const other = { plan: "plan-2", token: 1 };
    await source.take(other);
    await source.armCapture(other, shapes);
    await pair().sql("source", insertItems("a", 1, 2));
    const middle = await source.position();
    await pair().sql("source", insertItems("a", 3));
    const end = await source.position();

    expect(await source.release(GUARD, end)).toBe(0);
    expect(await source.release(other, middle)).toBeGreaterThanOrEqual(2);
    const rest = await source.read(changesSince(shapes, middle));
    expect(spelled(rest.changes)).toEqual(["put items 3"]);
    expect(await source.release(other, end)).toBe(1);
    expect(await source.release(other, end)).toBe(0);
    expect(await source.lag(end)).toMatchObject({ events: 0 });
    await pair().sql("source", insertItems("a", 4));
    expect(spelled((await source.read(changesSince(shapes, end))).changes)).toEqual([
      "put items 4",
    ]);
    expect(await source.lag(position)).toMatchObject({ events: 1 });
  });

  test("says how many changes lie behind a position and since when", async () => {
    const { position } = await armed(pair(), "items");
    const { source } = pair();
    expect(await source.lag(position)).toEqual({ events: 0, oldest_at: null });
    await pair().sql("source", insertItems("a", 1, 2));
    const lag = await source.lag(position);
    expect(lag.events).toBe(2);
    expect(Number.isNaN(Date.parse(lag.oldest_at ?? ""))).toBe(false);
    expect(await source.lag(await source.position())).toEqual({ events: 0, oldest_at: null });
  });

  test("captures a change of the schema in its place, and goes on with the new columns", async () => {
    const { shapes, position } = await armed(pair(), "items");
    const { source, target } = pair();
    await pair().sql("source", insertItems("a", 1));
    const before = await source.read(changesSince(shapes, position));
    const sql = "alter table items add column more text";
    await source.runDdl(GUARD, sql, [policy("items")]);
    await pair().sql("source", "update items set more = 'x' where id = 1");

    const after = await source.describe([policy("items")]);
    const answer = await source.read(changesSince(after, position));
    expect(spelled(answer.changes)).toEqual([
      "put items 1",
      expect.stringMatching(/^ddl /),
      "put items 1",
    ]);
    const ddl = answer.changes[1]?.ddl;
    expect(ddl?.sql).toBe(sql);
    expect(ddl?.fingerprint).not.toBe(before.fingerprint);
    expect(ddl?.fingerprint).toBe(answer.fingerprint);
    expect(target.engine).toBe(source.engine);
  });

  test("leaves nothing of a change of the schema that fails", async () => {
    const { position } = await armed(pair(), "items");
    const { source } = pair();
    const failing = source.runDdl(GUARD, "alter table absent add column more text", [
      policy("items"),
    ]);
    await expect(failing).rejects.toThrow("absent");
    expect(await source.lag(position)).toMatchObject({ events: 0 });
  });

  test("finds a schema that was changed behind its back", async () => {
    const { shapes, position } = await armed(pair(), "items");
    const { source } = pair();
    const before = await source.read(changesSince(shapes, position));
    await pair().sql("source", "alter table items add column more text");
    const after = await source.read(changesSince(shapes, await source.position()));
    expect(after.fingerprint).not.toBe(before.fingerprint);
  });
}
