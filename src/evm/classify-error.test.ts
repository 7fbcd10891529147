import { describe, expect, test } from "vitest";
import { RangeTooLarge, SourceLagging, SourceUnavailable, Throttled } from "../define/errors.ts";
import { classifyError, isMethodMissing } from "./classify-error.ts";
import { RpcFailure, type RpcFailureFacts } from "./post-json.ts";

const NOW = Date.parse("2026-11-15T12:00:00Z");

function failed(message: string, facts: Partial<RpcFailureFacts> = {}): RpcFailure {
  return new RpcFailure(message, { method: "eth_getLogs", kind: "refused", status: 200, ...facts });
}

const classify = (message: string, facts: Partial<RpcFailureFacts> = {}): Error =>
  classifyError(failed(message, facts), NOW);

describe("classifyError", () => {
  // What nodes and providers have really said, with the size that they name.
  test.each<[who: string, code: number, message: string, suggested: number | null]>([
    [
      "Alchemy",
      -32602,
      "Log response size exceeded. You can make eth_getLogs requests with up to a 2K block range and no limit on the response size, or you can request any block range with a cap of 10K logs in the response. Based on your parameters and the response size limit, this block range should work: [0x0, 0x133e71]",
      0x133e72,
    ],
    [
      "Alchemy, by plan",
      -32600,
      "You can make eth_getLogs requests with up to a 500 block range. Based on your parameters, this block range should work: [0x123c9b2, 0x123cba5]",
      500,
    ],
    [
      "Alchemy, free",
      -32600,
      "Under the Free tier plan, you can make eth_getLogs requests with up to a 10 block range. Upgrade to PAYG for expanded block range.",
      10,
    ],
    [
      "Alchemy, slow query",
      -32000,
      "Query timeout exceeded. Consider reducing your block range. Based on your parameters and the response size limit, this block range should work: [0x42b950f, 0x435784f]",
      0x435784f - 0x42b950f + 1,
    ],
    ["Alchemy, short", -32602, "up to a 2K block range", 2000],
    ["Alchemy, old", -32602, "Log response size exceeded. Please reduce query block range.", null],
    [
      "Infura",
      -32005,
      "query returned more than 10000 results. Try with this block range [0xCB3D, 0x7B737].",
      0x7b737 - 0xcb3d + 1,
    ],
    ["Infura, range", -32602, "range 1000000 exceeds limit of 10000", 10_000],
    ["Infura, slow query", -32005, "query timeout exceeded, try a smaller block range", null],
    ["QuickNode", -32614, "eth_getLogs is limited to a 10,000 range", 10_000],
    ["QuickNode, free", -32614, "eth_getLogs is limited to a 5 range", 5],
    ["QuickNode, blocks", -32602, "eth_getLogs is limited to a 10,000 blocks range", 10_000],
    ["1RPC", -32602, "eth_getLogs is limited to 0 - 50 blocks range", 50],
    ["Ankr", -32000, "block range is too wide", null],
    ["Ankr, distance", -32602, "maximum [from, to] blocks distance: 10000", 10_000],
    ["Ankr, large", -32062, "Block range is too large", null],
    [
      "BlockPi",
      -32602,
      "eth_getLogs is limited to 1024 block range. Please check the parameter requirements at https://docs.blockpi.io/",
      1024,
    ],
    ["BlockPi, logs", -32602, "limited to 2000 block", 2000],
    [
      "Cloudflare",
      -32047,
      "Invalid eth_getLogs request. 'fromBlock'-'toBlock' range too large. Max range: 800",
      800,
    ],
    [
      "Chainstack",
      -32602,
      "Block range limit exceeded. See more details at https://docs.chainstack.com/docs/limits#evm-range-limits",
      null,
    ],
    ["PublicNode", -32701, "exceed maximum block range: 50000", 50_000],
    ["dRPC", 35, "ranges over 10000 blocks are not supported on free plan", 10_000],
    [
      "dRPC, blocks",
      -32000,
      "requested too many blocks from 0 to 16777216, maximum is set to 2048",
      2048,
    ],
    [
      "thirdweb",
      -32005,
      "Log response size exceeded. Maximum allowed number of requested blocks is 3500",
      3500,
    ],
    ["thirdweb, bare", -32005, "Request exceeds defined limit.", null],
    ["Coinbase", -32004, "please limit the query to at most 1000 blocks", 1000],
    ["Blast", -32600, "exceeds the range allowed for your plan (5000 > 500)", 500],
    [
      "Morph",
      -32000,
      "block range is larger than max block range, block range = 5120, max block range = 5000",
      5000,
    ],
    ["SimplyVC", -32000, "too wide blocks range, the limit is 100", 100],
    ["Base", -32020, "backend response too large", null],
    ["Base, range", -32000, "block range too large", null],
    ["zkSync", -32000, "Query returned more than 10000 results. Try smaller range of blocks", null],
    [
      "zkSync, range",
      -32000,
      "Query returned more than 10000 results. Try with this block range [0x1, 0x20].",
      32,
    ],
    ["Polygon zkEVM", -32000, "query returned more than 20000 results", null],
    ["Polygon zkEVM, range", -32000, "logs are limited to a 10000 block range", 10_000],
    ["Arbitrum", -32000, "logs matched by query exceeds limit of 10000", null],
    ["Hyperliquid", -32602, "query exceeds max block range 1000", 1000],
    ["Reth", -32602, "query exceeds max block range 100000", 100_000],
    [
      "Reth, results",
      -32602,
      "query exceeds max results 20000, retry with the range 24383075-24383096",
      22,
    ],
    ["Geth", -32000, "exceed maximum block range 5000", 5000],
    ["Geth, response", -32003, "response too large", null],
    ["Erigon", -32000, "block range 100001 exceeds maximum allowed range 100000", 100_000],
    ["Nethermind", -32005, "Too many logs requested. Max logs per response is 20000.", null],
    ["Besu", -32005, "Requested range exceeds maximum RPC range limit", null],
    ["Tenderly", -32005, "block range is too large, try 25700000-25700001", 2],
    ["Sei", -32000, "response size should not greater than 10000000 bytes", null],
    ["a proxy", -32000, "number of requested blocks (5000) exceeds the maximum of 1000", null],
    ["a proxy, plan", -32000, "block range exceeds current plan limit", null],
    ["Avalanche", -32000, "requested too many blocks from 1 to 5000, maximum is set to 2048", 2048],
  ])("%s: a range that is too large (%i, %s)", (_who, code, message, suggested) => {
    const error = classify(message, { code });

    expect(error).toBeInstanceOf(RangeTooLarge);
    expect((error as RangeTooLarge).suggestedSize).toBe(suggested);
  });

  test.each<[who: string, code: number, message: string]>([
    [
      "Alchemy",
      429,
      "Your app has exceeded its compute units per second capacity. If you have retries enabled, you can safely ignore this message.",
    ],
    ["Alchemy, other code", -32000, "Your app has exceeded its compute units per second capacity"],
    ["Infura", -32005, "daily request count exceeded, request rate limited"],
    ["Infura, second", -32005, "project ID request rate exceeded"],
    [
      "QuickNode",
      -32007,
      "50/second request limit reached - reduce calls per second or upgrade your account at quicknode.com",
    ],
    ["Ankr", -32029, "Too many requests, reason: call rate limit exhausted, retry in 10s"],
    [
      "Chainstack",
      -32005,
      "You've exceeded the RPS limit available on the current plan. rate limit",
    ],
    ["Base", -32016, "over rate limit"],
    ["PublicNode", -32000, "rate limit exceeded"],
    ["dRPC", 15, "Too many requests, try again later"],
    ["standard", -32005, "limit exceeded"],
    ["a proxy", -32000, "max RPS reached"],
    ["a proxy, by credits", -32000, "insufficient credits"],
    ["Cloudflare", -32046, "Cannot fulfill request: rate limited"],
  ])("%s: asked too often (%i, %s)", (_who, code, message) => {
    expect(classify(message, { code })).toBeInstanceOf(Throttled);
  });

  test.each<[who: string, code: number, message: string]>([
    ["Geth", -32000, "header not found"],
    ["Geth, new", -32602, "block range extends beyond current head block"],
    ["Geth, hash", -32000, "unknown block"],
    [
      "Reth",
      -32000,
      "block range extends beyond current head block: requested 0x2000, head 0x1000",
    ],
    ["Reth, missing", -32001, "block not found: 0x1234"],
    [
      "Erigon",
      -32000,
      "requested block range [4096, 8192] is beyond latest executed block 4000 (node is still syncing)",
    ],
    ["Erigon, missing", -32000, "block 123 not found"],
    ["Nethermind", -32001, "Block 0x10 could not be found, unknown block"],
    ["Besu", -39001, "Unknown block"],
    ["OP proxyd", -32019, "block is out of range"],
    [
      "Avalanche",
      -32000,
      "cannot query unfinalized data: requested to block 12 after last accepted block 10",
    ],
    [
      "OpenEthereum",
      -32000,
      "One of the blocks specified in filter (fromBlock, toBlock or blockHash) cannot be found.",
    ],
    ["Geth, turned around", -32000, "invalid block range params"],
    ["Erigon, turned around", -32000, "end (100) < begin (120)"],
    ["Nethermind, number", -32001, "Block with number 123 not found"],
    ["a proxy", -32602, "toBlock (120) is greater than head block (100)"],
    ["a proxy, short", -32602, "requested block number is higher than the latest"],
    ["a proxy, head", -32602, "toBlock exceeds current head"],
    ["Avalanche, short", -32000, "cannot query unfinalized data"],
    ["anvil", -32602, "BlockOutOfRangeError: block height is 10000 but requested was 16777200"],
  ])("%s: a node that has not got that far (%i, %s)", (_who, code, message) => {
    expect(classify(message, { code })).toBeInstanceOf(SourceLagging);
  });

  test.each<[what: string, message: string, facts: Partial<RpcFailureFacts>]>([
    ["a timeout", "There was no answer to eth_getLogs within 10 ms.", { kind: "timeout" }],
    ["a reset", "The node cannot be reached: ECONNRESET.", { kind: "unreachable" }],
    ["502", "The node answered with status 502: <html>", { kind: "status", status: 502 }],
    ["503", "Error 503 Backend fetch failed", { kind: "status", status: 503 }],
    ["504 that speaks of time", "504 Gateway Time-out", { kind: "status", status: 504 }],
    ["a wrong key", "Must be authenticated!", { status: 401, code: -32600 }],
    ["a page instead of an answer", "no JSON: <html>", { kind: "malformed", status: 200 }],
    ["an internal error", "Internal error", { code: -32603 }],
    ["a slow query", "request timed out", { code: -32002 }],
    ["an aborted query", "execution aborted (timeout = 5s)", { code: -32000 }],
    ["a missing backend", "no backend is currently healthy to serve traffic", { code: -32011 }],
    [
      "a missing method",
      "the method eth_getLogs does not exist/is not available",
      { code: -32601 },
    ],
    ["a pruned node", "pruned history unavailable", { code: 4444 }],
    ["a node that stops", "leveldb: closed", { code: -32000 }],
    ["a 500 with an error", "something went wrong", { status: 500, code: -32000 }],
  ])("%s passes", (_what, message, facts) => {
    expect(classify(message, facts)).toBeInstanceOf(SourceUnavailable);
  });

  test("a refusal nobody has heard of is about those very blocks", () => {
    const failure = failed("receipt 7 of block 99 is corrupt", { code: -32000 });

    expect(classifyError(failure, NOW)).toBe(failure);
  });

  test("a range that is refused with status 413 or 429 is still too large", () => {
    const message = "eth_getLogs is limited to a 100 range";

    expect(classify(message, { code: -32614, status: 413 })).toMatchObject({ suggestedSize: 100 });
    expect(classify(message, { status: 429 })).toMatchObject({ suggestedSize: 100 });
    expect(classify("payload", { kind: "status", status: 413 })).toBeInstanceOf(RangeTooLarge);
    expect(classify("more bytes", { kind: "oversized" })).toBeInstanceOf(RangeTooLarge);
  });

  test("gives on a suggestion that stands in the error's data", () => {
    const data = { from: "0x10", to: "0x1f", limit: 10_000 };

    expect(
      classify("query returned more than 10000 results", { code: -32005, data }),
    ).toMatchObject({
      suggestedSize: 16,
    });
  });

  test.each<
    [what: string, facts: Partial<RpcFailureFacts>, message: string, waitMs: number | null]
  >([
    ["seconds", { retryAfter: "7" }, "slow down", 7_000],
    ["a date", { retryAfter: "Sun, 15 Nov 2026 12:00:30 GMT" }, "slow down", 30_000],
    ["a date that has passed", { retryAfter: "Sun, 15 Nov 2026 11:00:00 GMT" }, "slow down", 0],
    ["nothing", {}, "slow down", null],
    ["nonsense", { retryAfter: "soon" }, "slow down", null],
    ["words", {}, "rate limit exhausted, retry in 10s", 10_000],
    ["words in milliseconds", {}, "rate limit, try again in 250ms", 250],
    ["the error's data", { data: { rate: { backoff_seconds: 30 } } }, "rate limit", 30_000],
  ])("a throttled request waits as %s say", (_what, facts, message, waitMs) => {
    const error = classify(message, { status: 429, ...facts });

    expect(error).toBeInstanceOf(Throttled);
    expect((error as Throttled).retryAfterMs).toBe(waitMs);
  });
});

test("a method that the node lacks is told from one that failed", () => {
  expect(isMethodMissing(failed("the method does not exist", { code: -32601 }))).toBe(true);
  expect(isMethodMissing(failed("Unsupported method: eth_getBlockReceipts"))).toBe(true);
  expect(isMethodMissing(failed("rpc method is unsupported"))).toBe(true);
  const method = "eth_getBlockReceipts";
  expect(isMethodMissing(failed(`${method} is not available on your plan`, { method }))).toBe(true);
  expect(isMethodMissing(failed(`${method} is not allowed`, { method }))).toBe(true);
  expect(isMethodMissing(failed("block 7 is not available", { method }))).toBe(false);
  expect(isMethodMissing(failed("execution aborted"))).toBe(false);
});
