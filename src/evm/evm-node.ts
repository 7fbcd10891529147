import type { Hex } from "viem";
import { sourceLagging, sourceUnavailable } from "../define/errors.ts";
import { classifyError, isMethodMissing } from "./classify-error.ts";
import { type LogQuery, queryParameter } from "./log-filter.ts";
import { type Asking, type JsonRpc, type RpcCall, RpcFailure } from "./post-json.ts";

/** Blocks from one to another, both included. */
export type BlockRange = { readonly from: number; readonly to: number };

/** A block by what it is to the network rather than by its number. */
export type HeadTag = "latest" | "safe" | "finalized";

/** Reads one node; what fails is thrown as the source's error, never taken for "no data". */
export interface EvmNode {
  head(tag: HeadTag, asking: Asking): Promise<number>;
  /** The header of one block; `SourceLagging` when the node has not got it. */
  header(block: number, asking: Asking): Promise<NodeHeader>;
  /** The headers of these blocks, each handed over as soon as it is there, even if others fail. */
  headers(
    blocks: readonly number[],
    asking: Asking,
    take: (header: NodeHeader) => void,
  ): Promise<void>;
  /** The logs that each query finds, and the header of the range's last block. */
  logs(
    queries: readonly LogQuery[],
    range: BlockRange,
    asking: Asking,
  ): Promise<{ answers: NodeLog[][]; last: NodeHeader }>;
  /** All logs of each block, and how many receipts they come from, if they come from receipts. */
  blockLogs(
    headers: readonly NodeHeader[],
    asking: Asking,
  ): Promise<{ logs: NodeLog[]; receiptCount: number | null }[]>;
}

/** Opens a node that is called this way. */
export function openEvmNode(rpc: JsonRpc): EvmNode {
  let hasReceipts = true;

  async function results(calls: readonly RpcCall[], asking: Asking): Promise<unknown[]> {
    const replies = await rpc.batch(calls, asking);
    return replies.map((reply) => asResult(reply));
  }

  /** `null` when the node has no such method. */
  async function receipts(headers: readonly NodeHeader[], asking: Asking) {
    const method = "eth_getBlockReceipts";
    const calls = headers.map(({ number }) => ({ method, params: [hex(number)] }));
    const replies = await rpc.batch(calls, asking);
    if (replies.some((reply) => reply instanceof RpcFailure && isMethodMissing(reply))) return null;
    return replies.map((reply, index) => {
      const block = headers[index]?.number ?? 0;
      const { count, logs } = parsed(() => parseReceipts(known(asResult(reply), block), method));
      return { logs, receiptCount: count };
    });
  }

  return {
    async head(tag, asking) {
      if (tag === "latest") {
        const [block] = await results([{ method: "eth_blockNumber", params: [] }], asking);
        return parsed(() => parseNumber(block, "eth_blockNumber"));
      }
      const [block] = await results([headerCall(tag)], asking);
      if (block === null) throw sourceLagging(`The node has no ${tag} block yet.`);
      return parsed(() => parseHeader(block, "eth_getBlockByNumber").number);
    },

    async header(block, asking) {
      const [header] = await results([headerCall(hex(block))], asking);
      return headerOf(header, block);
    },

    async headers(blocks, asking, take) {
      const replies = await rpc.batch(
        blocks.map((block) => headerCall(hex(block))),
        asking,
      );
      const failures: unknown[] = [];
      for (const [index, block] of blocks.entries()) {
        try {
          take(headerOf(asResult(replies[index]), block));
        } catch (error) {
          failures.push(error);
        }
      }
      if (failures.length > 0) throw failures[0];
    },

    async logs(queries, { from, to }, asking) {
      const blocks = { fromBlock: hex(from), toBlock: hex(to) };
      const calls = queries.map((query) => logsCall({ ...blocks, ...queryParameter(query) }));
      // In one request with the last header: behind a balancer they are then answered by one node,
      // and one that knows the last block has not cut its logs short for want of blocks.
      const replies = await rpc.batch([...calls, headerCall(hex(to))], asking);
      const answers = calls.map((_call, index) => asResult(replies[index]));
      const last = headerOf(asResult(replies[calls.length]), to);
      return { answers: answers.map((answer) => logsOf(answer, to)), last };
    },

    async blockLogs(headers, asking) {
      if (hasReceipts) {
        const found = await receipts(headers, asking);
        if (found !== null) return found;
        hasReceipts = false;
      }
      const calls = headers.map(({ hash }) => logsCall({ blockHash: hash }));
      const answers = await results(calls, asking);
      return answers.map((answer, index) => ({
        logs: logsOf(answer, headers[index]?.number ?? 0),
        receiptCount: null,
      }));
    },
  };
}

