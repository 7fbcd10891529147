import Database from "better-sqlite3";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import { connectWorker } from "../../src/client/worker-connection.ts";
import {
  allPartitions,
  asset,
  byHash,
  byRange,
  byTenant,
  check,
  createClient,
  createRouter,
  type Client,
  cron,
  daily,
  dbt,
  definePawl,
  dimension,
  DoNotRetry,
  doNotRetry,
  dynamicPartitions,
  externalAsset,
  hourly,
  httpShard,
  identity,
  integers,
  type Materialize,
  materializationsOf,
  md,
  monthly,
  move,
  multi,
  newFiles,
  newObjects,
  newRows,
  offset,
  PawlError,
  pool,
  postgresShard,
  type Project,
  python,
  RangeTooLarge,
  rangeTooLarge,
  RetryAfter,
  retryAfter,
  runFailures,
  schedule,
  sensor,
  shards,
  shell,
  Skip,
  skip,
  SourceLagging,
  sourceLagging,
  SourceUnavailable,
  sourceUnavailable,
  sql,
  sqliteShard,
  staticPartitions,
  sync,
  table,
  Throttled,
  throttled,
  timeWindow,
  webhook,
  weekly,
} from "../../src/index.ts";
import { runWorker } from "../../src/worker/run-worker.ts";
import { needPython } from "../python.ts";
import { startApi } from "./api-server.ts";

const stops: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const stop of stops.splice(0).toReversed()) await stop();
});

/** A real server with a real worker that has the project's code, and a client of it. */
async function serve(project: Project): Promise<Client> {
  const api = await startApi();
  stops.push(() => api.close());
  const client = createClient({ url: api.url });
  await client.call("publishDefinitions", { body: { specs: [...project.specs], origin: "code" } });
  const controller = new AbortController();
  const ended = runWorker({
    connection: connectWorker({ url: api.url }),
    project,
    workerId: "worker",
    codeVersion: null,
    logger: { info: () => undefined, warn: () => undefined, error: () => undefined },
    signal: controller.signal,
  });
  stops.push(async () => {
    controller.abort();
    await ended;
  });
  return client;
}

/** Fills all partitions of the assets, and answers how it ended. */
async function fill(client: Client, ...assets: string[]) {
  const body = { assets, selector: { type: "all" } } as const;
  const { backfill_id } = await client.call("createBackfill", { body });
  for await (const { type, data } of client.follow({ entity: backfill_id })) {
    const { to_state } = data as { to_state?: string };
    if (type === "BackfillStateChanged" && /^(?:SUCCEEDED|FAILED)$/.test(to_state ?? "")) break;
  }
  return client.call("getBackfill", { params: { backfill_id } });
}

/** How many partitions a definition has, and the keys of the first of them. */
async function partitionsOf(definition: ReturnType<typeof daily>, count = 2): Promise<unknown[]> {
  const materialize = (): void => undefined;
  const project = definePawl({ assets: [asset("a", { partitions: definition, materialize })] });
  const client = await serve(project);
  const params = { asset_key: "a" };
  const { partition_count } = await client.call("getAsset", { params });
  const { items } = await client.call("listAssetPartitions", { params, query: { limit: count } });
  return [partition_count, ...items.map(({ partition_key }) => partition_key)];
}

describe("partitions", () => {
  test.each([
    [
      "hourly",
      hourly({ start: "2025-01-01", end: "2025-01-02" }),
      [24, "2025-01-01T00:00Z", "2025-01-01T01:00Z"],
    ],
    ["daily", daily({ start: "2025-01-01", end: "2026-01-01" }), [365, "2025-01-01", "2025-01-02"]],
    ["weekly", weekly({ start: "2025-01-01", end: "2025-02-01" }), [3, "2025-01-06", "2025-01-13"]],
    ["monthly", monthly({ start: "2025-01", end: "2026-01" }), [12, "2025-01", "2025-02"]],
    [
      "cron",
      cron("0 6 * * 1-5", { start: "2025-01-01", end: "2025-01-08" }),
      [4, "2025-01-01T06:00", "2025-01-02T06:00"],
    ],
    ["staticPartitions", staticPartitions(["eu", "us"]), [2, "eu", "us"]],
    ["integers", integers({ start: 0, end: 1_000, size: 100 }), [10, "0-99", "100-199"]],
    [
      "multi",
      multi({
        day: daily({ start: "2025-01-01", end: "2025-01-03" }),
        region: staticPartitions(["eu", "us"]),
      }),
      [4, "day=2025-01-01,region=eu", "day=2025-01-01,region=us"],
    ],
  ])("of %s have their count and keys", async (_name, definition, expected) => {
    expect(await partitionsOf(definition)).toEqual(expected);
  });

  test("of dynamicPartitions are added while Pawl runs", async () => {
    const made: string[] = [];
    const customers = asset("customers", {
      partitions: dynamicPartitions("customers"),
      materialize: ({ partition }) => void made.push(partition),
    });
    const client = await serve(definePawl({ assets: [customers] }));
    const body = { keys: ["acme", "globex"] };
    await client.call("addPartitionKeys", { params: { asset_key: "customers" }, body });

    expect((await fill(client, "customers")).state).toBe("SUCCEEDED");
    expect(made.toSorted()).toEqual(["acme", "globex"]);
  });
});

