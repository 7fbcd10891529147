import type { Address } from "viem";
import { parseAbiItem, toEventSelector } from "viem/utils";
import { describe, expect, test } from "vitest";
import { type LogFilter, logQueries, matchesQuery, queryParameter } from "./log-filter.ts";
import type { NodeLog } from "./evm-node.ts";

const TRANSFER = parseAbiItem(
  "event Transfer(address indexed from, address indexed to, uint256 value)",
);
const APPROVAL = parseAbiItem(
  "event Approval(address indexed owner, address indexed spender, uint256 value)",
);
const TOKEN = "0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48";
const WALLET = "0xd8dA6BF26964aF9D7eEd9e03E53415D37aA96045";
const WORD = `0x000000000000000000000000${WALLET.slice(2).toLowerCase()}` as const;

function log(changes: Partial<NodeLog>): NodeLog {
  return {
    address: TOKEN.toLowerCase() as NodeLog["address"],
    topics: [toEventSelector(TRANSFER), WORD, WORD],
    data: "0x",
    blockNumber: 1,
    blockHash: "0x01",
    transactionHash: "0x02",
    transactionIndex: 0,
    logIndex: 0,
    isRemoved: false,
    ...changes,
  };
}

function queryOf(filter: LogFilter) {
  const [query] = logQueries(filter);
  if (query === undefined) throw new Error("There is a query for each filter.");
  return query;
}

describe("logQueries", () => {
  test("puts a filter into the node's words", () => {
    const query = queryOf({ address: TOKEN, event: TRANSFER, args: { to: WALLET } });

    expect(queryParameter(query)).toEqual({
      address: [TOKEN.toLowerCase()],
      topics: [[toEventSelector(TRANSFER)], null, [WORD]],
    });
  });

  test("takes several events, addresses and values as any of them", () => {
    const events = queryOf({ events: [TRANSFER, APPROVAL] });
    expect(queryParameter(events)).toEqual({
      topics: [[toEventSelector(TRANSFER), toEventSelector(APPROVAL)]],
    });

    const query = queryOf({ event: TRANSFER, args: { from: [WALLET, TOKEN] } });
    expect(query.topics[1]).toHaveLength(2);
  });

  test.each<[what: string, filters: LogFilter | LogFilter[], said: RegExp]>([
    ["no filter", [], /names no filter/],
    ["no event", { address: TOKEN }, /neither `event` nor `events`/],
    ["no address, where a node would take any", { address: [], event: TRANSFER }, /empty list/],
    ["no value", { event: TRANSFER, args: { from: [] } }, /empty list for Transfer.from/],
    ["a value nobody can look for", { event: TRANSFER, args: { value: 1n } }, /not indexed/],
    ["an unknown name", { event: TRANSFER, args: { sender: WALLET } }, /indexed are: from, to/],
    [
      "an address that is not known, where a node would take any",
      { address: undefined as unknown as Address, event: TRANSFER },
      /undefined as an address/,
    ],
    ["what is no address", { address: [TOKEN, "0x12"], event: TRANSFER }, /"0x12" as an address/],
    ["a value that is not known", { event: TRANSFER, args: { to: undefined } }, /Transfer.to/],
    ["one of several that is not known", { event: TRANSFER, args: { to: [WALLET, null] } }, /any/],
    ["an event without a signature", { event: { ...TRANSFER, anonymous: true } }, /anonymous/],
    ["values for several events", { events: [TRANSFER, APPROVAL], args: {} }, /several events/],
  ])("refuses %s", (_what, filters, said) => {
    expect(() => logQueries(filters)).toThrow(said);
  });
});

test("a query is matched by address and by each topic that it names", () => {
  const query = queryOf({ address: TOKEN, event: TRANSFER, args: { to: WALLET } });
  const topics = log({}).topics;

  expect(matchesQuery(query, log({}))).toBe(true);
  expect(matchesQuery(query, log({ address: "0x01" }))).toBe(false);
  expect(matchesQuery(query, log({ topics: topics.slice(0, 2) }))).toBe(false);
  expect(matchesQuery(query, log({ topics: [...topics.slice(0, 2), "0x01"] }))).toBe(false);
  expect(matchesQuery(query, log({ topics: [...topics.slice(0, 1), "0x01", WORD] }))).toBe(true);
});
