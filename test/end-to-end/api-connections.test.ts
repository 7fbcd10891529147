import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { afterEach, describe, expect, test } from "vitest";
import { createClient } from "../../src/client/client.ts";
import { type Api, type ApiOptions, publish, startApi } from "./api-server.ts";
import { startReceiver } from "./webhook-receiver.ts";

const BASE = "/api/v1/orchestration";
const HEARTBEAT = { worker_id: "w", leases: [], tasks: [] };

const opened: { close(): unknown }[] = [];

afterEach(async () => {
  for (const each of opened.splice(0).toReversed()) await each.close();
});

async function started(options: ApiOptions): Promise<Api> {
  const api = await startApi(options);
  opened.push(api);
  return api;
}

/** A connection whose own side stays open whatever the server does, and what came over it. */
type Raw = { socket: Socket; text: () => string; ended: Promise<void>; gone: Promise<void> };

function open(api: Api, text: string): Raw {
  const { hostname, port } = new URL(api.url);
  const socket = connect({ host: hostname, port: Number(port), allowHalfOpen: true });
  opened.push({ close: () => socket.destroy() });
  let got = "";
  socket.on("data", (part) => (got += part.toString()));
  socket.on("error", () => undefined);
  if (text !== "") socket.write(text);
  const ended = new Promise<void>((resolve) => {
    socket.once("end", resolve);
    socket.once("close", () => resolve());
  });
  // Only a server that has given up its side too answers what is still sent with a reset.
  const gone = ended.then(
    () =>
      new Promise<void>((resolve) => {
        const sending = setInterval(() => socket.write("x"), 20);
        socket.once("close", () => {
          clearInterval(sending);
          resolve();
        });
      }),
  );
  return { socket, text: () => got, ended, gone };
}

const request = (line: string, headers: readonly string[] = [], body = "") =>
  [`${line} HTTP/1.1`, "Host: localhost", ...headers, "", body].join("\r\n");

const post = (path: string, length: number, body: string, headers: readonly string[] = []) =>
  request(
    `POST ${path}`,
    ["Content-Type: application/json", `Content-Length: ${length}`, ...headers],
    body,
  );

describe("clients that keep their side open", () => {
  test("I64: headers that never end are answered with 408, and the connection is gone", async () => {
    const api = await started({ connections: { headersMs: 200 } });
    const slow = Array.from({ length: 50 }, (_, at) =>
      open(api, at % 2 === 0 ? "GET /livez HTTP/1.1\r\nHost:" : ""),
    );
    await Promise.all(slow.map(({ gone }) => gone));
    for (const { text } of slow) expect(text()).toContain("HTTP/1.1 408 ");
    expect(slow[0]?.text()).toContain('"code":"OVERLOADED"');
    expect((await api.client.call("livez")).status).toBe("ok");
  });

  test("I64: bodies that never come are given up, and the connection is gone", async () => {
    const api = await started({ connections: { headersMs: 200, requestMs: 400 } });
    const paths = ["/api/v1/session", `${BASE}/runs`, `${BASE}/sensors/none/messages`];
    const slow = paths.map((path) => open(api, post(path, 100, "{")));
    await Promise.all(slow.map(({ gone }) => gone));
    expect((await api.client.call("livez")).status).toBe("ok");
    expect(api.logged).toEqual([]);
  });

  test("I64: what is no HTTP, or has too many headers, gets a problem and an end", async () => {
    const api = await started({});
    const odd = open(api, "HELLO\r\n\r\n");
    const large = open(api, request("GET /livez", [`X-Long: ${"x".repeat(20_000)}`]));
    await Promise.all([odd.gone, large.gone]);
    expect(odd.text()).toContain("HTTP/1.1 400 ");
    expect(odd.text()).toContain("application/problem+json");
    expect(large.text()).toContain("HTTP/1.1 431 ");
  });
});

