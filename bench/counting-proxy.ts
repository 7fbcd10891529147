import { Agent, createServer, request as sendRequest } from "node:http";
import type { AddressInfo } from "node:net";

/** What a node was asked for. */
export type Asked = {
  /** How often each method was called. */
  readonly calls: Map<string, number>;
  /** The blocks of each call of `eth_getLogs`. */
  readonly logRanges: { from: number; to: number }[];
  /** The blocks that were asked for one by one. */
  readonly blocks: number[];
};

/** A node that keeps count. */
export type CountingProxy = {
  readonly url: string;
  /** What was asked for since the last time that this was called. */
  take(): Asked;
  close(): Promise<void>;
};

type Call = { method: string; params?: unknown[] };

/** Puts a proxy before a node, which changes nothing and counts what is asked for. */
export async function startCountingProxy(nodeUrl: string): Promise<CountingProxy> {
  const agent = new Agent({ keepAlive: true });
  let asked = nothing();
  const server = createServer((incoming, response) => {
    const parts: Buffer[] = [];
    incoming.on("data", (part: Buffer) => parts.push(part));
    incoming.on("end", () => {
      const body = Buffer.concat(parts);
      for (const call of [JSON.parse(body.toString()) as Call | Call[]].flat()) note(asked, call);
      const headers = { "content-type": "application/json", "content-length": body.length };
      const upstream = sendRequest(nodeUrl, { method: "POST", agent, headers }, (answer) => {
        response.writeHead(answer.statusCode ?? 502, answer.headers);
        answer.pipe(response);
      });
      upstream.on("error", () => response.destroy());
      // Whoever asked may be killed meanwhile.
      response.on("error", () => upstream.destroy());
      upstream.end(body);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    take() {
      const taken = asked;
      asked = nothing();
      return taken;
    },
    async close() {
      server.closeAllConnections();
      await new Promise<void>((resolve) => server.close(() => resolve()));
      agent.destroy();
    },
  };
}

/** What was asked for again after it had been asked for before. */
export function askedAgain(before: Asked, after: Asked) {
  const logBlocks = new Set(before.logRanges.flatMap(blocksOf));
  const blocks = new Set(before.blocks);
  const ranges = after.logRanges.map((range) => blocksOf(range).filter((at) => logBlocks.has(at)));
  return {
    logRequests: ranges.filter((again) => again.length > 0).length,
    logBlocks: new Set(ranges.flat()).size,
    blocks: new Set(after.blocks.filter((block) => blocks.has(block))).size,
  };
}

function nothing(): Asked {
  return { calls: new Map(), logRanges: [], blocks: [] };
}

function note({ calls, logRanges, blocks }: Asked, { method, params }: Call): void {
  calls.set(method, (calls.get(method) ?? 0) + 1);
  const [first] = params ?? [];
  if (method === "eth_getBlockByNumber" && String(first).startsWith("0x")) {
    blocks.push(Number(first));
  }
  if (method !== "eth_getLogs") return;
  const { fromBlock, toBlock } = first as { fromBlock?: string; toBlock?: string };
  if (fromBlock === undefined || toBlock === undefined) return;
  logRanges.push({ from: Number(fromBlock), to: Number(toBlock) });
}

function blocksOf({ from, to }: { from: number; to: number }): number[] {
  return Array.from({ length: to - from + 1 }, (_, index) => from + index);
}