test("externalAsset is made elsewhere, and what is made from it knows when", async () => {
  const partitions = daily({ start: "2025-01-01", end: "2025-01-03" });
  const orders = externalAsset("orders", { partitions });
  const report = asset("report", { partitions, upstream: [orders], materialize: () => undefined });
  const client = await serve(definePawl({ assets: [orders, report] }));
  const params = { asset_key: "orders" };
  const items = [{ selector: { type: "all" as const }, code_version: "shop 7" }];
  await client.call("reportPartitions", { params, body: { items } });
  expect(await fill(client, "report")).toMatchObject({ state: "SUCCEEDED" });
  await client.call("reportPartitions", { params, body: { items } });
  const { items: stale } = await client.call("listStalePartitions", { query: {} });
  expect(stale.map((each) => [each.asset_key, each.stale_reason])).toEqual([
    ["report", "UPSTREAM_CHANGED"],
    ["report", "UPSTREAM_CHANGED"],
  ]);
});

test("md says how facts about what was made are shown", async () => {
  const report = asset("report", {
    materialize: () => ({
      metadata: { rows: md.number(5, { unit: "rows" }), left: 1n, at: new Date(0) },
    }),
  });
  const client = await serve(definePawl({ assets: [report] }));
  const { run_id } = await client.call("requestRun", { body: { assets: ["report"] } });
  for await (const { type } of client.follow({ entity: run_id })) if (type === "RunFinished") break;
  const metadata = {
    rows: { type: "number", value: 5, unit: "rows" },
    at: "1970-01-01T00:00:00.000Z",
  };
  const params = { run_id, task_key: 0 };
  expect(await client.call("getTask", { params })).toMatchObject({ metadata });
  const { items } = await client.call("listTaskLogs", { params });
  expect(items.map(({ level, message }) => `${level}: ${message}`)).toEqual([
    'warn: A fact of the metadata is not kept: "left": a bigint cannot be written as JSON.',
  ]);
  const { items: partitions } = await client.call("listAssetPartitions", {
    params: { asset_key: "report" },
  });
  expect(partitions).toMatchObject([{ metadata }]);
});

