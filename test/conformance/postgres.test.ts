import pg from "pg";
import { describe, expect, test } from "vitest";
import { SENSOR_MESSAGES } from "../../src/work/sensor/rows.ts";
import { postgresFailure } from "../../src/store/postgres/connection.ts";
import { openPostgresStore } from "../../src/store/postgres/store.ts";
import type { Store } from "../../src/store/store.ts";
import { dropDatabase, freshDatabaseUrl, sqlOn } from "../postgres.ts";
import { startPostgres } from "../postgres-server.ts";
import { NOON, append, changesOf, commit, eventsAfter, flushOf, message } from "./builders.ts";
import { type Place, storeConformance } from "./store-conformance.ts";

// The server of the tests may run without fsync.
const open = (url: string): Promise<Store> => openPostgresStore({ url, unsafe: true });

const PROBE = { probe_id: "p1", kind: "poll", subject: "s1", due_at: NOON, value: null } as const;

let template: Promise<string> | null = null;
let lastUrl: string | null = null;

/** A database that a store has made its tables in: to make them takes longer than to copy them. */
async function makeTemplate(): Promise<string> {
  const url = await freshDatabaseUrl();
  await (await open(url)).close();
  return url;
}

async function postgresPlace(): Promise<Place> {
  template ??= makeTemplate();
  if (lastUrl !== null) dropDatabase(lastUrl);
  const url = await freshDatabaseUrl(await template);
  lastUrl = url;
  return {
    open: () => open(url),
    sql: (text) => sqlOn(url, text),
    stillMsMax: 2_000,
    address: ["postgres", url],
  };
}

storeConformance("PostgreSQL", true, postgresPlace);

