import type { AbiEvent, Address, AbiEventParametersToPrimitiveTypes, Hex } from "viem";
import { decodeAbiParameters, getAddress, toEventSelector } from "viem/utils";
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
    queries.flatMap((query) => query.events).map((event) => [shapeOf(event), layoutOf(event)]),
  );
  const decoded: EvmLog<Event>[] = [];
  for (const log of logs) {
    const layout = events.get(`${log.topics[0] ?? ""}/${log.topics.length - 1}`);
    const args = layout === undefined ? null : argumentsOf(layout, log);
    if (layout === undefined || args === null) continue;
    const { event } = layout;
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

/**
 * Where the arguments of an event stand. Worked out once: what viem offers for whole logs hashes the
 * event's signature for each of them, which was most of the time that a dense page took.
 */
type Layout = {
  event: AbiEvent;
  /** Indexed arguments that a topic holds; of the others it holds only a hash. */
  inTopics: readonly { at: number; topic: number }[];
  hashed: readonly { at: number; topic: number }[];
  inData: readonly number[];
};

const DYNAMIC = /^(?:string|bytes|tuple)$|\]$/;

function layoutOf(event: AbiEvent): Layout {
  const indexed = event.inputs.flatMap(({ indexed: is }, at) => (is === true ? [at] : []));
  const places = indexed.map((at, place) => ({ at, topic: place + 1 }));
  const isHashed = ({ at }: { at: number }) => DYNAMIC.test(event.inputs[at]?.type ?? "");
  return {
    event,
    inTopics: places.filter((place) => !isHashed(place)),
    hashed: places.filter(isHashed),
    inData: event.inputs.flatMap(({ indexed: is }, at) => (is === true ? [] : [at])),
  };
}

function argumentsOf(layout: Layout, { topics, data }: NodeLog): object | null {
  const { inputs } = layout.event;
  const values: unknown[] = Array.from({ length: inputs.length });
  const inputsAt = (places: readonly number[]) => places.map((at) => inputs[at] ?? { type: "" });
  try {
    const words = layout.inTopics.map(({ topic }) => topics[topic]?.slice(2) ?? "").join("");
    const own = layout.inTopics.map(({ at }) => at);
    // No words at all are read as one word that is missing.
    const fromTopics = own.length === 0 ? [] : decodeAbiParameters(inputsAt(own), `0x${words}`);
    for (const [place, at] of own.entries()) values[at] = fromTopics[place];
    for (const { at, topic } of layout.hashed) values[at] = topics[topic];
    const { inData } = layout;
    const fromData = inData.length === 0 ? [] : decodeAbiParameters(inputsAt(inData), data);
    for (const [place, at] of inData.entries()) values[at] = fromData[place];
  } catch {
    return null;
  }
  if (inputs.some(({ name }) => name === undefined || name === "")) return values;
  return Object.fromEntries(inputs.map(({ name }, at) => [name, values[at]]));
}