describe("mappings", () => {
  const days = daily({ start: "2025-01-30", end: "2025-02-02" });
  const regions = staticPartitions(["eu", "us"]);

  /** In which order the tasks ran, as `asset partition`. */
  async function orderOf(make: (log: Materialize) => Project): Promise<string[]> {
    const order: string[] = [];
    const project = make(({ asset: key, partition }) => void order.push(`${key} ${partition}`));
    const client = await serve(project);
    const { backfills } = await client.call("createBackfill", {
      body: { assets: [...project.functions.keys()], selector: { type: "all" } },
    });
    const left = new Set(backfills.map(({ backfill_id }) => backfill_id));
    for await (const { data } of client.follow({ types: ["BackfillStateChanged"] })) {
      const { backfill_id, to_state } = data as { backfill_id: string; to_state: string };
      if (to_state === "SUCCEEDED") left.delete(backfill_id);
      if (left.size === 0) break;
    }
    return order;
  }

  test("lead from days to their month, to a dimension, to other keys and to all", async () => {
    const order = await orderOf((materialize) => {
      const orders = asset("orders", { partitions: multi({ day: days, regions }), materialize });
      const clean = asset("clean", {
        partitions: multi({ day: days, regions }),
        upstream: [{ asset: orders, mapping: identity() }],
        materialize,
      });
      const perDay = asset("per-day", {
        partitions: days,
        upstream: [{ asset: clean, mapping: dimension("day") }],
        materialize,
      });
      const perMonth = asset("per-month", {
        partitions: monthly({ start: "2025-01", end: "2025-03" }),
        upstream: [{ asset: perDay, mapping: timeWindow() }],
        materialize,
      });
      const halves = asset("halves", {
        partitions: staticPartitions(["first"]),
        upstream: [{ asset: perMonth, mapping: table({ first: ["2025-01", "2025-02"] }) }],
        materialize,
      });
      const report = asset("report", {
        upstream: [{ asset: halves, mapping: allPartitions() }],
        materialize,
      });
      return definePawl({ assets: [orders, clean, perDay, perMonth, halves, report] });
    });

    const kinds = order.map((line) => line.split(" ")[0]);
    expect(new Set(order).size).toBe(6 + 6 + 3 + 2 + 1 + 1);
    expect(order).toHaveLength(19);
    expect(kinds.slice(12)).toEqual([
      ...Array<string>(3).fill("per-day"),
      ...Array<string>(2).fill("per-month"),
      "halves",
      "report",
    ]);
    for (const key of order.filter((line) => line.startsWith("clean"))) {
      expect(order.indexOf(key.replace("clean", "orders"))).toBeLessThan(order.indexOf(key));
    }
  });

  test("lead from a day to the day before", () => {
    const balance = asset("balance", {
      partitions: days,
      upstream: [{ asset: "orders", mapping: offset(-1) }],
      materialize: () => undefined,
    });
    const orders = asset("orders", { partitions: days, materialize: () => undefined });
    const project = definePawl({ assets: [balance, orders] });

    expect(project.specs[0]).toMatchObject({
      upstream: [{ asset_key: "orders", mapping: { type: "offset", by: -1 } }],
    });
  });
});

describe("tasks", () => {
  const letters = staticPartitions(["a", "b", "c", "d"]);

  test("say what they mean with what they throw", async () => {
    // What they are made of can be told apart by code in between.
    const thrown = [skip("No."), doNotRetry("No."), retryAfter(1)];
    const kinds = [Skip, DoNotRetry, RetryAfter];
    expect(thrown.map((error, at) => error instanceof (kinds[at] ?? Error))).not.toContain(false);
    const attempts: string[] = [];
    const words = asset("words", {
      partitions: letters,
      retry: { delayMs: 1 },
      materialize({ partition, attempt }) {
        attempts.push(`${partition}${attempt}`);
        if (partition === "a") throw skip("There is nothing under a.");
        if (partition === "b") throw doNotRetry("The input of b is broken.");
        if (partition === "c" && attempt === 1) throw retryAfter(10, "The source is busy.");
      },
    });
    const backfill = await fill(await serve(definePawl({ assets: [words] })), "words");

    expect(attempts.toSorted()).toEqual(["a1", "b1", "c1", "c2", "d1"]);
    expect(backfill).toMatchObject({
      state: "FAILED",
      partitions_failed: 1,
      partitions_skipped: 1,
      first_error: { class: "user", message: "The input of b is broken." },
    });
  });

  test("are judged by check after they succeeded", async () => {
    const words = asset("words", {
      partitions: letters,
      materialize: ({ partition }) => ({ metadata: { rows: partition === "b" ? 0 : 2 } }),
      checks: [check("not_empty", ({ metadata }) => Number(metadata["rows"]) > 0)],
    });
    const client = await serve(definePawl({ assets: [words] }));
    expect(await fill(client, "words")).toMatchObject({ state: "SUCCEEDED" });
    const query = { checks: "FAILED" };
    const params = { asset_key: "words" };
    const { items } = await client.call("listAssetPartitions", { params, query });
    expect(items).toMatchObject([{ partition_key: "b", failed_checks: [{ name: "not_empty" }] }]);
  });

  test("are made by shell, python, sql and dbt, without a function", async () => {
    const folder = mkdtempSync(join(tmpdir(), "pawl-made-"));
    stops.push(async () => rmSync(folder, { recursive: true, force: true }));
    needPython();
    writeFileSync(join(folder, "c.py"), "import os; print(os.environ['PAWL_PARTITION'])\n");
    const program = join(folder, "dbt");
    writeFileSync(program, '#!/bin/sh\n[ "$1 $2 $3" = "run --select words" ]\n', { mode: 0o755 });
    const database = join(folder, "words.db");
    const partitions = staticPartitions(["a", "b"]);
    const made: [string, Materialize][] = [
      ["commands", shell('test "$PAWL_PARTITION" != c')],
      ["scripts", python("c.py", { cwd: folder })],
      ["statements", sql("create table if not exists words (w); select :partition", { database })],
      ["models", dbt({ select: "words", dbt: program })],
    ];
    const assets = made.map(([key, materialize]) => asset(key, { partitions, materialize }));
    const keys = assets.map(({ key }) => key);
    const backfill = await fill(await serve(definePawl({ assets })), ...keys);

    expect(backfill).toMatchObject({ state: "SUCCEEDED", partitions_succeeded: 8 });
  });

  test("of a pool run no more at once than it allows", async () => {
    const api = pool("api", { limit: 2 });
    let running = 0;
    let most = 0;
    const words = asset("words", {
      partitions: letters,
      pool: api,
      async materialize() {
        running++;
        most = Math.max(most, running);
        await new Promise((resolve) => setTimeout(resolve, 20));
        running--;
      },
    });
    const client = await serve(definePawl({ assets: [words], pools: [api] }));

    expect((await fill(client, "words")).state).toBe("SUCCEEDED");
    expect(most).toBe(2);
  });
});