describe("PostgreSQL", () => {
  const withStores = async (
    count: number,
    body: (stores: Store[], ws: number, url: string) => Promise<void>,
  ): Promise<void> => {
    const url = await freshDatabaseUrl();
    const stores = await Promise.all(Array.from({ length: count }, () => open(url)));
    try {
      const workspaces = await Promise.all(stores.map((store) => store.workspace("acme", "main")));
      await body(stores, workspaces[0]?.ws ?? 0, url);
    } finally {
      await Promise.all(stores.map((store) => store.close()));
    }
  };

  test("I52: several servers that start at once apply each schema step once", async () => {
    await withStores(4, async (_stores, ws, url) => {
      expect(ws).toBeGreaterThan(0);
      const steps = await sqlOn(url, "select step from pawl.schema_steps");
      expect(steps).toEqual(steps.map((_, index) => [`${index + 1}`]));
    });
  });

  test("I52: a schema step that is cut short leaves no trace, and is applied the next time", async () => {
    const url = await freshDatabaseUrl();
    // Stands in the way of the step's last table.
    await sqlOn(url, "create schema pawl");
    await sqlOn(url, "create table pawl.tenant_secrets (x int)");
    await expect(open(url)).rejects.toThrow("already exists");
    const tables = "select tablename from pg_tables where schemaname = 'pawl'";
    expect(await sqlOn(url, tables)).toEqual([["tenant_secrets"]]);
    await sqlOn(url, "drop table pawl.tenant_secrets");
    const store = await open(url);
    expect(await store.workspaces()).toEqual([]);
    await store.close();
  });

  test("I2: several servers give positions without a hole", async () => {
    await withStores(3, async (stores, ws, url) => {
      const appends = stores.flatMap((store) =>
        Array.from({ length: 20 }, () => append(store, ws, 1)),
      );
      const positions = await Promise.all(appends);
      const gapless = Array.from({ length: 60 }, (_, index) => index + 1);
      expect(positions.toSorted((a, b) => a - b)).toEqual(gapless);
      expect(await sqlOn(url, "select count(*) from pawl.events")).toEqual([["60"]]);
    });
  });

  describe("a table that PostgreSQL knows little of", () => {
    const keysOf = (count: number) => Array.from({ length: count }, (_, index) => `k${index}`);
    const rowsOf = (sensor_id: string, count: number) =>
      keysOf(count).map((message_id) => message({ sensor_id, message_id }));

    /**
     * A database with three thousand rows, of which PostgreSQL believes that there is
     * one: it was nearly empty when it was last analysed.
     */
    async function misjudged(): Promise<{ url: string; ws: number }> {
      const url = await freshDatabaseUrl();
      const store = await open(url);
      const { ws } = await store.workspace("acme", "main");
      const write = (rows: ReturnType<typeof rowsOf>): Promise<void> =>
        commit(store, ws, { changes: [changesOf(SENSOR_MESSAGES, { inserted: rows })] });
      const name = `pawl.${SENSOR_MESSAGES.name}`;
      await sqlOn(url, `alter table ${name} set (autovacuum_enabled = off)`);
      await write(rowsOf("before", 3_000));
      await sqlOn(url, `delete from ${name} where message_id <> 'k2999'`);
      await sqlOn(url, `analyze ${name}`);
      await write(rowsOf("sales", 3_000));
      await store.close();
      await sessionsEnded(url);
      return { url, ws };
    }

    /** What a session did is counted when it ends, and that may be some time after it was closed. */
    const sessionsEnded = async (url: string): Promise<void> => {
      const others = `select count(*)::int from pg_stat_activity
        where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'`;
      await expect.poll(() => sqlOn(url, others)).toEqual([[0]]);
    };

    /** How many rows and entries of indexes were read. */
    const readOf = async (url: string): Promise<number> => {
      await sessionsEnded(url);
      const sql = `select sum(idx_tup_read) + max(pg_stat_get_tuples_returned(relid))
        from pg_stat_user_indexes where schemaname = 'pawl' and relname = '${SENSOR_MESSAGES.name}'`;
      return Number((await sqlOn(url, sql))[0]?.[0]);
    };

    test("I76: is searched by key all the same, for what is read and for what is deleted", async () => {
      const { url, ws } = await misjudged();
      const before = await readOf(url);
      const store = await open(url);
      // Many combinations of which few are asked for.
      const keys = keysOf(40).map((key, index) => [index % 2 === 0 ? "sales" : `a${index}`, key]);
      const found = await store.read(ws, (reader) => reader.load(SENSOR_MESSAGES, keys));
      expect(found).toHaveLength(20);
      await commit(store, ws, { changes: [changesOf(SENSOR_MESSAGES, { deleted: keys })] });
      expect(await store.read(ws, (reader) => reader.load(SENSOR_MESSAGES, keys))).toEqual([]);
      await store.close();
      expect((await readOf(url)) - before).toBeLessThan(500);
    });

    const believedOf = (url: string): Promise<unknown[][]> =>
      sqlOn(
        url,
        `select reltuples from pg_class where oid = 'pawl.${SENSOR_MESSAGES.name}'::regclass`,
      );

    test("I76: is analysed anew", async () => {
      const { url } = await misjudged();
      const store = await open(url);
      await store.now();
      await store.close();
      expect(await believedOf(url)).toEqual([[3_001]]);
    });

    test("I76: is analysed for the first time, where that was never done", async () => {
      const url = await freshDatabaseUrl();
      const first = await open(url);
      await sqlOn(url, `alter table pawl.${SENSOR_MESSAGES.name} set (autovacuum_enabled = off)`);
      const { ws } = await first.workspace("acme", "main");
      await commit(first, ws, {
        changes: [changesOf(SENSOR_MESSAGES, { inserted: rowsOf("sales", 3_000) })],
      });
      await first.close();
      await sessionsEnded(url);
      expect(await believedOf(url)).toEqual([[-1]]);
      const store = await open(url);
      await store.now();
      await store.close();
      expect(await believedOf(url)).toEqual([[3_000]]);
    });
  });

  test("hears of the appends of another server", async () => {
    await withStores(2, async ([one, two], ws) => {
      const heard: number[] = [];
      two?.onAppend((_ws, pos) => heard.push(pos));
      // The listener connects by itself; what was appended before that is heard as well.
      if (one !== undefined) await append(one, ws, 2);
      await expect.poll(() => heard).toEqual([2]);
      if (one !== undefined) await append(one, ws, 1);
      await expect.poll(() => heard).toEqual([2, 3]);
    });
  });

  test("leases and settles probes while a transaction holds the workspace", async () => {
    await withStores(2, async ([holder, other], ws) => {
      if (holder === undefined || other === undefined) return;
      await holder.transact(ws, async () => {
        await other.addProbes(ws, [PROBE]);
        const claim = {
          kinds: ["poll" as const],
          subjects: null,
          limit: 1,
          ttlMs: 1_000,
          holder: null,
        };
        expect(await other.leaseProbes(ws, claim)).toMatchObject([{ probe_id: "p1", attempt: 1 }]);
        expect(await other.settleProbes(ws, [{ ...PROBE, attempt: 1 }])).toEqual([true]);
      });
    });
  });

  test("writes no probe that is due at that time already", async () => {
    await withStores(1, async ([store], ws, url) => {
      await store?.addProbes(ws, [PROBE]);
      // Where the row lies: it moves when it is written.
      const place = (): Promise<unknown[][]> => sqlOn(url, "select ctid::text from pawl.probes");
      const before = await place();
      await store?.addProbes(ws, [PROBE]);
      await store?.rescheduleProbes(ws, [PROBE]);
      await store?.settleProbes(ws, [{ ...PROBE, attempt: 1 }]);
      expect(await place()).toEqual(before);
    });
  });

  test("a frozen server holds a workspace for two seconds, not for ever", async () => {
    await withStores(2, async ([frozen, other], ws) => {
      if (frozen === undefined || other === undefined) return;
      const inside = Promise.withResolvers<void>();
      const thawed = Promise.withResolvers<void>();
      const holding = frozen.transact(ws, async (transaction) => {
        inside.resolve();
        await thawed.promise;
        await transaction.flush(flushOf({ events: eventsAfter(transaction.start, 1) }));
      });
      holding.catch(() => undefined);
      await inside.promise;
      const appended = async (): Promise<number> => append(other, ws, 1);
      await expect.poll(appended, { interval: 10 }).toBe(1);
      thawed.resolve();
      await expect(holding).rejects.toMatchObject({ code: "STORE_UNAVAILABLE", retryable: true });
      expect(await append(frozen, ws, 1)).toBe(2);
    });
  });

  test("says when the workspace stays locked", async () => {
    await withStores(1, async ([store], ws, url) => {
      if (store === undefined) return;
      const client = new pg.Client({ connectionString: url });
      await client.connect();
      await client.query("begin");
      await client.query("select from pawl.heads for update");
      const held = append(store, ws, 1);
      await expect(held).rejects.toMatchObject({ code: "STORE_LOCKED", retryable: true });
      await client.query("rollback");
      await client.end();
      expect(await append(store, ws, 1)).toBe(1);
    });
  });

  test("says when connections are lost, and makes new ones", async () => {
    await withStores(1, async ([store], ws, url) => {
      if (store === undefined) return;
      const kill = (): Promise<unknown> =>
        sqlOn(
          url,
          "select pg_terminate_backend(pid) from pg_stat_activity " +
            "where datname = current_database() and pid <> pg_backend_pid()",
        );
      const cut = store.transact(ws, async (transaction) => {
        await transaction.flush(flushOf({ events: eventsAfter(transaction.start, 1) }));
        await kill();
        await transaction.head();
      });
      await expect(cut).rejects.toMatchObject({ code: "STORE_UNAVAILABLE", retryable: true });
      expect(await append(store, ws, 1)).toBe(1);
      await kill();
      const appended = async (): Promise<number> => append(store, ws, 1);
      await expect.poll(appended, { interval: 10 }).toBe(2);
    });
  });

  test("says when there is no server", async () => {
    const opening = openPostgresStore({ url: "postgres://postgres@127.0.0.1:1/none" });
    await expect(opening).rejects.toMatchObject({ code: "STORE_UNAVAILABLE", retryable: true });
  });

  test("I3: marks a server whose settings are made unsafe while it runs", async () => {
    const server = await startPostgres(["fsync=on"]);
    try {
      const store = await openPostgresStore({ url: server.url });
      expect(store.unsafe).toBeNull();
      await sqlOn(server.url, "alter system set full_page_writes = off");
      await sqlOn(server.url, "alter system set synchronous_commit = off");
      await sqlOn(server.url, "select pg_reload_conf()");
      const unsafe = async (): Promise<string | null> => {
        await store.now();
        return store.unsafe;
      };
      await expect
        .poll(unsafe, { interval: 200 })
        .toBe("The server runs with full_page_writes = off and synchronous_commit = off.");
      await store.close();
      await expect(openPostgresStore({ url: server.url })).rejects.toMatchObject({
        code: "CONFIG_INVALID",
      });
    } finally {
      await server.stop();
    }
  });

  test("I61: tells callers nothing of the server's files", () => {
    const full = new pg.DatabaseError(
      'could not extend file "base/1/2": No space left',
      1,
      "error",
    );
    full.code = "53100";
    const failure = postgresFailure(full);
    expect(failure).toMatchObject({ code: "STORE_UNAVAILABLE", cause: full });
    expect(String(failure)).not.toContain("base/");
  });

  test("I3: refuses a server that may lose acknowledged writes, unless told to take it", async () => {
    const url = await freshDatabaseUrl();
    const database = new URL(url).pathname.slice(1);
    await sqlOn(url, `alter database "${database}" set synchronous_commit = local`);
    await expect(openPostgresStore({ url })).rejects.toMatchObject({ code: "CONFIG_INVALID" });
    const store = await open(url);
    expect(store.unsafe).toMatch(/fsync|synchronous_commit = local/);
    expect(store.description).toContain("PostgreSQL");
    await store.close();
  });
});
