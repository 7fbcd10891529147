import type { Random } from "../simulation/random.ts";
import type { Faults } from "./faults.ts";

/** A call as it is sent to a node. */
export type RpcRequest = { jsonrpc: "2.0"; id: number; method: string; params: unknown[] };

type RpcReply = { jsonrpc: "2.0"; id: number; result?: unknown; error?: RpcError };
type RpcError = { code: number; message: string; data?: unknown };
type Log = { blockNumber: string };
type LogsParameter = { fromBlock?: string; toBlock?: string; blockHash?: string };

/** A request, and the node it is meant for. */
export type FaultyRequest = {
  nodeUrl: string;
  body: RpcRequest | RpcRequest[];
  faults: Faults;
  random: Random;
  strike: (fault: string) => void;
};

/** Answers like a node with these faults would: refuses, or asks the real one and spoils its answer. */
export async function answerLike(request: FaultyRequest): Promise<unknown> {
  const { body, faults, random, strike, nodeUrl } = request;
  const calls = [body].flat();
  if (faults.batchCap !== null && calls.length > faults.batchCap) {
    strike("batchCap");
    return { jsonrpc: "2.0", id: null, error: { code: -32005, message: "batch limit exceeded" } };
  }
  const isLagging = random.chance(faults.lagChance);
  const head = isLagging ? (await nodeHead(nodeUrl)) - faults.lagBlocks : null;
  if (isLagging) strike("lag");

  const refusals = new Map(calls.map((call) => [call.id, refusalOf(call, faults)]));
  const asked = calls.filter(({ id }) => refusals.get(id) === null);
  const answers = await ask(
    nodeUrl,
    asked.map((call) => (head === null ? call : clipped(call, head))),
  );
  const replies = calls.map((call): RpcReply => {
    const refusal = refusals.get(call.id) ?? null;
    const answer = answers.find(({ id }) => id === call.id);
    if (answer !== undefined) return spoiled(call, answer, head, request);
    strike(refusal?.fault ?? "unanswered");
    const error = refusal?.error ?? { code: -32603, message: "Internal error" };
    return { jsonrpc: "2.0", id: call.id, error };
  });
  return Array.isArray(body) ? random.shuffled(replies) : replies[0];
}

/** What is refused before anybody looks. */
function refusalOf(
  { method, params }: RpcRequest,
  { rangeCap, brokenBlock, missingMethod }: Faults,
): { fault: string; error: RpcError } | null {
  if (method === missingMethod) {
    const message = `the method ${method} does not exist/is not available`;
    return { fault: "missingMethod", error: { code: -32601, message } };
  }
  const range = method === "eth_getLogs" ? rangeOf(params[0] as LogsParameter) : null;
  if (range === null) return null;
  if (rangeCap !== null && range.to - range.from + 1 > rangeCap) {
    const message = `eth_getLogs is limited to a ${rangeCap.toLocaleString("en")} range`;
    return { fault: "rangeCap", error: { code: -32614, message } };
  }
  if (brokenBlock !== null && range.from <= brokenBlock && brokenBlock <= range.to) {
    const message = `receipts of block ${brokenBlock} are corrupt`;
    return { fault: "brokenBlock", error: { code: -32000, message } };
  }
  return null;
}

/** The call as a node that knows no newer blocks takes it: it looks as far as it can see. */
function clipped(call: RpcRequest, head: number): RpcRequest {
  const range = call.method === "eth_getLogs" ? rangeOf(call.params[0] as LogsParameter) : null;
  if (range === null || range.to <= head) return call;
  const toBlock = `0x${Math.max(0, Math.min(head, range.to)).toString(16)}`;
  const fromBlock = range.from > head ? toBlock : `0x${range.from.toString(16)}`;
  return { ...call, params: [{ ...(call.params[0] as object), fromBlock, toBlock }] };
}

function spoiled(
  call: RpcRequest,
  reply: RpcReply,
  head: number | null,
  { faults, random, strike }: FaultyRequest,
): RpcReply {
  if (reply.error !== undefined) return reply;
  const { method, params } = call;
  if (method === "eth_blockNumber") {
    const back = faults.headFlap > 0 ? random.integer(0, faults.headFlap) : 0;
    if (back > 0) strike("headFlap");
    const block = Math.max(0, (head ?? Number(reply.result)) - back);
    return { ...reply, result: `0x${block.toString(16)}` };
  }
  if (method === "eth_getBlockByNumber" || method === "eth_getBlockReceipts") {
    return head !== null && Number(params[0]) > head ? { ...reply, result: null } : reply;
  }
  if (method !== "eth_getLogs") return reply;
  return spoiledLogs(reply, params[0] as LogsParameter, head, { faults, random, strike });
}

function spoiledLogs(
  reply: RpcReply,
  parameter: LogsParameter,
  head: number | null,
  { faults, random, strike }: Pick<FaultyRequest, "faults" | "random" | "strike">,
): RpcReply {
  const range = rangeOf(parameter);
  const from = range?.from ?? 0;
  const logs = (reply.result as Log[]).filter(
    ({ blockNumber }) =>
      Number(blockNumber) >= from && (head === null || Number(blockNumber) <= head),
  );
  if (faults.resultCap !== null && logs.length > faults.resultCap) {
    strike("resultCap");
    return { jsonrpc: "2.0", id: reply.id, error: tooMany(faults, faults.resultCap, range) };
  }
  if (logs.length === 0 || !random.chance(faults.dropChance)) return { ...reply, result: logs };
  strike("drop");
  const dropped = new Set(droppedOf(logs, faults, random));
  return { ...reply, result: logs.filter((log) => !dropped.has(log)) };
}

function droppedOf(logs: readonly Log[], { dropped }: Faults, random: Random): Log[] {
  if (dropped === "some") return random.some(logs);
  return dropped === "first" ? logs.slice(0, 1) : logs.slice(-1);
}

function tooMany(
  { suggestion }: Faults,
  cap: number,
  range: { from: number; to: number } | null,
): RpcError {
  const message = `query returned more than ${cap} results`;
  if (suggestion === "none" || range === null) return { code: -32005, message };
  const { from } = range;
  const to = suggestion === "same" ? range.to : from + Math.floor((range.to - from) / 2);
  const [first, last] = [`0x${from.toString(16)}`, `0x${to.toString(16)}`];
  return { code: -32005, message: `${message}. Try with this block range [${first}, ${last}].` };
}

/** The blocks that a call of `eth_getLogs` is about, unless it names one by its hash. */
function rangeOf({ fromBlock, toBlock }: LogsParameter): { from: number; to: number } | null {
  if (fromBlock === undefined || toBlock === undefined) return null;
  return { from: Number(fromBlock), to: Number(toBlock) };
}

async function nodeHead(nodeUrl: string): Promise<number> {
  const call: RpcRequest = { jsonrpc: "2.0", id: 0, method: "eth_blockNumber", params: [] };
  return Number((await ask(nodeUrl, [call]))[0]?.result);
}

async function ask(nodeUrl: string, calls: readonly RpcRequest[]): Promise<RpcReply[]> {
  if (calls.length === 0) return [];
  const response = await fetch(nodeUrl, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(calls),
  });
  return (await response.json()) as RpcReply[];
}