test("schedules, sensors and webhooks are published with the assets they are about", async () => {
  const visits = asset("visits", {
    partitions: daily({ start: "2025-01-01" }),
    materialize: () => undefined,
  });
  const target = { assets: visits, partition: "{partition_key}" };
  const project = definePawl({
    assets: [visits],
    schedules: [schedule("nightly", { cron: "0 2 * * *", assets: visits, selection: "previous" })],
    sensors: [
      sensor("files", {
        watch: newFiles({ folder: ".", pattern: "*.csv" }),
        target: { ...target, partition: "{stem}" },
        enabled: false,
      }),
      sensor("objects", {
        watch: newObjects({ list: () => [] }),
        evaluate: ({ items, request }) => {
          for (const { stem } of items) request({ assets: visits, partition: stem });
        },
      }),
      sensor("rows", {
        watch: newRows({ databaseEnv: "SENSOR_ORDERS", table: "orders", watermark: "id" }),
        target: { ...target, partition: "{day}" },
        enabled: false,
      }),
      sensor("made", { watch: materializationsOf("visits"), target, enabled: false }),
      sensor("failed", { watch: runFailures(), evaluate: () => undefined }),
    ],
    webhooks: [webhook("alerts", { url: "https://example.com/hook", on: ["run.failed"] })],
  });
  const client = await serve(project);

  const { items } = await client.call("listEvents", { query: { types: "DefinitionsPublished" } });

  expect(JSON.stringify(items)).toContain("nightly");
  expect([...project.sensors.keys()]).toEqual(["objects", "failed"]);
});

test("a sync copies a range of numbers, whatever its source says in between", async () => {
  const answers = [
    throttled("Not so fast.", { retryAfterMs: 10 }),
    rangeTooLarge("Not so many.", { suggestedSize: 40 }),
    sourceLagging("Not yet."),
    sourceUnavailable("Not now."),
  ];
  const kinds = [Throttled, RangeTooLarge, SourceLagging, SourceUnavailable];
  expect(answers.map((answer, at) => answer instanceof (kinds[at] ?? Error))).not.toContain(false);
  const copied = new Set<number>();
  const numbers = sync("numbers", {
    targets: [{ of: "one" }],
    from: 1,
    to: 100,
    retry: { delayMs: 1 },
    async fetch({ from, to }) {
      const answer = answers.shift();
      if (answer !== undefined) throw answer;
      for (let number = from; number <= to; number++) copied.add(number);
    },
  });
  const client = await serve(definePawl({ syncs: [numbers] }));
  for await (const { data } of client.follow({ types: ["SyncStateChanged"] })) {
    if ((data as { to_state: string }).to_state === "COMPLETE") break;
  }

  expect(copied.size).toBe(100);
  const found = await client.call("getSync", { params: { sync: "numbers@of=one" } });
  expect(found).toMatchObject({ status: "COMPLETE", synced_to: 100, retry_count: 2 });
});

