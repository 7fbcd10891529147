import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { type Hex, numberToHex, pad, toEventSelector } from "viem";
import { TRANSFER } from "./anvil.ts";

/** What is odd about a node. */
export type Oddities = {
  /** What its headers have as their bloom; undefined leaves the field out. */
  bloom?: unknown;
  /** Answers a whole request in the node's own way; false leaves it to the ordinary one. */
  answer?: (request: IncomingMessage, body: unknown, response: ServerResponse) => boolean;
  /** Each log as the node gives it. */
  log?: (log: ToyLog, index: number) => object;
};

/** A node of a toy chain: each block has as many transfers to the wallet as was said. */
export type OddNode = {
  readonly url: string;
  oddities: Oddities;
  /** How often each method was called. */
  readonly called: Map<string, number>;
  requests: number;
  close(): Promise<void>;
};

type Call = { id: unknown; method: string; params: unknown[] };
type ToyLog = { blockNumber: Hex; blockHash: Hex; logIndex: Hex };

/** The contract whose logs the node has, and who receives them. */
export const TOKEN: Hex = pad("0x70", { size: 20 });
export const WALLET: Hex = pad("0x77", { size: 20 });
const ZERO_BLOOM = `0x${"0".repeat(512)}`;

const hashOf = (block: number): Hex => pad(numberToHex(block + 1), { size: 32 });

/** Starts a node of so many blocks, from 0, with so many logs in each. */
export async function startOddNode(length: number, logsPerBlock: number): Promise<OddNode> {
  const server = createServer((request, response) => void respond(request, response));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const node: OddNode = {
    url: `http://127.0.0.1:${port}`,
    oddities: { bloom: ZERO_BLOOM },
    called: new Map(),
    requests: 0,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };

  async function respond(request: IncomingMessage, response: ServerResponse): Promise<void> {
    node.requests++;
    const body = JSON.parse(await text(request)) as Call | Call[];
    if (node.oddities.answer?.(request, body, response) === true) return;
    const replies = [body].flat().map((call) => {
      node.called.set(call.method, (node.called.get(call.method) ?? 0) + 1);
      return { jsonrpc: "2.0", id: call.id, result: resultOf(call) };
    });
    response.setHeader("content-type", "application/json");
    response.end(JSON.stringify(Array.isArray(body) ? replies : replies[0]));
  }

  function resultOf({ method, params: [first] }: Call): unknown {
    switch (method) {
      case "eth_blockNumber":
        return numberToHex(length - 1);
      case "eth_getBlockByNumber":
        return Number(first) < length ? headerOf(Number(first)) : null;
      case "eth_getBlockReceipts":
        return [{ logs: logsOf(Number(first)) }];
      default: {
        const { fromBlock, toBlock } = first as { fromBlock: Hex; toBlock: Hex };
        const [from, to] = [Number(fromBlock), Number(toBlock)];
        return Array.from({ length: to - from + 1 }, (_, at) => logsOf(from + at)).flat();
      }
    }
  }

  function headerOf(block: number): object {
    const { bloom } = node.oddities;
    return {
      number: numberToHex(block),
      hash: hashOf(block),
      parentHash: hashOf(block - 1),
      transactions: [],
      ...(bloom === undefined ? {} : { logsBloom: bloom }),
    };
  }

  function logsOf(block: number): object[] {
    return Array.from({ length: logsPerBlock }, (_, index) => {
      const log = {
        address: TOKEN,
        topics: [toEventSelector(TRANSFER), pad(TOKEN), pad(WALLET)],
        data: pad(numberToHex(index), { size: 32 }),
        blockNumber: numberToHex(block),
        blockHash: hashOf(block),
        transactionHash: pad(numberToHex(block * 100 + index + 1), { size: 32 }),
        transactionIndex: numberToHex(index),
        logIndex: numberToHex(index),
        removed: false,
      };
      return node.oddities.log?.(log, index) ?? log;
    });
  }

  return node;
}
