import { execFile } from "node:child_process";
import { once } from "node:events";
import { createServer, type IncomingMessage, type RequestListener, type Server } from "node:http";
import { createServer as createTcpServer, type AddressInfo } from "node:net";
import { promisify } from "node:util";
import { afterEach, describe, expect, test } from "vitest";
import { PawlError } from "../../kernel/errors.ts";
import { sendWebhook, type WebhookRequest } from "./send.ts";

const servers: { close(): unknown; closeAllConnections?(): void }[] = [];
afterEach(() => {
  for (const server of servers.splice(0)) {
    server.close();
    server.closeAllConnections?.();
  }
});

/** A receiver on this machine, and how many connections it has seen. */
async function receiver(listener: RequestListener): Promise<{
  server: Server;
  port: number;
  connections: () => number;
}> {
  const server = createServer(listener);
  servers.push(server);
  let count = 0;
  server.on("connection", () => count++);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return { server, port: (server.address() as AddressInfo).port, connections: () => count };
}

const send = (changes: Partial<WebhookRequest> & { url: string }) =>
  sendWebhook({
    body: new TextEncoder().encode('{"a":1}'),
    headers: { "Content-Type": "application/json" },
    timeoutMs: 10_000,
    allowedHosts: [],
    ...changes,
  });

async function failureOf(sending: Promise<unknown>): Promise<PawlError> {
  const failure = await sending.then(
    (answer) => answer,
    (error: unknown) => error,
  );
  if (failure instanceof PawlError) return failure;
  throw new Error(`not a PawlError but ${JSON.stringify(failure)}`, { cause: failure });
}

const answering =
  (status: number, headers: Record<string, string> = {}): RequestListener =>
  (request, response) => {
    request.resume();
    response.writeHead(status, headers).end("thanks");
  };