describe("too many of them", () => {
  test("I64: idle connections make room for new ones, and never for those at work", async () => {
    const api = await started({ connections: { connections: 10 } });
    const stream = open(api, request(`GET ${BASE}/events?follow=true`));
    await expect.poll(stream.text).toContain("retry:");
    const idle = Array.from({ length: 40 }, () => open(api, ""));
    await Promise.all(idle.slice(0, 30).map(({ ended }) => ended));
    expect((await api.client.call("readyz")).status).toBe("ok");
    await api.client.call("tick");
    await publish(api.client);
    await expect.poll(stream.text).toContain("event: DefinitionsPublished");
  });

  test("I64: clients that do not read their answers make room, and never those that wait for one", async () => {
    const api = await started({ connections: { connections: 10 } });
    const stream = open(api, request(`GET ${BASE}/events?follow=true`));
    await expect.poll(stream.text).toContain("retry:");
    const unread = Array.from({ length: 9 }, async () => {
      const { socket } = open(api, "");
      await once(socket, "connect");
      socket.write(request("GET /openapi.json").repeat(400));
      await once(socket, "data");
      socket.pause();
    });
    await Promise.all(unread);
    const headers = { connection: "close" };
    const livez = () =>
      fetch(`${api.url}/livez`, { headers }).then(
        ({ status }) => status,
        () => 0,
      );
    for (let round = 0; round < 50; round++) await expect.poll(livez).toBe(200);
    await publish(createClient({ url: api.url }));
    await expect.poll(stream.text).toContain("event: DefinitionsPublished");
  });

  test("I64: slow bodies of strangers keep out neither pushes nor sign-ins nor requests", async () => {
    const api = await started({ limits: { strangerBodies: 5, bodies: 5 } });
    await publish(api.client);
    const target = { asset_selection: ["report"] };
    await api.client.call("createSensor", { body: { name: "uploads", mode: "push", target } });
    const slow = Array.from({ length: 60 }, (_, at) =>
      open(
        api,
        at % 3 === 0
          ? post("/api/v1/session", 100, "{")
          : at % 3 === 1
            ? post(`${BASE}/sensors/uploads/messages`, 100, "{")
            : post(`${BASE}/runs`, 100, "{", [`Idempotency-Key: slow-${at}`]),
      ),
    );
    const given = () => slow.filter(({ text }) => text().includes(" 503 ")).length;
    await expect.poll(given).toBe(50);
    const pushed = await api.send("POST", `${BASE}/sensors/uploads/messages`, {
      body: "{}",
      headers: { "webhook-id": "m" },
    });
    expect(pushed.status).toBe(202);
    const signedIn = await api.send("POST", "/api/v1/session", { body: { token: "none" } });
    expect(signedIn.status).toBe(401);
    await api.client.call("requestRun", { body: { assets: ["report"] } });
    await api.client.call("heartbeat", { body: HEARTBEAT });
  });
});

describe("waits", () => {
  test("I64: reads that wait take no room from work, and have shares by token and workspace", async () => {
    const api = await started({
      workspaces: ["ours", "theirs"],
      tokensRequired: true,
      limits: { requests: 2, workerRequests: 2, waitsPerToken: 3, waits: 5 },
    });
    const verbs = ["read", "write", "work"] as const;
    const [one, other, third] = [
      await api.clientOf(0, verbs),
      await api.clientOf(0, verbs),
      await api.clientOf(0, verbs),
    ];
    const theirs = await api.clientOf(1, verbs);
    const stop = new AbortController();
    const wait = (client: typeof one, query: object) =>
      client.call("listRuns", { query: { timeout_ms: 20_000, ...query }, signal: stop.signal });
    const positions = { min_pos: 1_000_000 };
    const event = { wait_for_event_id: "01ZZZZZZZZZZZZZZZZZZZZZZZZ" };
    const waiting = [
      wait(one, positions),
      wait(one, event),
      wait(one, positions),
      wait(other, positions),
      wait(other, event),
      wait(theirs, positions),
    ];
    const ended = Promise.allSettled(waiting);
    const refusalOf = (call: Promise<unknown>) =>
      call.then(
        () => "none",
        (error: Error) => error.message,
      );
    const soon = { ...positions, timeout_ms: 1 };
    await expect.poll(() => refusalOf(wait(one, soon))).toContain("with this token");
    await expect.poll(() => refusalOf(wait(third, soon))).toContain("in this workspace");
    expect(await refusalOf(wait(theirs, soon))).toContain("has not reached");
    for (const client of [one, other, theirs]) {
      expect((await client.call("listRuns")).items).toEqual([]);
      await client.call("heartbeat", { body: HEARTBEAT });
    }
    stop.abort();
    await ended;
  });

  test("I68: a read that waited is not answered when its token has ended meanwhile", async () => {
    const api = await started({ tokensRequired: true, limits: { waitsPerToken: 1 } });
    const client = await api.clientOf(0, ["read"]);
    const writer = await api.clientOf(0, ["write"]);
    const wait = (timeout_ms: number) =>
      client.call("listRuns", { query: { min_pos: 1, timeout_ms } });
    const waited = wait(20_000).catch((error: { code: string }) => error.code);
    const second = () => wait(1).catch((error: { code: string }) => error.code);
    await expect.poll(second).toBe("OVERLOADED");
    await api.store.revokeToken(api.engines[0].workspace.ws, client.tokenId);
    await publish(writer);
    expect(await waited).toBe("UNAUTHORIZED");
  });

  test("I64: requests beyond the limit get 503 and a time to come again, and workers are heard", async () => {
    const receiver = await startReceiver();
    opened.push(receiver);
    receiver.answer = "hang";
    const api = await started({ limits: { requests: 2 }, webhookHosts: [receiver.host] });
    const body = { name: "hook", url: receiver.url, notifications: ["run.failed" as const] };
    const { webhook_id } = await api.client.call("createWebhook", { body });
    const stop = new AbortController();
    const tell = () =>
      api.client.call("testWebhook", { params: { webhook_id }, signal: stop.signal });
    const busy = Promise.allSettled([tell(), tell()]);
    await receiver.got(2);
    const refused = await api.send("GET", `${BASE}/runs`);
    expect(refused.status).toBe(503);
    expect(refused.headers.get("retry-after")).toBe("1");
    expect((await api.send("GET", "/livez")).status).toBe(200);
    expect((await api.send("GET", "/readyz")).status).toBe(200);
    await api.client.call("heartbeat", { body: HEARTBEAT });
    stop.abort();
    await busy;
    await expect.poll(async () => (await api.send("GET", `${BASE}/runs`)).status).toBe(200);
  });
});