function headerCall(block: string): RpcCall {
  return { method: "eth_getBlockByNumber", params: [block, false] };
}

function logsCall(parameter: Record<string, unknown>): RpcCall {
  return { method: "eth_getLogs", params: [parameter] };
}

function headerOf(value: unknown, block: number): NodeHeader {
  const header = parsed(() => parseHeader(known(value, block), "eth_getBlockByNumber"));
  if (header.number === block) return header;
  const message = `The node answered with block ${header.number} when asked for block ${block}.`;
  throw classified(new RpcFailure(message, { method: "eth_getBlockByNumber", kind: "malformed" }));
}

function logsOf(value: unknown, block: number): NodeLog[] {
  return parsed(() => parseLogs(known(value, block), "eth_getLogs"));
}

/** A node answers null for what it does not know, which is never the same as "nothing there". */
function known(value: unknown, block: number): unknown {
  if (value !== null) return value;
  throw sourceLagging(
    `The node does not know block ${block}: it lags behind, or no longer has its history.`,
  );
}

function asResult(reply: unknown): unknown {
  if (reply instanceof RpcFailure) throw classified(reply);
  return reply;
}

function parsed<Value>(read: () => Value): Value {
  try {
    return read();
  } catch (error) {
    throw error instanceof RpcFailure ? classified(error) : error;
  }
}

function classified(failure: RpcFailure): Error {
  return classifyError(failure, Date.now());
}

function hex(block: number): string {
  return `0x${block.toString(16)}`;
}

/** About 20 MB. Targets of one source ask for the same blocks at about the same time. */
const KEPT_MAX = 20_000;

/** Reads headers that follow from one another, and keeps them for the next target of the source. */
export interface HeaderChain {
  /** The headers of a range in order, each the parent of the next, up to the given last one. */
  read(range: BlockRange, last: NodeHeader, asking: Asking): Promise<NodeHeader[]>;
}

/** Opens the chain of headers that a node has. */
export function openHeaderChain(node: EvmNode): HeaderChain {
  const kept = new Map<number, NodeHeader>();

  function keep(header: NodeHeader): void {
    kept.delete(header.number);
    kept.set(header.number, header);
    for (const oldest of kept.keys()) {
      if (kept.size <= KEPT_MAX) break;
      kept.delete(oldest);
    }
  }

  async function collect(
    blocks: readonly number[],
    asking: Asking,
  ): Promise<(NodeHeader | undefined)[]> {
    const found = new Map(blocks.map((block) => [block, kept.get(block)]));
    const missing = blocks.filter((block) => found.get(block) === undefined);
    await node.headers(missing, asking, (header) => {
      // Kept even when another header fails, so that being throttled does not cost them again.
      keep(header);
      found.set(header.number, header);
    });
    return blocks.map((block) => found.get(block));
  }

  return {
    async read({ from, to }, last, asking) {
      const blocks = Array.from({ length: to - from }, (_, index) => from + index);
      const headers = linked([...(await collect(blocks, asking)), last]);
      keep(last);
      if (headers !== null) return headers;
      // What was kept may be of a fork that is gone.
      for (const block of blocks) kept.delete(block);
      const again = linked([...(await collect(blocks, asking)), last]);
      if (again !== null) return again;
      throw sourceUnavailable(
        `The headers of blocks ${from} to ${to} do not follow from one another: the chain ` +
          "changed while it was read, or the answers come from nodes that disagree.",
      );
    },
  };
}