/** Two SQLite files with a table of notes, of which one has some. */
function openNotes(): {
  file: (name: string) => string;
  db: (name: string) => Database.Database;
} {
  const folder = mkdtempSync(join(tmpdir(), "pawl-notes-"));
  const file = (name: string): string => join(folder, `${name}.db`);
  const opened = new Map(["north", "south"].map((name) => [name, new Database(file(name))]));
  stops.push(async () => {
    for (const db of opened.values()) db.close();
    rmSync(folder, { recursive: true });
  });
  for (const db of opened.values()) {
    db.pragma("journal_mode = wal");
    db.exec(
      "create table notes (tenant_id text, id integer, text text, primary key (tenant_id, id))",
    );
  }
  const db = (name: string): Database.Database => opened.get(name) ?? new Database(file(name));
  for (let id = 0; id < 100; id++) {
    db("north")
      .prepare("insert into notes values (?, ?, ?)")
      .run(`t${id % 4}`, id, `note ${id}`);
  }
  return { file, db };
}

test("a split takes a tenant to another shard, and the router follows it", async () => {
  const { file, db } = openNotes();
  const project = definePawl({
    shards: shards({
      shards: { north: sqliteShard(file("north")), south: sqliteShard(file("south")) },
      tables: { notes: "tenant_id" },
    }),
  });
  const client = await serve(project);
  const router = createRouter({ client, shards: { north: db("north"), south: db("south") } });
  await client.call("changeRouting", { body: { default_shard: "north", routes: [] } });
  const write = (id: number) =>
    router.write("t1", (notes) => notes.prepare("insert into notes values ('t1', ?, '')").run(id));
  await write(1_000);
  const body = { source: "north", target: "south", tenants: ["t1"], auto_cutover: true };
  const params = { split: (await client.call("planSplit", { body })).split_id };
  const reached = async (phase: string, isIdle: boolean): Promise<void> => {
    for await (const _ of client.follow({ entity: params.split })) {
      const split = await client.call("getSplit", { params, query: {} });
      const isBusy = (split.step?.state ?? null) !== null;
      if (split.phase === phase && !(isIdle && isBusy)) return;
    }
  };
  await reached("planning", true);
  await client.call("startDualWrite", { params, body: {} });
  await reached("dual_write", true);
  await client.call("runSplitBackfill", { params, body: {} });
  await reached("reversible", false);

  await write(1_001);

  expect(await router.routeOf("t1")).toMatchObject({ shard: "south", epoch: 2 });
  const count = "select count(*) from notes where tenant_id = 't1'";
  expect(await router.read("t1", (notes) => notes.prepare(count).pluck().get())).toBe(27);
  await router.close();
});

test("a move takes rows from one topology to another", async () => {
  const { file, db } = openNotes();
  const everywhere = byHash(["north", "south", "south"]);
  const project = definePawl({
    shards: shards({
      shards: { north: sqliteShard(file("north")), south: sqliteShard(file("south")) },
      tables: { notes: "tenant_id" },
    }),
    moves: [
      move("spread", { from: byTenant({}, "north"), to: everywhere }),
      move("by-name", {
        from: everywhere,
        to: byRange([{ below: "t2", shard: "north" }, { shard: "south" }]),
      }),
    ],
  });
  const client = await serve(project);
  for (const name of ["spread", "by-name"]) {
    const { move_id } = await client.call("planMove", { body: { move: name } });
    await client.call("startMove", { params: { move: move_id }, body: {} });
    for await (const { type, data } of client.follow({ entity: move_id })) {
      if (type === "MoveStateChanged" && (data as { to_state: string }).to_state === "COMPLETE")
        break;
    }
  }

  const tenants = (name: string): unknown =>
    db(name).prepare("select distinct tenant_id from notes order by 1").pluck().all();
  expect([tenants("north"), tenants("south")]).toEqual([
    ["t0", "t1"],
    ["t2", "t3"],
  ]);
});

test("shards can be in PostgreSQL and on other machines", () => {
  const { spec } = shards({
    shards: {
      near: postgresShard("postgres://app@db/near"),
      far: httpShard("http://10.0.0.7:7400", { token: "of the shard's server" }),
    },
    tables: { notes: "tenant_id" },
  });

  expect(spec.shards).toEqual([
    { shard: "near", engine: "postgres" },
    { shard: "far", engine: "sqlite" },
  ]);
});

test("createClient gives the server's refusals as PawlError with their code", async () => {
  const client = await serve(definePawl({ assets: [] }));

  const refusal: unknown = await fill(client, "nothing").catch((error: unknown) => error);

  expect(refusal).toBeInstanceOf(PawlError);
  expect(refusal).toMatchObject({ code: "ASSET_NOT_FOUND", retryable: false });
});
