import type * as Viem from "viem/utils";
import type { AbiEvent, AbiEventParametersToPrimitiveTypes, Address, Hex } from "viem";
import { PawlError } from "../kernel/errors.ts";
import type { NodeLog } from "./evm-node.ts";

const {
  decodeAbiParameters,
  encodeEventTopics,
  getAddress,
  hexToBytes,
  keccak256,
  toEventSelector,
} = await loadViem();

/** Which logs are wanted: of which events, of which contracts, with which indexed arguments. */
export type LogFilter<Event extends AbiEvent = AbiEvent> = {
  /** The contracts; any, if none are named. */
  address?: Address | readonly Address[];
  event?: Event;
  /** Several events, told apart by their signatures; they can have no `args`. */
  events?: readonly Event[];
  /** Values of the event's indexed arguments, by name; a list means any of them. */
  args?: Readonly<Record<string, unknown>>;
};

/** A filter in the node's own words. */
export type LogQuery = {
  readonly events: readonly AbiEvent[];
  /** Lower-case; null for any. */
  readonly addresses: readonly Hex[] | null;
  /** For each position the values that will do, lower-case; null for any. */
  readonly topics: readonly (readonly Hex[] | null)[];
};

/** Filters in the node's words; `CONFIG_INVALID` when they would not do what they say. */
export function logQueries(filters: LogFilter | readonly LogFilter[]): LogQuery[] {
  const list = Array.isArray(filters) ? (filters as readonly LogFilter[]) : [filters as LogFilter];
  if (list.length === 0) throw invalid("names no filter; without one there is nothing to sync");
  return list.map(logQuery);
}

/** A filter as a parameter of `eth_getLogs`, without the blocks. */
export function queryParameter({ addresses, topics }: LogQuery): Record<string, unknown> {
  return { ...(addresses === null ? {} : { address: addresses }), topics };
}

/** Whether the node has to give this log for this query. */
export function matchesQuery({ addresses, topics }: LogQuery, log: NodeLog): boolean {
  if (addresses !== null && !addresses.includes(log.address)) return false;
  return topics.every((wanted, position) => {
    const topic = log.topics[position];
    return wanted === null ? true : topic !== undefined && wanted.includes(topic);
  });
}

function logQuery(filter: LogFilter): LogQuery {
  const { event, events, args } = filter;
  const wanted = [...(event === undefined ? [] : [event]), ...(events ?? [])];
  const [first] = wanted;
  // Without an event a node gives every log there is, and nobody could decode them.
  if (first === undefined) throw invalid("has neither `event` nor `events`; name what is wanted");
  if (args !== undefined && wanted.length > 1) {
    throw invalid("has `args` for several events; write a filter for each of them");
  }
  const anonymous = wanted.find((each) => each.anonymous === true);
  if (anonymous !== undefined) {
    throw invalid(`names ${anonymous.name}, which is anonymous: no log says that it is one`);
  }
  const addresses = "address" in filter ? addressesOf(filter.address) : null;
  const topics = args === undefined ? [selectorsOf(wanted)] : topicsOf(first, args);
  return { events: wanted, addresses, topics };
}

/** Whatever stands for no address means any contract to a node, which is never what was meant. */
function addressesOf(given: LogFilter["address"] | undefined): Hex[] {
  const addresses: readonly unknown[] = [given].flat();
  if (addresses.length === 0) throw invalid("has an empty list of addresses; leave it out for any");
  return addresses.map((address) => {
    const isAddress = typeof address === "string" && /^0x[\da-f]{40}$/i.test(address);
    if (isAddress) return address.toLowerCase() as Hex;
    throw invalid(`has ${shown(address)} as an address; leave the field out for any contract`);
  });
}

function shown(value: unknown): string {
  return JSON.stringify(value) ?? "undefined";
}

function selectorsOf(events: readonly AbiEvent[]): Hex[] {
  return lowerCased([...new Set(events.map((event) => toEventSelector(event)))]);
}