/** The headers, if each names the one before it as its parent. */
function linked(headers: readonly (NodeHeader | undefined)[]): NodeHeader[] | null {
  const isLinked = headers.every((header, index) => {
    const previous = headers[index - 1];
    if (header === undefined) return false;
    return index === 0 || header.parentHash === previous?.hash;
  });
  return isLinked ? (headers as NodeHeader[]) : null;
}

/** A log as a node gives it, with plain numbers and everything in lower case. */
export type NodeLog = {
  readonly address: Hex;
  readonly topics: readonly Hex[];
  readonly data: Hex;
  readonly blockNumber: number;
  readonly blockHash: Hex;
  readonly transactionHash: Hex;
  readonly transactionIndex: number;
  readonly logIndex: number;
  readonly isRemoved: boolean;
};

/** What is needed of a block's header. */
export type NodeHeader = {
  readonly number: number;
  readonly hash: Hex;
  readonly parentHash: Hex;
  /** Null where the node gives none. */
  readonly logsBloom: Hex | null;
  readonly transactionCount: number;
};

type Fields = Readonly<Record<string, unknown>>;

/** Reads logs from an answer; `RpcFailure` if they are none. */
export function parseLogs(value: unknown, method: string): NodeLog[] {
  if (!Array.isArray(value)) throw malformed(method, value);
  return value.map((log: unknown) => {
    const fields = fieldsOf(log, method);
    const { topics } = fields;
    if (!Array.isArray(topics)) throw malformed(method, log);
    return {
      address: hexIn(fields, "address", method),
      topics: topics.map((topic: unknown) => hexOf(topic, method)),
      data: hexIn(fields, "data", method),
      blockNumber: numberIn(fields, "blockNumber", method),
      blockHash: hexIn(fields, "blockHash", method),
      transactionHash: hexIn(fields, "transactionHash", method),
      transactionIndex: numberIn(fields, "transactionIndex", method),
      logIndex: numberIn(fields, "logIndex", method),
      isRemoved: fields["removed"] === true,
    };
  });
}

/** Reads a block's header from an answer; `RpcFailure` if it is none. */
export function parseHeader(value: unknown, method: string): NodeHeader {
  const fields = fieldsOf(value, method);
  const { transactions } = fields;
  return {
    number: numberIn(fields, "number", method),
    hash: hexIn(fields, "hash", method),
    parentHash: hexIn(fields, "parentHash", method),
    logsBloom: bloomOf(fields["logsBloom"]),
    transactionCount: Array.isArray(transactions) ? transactions.length : 0,
  };
}

/** Only the check of logs needs it, so a chain without blooms can do without that check. */
function bloomOf(value: unknown): Hex | null {
  const isBloom = typeof value === "string" && /^0x[\da-f]{512}$/i.test(value);
  return isBloom ? (value.toLowerCase() as Hex) : null;
}

/** Reads the receipts of a block: how many there are, and all their logs. */
export function parseReceipts(value: unknown, method: string): { count: number; logs: NodeLog[] } {
  if (!Array.isArray(value)) throw malformed(method, value);
  const logs = value.flatMap((receipt: unknown) =>
    parseLogs(fieldsOf(receipt, method)["logs"], method),
  );
  return { count: value.length, logs };
}

/** Reads a quantity from an answer; `RpcFailure` if it is none. */
export function parseNumber(value: unknown, method: string): number {
  const number = Number(hexOf(value, method));
  if (!Number.isSafeInteger(number)) throw malformed(method, value);
  return number;
}

function fieldsOf(value: unknown, method: string): Fields {
  if (typeof value !== "object" || value === null) throw malformed(method, value);
  return value as Fields;
}

function hexIn(fields: Fields, name: string, method: string): Hex {
  return hexOf(fields[name], method);
}

function numberIn(fields: Fields, name: string, method: string): number {
  return parseNumber(fields[name], method);
}

function hexOf(value: unknown, method: string): Hex {
  if (typeof value !== "string" || !/^0x[\da-f]*$/i.test(value)) throw malformed(method, value);
  return value.toLowerCase() as Hex;
}

function malformed(method: string, value: unknown): RpcFailure {
  const found = (JSON.stringify(value) ?? "nothing").slice(0, 200);
  const message = `The node's answer to ${method} has ${found} where something else belongs.`;
  return new RpcFailure(message, { method, kind: "malformed" });
}
