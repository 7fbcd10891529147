import { createServer } from "node:http";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import { type EmbeddedPawl, type PawlOptions, startPawl } from "../../src/embedded/index.ts";
import {
  asset,
  createClient,
  definePawl,
  integers,
  type Project,
  sensor,
} from "../../src/index.ts";
import { freshDatabaseUrl } from "../postgres.ts";

const numbers = (make: () => void | Promise<void> = () => undefined): Project =>
  definePawl({
    assets: [asset("numbers", { partitions: integers({ start: 0, end: 8 }), materialize: make })],
  });

const ALL = { assets: ["numbers"], selector: { type: "all" as const } };

const started: EmbeddedPawl[] = [];
const folders: string[] = [];

afterEach(async () => {
  for (const pawl of started.splice(0)) await pawl.stop();
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true });
});

function freshFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "pawl-embedded-"));
  folders.push(folder);
  return folder;
}

async function begin(options: PawlOptions): Promise<EmbeddedPawl> {
  const pawl = await startPawl(options);
  started.push(pawl);
  return pawl;
}

async function fill({ client }: EmbeddedPawl): Promise<string> {
  const { backfill_id } = await client.call("createBackfill", { body: ALL });
  return (await client.backfills.waitFor(backfill_id)).state;
}

describe.each([
  { name: "SQLite", store: async () => freshFolder() },
  { name: "PostgreSQL", store: () => freshDatabaseUrl() },
])("on $name", ({ store: freshStore }) => {
  test("makes what the project defines, keeps it, and goes on with it after a stop", async () => {
    const store = await freshStore();
    let calls = 0;
    const project = numbers(() => void calls++);
    const first = await begin({ project, store });
    expect(first.url).toBeNull();
    expect(await fill(first)).toBe("SUCCEEDED");
    await first.stop();
    // As often as somebody likes.
    await first.stop();

    const second = await begin({ project, store });
    const { items } = await second.client.call("listBackfills");
    expect(items.map(({ state }) => state)).toEqual(["SUCCEEDED"]);
    expect(calls).toBe(8);
  });

  test("gives back what runs when it stops, and another takes it up", async () => {
    const store = await freshStore();
    const entered = Promise.withResolvers<void>();
    const stuck = numbers(() => {
      entered.resolve();
      return new Promise<void>(() => undefined);
    });
    const first = await begin({ project: stuck, store, concurrency: 2, stopGraceMs: 0 });
    const { backfill_id } = await first.client.call("createBackfill", { body: ALL });
    await entered.promise;
    await first.stop();

    const second = await begin({ project: numbers(), store });
    const ended = await second.client.backfills.waitFor(backfill_id);
    expect(ended).toMatchObject({ state: "SUCCEEDED", partitions_succeeded: 8 });
  });
});

test("refuses a folder that another one works on", async () => {
  const store = freshFolder();
  await begin({ project: numbers(), store });
  await expect(startPawl({ project: numbers(), store })).rejects.toMatchObject({
    code: "STORE_LOCKED",
  });
});

test("takes back what it had begun when it cannot listen", async () => {
  const store = freshFolder();
  const { port } = new URL((await begin({ project: numbers(), store, port: 0 })).url ?? "");
  const other = freshFolder();
  const taken = { project: numbers(), store: other, port: Number(port) };
  await expect(startPawl(taken)).rejects.toMatchObject({ code: "PORT_IN_USE" });
  expect(await fill(await begin({ project: numbers(), store: other }))).toBe("SUCCEEDED");
});

test.each([
  [{ port: 70_000 }, "startPawl(), port: expected at most 65535, got 70000."],
  [{ leaseMs: 1 }, "startPawl(), lease_ms: expected at least 3000, got 1."],
  [{ store: "postgres:" }, "startPawl(), database_url: expected a URL"],
  [{ store: "mysql://a@b/c" }, "startPawl(): store is a mysql:// URL; expected the path of"],
  [{ concurrency: -1 }, "startPawl(), concurrency: expected at least 1, got -1."],
  [{ ports: 1 }, "startPawl() has no option ports. Did you mean port?"],
  [{ host: "0.0.0.0", tokensRequired: false }, "expected true while the host is 0.0.0.0"],
])("says what is wrong with %j", async (options, message) => {
  const store = freshFolder();
  await expect(startPawl({ project: numbers(), store, ...options })).rejects.toThrow(message);
});

