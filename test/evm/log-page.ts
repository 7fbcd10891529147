import { getAddress } from "viem/utils";
import type { RpcRequest } from "./faulty-node.ts";

/** The blocks that a request asks the logs of, and whose. */
export type LogPageRequest = { wallet: string; from: number; to: number };

type Parameter = { fromBlock?: string; toBlock?: string; topics?: (string | string[] | null)[] };

/** What a request asks the logs of; null when it is about something else. */
export function pageOf(calls: readonly RpcRequest[]): LogPageRequest | null {
  const call = calls.find(({ method }) => method === "eth_getLogs");
  const { fromBlock, toBlock, topics } = (call?.params[0] ?? {}) as Parameter;
  if (fromBlock === undefined || toBlock === undefined) return null;
  const topic =
    (topics ?? [])
      .slice(1)
      .flat()
      .find((each) => each !== null) ?? "";
  const wallet = getAddress(`0x${topic.slice(-40)}`);
  return { wallet, from: Number(fromBlock), to: Number(toBlock) };
}
