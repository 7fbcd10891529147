import type { AbiEvent, Hex } from "viem";
import {
  decodeEventLog,
  encodeAbiParameters,
  encodeEventTopics,
  parseAbiItem,
  toEventSelector,
} from "viem/utils";
import { expect, test } from "vitest";
import { decodeLogs, logQueries } from "./log-filter.ts";
import type { NodeLog } from "./evm-node.ts";

const TOKENS = parseAbiItem(
  "event Transfer(address indexed from, address indexed to, uint256 value)",
);
const COLLECTIBLES = parseAbiItem(
  "event Transfer(address indexed from, address indexed to, uint256 indexed tokenId)",
);
const WORD = encodeAbiParameters([{ type: "uint256" }], [7n]);
const SENDER = "0x0000000000000000000000000000000000000007";
const PAIR = { a: 3n, b: "0xff" };

function log(changes: Partial<NodeLog>): NodeLog {
  return {
    address: "0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb48",
    topics: [toEventSelector(TOKENS), WORD, WORD],
    data: WORD,
    blockNumber: 1,
    blockHash: "0x01",
    transactionHash: "0x02",
    transactionIndex: 0,
    logIndex: 0,
    isRemoved: false,
    ...changes,
  };
}

const decode = (logs: NodeLog[], ...events: AbiEvent[]) => decodeLogs(logs, logQueries({ events }));

const token = log({});
const collectible = log({ topics: [...token.topics, WORD], data: "0x", logIndex: 1 });

test("a log has its event's name and arguments, and addresses with their checksum", () => {
  expect(decode([token], TOKENS)).toMatchObject({
    decoded: [
      {
        address: "0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48",
        eventName: "Transfer",
        args: { from: SENDER, to: SENDER, value: 7n },
      },
    ],
    foreign: 0,
  });
});

test("events of one signature are told apart by what is indexed", () => {
  expect(decode([token, collectible], TOKENS, COLLECTIBLES).decoded).toMatchObject([
    { args: { value: 7n } },
    { args: { tokenId: 7n } },
  ]);
  expect(decode([token, collectible], TOKENS)).toMatchObject({
    decoded: [{ logIndex: 0 }],
    foreign: 1,
  });
});

test("a log whose data is not that of the event is left out and counted", () => {
  expect(decode([log({ data: "0x01" }), token], TOKENS)).toMatchObject({
    decoded: [{ args: { value: 7n } }],
    foreign: 1,
  });
});

test.each([
  ["event A(uint256 value)", [5n]],
  ["event B(address indexed who, string text, bytes32 indexed id)", [SENDER, "ü", WORD]],
  ["event C(string indexed text, uint8[] list, int24 delta)", ["t", [1, 2], -3]],
  ["event D((uint64 a, bytes b) pair, bool indexed is, uint40 indexed at)", [PAIR, true, 77]],
  ["event E(uint256 indexed, bytes)", [9n, "0x0102"]],
  ["event F()", []],
])("%s is read as viem reads it", (text, values) => {
  const event = parseAbiItem(text) as AbiEvent;
  const inputs = event.inputs.map((input, at) => ({ ...input, value: values[at] }));
  const topics = encodeEventTopics({
    abi: [event],
    args: inputs.flatMap(({ indexed, value }) => (indexed === true ? [value] : [])),
  } as never) as [Hex, ...Hex[]];
  const inData = inputs.filter(({ indexed }) => indexed !== true);
  const data = encodeAbiParameters(
    inData,
    inData.map(({ value }) => value),
  );
  const { args: expected } = decodeEventLog({ abi: [event], topics, data });
  const { decoded, foreign } = decode([log({ topics, data })], event);
  expect(foreign).toBe(0);
  expect(decoded[0]?.args).toEqual(expected ?? {});
});