test("says what is wrong with a project", async () => {
  const store = freshFolder();
  const nothing = JSON.parse("{}") as Project;
  await expect(startPawl({ project: nothing, store })).rejects.toMatchObject({
    code: "CONFIG_INVALID",
  });
  const missing = join(store, "pawl.config.ts");
  await expect(startPawl({ project: missing, store })).rejects.toThrow(
    `There is no file ${missing}`,
  );
});

test("loads a project from its file", async () => {
  const folder = freshFolder();
  const file = join(folder, "pawl.config.ts");
  writeFileSync(
    file,
    `import { asset, definePawl, integers } from "pawl";
    const partitions = integers({ start: 0, end: 8 });
    export default definePawl({ assets: [asset("numbers", { partitions, materialize() {} })] });`,
  );
  expect(await fill(await begin({ project: file, store: join(folder, "data") }))).toBe("SUCCEEDED");
});

test("listens where it is told, to clients and workers of other processes", async () => {
  const pawl = await begin({ project: numbers(), store: freshFolder(), port: 0 });
  const client = createClient({ url: pawl.url ?? "" });
  const { items } = await client.call("listAssets");
  expect(items.map(({ asset_key }) => asset_key)).toEqual(["numbers"]);
  await pawl.stop();
  await expect(client.call("listAssets")).rejects.toMatchObject({ code: "SERVER_UNREACHABLE" });
});

describe("requests that come by a handler", () => {
  const path = "/api/v1/orchestration/assets";

  test("need a token, unless told otherwise", async () => {
    const pawl = await begin({ project: numbers(), store: freshFolder() });
    const ask = (headers: Record<string, string>): Promise<Response> =>
      pawl.fetch(new Request(`http://shop.example${path}`, { headers }));
    expect((await ask({})).status).toBe(401);
    const { token } = await pawl.client.call("createToken", {
      body: { principal: "web", verbs: ["read"] },
    });
    expect((await ask({ authorization: `Bearer ${token}` })).status).toBe(200);
  });

  test("are refused once it was stopped", async () => {
    const pawl = await begin({ project: numbers(), store: freshFolder(), tokensRequired: false });
    const ask = () => pawl.fetch(new Request(`http://localhost${path}`));
    expect((await ask()).status).toBe(200);
    await pawl.stop();

    const answer = await ask();
    expect(answer.status).toBe(503);
    expect(await answer.json()).toMatchObject({ code: "STORE_UNAVAILABLE" });
  });

  test("are answered without one on names that are allowed", async () => {
    const options = { project: numbers(), store: freshFolder(), tokensRequired: false };
    const pawl = await begin({ ...options, hosts: ["shop.example"] });
    const ask = async (host: string): Promise<number> =>
      (await pawl.fetch(new Request(`http://${host}${path}`))).status;
    expect([await ask("shop.example"), await ask("other.example")]).toEqual([200, 403]);
  });

  test("may come from a server of Node, whose process stays as it is", async () => {
    const globals = [globalThis.Request, globalThis.Response];
    const pawl = await begin({
      project: numbers(),
      store: freshFolder(),
      tokensRequired: false,
    });
    const server = createServer(pawl.handle);
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const { port } = server.address() as AddressInfo;
    const client = createClient({ url: `http://127.0.0.1:${port}` });
    const { backfill_id } = await client.call("createBackfill", { body: ALL });
    expect(await client.backfills.waitFor(backfill_id)).toMatchObject({ state: "SUCCEEDED" });
    expect([globalThis.Request, globalThis.Response]).toEqual(globals);
    server.closeAllConnections();
    server.close();
  });
});

test("without slots it only serves, and publishes what is defined", async () => {
  const pawl = await begin({ project: numbers(), store: freshFolder(), concurrency: 0 });
  const { backfill_id } = await pawl.client.call("createBackfill", { body: ALL });
  await expect(
    pawl.client.backfills.waitFor(backfill_id, { timeoutMs: 300 }),
  ).rejects.toMatchObject({ code: "NOT_YET" });
});

test("a tick works until nothing is left, and says so", async () => {
  const looked: (string | null)[] = [];
  const watcher = sensor("watcher", {
    evaluate({ cursor, setCursor }) {
      looked.push(cursor);
      setCursor("1");
    },
  });
  const project = definePawl({ sensors: [watcher] });
  const pawl = await begin({ project, store: freshFolder() });
  const pass = await pawl.tick({ forMs: 60_000 });
  expect(pass.idle).toBe(true);
  expect(looked).toEqual([null]);
  await expect(pawl.tick({ forMs: -1 })).rejects.toThrow("forMs: expected milliseconds from 0");
});
