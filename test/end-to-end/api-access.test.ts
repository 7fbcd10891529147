import { connect } from "node:net";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { createClient } from "../../src/client/client.ts";
import { createApp } from "../../src/server/http/app.ts";
import { startServer } from "../../src/server/start-server.ts";
import { ALL_ORDERS, type Api, publish, startApi, type TokenClient } from "./api-server.ts";

const BASE = "/api/v1/orchestration";

let api: Api;
let ours: TokenClient;
let theirs: TokenClient;

beforeAll(async () => {
  api = await startApi({ workspaces: ["ours", "theirs"], tokensRequired: true });
  ours = await api.clientOf(0, ["read", "write", "work", "admin"], "alice");
  theirs = await api.clientOf(1, ["read", "write", "work", "admin"], "bob");
  await publish(ours);
  await publish(theirs);
});

afterAll(() => api.close());

describe("tokens", () => {
  test("a request without a token, or with one that is no good, gets 401", async () => {
    const bad = [
      undefined,
      "Bearer",
      "Bearer nonsense",
      `Bearer ${ours.token.slice(0, -1)}${ours.token.endsWith("0") ? "1" : "0"}`,
      `Basic ${ours.token}`,
      `Bearer pawl_${theirs.tokenId}_${ours.token.split("_")[2]}`,
    ];
    for (const authorization of bad) {
      const headers: Record<string, string> = authorization === undefined ? {} : { authorization };
      for (const path of [`${BASE}/runs`, "/metrics"]) {
        const answer = await api.send("GET", path, { headers });
        expect(answer.status).toBe(401);
        expect(answer.headers.get("www-authenticate")).toBe("Bearer");
      }
    }
    expect((await api.send("GET", "/livez")).status).toBe(200);
    expect((await api.send("GET", "/openapi.json")).status).toBe(200);
    const ready = await api.client.call("readyz");
    expect(ready).toMatchObject({ status: "ok", unsafe: null, reasons: [] });
    expect(ready.store).not.toContain(api.folder);
  });

  test("a token may do what its verbs say, and nothing else", async () => {
    const reader = await api.clientOf(0, ["read"]);
    await reader.call("listRuns");
    const forbidden = { code: "FORBIDDEN" };
    const tick = reader.call("tick");
    await expect(tick).rejects.toMatchObject(forbidden);
    await expect(reader.call("listTokens")).rejects.toMatchObject(forbidden);
    const worker = await api.clientOf(0, ["work"]);
    await expect(worker.call("listRuns")).rejects.toMatchObject(forbidden);
  });

  test("I68: a revoked token is refused from the next request on", async () => {
    const made = await ours.call("createToken", { body: { principal: "ci", verbs: ["read"] } });
    const client = createClient({ url: api.url, token: made.token });
    await client.call("listRuns");
    const { items } = await ours.call("listTokens");
    expect(items.map(({ token_id }) => token_id)).toContain(made.token_id);
    expect(JSON.stringify(items)).not.toContain(made.token.split("_")[2]);
    const params = { token_id: made.token_id };
    expect(await ours.call("revokeToken", { params })).toMatchObject({ revoked: true });
    await expect(client.call("listRuns")).rejects.toMatchObject({ code: "UNAUTHORIZED" });
    const unknown = { token_id: "000000000000" };
    expect(await ours.call("revokeToken", { params: unknown })).toMatchObject({ revoked: false });
  });

  test("I68: a token ends at its time", async () => {
    const body = { principal: "brief", verbs: ["read" as const], expires_in_seconds: 1 };
    const made = await ours.call("createToken", { body });
    const client = createClient({ url: api.url, token: made.token });
    await client.call("listRuns");
    const ended = async () => {
      try {
        await client.call("listRuns");
        return null;
      } catch (error) {
        return (error as { code: string }).code;
      }
    };
    await expect.poll(ended).toBe("UNAUTHORIZED");
    const anHourAgo = Date.now() - 3_600_000;
    const clock = vi.spyOn(Date, "now").mockImplementation(() => anHourAgo);
    const afterwards = await ended();
    clock.mockRestore();
    expect(afterwards).toBe("UNAUTHORIZED");
  });

  test("I69: a change names who made it, with which token, in which request", async () => {
    const answer = await api.send("POST", `${BASE}/runs`, {
      body: { assets: ["report"] },
      headers: {
        authorization: `Bearer ${ours.token}`,
        "idempotency-key": "audited",
        "x-request-id": "request-7",
      },
    });
    expect(answer.headers.get("x-request-id")).toBe("request-7");
    const { accepted_pos } = (await answer.json()) as { accepted_pos: number };
    const { items } = await ours.call("listEvents", {
      query: { after: accepted_pos - 1, limit: 1 },
    });
    expect(items[0]).toMatchObject({
      actor: { principal: "alice", token_id: ours.tokenId },
      correlation_id: "request-7",
    });
    expect(JSON.stringify(items)).not.toContain(ours.token.split("_")[2]);
  });

  test("I69: what was denied is counted", async () => {
    await api.send("GET", `${BASE}/runs`);
    const headers = { authorization: `Bearer ${ours.token}` };
    const text = await (await api.send("GET", "/metrics", { headers })).text();
    expect(text).toMatch(/pawl_http_denied_total\{code="UNAUTHORIZED"\} [1-9]/);
    expect(text).toMatch(/pawl_events_total [1-9]/);
  });
});

