import { afterEach, beforeEach, describe, expect, test } from "vitest";
import {
  type Application,
  arm,
  carryOver,
  closeFence,
  GUARD,
  type RouterStage,
  setFence,
  TENANT,
} from "./router-stage.ts";

/** What a router promises, whatever the shards are kept in. */
export function routerCases(name: string, open: () => Promise<RouterStage>): void {
  describe(`a router over ${name} shards`, () => {
    let stage: RouterStage;
    const applications: Application[] = [];
    const application = (options: { waitMs?: number } = {}): Application => {
      const made = stage.application(options);
      applications.push(made);
      return made;
    };
    beforeEach(async () => {
      stage = await open();
    });
    afterEach(async () => {
      for (const each of applications.splice(0)) await each.close();
      await stage.close();
    });

    test("writes and reads where the routing says, without Pawl in the shards", async () => {
      stage.routing.routes.set("other", { shard: "b", epoch: 7 });
      const { insert, ids } = application();
      await insert(TENANT, 1);
      await insert("other", 2);
      expect(await ids(TENANT)).toEqual([1]);
      expect(await ids("other")).toEqual([2]);
      expect(await stage.sql("b", "select id, tenant from items")).toEqual([[2, "other"]]);
    });

    test("asks for the route of a tenant once", async () => {
      const { insert, ids } = application();
      await Promise.all([insert(TENANT, 1), insert(TENANT, 2), ids(TENANT)]);
      await insert(TENANT, 3);
      expect(stage.routing.asked).toBe(1);
    });

    test("takes tenants whatever they are called", async () => {
      await arm(stage);
      const tenant = "o'hara $2 \\' \"/%/\" ü\n";
      const fence = { tenant, epoch: 1, state: "open", shard: null } as const;
      await stage.shards.a.setFences(GUARD, [fence]);
      const { insert, ids } = application();
      await insert(tenant, 1);
      await insert(tenant, 2);
      expect(await ids(tenant)).toEqual([1, 2]);
    });

    test("rolls back when the work fails, and lets its error pass", async () => {
      await arm(stage);
      const { insertAndFail, insert } = application();
      await expect(insertAndFail(TENANT, 1)).rejects.toThrow("the work fails");
      await insert(TENANT, 1);
      expect(await stage.sql("a", "select id from items")).toEqual([[1]]);
    });

    test("I53: checks the epoch in the write's own transaction, and goes where the tenant is", async () => {
      await arm(stage);
      const { insert } = application();
      await insert(TENANT, 1);
      await closeFence(stage);
      await carryOver(stage);
      const asked = stage.routing.asked;
      await insert(TENANT, 2);
      expect(await stage.sql("a", "select id from items order by id")).toEqual([[1]]);
      expect(await stage.sql("b", "select id from items order by id")).toEqual([[1], [2]]);
      // The refusal itself says where to go.
      expect(stage.routing.asked).toBe(asked);
    });

    test("I53: writes nothing under an epoch that the shard does not have", async () => {
      await arm(stage);
      await setFence(stage.shards.a, "open", 3);
      const { insert, ids } = application({ waitMs: 30 });
      const stale = { code: "EPOCH_STALE", details: { tenant: TENANT, epoch: 3 } };
      await expect(insert(TENANT, 1)).rejects.toMatchObject(stale);
      await expect(ids(TENANT)).rejects.toMatchObject(stale);
      expect(await stage.sql("a", "select id from items")).toEqual([]);
    });

    test("asks the server when the refusal does not say where the tenant is", async () => {
      await arm(stage);
      const { insert } = application();
      await insert(TENANT, 1);
      await setFence(stage.shards.a, "open", 3);
      stage.routing.routes.set(TENANT, { shard: "a", epoch: 3 });
      await insert(TENANT, 2);
      expect(stage.routing.asked).toBe(2);
      expect(await stage.sql("a", "select id from items order by id")).toEqual([[1], [2]]);
    });

    test("waits while the fence is closed, and then goes on at the target", async () => {
      await arm(stage);
      const { insert } = application({ waitMs: 20_000 });
      await insert(TENANT, 1);
      await closeFence(stage);
      const writes = Array.from({ length: 8 }, (_, index) => insert(TENANT, 10 + index));
      await carryOver(stage);
      await Promise.all(writes);
      expect(await stage.sql("a", "select id from items")).toEqual([[1]]);
      expect(await stage.sql("b", "select id from items order by id")).toEqual(
        [1, 10, 11, 12, 13, 14, 15, 16, 17].map((id) => [id]),
      );
    });

    test("waits at the target that has not opened yet", async () => {
      await arm(stage);
      await setFence(stage.shards.a, "moved", 2, "b");
      const { insert, ids } = application({ waitMs: 20_000 });
      const waiting = [insert(TENANT, 1), ids(TENANT)];
      stage.routing.routes.set(TENANT, { shard: "b", epoch: 2 });
      await expect(application({ waitMs: 20 }).ids(TENANT)).rejects.toMatchObject({
        code: "EPOCH_STALE",
      });
      await setFence(stage.shards.b, "open", 2);
      await Promise.all(waiting);
      expect(await stage.sql("b", "select id from items")).toEqual([[1]]);
    });

    test("gives up waiting when the time is up, having written nothing", async () => {
      await arm(stage);
      await closeFence(stage);
      const { insert } = application({ waitMs: 30 });
      await expect(insert(TENANT, 1)).rejects.toMatchObject({
        code: "FENCE_CLOSED",
        details: { tenant: TENANT },
      });
      expect(await stage.sql("a", "select id from items")).toEqual([]);
    });

    test("I58: reads from the source while the fence is closed", async () => {
      await arm(stage);
      const { insert, ids } = application({ waitMs: 0 });
      await insert(TENANT, 1);
      await closeFence(stage);
      expect(await ids(TENANT)).toEqual([1]);
    });

    test("I58: never answers a read from where the tenant was", async () => {
      await arm(stage);
      const { insert, ids } = application();
      const late = application();
      await insert(TENANT, 1);
      expect(await late.ids(TENANT)).toEqual([1]);
      await closeFence(stage);
      await carryOver(stage);
      await insert(TENANT, 2);
      expect(await late.ids(TENANT)).toEqual([1, 2]);
      expect(await ids(TENANT)).toEqual([1, 2]);
    });

    test("goes on with what it knows while the server is away", async () => {
      await arm(stage);
      const { insert, ids } = application();
      await insert(TENANT, 1);
      stage.routing.isAway = true;
      await insert(TENANT, 2);
      expect(await ids(TENANT)).toEqual([1, 2]);
      await expect(insert("unknown", 3)).rejects.toMatchObject({ code: "SERVER_UNREACHABLE" });
      await closeFence(stage);
      await carryOver(stage);
      await insert(TENANT, 3);
      expect(await ids(TENANT)).toEqual([1, 2, 3]);
    });

    test("names the shard that it was not given", async () => {
      stage.routing.routes.set(TENANT, { shard: "c", epoch: 1 });
      const unknown = { code: "SHARD_NOT_FOUND", details: { tenant: TENANT, shard: "c" } };
      await expect(application().insert(TENANT, 1)).rejects.toMatchObject(unknown);
    });

    test("I54: loses and doubles nothing of 64 writers over a change of the fence", async () => {
      await arm(stage);
      const { insert, increment } = application({ waitMs: 20_000 });
      await insert(TENANT, 1);
      const rounds = 6;
      let acknowledged = 0;
      const half = Promise.withResolvers<void>();
      const writers = Array.from({ length: 64 }, async () => {
        for (let round = 0; round < rounds; round++) {
          await increment(TENANT, 1);
          if (++acknowledged === (64 * rounds) / 2) half.resolve();
        }
      });
      await half.promise;
      await closeFence(stage);
      await carryOver(stage);
      await Promise.all(writers);
      expect(acknowledged).toBe(64 * rounds);
      expect(await stage.sql("b", "select n from items")).toEqual([[64 * rounds]]);
      const [left] = await stage.sql("a", "select n from items");
      expect(left?.[0]).toBeLessThan(64 * rounds);
    });
  });
}
