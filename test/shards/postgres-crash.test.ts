import type pg from "pg";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { tenantScope } from "../../src/work/shard/spec.ts";
import { openPostgresShard } from "../../src/shards/postgres/open-postgres-shard.ts";
import type { Shard, TableShape } from "../../src/shards/shard.ts";
import { type PostgresServer, startPostgres } from "../postgres-server.ts";
import {
  changesSince,
  chunkOf,
  enrol,
  GUARD,
  insertItems,
  shapesOf,
  spelled,
  TABLES,
} from "./conformance/stage.ts";
import { connect } from "./postgres-pair.ts";

/*
 * PostgreSQL gives the numbers of transactions again whose records were not on the disk when it went
 * down. Nothing flushes here but what asks for it: the application does not wait for its commits, and
 * the WAL writer comes every ten seconds only.
 */
const SETTINGS = [
  "synchronous_commit=off",
  "wal_writer_delay=10s",
  "autovacuum=off",
  "checkpoint_timeout=1h",
  // What was written outlives the death of processes, and with it less has to be waited for.
  "fsync=off",
];

describe("a PostgreSQL shard that crashes", () => {
  let server: PostgresServer;
  beforeAll(async () => {
    server = await startPostgres(SETTINGS);
  });
  afterAll(() => server.stop());

  let databases = 0;
  let plans = 0;
  const freshUrl = async (): Promise<string> => {
    databases += 1;
    const url = new URL(server.url);
    url.pathname = `/crash_${databases}`;
    await using(server.url, (client) => client.query(`create database crash_${databases}`));
    return url.href;
  };

  /** Ways in which a position leaves a shard. */
  const WAYS: Record<
    string,
    (shard: Shard, shapes: readonly TableShape[], from: string) => Promise<string>
  > = {
    "a read of changes": async (shard, shapes, from) =>
      (await shard.read(changesSince(shapes, from))).position,
    "a read of rows": async (shard, [shape]) => {
      if (shape === undefined) throw new Error("There is no table.");
      return (await shard.read(chunkOf(shape))).position;
    },
    "a question for it": (shard) => shard.position(),
    "a digest": async (shard, [table]) => {
      if (table === undefined) throw new Error("There is no table.");
      return (await shard.digest({ table, scope: tenantScope(["a"]) })).position;
    },
    "arming another plan": async (shard, shapes) => {
      plans += 1;
      const other = { plan: `other-${plans}`, token: 1 };
      await shard.take(other);
      return shard.armCapture(other, shapes);
    },
  };

  test.each(Object.entries(WAYS))(
    "I82: keeps what a position covers, and skips no change after it: %s",
    async (_, positionOf) => {
      const url = await freshUrl();
      await using(url, (client) => client.query(TABLES.items));
      const shard = await openPostgresShard({ connectionString: url });
      try {
        await enrol(shard);
        const shapes = await shapesOf(shard, "items");
        const armedAt = await shard.armCapture(GUARD, shapes);
        await using(url, (client) => client.query("checkpoint"));
        // Whether numbers were given out again; else a round proves nothing, because somebody has
        // flushed in the one moment in which it must not be.
        let isProven = false;
        for (let id = 1; !isProven && id < 20; id += 2) {
          const saved = await using(url, async (client) => {
            await giveUp(client, 5);
            await client.query(insertItems("a", id));
            await giveUp(client, 5);
            return positionOf(shard, shapes, armedAt);
          });
          const lost = await using(url, (client) => giveUp(client, 10));
          await crash(url);

          const first = await using(url, async (client) => {
            await client.query("begin");
            await client.query(insertItems("a", id + 1));
            const xid = await xidOf(client);
            await client.query("commit");
            await giveUp(client, 30);
            return xid;
          });
          isProven = first <= lost;
          const { changes } = await shard.read(changesSince(shapes, saved));
          expect(spelled(changes)).toEqual([`put items ${id + 1}`]);
          const { rows } = await using(url, (client) =>
            client.query<{ id: number }>("select id from items order by id desc limit 2"),
          );
          expect(rows.map((row) => row.id)).toEqual([id + 1, id]);
        }
        expect(isProven).toBe(true);
      } finally {
        await shard.close();
      }
    },
    120_000,
  );

  test("I82: keeps every step of its own, though the application waits for none of its commits", async () => {
    const url = await freshUrl();
    await using(url, (client) => client.query(TABLES.items));
    const shard = await openPostgresShard({ connectionString: url });
    try {
      await enrol(shard);
      await using(url, (client) => client.query("checkpoint"));
      const fence = { tenant: "a", epoch: 2, state: "moved", shard: "target" } as const;
      await shard.setFences(GUARD, [fence]);
      await crash(url);
      expect(await shard.fences(["a"])).toMatchObject([fence]);
    } finally {
      await shard.close();
    }
  });
});

/** Lends a connection of an application. */
async function using<Result>(
  url: string,
  body: (client: pg.Client) => Promise<Result>,
): Promise<Result> {
  const client = await connect(url);
  try {
    return await body(client);
  } finally {
    await client.end();
  }
}

/** The number of the transaction that a client is in. */
async function xidOf(client: pg.Client): Promise<bigint> {
  const { rows } = await client.query<{ xid: string }>("select pg_current_xact_id() as xid");
  return BigInt(rows[0]?.xid ?? 0);
}

/** Begins transactions that write and are given up; gives the number of the last. */
async function giveUp(client: pg.Client, count: number): Promise<bigint> {
  let last = 0n;
  for (let at = 0; at < count; at += 1) {
    await client.query("begin");
    await client.query(insertItems("a", 1_000));
    last = await xidOf(client);
    await client.query("rollback");
  }
  return last;
}

/**
 * Kills a backend outright. The server takes its shared memory for damaged then, ends everybody
 * without a flush, and recovers from what is on the disk, as after the death of all its processes.
 */
async function crash(url: string): Promise<void> {
  const [victim, other] = [await connect(url), await connect(url)];
  const { rows } = await victim.query<{ pid: number }>("select pg_backend_pid() as pid");
  // That of the other one says that the server has noticed.
  const ended = [victim, other].map(
    (client) =>
      new Promise<void>((resolve) => {
        client.once("end", () => resolve());
      }),
  );
  process.kill(Number(rows[0]?.pid), "SIGKILL");
  await Promise.all(ended);
  await expect
    .poll(() => using(url, async () => "up").catch(() => "down"), { interval: 20 })
    .toBe("up");
}
