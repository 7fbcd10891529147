import type { Address } from "viem";
import { numberToHex } from "viem/utils";
import { afterAll, beforeAll, expect, test } from "vitest";
import { logQueries, announces, explainsBloom } from "../../src/evm/log-filter.ts";
import { type NodeLog, parseHeader, parseReceipts } from "../../src/evm/evm-node.ts";
import { type Anvil, deployToken, mineTransfers, startAnvil, TRANSFER } from "./anvil.ts";

let anvil: Anvil;
let token: Address;
let bloom: `0x${string}`;
let logs: NodeLog[];

beforeAll(async () => {
  anvil = await startAnvil();
  token = await deployToken(anvil);
  const [a, b, c, d] = anvil.accounts as [Address, Address, Address, Address];
  await mineTransfers(anvil, token, [
    { from: a, to: b, value: 1n },
    { from: a, to: c, value: 2n },
    { from: d, to: a, value: 3n },
  ]);
  const block = numberToHex(await anvil.head());
  const header = parseHeader(await anvil.call("eth_getBlockByNumber", block, false), "");
  bloom = header.logsBloom ?? "0x";
  logs = parseReceipts(await anvil.call("eth_getBlockReceipts", block), "").logs;
});
afterAll(() => anvil.stop());

test("a node's bloom announces what the block has, and not all that it has not", () => {
  const [a, b, c, d, e] = anvil.accounts as Address[];
  const isAnnounced = (args: Record<string, unknown>, address: Address = token): boolean =>
    logQueries({ address, event: TRANSFER, args }).some((query) => announces(query)(bloom));

  expect(isAnnounced({ from: a })).toBe(true);
  expect(isAnnounced({ to: [e, b] })).toBe(true);
  expect(isAnnounced({ from: d, to: a })).toBe(true);
  expect(isAnnounced({ from: e })).toBe(false);
  expect(isAnnounced({ from: a }, e)).toBe(false);
  // Blooms know no positions and no pairs, so this one is announced in error.
  expect(isAnnounced({ from: c })).toBe(true);
});

test("a node's bloom is explained by all logs of the block and by no fewer", () => {
  expect(logs).toHaveLength(3);
  expect(explainsBloom(logs, bloom)).toBe(true);
  for (const missing of logs) {
    expect(
      explainsBloom(
        logs.filter((log) => log !== missing),
        bloom,
      ),
    ).toBe(false);
  }
});