describe("workspaces", () => {
  test("I66: a foreign id is answered exactly like one that does not exist", async () => {
    const made = await ours.call("createBackfill", { body: ALL_ORDERS });
    const { backfill_id } = made;
    const [run] = (await ours.call("listRuns", { query: { backfill_id } })).items;
    const run_id = run?.run_id ?? "";
    const asset = "only_ours_abcd";
    const spec = { kind: "asset", asset_key: asset, partitions: null } as const;
    await ours.call("publishDefinitions", { body: { specs: [spec] } });
    const paths: [string, string, string][] = [
      ["GET", `/backfills/${backfill_id}`, backfill_id],
      ["GET", `/backfills/${backfill_id}?as_of=1`, backfill_id],
      ["GET", `/backfills/${backfill_id}/chunks`, backfill_id],
      ["GET", `/backfills/${backfill_id}/chunks?from=1`, backfill_id],
      ["GET", `/backfills/${backfill_id}/chunks/map`, backfill_id],
      ["GET", `/backfills/${backfill_id}/chunks/0/partitions`, backfill_id],
      ["GET", `/backfills/${backfill_id}/failures`, backfill_id],
      ["GET", `/backfills?parent_backfill_id=${backfill_id}`, backfill_id],
      ["POST", `/backfills/${backfill_id}/pause`, backfill_id],
      ["POST", `/backfills/${backfill_id}/cancel`, backfill_id],
      ["POST", `/backfills/${backfill_id}/retune`, backfill_id],
      ["POST", `/backfills/${backfill_id}/retry-failed`, backfill_id],
      ["GET", `/runs/${run_id}`, run_id],
      ["GET", `/runs/${run_id}/tasks`, run_id],
      ["GET", `/runs/${run_id}/tasks/0`, run_id],
      ["GET", `/runs/${run_id}/tasks/0/logs`, run_id],
      ["GET", `/runs/${run_id}/timeline`, run_id],
      ["GET", `/assets/${asset}/partitions/map`, asset],
      ["GET", `/assets/${asset}/partitions/values`, asset],
      ["GET", `/assets/${asset}/partitions/summary`, asset],
      ["GET", `/runs?asset=${asset}`, asset],
      ["POST", `/runs/${run_id}/cancel`, run_id],
      ["GET", `/events?entity=${run_id}`, run_id],
      ["GET", `/events/why?entity=${backfill_id}`, backfill_id],
      ["DELETE", `/tokens/${ours.tokenId}`, ours.tokenId],
    ];
    for (const [method, path, id] of paths) {
      const missing = `${id.slice(0, -4)}zzzz`;
      const foreign = await answerTo(method, path);
      const unknown = await answerTo(method, path.replaceAll(id, missing));
      expect(foreign, path).toEqual(unknown.replaceAll(missing, id));
    }
    expect((await ours.call("getBackfill", { params: { backfill_id } })).state).toBe("RUNNING");
  });

  async function answerTo(method: string, path: string): Promise<string> {
    const answer = await api.send(method, `${BASE}${path}`, {
      ...(method === "POST" ? { body: path.endsWith("retune") ? { priority: 1 } : {} } : {}),
      headers: {
        authorization: `Bearer ${theirs.token}`,
        "x-request-id": "same",
        "idempotency-key": crypto.randomUUID(),
      },
    });
    return `${answer.status} ${await answer.text()}`;
  }

  test("I66: who may only read learns the host of a webhook's address and nothing more", async () => {
    const url = "https://hooks.example/services/T0/s3cret?key=s3cret";
    const body = { name: "told", url, notifications: ["run.failed" as const] };
    const { webhook_id } = await ours.call("createWebhook", { body });
    const reader = await api.clientOf(0, ["read"]);
    const shownTo = async (client: TokenClient): Promise<string[]> => {
      const followed = client.follow({ types: ["DefinitionsPublished"] });
      let event = "";
      for await (const each of followed) {
        event = JSON.stringify(each);
        if (event.includes("hooks.example")) break;
      }
      const documents = [
        await client.call("getWebhook", { params: { webhook_id } }),
        await client.call("listWebhooks"),
        await client.call("listDefinitions", { query: { kind: "webhook" } }),
        await client.call("listEvents", { query: { type: "DefinitionsPublished" } }),
      ];
      return [event, ...documents.map((document) => JSON.stringify(document))];
    };
    for (const text of await shownTo(reader)) {
      expect(text).toContain("https://hooks.example/…");
      expect(text).not.toContain("s3cret");
    }
    const writer = await api.clientOf(0, ["read", "write"]);
    for (const text of await shownTo(writer)) expect(text).toContain(url);
  });

  test("I66: nothing of another workspace is listed, counted or handed out", async () => {
    expect((await theirs.call("listBackfills")).items).toEqual([]);
    expect((await theirs.call("listRuns")).items).toEqual([]);
    const { items } = await theirs.call("listEvents");
    expect(items.map(({ type, workspace_id }) => [type, workspace_id])).toEqual([
      ["DefinitionsPublished", "theirs"],
    ]);
    const assets = ["sales/orders", "report"];
    const claim = {
      worker_id: "w",
      lease_id: "l",
      slots: 9,
      assets,
      code_version: null,
      wait_ms: 0,
    };
    expect((await theirs.call("claim", { body: claim })).groups).toEqual([]);
    const headers = { authorization: `Bearer ${theirs.token}` };
    const text = await (await api.send("GET", "/metrics", { headers })).text();
    expect(text).not.toMatch(/pawl_backfills\{/);
    expect(text).not.toMatch(/operation="createBackfill"/);
  });

  test("I66: one key in two workspaces is two requests", async () => {
    const request = { body: ALL_ORDERS, idempotencyKey: "shared" };
    const mine = ours.call("createBackfill", {
      ...request,
      body: { ...ALL_ORDERS, allow_overlap: true },
    });
    const { backfill_id } = await theirs.call("createBackfill", request);
    expect((await mine).backfill_id).not.toBe(backfill_id);
  });
});

/** What a server sends back for a request as it is written. */
function rawAnswer(server: Api, text: string): Promise<string> {
  const { hostname, port } = new URL(server.url);
  return new Promise((resolve, reject) => {
    const socket = connect(Number(port), hostname, () => socket.write(text));
    let answer = "";
    socket.on("data", (part) => (answer += part.toString()));
    socket.on("close", () => resolve(answer));
    socket.on("error", reject);
  });
}

describe("browsers and addresses", () => {
  test("without tokens, only names of this machine are answered, or those it was given", async () => {
    const local = await startApi({ hosts: ["pawl.internal"] });
    const ask = (host: string) =>
      local.app.fetch(new Request(`http://${host}${BASE}/runs`, { headers: { host } }));
    for (const host of ["localhost:7290", "127.0.0.1", "[::1]:7290", "pawl.internal:80"]) {
      expect((await ask(host)).status, host).toBe(200);
    }
    for (const host of ["evil.example", "localhost.evil.example:7290", "10.0.0.1"]) {
      expect((await ask(host)).status, host).toBe(403);
      for (const path of ["/metrics", "/api/v1/session"]) {
        const asked = new Request(`http://${host}${path}`, { headers: { host } });
        expect((await local.app.fetch(asked)).status, host).toBe(403);
      }
    }
    await local.close();
  });

  test("I72: all but /livez is refused to a foreign name, and to none at all", async () => {
    const local = await startApi();
    const paths = [
      "/",
      "/docs",
      "/openapi.json",
      "/readyz",
      "/metrics",
      "/nothing",
      `${BASE}/runs`,
    ];
    const answers = async (headers: string, version = "1.1") => {
      const texts = [...paths, "/assets/x.js", "/livez"].map((path) =>
        rawAnswer(local, `GET ${path} HTTP/${version}\r\n${headers}Connection: close\r\n\r\n`),
      );
      return (await Promise.all(texts)).map((text) => text.slice(9, 12));
    };
    const refused = [...paths, "/assets/x.js"].map(() => "403");
    expect(await answers("Host: evil.test\r\n")).toEqual([...refused, "200"]);
    expect(await answers("Host: \r\n")).toEqual([...refused, "200"]);
    expect(await answers("Host: :80\r\n")).not.toContain("500");
    expect((await answers("", "1.0")).slice(0, -1)).toEqual(refused);
    expect(await answers("Host: localhost\r\n")).not.toContain("403");
    const open = await startApi({ tokensRequired: true });
    const nobody = "GET /readyz HTTP/1.1\r\nHost: \r\nConnection: close\r\n\r\n";
    expect((await rawAnswer(open, nobody)).slice(9, 12)).toBe("403");
    await open.close();
    await local.close();
  });

  test("I72: a page of another site cannot tell what there is from what there is not", async () => {
    const local = await startApi();
    await publish(local.client);
    const made = await local.client.call("createBackfill", { body: ALL_ORDERS });
    const paths = [`/backfills/${made.backfill_id}`, "/backfills/none", "/assets/none", "/runs"];
    const sites: Record<string, string>[] = [
      { "sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors" },
      { "sec-fetch-site": "same-site", "sec-fetch-mode": "cors" },
      {
        "sec-fetch-site": "cross-site",
        "sec-fetch-mode": "navigate",
        "sec-fetch-dest": "document",
      },
      { origin: "https://evil.example" },
    ];
    for (const headers of sites) {
      const texts = new Set<string>();
      for (const path of [...paths.map((each) => `${BASE}${each}`), "/metrics", "/readyz"]) {
        const answer = await local.send("GET", path, {
          headers: { ...headers, "x-request-id": "same" },
        });
        texts.add(`${answer.status} ${await answer.text()}`);
        expect(answer.headers.get("cross-origin-resource-policy"), path).toBe("same-origin");
      }
      expect(texts.size).toBe(1);
      expect([...texts][0]).toMatch(/^403 /);
    }
    // A link may be followed from anywhere; the platform's own fetch cannot pretend to do that.
    const visit = "Host: localhost\r\nSec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\n";
    const docs = async (path: string, dest: string) => {
      const end = `Sec-Fetch-Dest: ${dest}\r\nConnection: close\r\n\r\n`;
      return (await rawAnswer(local, `GET ${path} HTTP/1.1\r\n${visit}${end}`)).slice(9, 12);
    };
    expect(await docs("/docs", "document")).toBe("200");
    expect(await docs("/docs", "iframe")).toBe("403");
    expect(await docs(`${BASE}/runs`, "document")).toBe("403");
    const own = { "sec-fetch-site": "same-origin" };
    const read = await local.send("GET", `${BASE}/runs`, { headers: own });
    expect(read.status).toBe(200);
    expect(read.headers.get("cross-origin-resource-policy")).toBe("same-origin");
    await local.close();
  });

  test("I66: a path with . or .. in it is refused, in any spelling, and leads nowhere else", async () => {
    const authorization = `Authorization: Bearer ${ours.token}\r\nConnection: close\r\n\r\n`;
    const ask = (path: string) =>
      rawAnswer(api, `GET ${path} HTTP/1.1\r\nHost: localhost\r\n${authorization}`);
    for (const step of ["..", "%2e%2e", "%2E.", ".%2e", ".", "%2e"]) {
      for (const path of [
        `${BASE}/runs/${step}/tokens`,
        `${BASE}/runs/${step}`,
        `/${step}/livez`,
      ]) {
        const text = await ask(path);
        expect(text, path).toMatch(/^HTTP\/1\.1 400 /);
        expect(text, path).toContain("INPUT_INVALID");
      }
    }
    expect(await ask(`http://localhost${BASE}/runs/%2e%2e/tokens`)).toMatch(/^HTTP\/1\.1 400 /);
    expect(await ask(`${BASE}/runs\\..\\tokens`)).toMatch(/^HTTP\/1\.1 400 /);
    expect(await ask(`${BASE}/runs/..x`)).toMatch(/^HTTP\/1\.1 404 /);
    expect(await ask(`${BASE}/runs/%252e%252e`)).toMatch(/^HTTP\/1\.1 404 /);
    const params = { token_id: ".." };
    await expect(ours.call("revokeToken", { params })).rejects.toMatchObject({
      code: "INPUT_INVALID",
      message: 'The token_id may not be "..".',
    });
  });

  test("with tokens, any name is answered, unless it was given some", async () => {
    const askOf = async (local: Api, host: string) => {
      const { token } = await local.clientOf(0, ["read"]);
      const headers = { host, authorization: `Bearer ${token}` };
      return (await local.app.fetch(new Request(`http://${host}${BASE}/runs`, { headers }))).status;
    };
    const open = await startApi({ tokensRequired: true });
    expect(await askOf(open, "anything.example")).toBe(200);
    const ready = await open.app.fetch(new Request("http://anything.example/readyz"));
    const { store } = (await ready.json()) as { store: string };
    expect(store).toMatch(/^SQLite [\d.]+$/);
    expect((await open.app.fetch(new Request("http://a.example/livez"))).status).toBe(200);
    await open.close();
    const named = await startApi({ tokensRequired: true, hosts: ["pawl.internal"] });
    expect(await askOf(named, "pawl.internal")).toBe(200);
    expect(await askOf(named, "anything.example")).toBe(403);
    await named.close();
  });

  test("an app can be called in its own process, without a port", async () => {
    const local = await startApi();
    const client = createClient({
      url: "http://localhost",
      fetch: (request) => local.app.fetch(request),
    });
    await publish(client);
    const made = await client.call("createBackfill", { body: ALL_ORDERS });
    const { items } = await client.call("listBackfills");
    expect(items.map(({ backfill_id }) => backfill_id)).toEqual([made.backfill_id]);
    for await (const { pos } of client.follow()) if (pos === made.accepted_pos) break;
    await local.close();
  });

  test("a page of another site may not change anything, a program may", async () => {
    const local = await startApi();
    const tick = async (headers: Record<string, string>) =>
      (await local.send("POST", `${BASE}/tick`, { headers })).status;
    expect(await tick({ "sec-fetch-site": "cross-site" })).toBe(403);
    expect(await tick({ "sec-fetch-site": "same-site" })).toBe(403);
    expect(await tick({ origin: "https://evil.example" })).toBe(403);
    expect(await tick({ origin: "null" })).toBe(403);
    expect(await tick({ "sec-fetch-site": "same-origin", origin: local.url })).toBe(200);
    expect(await tick({ origin: local.url })).toBe(200);
    expect(await tick({})).toBe(200);
    const read = await local.send("GET", `${BASE}/runs`, {
      headers: { origin: "https://evil.example" },
    });
    expect(read.headers.get("access-control-allow-origin")).toBeNull();
    await local.close();
  });

  test("an address that others can reach needs tokens to start", async () => {
    const local = await startApi();
    const options = {
      engines: local.engines,
      store: local.store,
      log: { error: () => undefined },
      version: "0",
    };
    for (const required of [false, true]) {
      const app = createApp({ ...options, auth: { required } });
      const started = startServer({ app, host: "0.0.0.0", port: 0 });
      await expect(started).rejects.toMatchObject({ code: "TOKEN_REQUIRED" });
    }
    await local.clientOf(0, ["read"]);
    const app = createApp({ ...options, auth: { required: true } });
    const server = await startServer({ app, host: "0.0.0.0", port: 0 });
    expect((await fetch(`http://127.0.0.1:${server.port}${BASE}/runs`)).status).toBe(401);
    await server.stop();
    const taken = Number(new URL(local.url).port);
    const second = startServer({ app: local.app, host: "127.0.0.1", port: taken });
    await expect(second).rejects.toMatchObject({ code: "PORT_IN_USE" });
    await local.close();
  });

  test("the reference page has no script and names no other host", async () => {
    const answer = await api.send("GET", "/docs");
    const page = await answer.text();
    expect(answer.headers.get("content-security-policy")).toContain("default-src 'none'");
    expect(page).not.toMatch(/<script|<link|@import|url\(|(?:src|action)=/i);
    const links = [...page.matchAll(/href=(\S+)/gi)].map(([, link]) => link ?? "");
    expect(links.filter((link) => !/^"(?:#|\/openapi)/.test(link))).toEqual([]);
    // Addresses in examples are nobody's.
    const hosts = [...page.matchAll(/https?:\/\/([\w.-]*)/gi)].map(([, host]) => host);
    expect(hosts.filter((host) => host?.endsWith(".example") !== true)).toEqual([]);
    expect(page).toContain("/api/v1/orchestration/backfills/{backfill_id}/retry-failed");
  });
});