function topicsOf(event: AbiEvent, args: Readonly<Record<string, unknown>>): LogQuery["topics"] {
  for (const [name, value] of Object.entries(args)) {
    const input = event.inputs.find((candidate) => candidate.name === name);
    if (input?.indexed !== true) {
      const names = event.inputs.filter(({ indexed }) => indexed).map((indexed) => indexed.name);
      const known = names.join(", ") || "none";
      throw invalid(`asks for ${event.name}.${name}, which is not indexed; indexed are: ${known}`);
    }
    if (Array.isArray(value) && value.length === 0) {
      throw invalid(`has an empty list for ${event.name}.${name}; leave it out for any value`);
    }
    if ([value].flat().some((each) => each === undefined || each === null)) {
      const found = `${shown(value)} for ${event.name}.${name}`;
      throw invalid(`has ${found}, which would find any value; leave it out if that is meant`);
    }
  }
  const topics = encodeEventTopics({ abi: [event], eventName: event.name, args }) as (
    | Hex
    | Hex[]
    | null
  )[];
  return topics.map((topic) => (topic === null ? null : lowerCased([topic].flat())));
}

function lowerCased(values: readonly Hex[]): Hex[] {
  return values.map((value) => value.toLowerCase() as Hex);
}

function invalid(problem: string): PawlError {
  return new PawlError("CONFIG_INVALID", `A filter of evmLogs ${problem}.`);
}

const BLOOM_BYTES = 256;
const BITS_PER_VALUE = 3;
const BITS_MASK = BLOOM_BYTES * 8 - 1;

/**
 * Tells for each bloom whether its block may have a log that matches the query.
 *
 * A bloom never denies a log that is there. It may announce one that is not, the more often the
 * fuller the block: on a busy chain for every fourth block or so.
 */
export function announces({ addresses, topics }: LogQuery): (bloom: Hex) => boolean {
  const wanted = [addresses, ...topics]
    .filter((values) => values !== null)
    .map((values) => values.map(bitsOf));
  return (bloom) => {
    const bits = hexToBytes(bloom);
    return wanted.every((values) =>
      values.some((value) => value.every((bit) => hasBit(bits, bit))),
    );
  };
}

/** Whether these logs account for everything that a bloom announces, so that none is missing. */
export function explainsBloom(logs: readonly NodeLog[], bloom: Hex): boolean {
  const left = hexToBytes(bloom);
  for (const value of new Set(logs.flatMap(({ address, topics }) => [address, ...topics]))) {
    for (const bit of bitsOf(value)) clearBit(left, bit);
  }
  // Logs beyond the bloom are fine: some chains have system logs that their headers do not count.
  return left.every((byte) => byte === 0);
}

/** The three bits that stand for an address or a topic. */
function bitsOf(value: Hex): number[] {
  const hash = keccak256(value, "bytes");
  return Array.from({ length: BITS_PER_VALUE }, (_, index) => {
    return (((hash[2 * index] ?? 0) << 8) | (hash[2 * index + 1] ?? 0)) & BITS_MASK;
  });
}

/** Bits are counted from the end. */
const byteOf = (bit: number): number => BLOOM_BYTES - 1 - (bit >> 3);
const maskOf = (bit: number): number => 1 << (bit & 7);

function hasBit(bits: Uint8Array, bit: number): boolean {
  return ((bits[byteOf(bit)] ?? 0) & maskOf(bit)) !== 0;
}

function clearBit(bits: Uint8Array, bit: number): void {
  bits[byteOf(bit)] = (bits[byteOf(bit)] ?? 0) & ~maskOf(bit);
}

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

/** viem, which whoever reads chains installs beside Pawl. Throws CONFIG_INVALID where it is missing. */
async function loadViem(): Promise<typeof Viem> {
  try {
    return await import("viem/utils");
  } catch (cause) {
    const { code, message } = cause as NodeJS.ErrnoException;
    if (code !== "ERR_MODULE_NOT_FOUND" || !/'viem['/]/.test(message)) throw cause;
    throw new PawlError(
      "CONFIG_INVALID",
      "pawl/evm needs the package viem, which is not installed. Run `npm install viem` in the project.",
      { cause, details: { package: "viem" } },
    );
  }
}