describe("sendWebhook", () => {
  test("posts the bytes to a host that the operator allows, and gives the status", async () => {
    const seen = Promise.withResolvers<{ request: IncomingMessage; text: string }>();
    const { port } = await receiver((request, response) => {
      let text = "";
      request.on("data", (part) => (text += String(part)));
      request.on("end", () => {
        seen.resolve({ request, text });
        response.writeHead(202).end();
      });
    });
    const answer = await send({
      url: `http://127.0.0.1:${port}/hooks/a%20b?c=d#e`,
      headers: { "Webhook-Id": "m1", HOST: "evil.example", "Transfer-Encoding": "chunked" },
      allowedHosts: [`127.0.0.1:${port}`],
    });

    expect(answer).toEqual({ status: 202, durationMs: expect.any(Number) as number });
    const { request, text } = await seen.promise;
    expect(text).toBe('{"a":1}');
    expect([request.method, request.url]).toEqual(["POST", "/hooks/a%20b?c=d"]);
    expect(request.headers).toEqual({
      "webhook-id": "m1",
      host: `127.0.0.1:${port}`,
      connection: "close",
      "content-length": "7",
    });
  });

  test("keeps the name for the receiver and connects to the address it was resolved to", async () => {
    const hosts: (string | undefined)[] = [];
    const { port } = await receiver((request, response) => {
      hosts.push(request.headers.host);
      answering(200)(request, response);
    });
    await send({
      url: `http://Hooks.Example:${port}/`,
      allowedHosts: ["hooks.example"],
      lookup: async () => [{ address: "127.0.0.1", family: 4 }],
    });
    expect(hosts).toEqual([`hooks.example:${port}`]);
  });

  test("names the host to a TLS receiver", async () => {
    const hello = Promise.withResolvers<string>();
    const server = createTcpServer((socket) => {
      socket.once("data", (part) => {
        hello.resolve(part.toString("latin1"));
        socket.destroy();
      });
      socket.on("error", () => {});
    });
    servers.push(server);
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as AddressInfo;
    const failure = await failureOf(
      send({
        url: `https://hooks.example.:${port}/`,
        headers: { host: "evil.example" },
        allowedHosts: [`hooks.example:${port}`],
        lookup: async () => [{ address: "127.0.0.1", family: 4 }],
      }),
    );
    expect(failure.code).toBe("WEBHOOK_FAILED");
    const text = await hello.promise;
    expect(text).toContain("hooks.example");
    expect(text).not.toContain("hooks.example.");
    expect(text).not.toContain("evil");
  });

  test("allows a host on every port or on one, and no other", async () => {
    const { port } = await receiver(answering(200));
    const url = `http://localhost.:${port}/`;
    const lookup = async () => [{ address: "127.0.0.1", family: 4 }];
    for (const allowed of ["localhost", "LocalHost", "localhost.", `localhost:${port}`]) {
      expect((await send({ url, lookup, allowedHosts: [allowed] })).status, allowed).toBe(200);
    }
    const others = [
      "",
      "*",
      "host",
      "127.0.0.1",
      `localhost:${port + 1}`,
      "a@localhost",
      "localhost/",
    ];
    for (const allowed of others) {
      const failure = await failureOf(send({ url, lookup, allowedHosts: [allowed] }));
      expect(failure.code, allowed).toBe("WEBHOOK_REFUSED");
    }
  });

  test("gives every status as it is, and follows no redirect", async () => {
    const inside = await receiver(answering(200));
    const location = `http://127.0.0.1:${inside.port}/`;
    for (const status of [200, 204, 301, 302, 303, 307, 308, 404, 410, 429, 500, 503]) {
      const { port } = await receiver(answering(status, { location }));
      const allowedHosts = [`127.0.0.1:${port}`];
      const answer = await send({ url: `http://127.0.0.1:${port}/`, allowedHosts });
      expect(answer.status).toBe(status);
    }
    expect(inside.connections()).toBe(0);
  });

  test("makes a connection of its own for each webhook", async () => {
    const { port, connections } = await receiver(answering(200));
    for (let count = 0; count < 3; count++) {
      await send({ url: `http://127.0.0.1:${port}/`, allowedHosts: ["127.0.0.1"] });
    }
    expect(connections()).toBe(3);
  });
});

