import pg from "pg";
import { afterEach, describe, expect, test } from "vitest";
import { createRouter } from "../../src/shards/router/create-router.ts";
import { openPostgresShard } from "../../src/shards/postgres/open-postgres-shard.ts";
import { freshDatabaseUrl } from "../postgres.ts";
import { cuttingProxy, type Verdict } from "./cutting-proxy.ts";
import { routerCases } from "./router-cases.ts";
import { GUARD, postgresStage, Routing, TENANT } from "./router-stage.ts";

routerCases("PostgreSQL", postgresStage);

describe("a router over a pool of pg", () => {
  const cleanup: (() => Promise<void>)[] = [];
  afterEach(async () => {
    for (const step of cleanup.splice(0).toReversed()) await step();
  });

  /** A pool on a fresh database, over a wire that can be cut. */
  async function start(judge: (sent: string) => Verdict = () => "pass") {
    const url = new URL(await freshDatabaseUrl());
    const direct = new pg.Pool({ connectionString: url.href });
    const proxy = await cuttingProxy(Number(url.port), judge);
    url.port = String(proxy.port);
    const pool = new pg.Pool({ connectionString: url.href, max: 4 });
    const routing = new Routing();
    const router = createRouter({ client: routing.client(), shards: { a: pool } });
    cleanup.push(
      () => direct.end(),
      () => proxy.close(),
      () => pool.end(),
      () => router.close(),
    );
    await direct.query("create table items (id integer primary key, tenant text not null)");
    const ids = async (): Promise<number[]> =>
      (await direct.query<{ id: number }>("select id from items order by id")).rows.map(
        ({ id }) => id,
      );
    const shard = async () => {
      const opened = await openPostgresShard({ connectionString: url.href });
      cleanup.push(() => opened.close());
      await opened.install();
      await opened.take(GUARD);
      return opened;
    };
    return { router, ids, shard, pool, direct };
  }

  const INSERT = "insert into items (id, tenant) values ($1, $2)";

  test.each(["lose", "lose-answer"] as const)(
    "I54: runs nothing again when the connection is lost at the commit (%s)",
    async (verdict) => {
      const { router, ids, pool } = await start((sent) =>
        sent.includes("commit") ? verdict : "pass",
      );
      let runs = 0;
      const write = router.write(TENANT, async (client) => {
        runs++;
        await client.query(INSERT, [1, TENANT]);
      });
      await expect(write).rejects.toMatchObject({
        code: "COMMIT_UNKNOWN",
        message: expect.stringContaining("may have happened or not"),
      });
      expect(runs).toBe(1);
      expect(await ids()).toEqual(verdict === "lose" ? [] : [1]);
      expect(pool.totalCount).toBe(0);
    },
  );

  test("lets the error pass when the connection is lost before the commit", async () => {
    let isCut = false;
    const { router, ids } = await start((sent) => {
      if (isCut || !sent.includes("insert into")) return "pass";
      isCut = true;
      return "lose";
    });
    const write = () => router.write(TENANT, (client) => client.query(INSERT, [1, TENANT]));
    await expect(write()).rejects.toThrow(/terminated|ended|closed/i);
    await write();
    expect(await ids()).toEqual([1]);
  });

  test("says when a failed statement was caught and nothing was written", async () => {
    const { router, ids } = await start();
    const write = router.write(TENANT, async (client) => {
      await client.query(INSERT, [1, TENANT]);
      await client.query("select 1 / 0").catch(() => undefined);
    });
    await expect(write).rejects.toMatchObject({ code: "WORK_FAILED" });
    expect(await ids()).toEqual([]);
  });

  test("lets what the database refuses at the commit pass, for it is rolled back", async () => {
    const { router, ids, direct } = await start();
    await direct.query(
      "alter table items add column other integer references items (id) deferrable initially deferred",
    );
    const write = router.write(TENANT, (client) =>
      client.query("insert into items (id, tenant, other) values (1, $1, 2)", [TENANT]),
    );
    await expect(write).rejects.toMatchObject({ code: "23503" });
    expect(await ids()).toEqual([]);
  });

  test("refuses a write in a read", async () => {
    const { router, ids } = await start();
    const read = router.read(TENANT, (client) => client.query(INSERT, [1, TENANT]));
    await expect(read).rejects.toMatchObject({ code: "25006" });
    expect(await ids()).toEqual([]);
  });

  test("reads all of a read from one snapshot", async () => {
    const { router, direct } = await start();
    const counts = await router.read(TENANT, async (client) => {
      const count = async () => (await client.query("select id from items")).rowCount;
      const before = await count();
      await direct.query(INSERT, [1, TENANT]);
      return [before, await count()];
    });
    expect(counts).toEqual([0, 0]);
  });

  test("I53: runs work again, once entered, when the shard was armed meanwhile", async () => {
    const { router, ids, shard } = await start();
    let runs = 0;
    await router.write(TENANT, async (client) => {
      if (++runs === 1) {
        const armed = await shard();
        const shapes = await armed.describe([{ table: "items", shard_by: "tenant" }]);
        await armed.armCapture(GUARD, shapes);
        const fence = { tenant: TENANT, epoch: 1, state: "open", shard: null } as const;
        await armed.setFences(GUARD, [fence]);
      }
      await client.query(INSERT, [runs, TENANT]);
    });
    expect(runs).toBe(2);
    expect(await ids()).toEqual([2]);
  });

  test("I53: keeps the fence from closing until the write has committed", async () => {
    const { router, ids, shard } = await start();
    const fenced = await shard();
    const fence = { tenant: TENANT, epoch: 1, state: "open", shard: null } as const;
    await fenced.setFences(GUARD, [fence]);
    const close = (waitMs: number) =>
      fenced.closeFences(GUARD, [TENANT], { waitMs, holdMs: 60_000 });
    await router.write(TENANT, async (client) => {
      await client.query(INSERT, [1, TENANT]);
      await expect(close(20)).rejects.toMatchObject({ code: "FENCE_BUSY" });
    });
    await close(20_000);
    expect(await ids()).toEqual([1]);
  });

  test.each(["read committed", "repeatable read", "serializable"] as const)(
    "runs writes under the isolation that is asked for: %s",
    async (isolation) => {
      const { router, shard, ids } = await start();
      const fenced = await shard();
      const fence = { tenant: TENANT, epoch: 1, state: "open", shard: null } as const;
      await fenced.setFences(GUARD, [fence]);
      const shown = await router.write(
        TENANT,
        async (client) => {
          await client.query(INSERT, [1, TENANT]);
          const { rows } = await client.query<{ transaction_isolation: string }>(
            "show transaction_isolation",
          );
          return rows[0]?.transaction_isolation;
        },
        { isolation },
      );
      expect(shown).toBe(isolation);
      expect(await ids()).toEqual([1]);
    },
  );

  test("I54: begins again, and loses nothing, when fences change under a kept snapshot", async () => {
    const { router, shard, ids } = await start();
    const fenced = await shard();
    const fence = { tenant: TENANT, epoch: 1, state: "open", shard: null } as const;
    await fenced.setFences(GUARD, [fence]);
    const options = { isolation: "repeatable read" } as const;
    const numbers = Array.from({ length: 240 }, (_, index) => index);
    const left = [...numbers];
    const writers = Array.from({ length: 8 }, async () => {
      for (let id = left.pop(); id !== undefined; id = left.pop()) {
        await router.write(TENANT, (client) => client.query(INSERT, [id, TENANT]), options);
      }
    });
    for (let round = 0; round < 10; round++) {
      await fenced.closeFences(GUARD, [TENANT], { waitMs: 20_000, holdMs: 60_000 });
      await fenced.setFences(GUARD, [fence]);
    }
    await Promise.all(writers);
    expect(await ids()).toEqual(numbers);
  });

  test("says so when it is given a single connection", async () => {
    const client = new pg.Client({ connectionString: await freshDatabaseUrl() });
    cleanup.push(() => client.end());
    const given = client as unknown as pg.Pool;
    const router = createRouter({ client: new Routing().client(), shards: { a: given } });
    await expect(router.write(TENANT, () => null)).rejects.toMatchObject({
      code: "CONFIG_INVALID",
      message: expect.stringContaining("Pool of pg"),
    });
  });

  test("says that a shard gives no connection", async () => {
    const pool = new pg.Pool({ connectionString: "postgres://nobody@127.0.0.1:1/none" });
    cleanup.push(() => pool.end());
    const router = createRouter({ client: new Routing().client(), shards: { a: pool } });
    await expect(router.read(TENANT, () => null)).rejects.toMatchObject({
      code: "SHARD_UNREACHABLE",
      details: { shard: "a" },
    });
  });
});
