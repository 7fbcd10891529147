import type { AbiEvent, Address, AbiEventParametersToPrimitiveTypes, Hex } from "viem";
import { decodeEventLog, getAddress, toEventSelector } from "viem/utils";
import type { LogQuery } from "./log-filter.ts";
import type { NodeLog } from "./node-log.ts";

/** A decoded log. */
export type EvmLog<Event extends AbiEvent = AbiEvent> = {
  readonly address: Address;
  readonly blockNumber: number;
  readonly blockHash: Hex;
  readonly transactionHash: Hex;
  readonly transactionIndex: number;
  readonly logIndex: number;
} & EventOf<Event>;

/** All arguments, each with one value. */
type Decoded = { EnableUnion: false; IndexedOnly: false; Required: true };

type EventOf<Event extends AbiEvent> = Event extends AbiEvent
  ? {
      readonly eventName: Event["name"];
      readonly args: AbiEventParametersToPrimitiveTypes<Event["inputs"], Decoded>;
    }
  : never;

/**
 * Decodes logs by the events of the queries.
 *
 * A log with the signature of an event but other indexed arguments is another event: the transfers
 * of tokens and of collectibles differ in nothing else. So is one whose data does not decode; anybody
 * may emit such logs, and they must not be able to hold up a sync. Both are left out and counted.
 */
export function decodeLogs<Event extends AbiEvent>(
  logs: readonly NodeLog[],
  queries: readonly LogQuery[],
): { decoded: EvmLog<Event>[]; foreign: number } {
  const events = new Map(
    queries.flatMap((query) => query.events).map((event) => [shapeOf(event), event]),
  );
  const decoded: EvmLog<Event>[] = [];
  for (const log of logs) {
    const event = events.get(`${log.topics[0] ?? ""}/${log.topics.length - 1}`);
    const args = event === undefined ? null : argumentsOf(event, log);
    if (event === undefined || args === null) continue;
    const { blockNumber, blockHash, transactionHash, transactionIndex, logIndex } = log;
    const place = { blockNumber, blockHash, transactionHash, transactionIndex, logIndex };
    const address = getAddress(log.address);
    decoded.push({ address, ...place, eventName: event.name, args } as EvmLog<Event>);
  }
  return { decoded, foreign: logs.length - decoded.length };
}

function shapeOf(event: AbiEvent): string {
  return `${toEventSelector(event)}/${event.inputs.filter(({ indexed }) => indexed).length}`;
}

function argumentsOf(event: AbiEvent, { topics, data }: NodeLog): object | null {
  try {
    const { args } = decodeEventLog({ abi: [event], topics: topics as [Hex, ...Hex[]], data });
    return args ?? {};
  } catch {
    return null;
  }
}
