import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Database from "better-sqlite3";
import pg from "pg";
import { serveShard } from "../../src/cli/base/serve-shard.ts";
import { type Client, createClient } from "../../src/client/client.ts";
import { httpShard } from "../../src/define/shards.ts";
import { openHttpShard } from "../../src/shards/http/open-http-shard.ts";
import { openPostgresShard } from "../../src/shards/postgres/open-postgres-shard.ts";
import {
  type RouterOptions,
  type ShardConnection,
  createRouter,
} from "../../src/shards/router/create-router.ts";
import type { Fence, Shard } from "../../src/shards/shard.ts";
import { openSqliteShard } from "../../src/shards/sqlite/open-sqlite-shard.ts";
import { tenantScope } from "../../src/work/shard/spec.ts";
import { freshDatabaseUrl } from "../postgres.ts";
import { applying, chunkOf, GUARD, shapeOf } from "./conformance/stage.ts";

export { GUARD };

/** The tenant that most tests are about. */
export const TENANT = "acme";

export type Side = "a" | "b";

const ITEMS =
  "create table items (id integer primary key, tenant text not null, n integer not null)";

/** The routing of a server, in this process. */
export class Routing {
  readonly routes = new Map<string, { shard: string; epoch: number }>();
  isAway = false;
  asked = 0;

  client(): Client {
    return createClient({
      url: "http://pawl.test",
      retryDelaysMs: [],
      fetch: (request) => {
        this.asked++;
        if (this.isAway) throw new TypeError("fetch failed", { cause: { code: "ECONNREFUSED" } });
        const tenant = new URL(request.url).searchParams.get("tenant") ?? "";
        const own = this.routes.get(tenant);
        const route = own ?? { shard: "a", epoch: 1 };
        return Response.json({ tenant, own: own !== undefined, version: route.epoch, ...route });
      },
    });
  }
}

/** How an application writes and reads through a router, whatever its shards are kept in. */
export type Application = {
  /** Adds an item in one transaction. `onRun` is told each time the work is run. */
  readonly insert: (tenant: string, id: number, onRun?: () => void) => Promise<void>;
  /** Adds 1 to the item's number. */
  readonly increment: (tenant: string, id: number) => Promise<void>;
  /** Adds an item and fails in the same transaction. */
  readonly insertAndFail: (tenant: string, id: number) => Promise<void>;
  /** The ids of a tenant's items. */
  readonly ids: (tenant: string) => Promise<number[]>;
  readonly close: () => Promise<void>;
};

/** Two shards of one kind, the routing over them, and applications. */
export type RouterStage = {
  readonly shards: Readonly<Record<Side, Shard>>;
  readonly routing: Routing;
  /** Starts an application with a router of its own. */
  application(options?: { waitMs?: number }): Application;
  /** Runs plain SQL, past every fence, and gives its rows as arrays. */
  sql(side: Side, text: string): Promise<unknown[][]>;
  close(): Promise<void>;
};

export const INSERT = "insert into items (id, tenant, n) values";
export const INCREMENT = "update items set n = n + 1 where id =";
export const IDS = "select id from items where tenant =";

const failure = (): Error => new Error("the work fails");

type Options = Pick<RouterOptions<Record<string, ShardConnection>>, "waitMs">;

/** Shards in PostgreSQL databases. */
export async function postgresStage(): Promise<RouterStage> {
  const urls = { a: await freshDatabaseUrl(), b: await freshDatabaseUrl() };
  const pools = {
    a: new pg.Pool({ connectionString: urls.a, max: 10 }),
    b: new pg.Pool({ connectionString: urls.b, max: 10 }),
  };
  const sql = async (side: Side, text: string): Promise<unknown[][]> =>
    (await pools[side].query<unknown[]>({ text, rowMode: "array" })).rows;
  for (const side of ["a", "b"] as const) await sql(side, ITEMS);
  const shards = {
    a: await openPostgresShard({ connectionString: urls.a }),
    b: await openPostgresShard({ connectionString: urls.b }),
  };
  const routing = new Routing();

  function application(options: Options = {}): Application {
    const router = createRouter({ client: routing.client(), shards: pools, ...options });
    return {
      insert: (tenant, id, onRun) =>
        router.write(tenant, async (client) => {
          onRun?.();
          await client.query(`${INSERT} ($1, $2, 0)`, [id, tenant]);
        }),
      increment: (tenant, id) =>
        router.write(tenant, async (client) => {
          await client.query(`${INCREMENT} $1`, [id]);
        }),
      insertAndFail: (tenant, id) =>
        router.write(tenant, async (client) => {
          await client.query(`${INSERT} ($1, $2, 0)`, [id, tenant]);
          throw failure();
        }),
      ids: (tenant) =>
        router.read(tenant, async (client) => {
          const { rows } = await client.query<{ id: number }>(`${IDS} $1 order by id`, [tenant]);
          return rows.map(({ id }) => id);
        }),
      close: () => router.close(),
    };
  }

  return {
    shards,
    routing,
    application,
    sql,
    async close() {
      for (const side of ["a", "b"] as const) {
        await shards[side].close();
        await pools[side].end();
      }
    },
  };
}

/** Two empty files with the tables of the tests. */
function freshFiles(): { files: Record<Side, string>; remove: () => void } {
  const folder = mkdtempSync(join(tmpdir(), "pawl-router-"));
  const files = { a: join(folder, "a.db"), b: join(folder, "b.db") };
  for (const file of Object.values(files)) {
    const db = new Database(file);
    db.pragma("journal_mode = wal");
    db.exec(ITEMS);
    db.close();
  }
  return { files, remove: () => rmSync(folder, { recursive: true, force: true }) };
}