describe("sendWebhook refuses", () => {
  test("what is no URL, is not HTTP, or has a password in it", async () => {
    const urls = ["", "hooks.example", "/a", "ftp://a.example/", "file:///etc/passwd", "data:,a"];
    for (const url of [...urls, "http://me@a.example/", "https://:secret@a.example/"]) {
      const failure = await failureOf(send({ url, allowedHosts: ["a.example"] }));
      expect(failure.code, url).toBe("WEBHOOK_REFUSED");
      expect(failure.retryable).toBe(false);
      expect(failure.message).not.toContain("secret");
    }
  });

  test("this machine in every spelling of its address", async () => {
    const { port, connections } = await receiver(answering(200));
    const spellings =
      "127.0.0.1 127.0.0.1. 127.1 2130706433 017700000001 0x7f000001 0177.0.0.1 0x7f.0.0.1 0 " +
      "%31%32%37.0.0.1 ①②⑦.0.0.1 127。0。0。1 [::1] [::] [0:0:0:0:0:0:0:1] [::ffff:127.0.0.1] " +
      "[::ffff:7f00:1] [::127.0.0.1] [64:ff9b::7f00:1] [2002:7f00:1::] " +
      "localhost LOCALHOST localhost. a.localhost";
    for (const host of spellings.split(" ")) {
      const failure = await failureOf(send({ url: `http://${host}:${port}/` }));
      expect(failure.code, host).toBe("WEBHOOK_REFUSED");
      expect(failure.message, host).toContain("not public");
    }
    expect(connections()).toBe(0);
  });

  test("a name of which one address of many is not public, without saying which", async () => {
    const failure = await failureOf(
      send({
        url: "https://hooks.example/services/secret",
        lookup: async () => [
          { address: "8.8.8.8", family: 4 },
          { address: "10.1.2.3", family: 4 },
        ],
      }),
    );
    expect(failure.code).toBe("WEBHOOK_REFUSED");
    expect(failure.message).toBe(
      "The webhook at hooks.example has an address that is not public. Use a public one, or let " +
        'the operator put "hooks.example:443" into webhook_hosts.',
    );
    expect(failure.details).toEqual({ host: "hooks.example" });
  });

  test("a second answer of the resolver: it asks once and connects to what it checked", async () => {
    const { port, connections } = await receiver(answering(200));
    let asked = 0;
    const failure = await failureOf(
      send({
        url: `http://rebinding.example:${port}/`,
        // Long enough for a wrong connection on this machine; the public one leads nowhere.
        timeoutMs: 500,
        // Public by its class, but of a block that is given to nobody.
        lookup: async () => [
          asked++ === 0 ? { address: "2d00::1", family: 6 } : { address: "127.0.0.1", family: 4 },
        ],
      }),
    );
    expect(failure.code).toBe("WEBHOOK_FAILED");
    expect(asked).toBe(1);
    expect(connections()).toBe(0);

    const again = await failureOf(
      send({
        url: `http://rebinding.example:${port}/`,
        lookup: async () => [{ address: "127.0.0.1", family: 4 }],
      }),
    );
    expect(again.code).toBe("WEBHOOK_REFUSED");
    expect(connections()).toBe(0);
  });

  test("a header that would start another request", async () => {
    const { port, connections } = await receiver(answering(200));
    for (const headers of [{ "x-a": "b\r\nhost: c" }, { "x a": "b" }]) {
      const allowedHosts = ["127.0.0.1"];
      const failure = await failureOf(
        send({ url: `http://127.0.0.1:${port}/`, headers, allowedHosts }),
      );
      expect(failure.code).toBe("WEBHOOK_REFUSED");
    }
    expect(connections()).toBe(0);
  });
});

describe("sendWebhook fails", () => {
  const allowedHosts = ["127.0.0.1"];

  test("when nobody listens, naming the host but not the path", async () => {
    const { server, port } = await receiver(answering(200));
    server.close();
    await once(server, "close");
    const failure = await failureOf(send({ url: `http://127.0.0.1:${port}/secret`, allowedHosts }));
    expect(failure.code).toBe("WEBHOOK_FAILED");
    expect(failure.retryable).toBe(true);
    expect(failure.message).toBe(
      `The webhook at 127.0.0.1:${port} could not be delivered: ECONNREFUSED.`,
    );
  });

  test("when the name does not resolve, to an error or to nothing", async () => {
    const url = "http://nowhere.example/";
    const error = Object.assign(new Error("getaddrinfo"), { code: "ENOTFOUND" });
    const unknown = await failureOf(send({ url, lookup: () => Promise.reject(error) }));
    expect([unknown.code, unknown.message]).toEqual([
      "WEBHOOK_FAILED",
      expect.stringContaining("does not resolve (ENOTFOUND)"),
    ]);
    const empty = await failureOf(send({ url, lookup: async () => [] }));
    expect(empty.message).toContain("has no address");
  });

  test("when the time is over before the name resolves or an answer comes", async () => {
    const { port } = await receiver(() => {});
    const silent = { timeoutMs: 50, allowedHosts };
    const slow = await failureOf(send({ url: `http://127.0.0.1:${port}/`, ...silent }));
    expect([slow.code, slow.message]).toEqual([
      "WEBHOOK_FAILED",
      expect.stringContaining("no answer came within 50 ms"),
    ]);
    const lookup = () => new Promise<never>(() => {});
    const unresolved = await failureOf(send({ url: "http://a.example/", ...silent, lookup }));
    expect(unresolved.message).toContain("no answer came within 50 ms");
  });

  test("when the sender cancels, before or while it waits", async () => {
    const { server, port } = await receiver(() => {});
    const stop = new AbortController();
    server.once("request", () => stop.abort());
    const url = `http://127.0.0.1:${port}/`;
    const waiting = await failureOf(send({ url, allowedHosts, signal: stop.signal }));
    expect([waiting.code, waiting.message]).toEqual([
      "WEBHOOK_FAILED",
      expect.stringContaining("cancelled"),
    ]);
    const early = await failureOf(send({ url, allowedHosts, signal: stop.signal }));
    expect(early.message).toContain("cancelled");
  });

  test("when the connection is closed, or the answer is not HTTP", async () => {
    const closing = await receiver((request) => request.socket.destroy());
    const closed = await failureOf(
      send({ url: `http://127.0.0.1:${closing.port}/`, allowedHosts }),
    );
    expect(closed.code).toBe("WEBHOOK_FAILED");
    const babbling = await receiver((request) => request.socket.end("220 smtp ready\r\n"));
    const babbled = await failureOf(
      send({ url: `http://127.0.0.1:${babbling.port}/`, allowedHosts }),
    );
    expect(babbled.code).toBe("WEBHOOK_FAILED");
    const upgrading = await receiver((request) =>
      request.socket.write("HTTP/1.1 101 Up\r\nConnection: Upgrade\r\nUpgrade: a\r\n\r\n"),
    );
    const upgraded = await failureOf(
      send({ url: `http://127.0.0.1:${upgrading.port}/`, allowedHosts }),
    );
    expect(upgraded.code).toBe("WEBHOOK_FAILED");
  });
});

