import { join } from "node:path";
import Database from "better-sqlite3";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { createRouter } from "../../src/shards/router/create-router.ts";
import { type Api, startApi } from "./api-server.ts";
import { publishShards } from "./shard-hand.ts";

describe("a router and a server", () => {
  let api: Api;
  let dbs: { a: Database.Database; b: Database.Database };

  beforeEach(async () => {
    api = await startApi();
    await publishShards(api.client);
    const open = (name: string) => {
      const db = new Database(join(api.folder, name));
      db.exec("create table items (id integer primary key, tenant text not null)");
      return db;
    };
    dbs = { a: open("a.db"), b: open("b.db") };
  });
  afterEach(async () => {
    dbs.a.close();
    dbs.b.close();
    await api.close();
  });

  const insert = (tenant: string) => (db: Database.Database) =>
    void db.prepare("insert into items (tenant) values (?)").run(tenant);
  const tenants = (db: Database.Database): unknown[] =>
    db.prepare("select tenant from items order by id").pluck().all();

  test("finds tenants by default, by a route of their own, and not at all", async () => {
    const router = createRouter({ url: api.url, shards: dbs });
    await expect(router.write("acme", insert("acme"))).rejects.toMatchObject({
      code: "SHARD_NOT_FOUND",
      message: expect.stringContaining("pawl routing set"),
    });
    const odd = "a/b c%2F?";
    const routes = [{ tenant: odd, shard: "b" }];
    await api.client.call("changeRouting", { body: { default_shard: "a", routes } });
    await router.write("acme", insert("acme"));
    await router.write(odd, insert(odd));
    expect(await router.routeOf(odd)).toEqual({ tenant: odd, shard: "b", epoch: 1 });
    expect(tenants(dbs.a)).toEqual(["acme"]);
    expect(tenants(dbs.b)).toEqual([odd]);
    await router.close();
  });

  test("hears of a route that somebody set by hand when its own has got old", async () => {
    await api.client.call("changeRouting", { body: { default_shard: "a" } });
    const router = createRouter({ client: api.client, shards: dbs, refreshMs: 0 });
    expect(await router.routeOf("acme")).toMatchObject({ shard: "a", epoch: 1 });
    const routes = [{ tenant: "acme", shard: "b" }];
    await api.client.call("changeRouting", { body: { routes } });
    await expect.poll(() => router.routeOf("acme")).toMatchObject({ shard: "b", epoch: 2 });
    await router.close();
  });

  test("goes on without the server, for the tenants that it has met", async () => {
    await api.client.call("changeRouting", { body: { default_shard: "a" } });
    const router = createRouter({ url: api.url, shards: dbs, retryDelaysMs: [] });
    await router.write("acme", insert("acme"));
    await api.stopServer();
    await router.write("acme", insert("acme"));
    expect(tenants(dbs.a)).toEqual(["acme", "acme"]);
    await expect(router.read("other", () => null)).rejects.toMatchObject({
      code: "SERVER_UNREACHABLE",
    });
    await router.close();
  });

  test("wants a token that the server takes", async () => {
    await api.close();
    api = await startApi({ tokensRequired: true });
    const shards = dbs;
    const stranger = createRouter({ url: api.url, shards, token: "pawl_nobody" });
    await expect(stranger.routeOf("acme")).rejects.toMatchObject({ code: "UNAUTHORIZED" });
    const { token } = await api.clientOf(0, ["read"]);
    const router = createRouter({ url: api.url, shards, token });
    await expect(router.routeOf("acme")).rejects.toMatchObject({ code: "SHARD_NOT_FOUND" });
  });
});
