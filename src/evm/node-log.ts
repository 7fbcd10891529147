import type { Hex } from "viem";
import { RpcFailure } from "./post-json.ts";

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