describe("sendWebhook, once the status is here,", () => {
  const allowedHosts = ["127.0.0.1"];

  test("hangs up on an answer without end", async () => {
    const hungUp = Promise.withResolvers<void>();
    const { port } = await receiver((_request, response) => {
      const part = Buffer.alloc(16 * 1024);
      const write = (): void => {
        while (!response.destroyed && response.write(part)) continue;
      };
      response.on("drain", write);
      response.on("close", () => hungUp.resolve());
      response.writeHead(200);
      write();
    });
    expect((await send({ url: `http://127.0.0.1:${port}/`, allowedHosts })).status).toBe(200);
    await hungUp.promise;
  });

  test("gives it although the rest is too slow, or breaks off", async () => {
    const slow = await receiver((_request, response) => void response.writeHead(201).write("a"));
    const url = `http://127.0.0.1:${slow.port}/`;
    expect((await send({ url, allowedHosts, timeoutMs: 1_000 })).status).toBe(201);

    const broken = await receiver((request, response) => {
      response.writeHead(200, { "content-length": "10" });
      response.write("a", () => request.socket.destroy());
    });
    const answer = await send({ url: `http://127.0.0.1:${broken.port}/`, allowedHosts });
    expect(answer.status).toBe(200);
  });
});

test("sendWebhook uses no proxy, although the environment names one", async () => {
  const proxy = await receiver(answering(299));
  const { port } = await receiver(answering(200));
  const module = JSON.stringify(new URL("send.ts", import.meta.url).href);
  const script = `
    const { sendWebhook } = await import(${module});
    const answer = await sendWebhook({
      url: "http://127.0.0.1:${port}/", body: new Uint8Array(), headers: {}, timeoutMs: 10_000,
      allowedHosts: ["127.0.0.1"],
    });
    console.log(answer.status);`;
  const address = `http://127.0.0.1:${proxy.port}`;
  const { stdout } = await promisify(execFile)(
    process.execPath,
    ["--input-type=module", "--eval", script],
    {
      env: {
        ...process.env,
        NODE_USE_ENV_PROXY: "1",
        HTTP_PROXY: address,
        http_proxy: address,
        NO_PROXY: "",
        no_proxy: "",
      },
    },
  );
  expect(stdout.trim()).toBe("200");
  expect(proxy.connections()).toBe(0);
});
