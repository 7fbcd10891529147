import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { Random } from "../simulation/random.ts";
import { type Faults, NO_FAULTS } from "./faults.ts";
import { type RpcRequest, answerLike } from "./faulty-node.ts";

/** A node as seen through the faults that are switched on. */
export type FaultProxy = {
  readonly url: string;
  /** What is wrong at the moment; assign to change it. */
  faults: Faults;
  /** How often each method was called since the start or the last reset. */
  readonly calls: Map<string, number>;
  /** How often each fault struck. */
  readonly struck: Map<string, number>;
  /** Told of each request that comes, before anything else; the answer waits for it. */
  seen: (calls: readonly RpcRequest[]) => Promise<void> | void;
  close(): Promise<void>;
};

/** Puts a proxy in front of a node; which requests are struck follows from the seed. */
export async function startFaultProxy(nodeUrl: string, seed: number): Promise<FaultProxy> {
  const random = new Random(seed);
  const calls = new Map<string, number>();
  const struck = new Map<string, number>();
  const count = (counts: Map<string, number>, name: string): void => {
    counts.set(name, (counts.get(name) ?? 0) + 1);
  };
  const strike = (name: string): void => count(struck, name);

  async function handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = JSON.parse(await readBody(request)) as RpcRequest | RpcRequest[];
    for (const { method } of [body].flat()) count(calls, method);
    await proxy.seen([body].flat());
    const { faults } = proxy;
    if (random.chance(faults.hangChance)) return strike("hang");
    if (random.chance(faults.cutChance)) {
      strike("cut");
      request.socket.destroy();
      return;
    }
    if (random.chance(faults.errorChance)) {
      strike("error");
      response.writeHead(random.pick([500, 502, 503, 504]), { "content-type": "text/html" });
      response.end("<html>Bad gateway</html>");
      return;
    }
    if (random.chance(faults.throttleChance)) {
      strike("throttle");
      const { retryAfter } = faults;
      const headers = retryAfter === null ? {} : { "retry-after": retryAfter };
      response.writeHead(429, { "content-type": "application/json", ...headers });
      const error = { code: -32005, message: "Too many requests" };
      response.end(JSON.stringify({ jsonrpc: "2.0", id: null, error }));
      return;
    }
    const answer = await answerLike({ nodeUrl, body, faults, random, strike });
    if (response.destroyed) return;
    response.writeHead(200, { "content-type": "application/json" });
    response.end(JSON.stringify(answer));
  }

  const server = createServer((request, response) => {
    handle(request, response).catch(() => request.socket.destroy());
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const proxy: FaultProxy = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    faults: NO_FAULTS,
    calls,
    struck,
    seen: () => undefined,
    async close() {
      server.closeAllConnections();
      await new Promise<void>((resolve) => server.close(() => resolve()));
    },
  };
  return proxy;
}

async function readBody(request: IncomingMessage): Promise<string> {
  const parts: Buffer[] = [];
  for await (const part of request) parts.push(part as Buffer);
  return Buffer.concat(parts).toString();
}
