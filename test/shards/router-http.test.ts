import { mkdtempSync, rmSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import Database from "better-sqlite3";
import { afterEach, describe, expect, test } from "vitest";
import { serveShard } from "../../src/cli/base/serve-shard.ts";
import { httpShard } from "../../src/define/shards.ts";
import { openSqliteShard } from "../../src/shards/sqlite/open-sqlite-shard.ts";
import { createRouter } from "../../src/shards/router/create-router.ts";
import { cuttingProxy, type Verdict } from "./cutting-proxy.ts";
import { routerCases } from "./router-cases.ts";
import { httpStage, Routing, TENANT, TOKEN } from "./router-stage.ts";

routerCases("HTTP", httpStage);

describe("a router over a shard that is served", () => {
  const cleanup: (() => Promise<void> | void)[] = [];
  afterEach(async () => {
    for (const step of cleanup.splice(0).toReversed()) await step();
  });

  /** A served shard, over a wire that can be cut. */
  async function start(judge: (sent: string) => Verdict = () => "pass") {
    const folder = mkdtempSync(join(tmpdir(), "pawl-router-"));
    const file = join(folder, "a.db");
    const server = await serveShard({ file, token: TOKEN, host: "127.0.0.1", port: 0 });
    const proxy = await cuttingProxy(server.port, judge);
    const address = httpShard(`http://127.0.0.1:${proxy.port}`, { token: TOKEN });
    const router = createRouter({ client: new Routing().client(), shards: { a: address } });
    const db = new Database(file);
    db.exec("create table items (id integer primary key, tenant text not null, note)");
    cleanup.push(
      () => rmSync(folder, { recursive: true, force: true }),
      () => server.stop(),
      () => void db.close(),
      () => proxy.close(),
      () => router.close(),
    );
    const ids = (): unknown[] => db.prepare("select id from items order by id").pluck().all();
    return { router, ids, server, file };
  }

  const INSERT = "insert into items (tenant, note) values (?, ?) returning id";

  test("runs a write as one batch, whose results are known when it has committed", async () => {
    const { router, ids } = await start();
    const [first, second, all] = await router.write(TENANT, (batch) => {
      const added = batch.mutate(INSERT, [TENANT, "x"]);
      expect(() => added.rows).toThrow(/nothing is known of them before/);
      return [
        added,
        batch.mutate(INSERT, [TENANT, null]),
        batch.query("select count(*) as n from items"),
      ] as const;
    });
    expect(first.rows).toEqual([{ id: 1 }]);
    expect(second).toMatchObject({ rows: [{ id: 2 }], changes: 1, lastInsertRowid: 2 });
    expect(all.rows).toEqual([{ n: 2 }]);
    expect(ids()).toEqual([1, 2]);
  });

  test("carries every kind of value there and back", async () => {
    const { router } = await start();
    const values = [1, 1.5, -0, 2n ** 62n, "a'b", Buffer.from([0, 255]), null, Infinity];
    await router.write(TENANT, (batch) => {
      for (const value of values) batch.mutate(INSERT, [TENANT, value]);
      batch.mutate("insert into items (tenant, note) values (:tenant, :note)", {
        tenant: TENANT,
        note: "by name",
      });
    });
    const { rows } = await router.read(TENANT, (reading) =>
      reading.query("select note from items order by id"),
    );
    expect(rows.map(({ note }) => note)).toEqual([...values, "by name"]);
  });

  test("reads several queries from one snapshot", async () => {
    const { router } = await start();
    const [one, two] = await router.read(TENANT, (reading) =>
      reading.queryAll([{ sql: "select 1 as n" }, { sql: "select ? as n", params: ["x"] }]),
    );
    expect([one?.rows, two?.rows]).toEqual([[{ n: 1 }], [{ n: "x" }]]);
  });

  test("takes no statement when the work has ended", async () => {
    const { router } = await start();
    const batch = await router.write(TENANT, (given) => given);
    expect(() => batch.mutate("delete from items")).toThrow(/takes no more statements/);
  });

  test("I54: sends a write again whose answer was lost, and it is done once", async () => {
    let sent = 0;
    const { router, ids } = await start((piece) => {
      if (!piece.includes("POST /mutation")) return "pass";
      sent++;
      return sent === 1 ? "lose-answer" : "pass";
    });
    let runs = 0;
    const added = await router.write(TENANT, (batch) => {
      runs++;
      return batch.mutate(INSERT, [TENANT, "x"]);
    });
    expect(added.rows).toEqual([{ id: 1 }]);
    expect(runs).toBe(1);
    expect(sent).toBeGreaterThan(1);
    expect(ids()).toEqual([1]);
  });

  test("I54: does a write once that arrives late at a shard that was not open yet", async () => {
    let sent = 0;
    let late = "";
    const { router, ids, file, server } = await start((piece) => {
      if (!piece.includes("POST /mutation")) return "pass";
      sent++;
      if (sent === 1) late = piece;
      if (sent === 3) void fence("open");
      return sent === 1 ? "lose" : "pass";
    });
    const shard = await openSqliteShard({ file });
    cleanup.push(() => shard.close());
    const guard = { plan: "plan", token: 1 };
    const fence = (state: "incoming" | "open"): Promise<void> =>
      shard.setFences(guard, [
        { tenant: TENANT, epoch: Number(state === "open"), state, shard: "b" },
      ]);
    await shard.install();
    await shard.take(guard);
    await fence("incoming");
    await router.write(TENANT, (batch) => {
      batch.mutate(INSERT, [TENANT, "x"]);
    });
    expect(ids()).toEqual([1]);
    const socket = connect(server.port, "127.0.0.1");
    socket.end(late);
    const answer = await text(socket);
    expect(answer).toContain("HTTP/1.1 200");
    expect(ids()).toEqual([1]);
  });

  test("I54: says that nobody knows when no answer comes at all", async () => {
    const { router, ids } = await start((piece) =>
      piece.includes("POST /mutation") ? "lose-answer" : "pass",
    );
    let runs = 0;
    const write = router.write(TENANT, (batch) => {
      runs++;
      batch.mutate(INSERT, [TENANT, "x"]);
    });
    await expect(write).rejects.toMatchObject({ code: "COMMIT_UNKNOWN", details: { shard: "a" } });
    expect(runs).toBe(1);
    expect(ids()).toEqual([1]);
  });

  test("says that a shard is not served", async () => {
    const { router, server } = await start();
    await server.stop();
    const read = router.read(TENANT, (reading) => reading.query("select 1"));
    await expect(read).rejects.toMatchObject({ code: "SHARD_UNREACHABLE" });
  });

  test("lets what the database says about a statement pass", async () => {
    const { router, ids } = await start();
    const write = router.write(TENANT, (batch) => {
      batch.mutate("insert into items values (1, 'acme', null)");
      batch.mutate("insert into items values (1, 'acme', null)");
    });
    await expect(write).rejects.toMatchObject({
      code: "INPUT_INVALID",
      message: "Statement 2 of 2 cannot be run: UNIQUE constraint failed: items.id.",
      details: { statement: 1, sqlite_code: "SQLITE_CONSTRAINT_PRIMARYKEY" },
    });
    expect(ids()).toEqual([]);
  });
});