describe("stopping", () => {
  test("I65: a request that comes on a kept connection just after the stop is answered", async () => {
    const api = await started({});
    const kept = Array.from({ length: 20 }, () => open(api, request("GET /livez")));
    for (const { text } of kept) await expect.poll(text).toContain('{"status":"ok"}');
    const quiet = open(api, request("GET /livez"));
    const silent = open(api, "");
    await expect.poll(quiet.text).toContain('{"status":"ok"}');
    const stopped = api.stopServer();
    const changes = createClient({ url: api.url, retryDelaysMs: [] }).call("livez");
    await expect(changes).rejects.toMatchObject({ code: "SERVER_UNREACHABLE" });
    for (const { socket } of kept) socket.write(request(`GET ${BASE}/runs`));
    for (const { socket, ended } of [...kept, quiet, silent]) {
      socket.once("error", (error) => expect(error).toBeNull());
      await ended;
      socket.end();
    }
    await stopped;
    for (const { text } of kept) {
      const [, second = ""] = text().split(/(?=HTTP\/1\.1)/);
      expect(second).toMatch(/^HTTP\/1\.1 200 /);
      expect(second.toLowerCase()).toContain("connection: close");
      expect(second).toContain('"items":[]');
    }
  });
});

describe("the log of the server", () => {
  /** What was logged, without the ids of the requests. */
  const lines = (api: Api) =>
    api.logged.map((fields) => {
      const { correlation_id: id, ...rest } = fields as Record<string, unknown>;
      expect(id).toMatch(/./);
      return rest;
    });

  test("has one line without a stack for what the server cannot do now", async () => {
    const api = await started({});
    await api.engines[0].stop();
    const body = { assets: ["report"] };
    const headers = { "idempotency-key": "away" };
    const response = await api.send("POST", `${BASE}/runs`, { body, headers });
    expect(response.status).toBe(503);
    expect(lines(api)).toEqual([{ code: "STORE_UNAVAILABLE" }]);
    const metrics = await (await api.send("GET", "/metrics")).text();
    expect(metrics).toMatch(/^pawl_store_errors_total 1$/m);
  });

  test("has one line without a stack for each wait that was given up", async () => {
    const api = await started({ limits: { waits: 1, waitsPerToken: 1 } });
    const path = `${BASE}/backfills`;
    // There is room for one that waits: while there is, another is turned away.
    const isWaiting = async () => {
      return (await api.send("GET", `${path}?min_pos=99999&timeout_ms=1`)).status === 429;
    };
    const queries = ["min_pos=99999", "wait_for_event_id=01K0000000000000000000000X"];
    for (const [index, query] of queries.entries()) {
      const controller = new AbortController();
      const { signal } = controller;
      const waiting = fetch(`${api.url}${path}?timeout_ms=30000&${query}`, { signal });
      await expect.poll(isWaiting).toBe(true);
      controller.abort();
      await expect(waiting).rejects.toMatchObject({ name: "AbortError" });
      await expect.poll(() => api.logged.length).toBe(index + 1);
      await expect.poll(isWaiting).toBe(false);
    }
    // Nothing was wrong with the store, and nobody is to be woken for it.
    expect(lines(api)).toEqual([{}, {}]);
    const metrics = await (await api.send("GET", "/metrics")).text();
    expect(metrics).toMatch(/^pawl_store_errors_total 0$/m);
  });
});
