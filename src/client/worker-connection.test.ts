import { createServer, type RequestListener, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, describe, expect, test } from "vitest";
import { connectWorker, type WorkerConnection } from "./worker-connection.ts";

const claim = {
  worker_id: "worker",
  lease_id: "lease",
  slots: 1,
  assets: ["orders"],
  code_version: null,
  wait_ms: 0,
};

let server: Server | null = null;
let connection: WorkerConnection | null = null;

afterEach(() => {
  connection?.close();
  server?.closeAllConnections();
  server?.close();
});

async function connectTo(listener: RequestListener, token?: string): Promise<WorkerConnection> {
  server = createServer(listener);
  await new Promise<void>((resolve) => server?.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  connection = connectWorker({
    url: `http://127.0.0.1:${port}/`,
    ...(token === undefined ? {} : { token }),
  });
  return connection;
}

const nothing = JSON.stringify({ lease_id: "lease", ttl_ms: 15_000, groups: [] });

describe("connectWorker", () => {
  test("posts JSON with the token, over a connection that stays open", async () => {
    const seen: unknown[] = [];
    const sockets = new Set<unknown>();
    const opened = await connectTo((request, response) => {
      sockets.add(request.socket);
      const { authorization, "content-type": type } = request.headers;
      seen.push([request.method, request.url, authorization, type]);
      request.resume().on("end", () => response.end(nothing));
    }, "secret");
    for (let times = 0; times < 3; times++) await opened.claim(claim);

    const expected = ["POST", "/api/v1/worker/claim", "Bearer secret", "application/json"];
    expect(seen).toEqual([expected, expected, expected]);
    expect(sockets.size).toBe(1);
  });

  test("throws the server's own code and sentence", async () => {
    const opened = await connectTo((_request, response) => {
      response.writeHead(401, { "content-type": "application/problem+json" });
      response.end(JSON.stringify({ code: "UNAUTHORIZED", detail: "The token is revoked." }));
    });

    await expect(opened.claim(claim)).rejects.toMatchObject({
      code: "UNAUTHORIZED",
      message: "The token is revoked.",
    });
  });

  test("takes a proxy's page for a server that is away", async () => {
    const opened = await connectTo((_request, response) => {
      response.writeHead(502, { "content-type": "text/html" });
      response.end("<h1>Bad gateway</h1>");
    });

    await expect(opened.claim(claim)).rejects.toMatchObject({ code: "SERVER_UNREACHABLE" });
  });

  test("says where nothing listens", async () => {
    const opened = await connectTo(() => undefined);
    await new Promise((resolve) => server?.close(resolve));

    await expect(opened.claim(claim)).rejects.toMatchObject({
      code: "SERVER_UNREACHABLE",
      message: expect.stringContaining("ECONNREFUSED") as string,
    });
  });

  test("asks once more when an idle connection was closed as it was used again", async () => {
    let requests = 0;
    const opened = await connectTo((request, response) => {
      requests++;
      if (requests === 2) request.socket.destroy();
      else request.resume().on("end", () => response.end(nothing));
    });
    await opened.claim(claim);
    await opened.claim(claim);

    expect(requests).toBe(3);
  });

  test("refuses an answer that is not as agreed", async () => {
    const opened = await connectTo((_request, response) => void response.end('{"groups": 1}'));

    await expect(opened.claim(claim)).rejects.toMatchObject({ code: "INTERNAL" });
  });

  test("lets go of a claim that is called off", async () => {
    const stop = new AbortController();
    const opened = await connectTo(() => stop.abort());

    await expect(opened.claim(claim, stop.signal)).rejects.toMatchObject({ name: "AbortError" });
  });

  test("refuses an address that is no URL", () => {
    expect(() => connectWorker({ url: "localhost:4400" })).toThrow(/must be a URL/);
  });
});