function fileSql(files: Record<Side, string>) {
  return async (side: Side, text: string): Promise<unknown[][]> => {
    const db = new Database(files[side]);
    try {
      const statement = db.prepare<[], unknown[]>(text);
      if (statement.reader) return statement.raw().all();
      statement.run();
      return [];
    } finally {
      db.close();
    }
  };
}

/** Shards in files of this machine. */
export async function sqliteStage(): Promise<RouterStage> {
  const { files, remove } = freshFiles();
  const shards = {
    a: await openSqliteShard({ file: files.a }),
    b: await openSqliteShard({ file: files.b }),
  };
  const dbs = { a: new Database(files.a), b: new Database(files.b) };
  const routing = new Routing();

  function application(options: Options = {}): Application {
    const router = createRouter({ client: routing.client(), shards: dbs, ...options });
    return {
      insert: (tenant, id, onRun) =>
        router.write(tenant, (db) => {
          onRun?.();
          db.prepare(`${INSERT} (?, ?, 0)`).run(id, tenant);
        }),
      increment: (tenant, id) =>
        router.write(tenant, (db) => void db.prepare(`${INCREMENT} ?`).run(id)),
      insertAndFail: (tenant, id) =>
        router.write(tenant, (db) => {
          db.prepare(`${INSERT} (?, ?, 0)`).run(id, tenant);
          throw failure();
        }),
      ids: (tenant) =>
        router.read(tenant, (db) =>
          db.prepare<[string], number>(`${IDS} ? order by id`).pluck().all(tenant),
        ),
      close: () => router.close(),
    };
  }

  return {
    shards,
    routing,
    application,
    sql: fileSql(files),
    async close() {
      for (const side of ["a", "b"] as const) {
        await shards[side].close();
        dbs[side].close();
      }
      remove();
    },
  };
}

export const TOKEN = "a-token-of-the-tests";

/** Shards that are served over HTTP. */
export async function httpStage(): Promise<RouterStage> {
  const { files, remove } = freshFiles();
  const serve = (file: string) => serveShard({ file, token: TOKEN, host: "127.0.0.1", port: 0 });
  const servers = { a: await serve(files.a), b: await serve(files.b) };
  const address = (side: Side) => httpShard(servers[side].url, { token: TOKEN });
  const shards = { a: await openHttpShard(address("a")), b: await openHttpShard(address("b")) };
  const routing = new Routing();

  function application(options: Options = {}): Application {
    const addresses = { a: address("a"), b: address("b") };
    const router = createRouter({ client: routing.client(), shards: addresses, ...options });
    return {
      insert: async (tenant, id, onRun) => {
        await router.write(tenant, (batch) => {
          onRun?.();
          batch.mutate(`${INSERT} (?, ?, 0)`, [id, tenant]);
        });
      },
      increment: async (tenant, id) => {
        await router.write(tenant, (batch) => batch.mutate(`${INCREMENT} ?`, [id]));
      },
      insertAndFail: (tenant, id) =>
        router.write(tenant, (batch) => {
          batch.mutate(`${INSERT} (?, ?, 0)`, [id, tenant]);
          throw failure();
        }),
      ids: (tenant) =>
        router.read(tenant, async (reading) => {
          const { rows } = await reading.query(`${IDS} ? order by id`, [tenant]);
          return rows.map(({ id }) => Number(id));
        }),
      close: () => router.close(),
    };
  }

  return {
    shards,
    routing,
    application,
    sql: fileSql(files),
    async close() {
      for (const side of ["a", "b"] as const) {
        await shards[side].close();
        await servers[side].stop();
      }
      remove();
    },
  };
}

/** Makes the tenant's fences on both shards: at home on `a` under epoch 1, expected on `b`. */
export async function arm({ shards }: RouterStage): Promise<void> {
  for (const shard of Object.values(shards)) {
    await shard.install();
    await shard.take(GUARD);
    const shapes = await shard.describe([{ table: "items", shard_by: "tenant" }]);
    await shard.armCapture(GUARD, shapes);
  }
  await setFence(shards.b, "incoming", 1, "a");
  await setFence(shards.a, "open", 1);
}

/** Sets the tenant's fence on a shard. */
export async function setFence(
  shard: Shard,
  state: Fence["state"],
  epoch: number,
  place: string | null = null,
): Promise<void> {
  await shard.setFences(GUARD, [{ tenant: TENANT, epoch, state, shard: place }]);
}

/** Closes the tenant's fence on `a`, for longer than any test takes. */
export async function closeFence({ shards }: RouterStage): Promise<void> {
  await shards.a.closeFences(GUARD, [TENANT], { waitMs: 20_000, holdMs: 60_000 });
}

/** Carries the tenant's items from `a`, where its fence is closed, to `b`, and opens it there. */
export async function carryOver({ shards, routing }: RouterStage): Promise<void> {
  const { a, b } = shards;
  const shape = await shapeOf(a, "items");
  const scope = tenantScope([TENANT]);
  const { chunk } = await a.read(chunkOf(shape, { scope, limit: 10_000 }));
  if (chunk?.ended !== true) throw new Error("There are more items than a test should have.");
  await b.apply(applying([shape], { scope, chunk: { table: "items", rows: chunk.rows } }));
  await a.holdFences(GUARD, [TENANT]);
  routing.routes.set(TENANT, { shard: "b", epoch: 2 });
  await setFence(a, "moved", 2, "b");
  await setFence(b, "open", 2);
}
