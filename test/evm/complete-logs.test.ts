import type { Address } from "viem";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { RangeTooLarge, SourceUnavailable } from "../../src/define/errors.ts";
import type { EvmLogsOptions } from "../../src/evm/index.ts";
import { type Anvil, deployToken, mineTransfers, startAnvil, TRANSFER } from "./anvil.ts";
import { chainRows } from "./chain-rows.ts";
import { type FaultProxy, startFaultProxy } from "./fault-proxy.ts";
import { NO_FAULTS } from "./faults.ts";
import { blocks, contextOf } from "./recorded-context.ts";
import { walletSource } from "./wallet-source.ts";

let anvil: Anvil;
let token: Address;
let proxy: FaultProxy;
let sender: Address;
let wallet: Address;

beforeAll(async () => {
  anvil = await startAnvil();
  token = await deployToken(anvil);
  proxy = await startFaultProxy(anvil.url, 1);
  [sender, wallet] = anvil.accounts as [Address, Address];
});
afterAll(async () => {
  await proxy.close();
  await anvil.stop();
});
beforeEach(() => {
  proxy.faults = NO_FAULTS;
});

/** Adds blocks with transfers to the wallet, so many in each, and empty ones; gives their range. */
async function mine(block: { count: number; transfers: number; empty: number }) {
  const from = (await anvil.head()) + 1;
  for (let index = 0; index < block.count; index += 1) {
    const transfers = Array.from({ length: block.transfers }, (_, value) => ({
      from: sender,
      to: wallet,
      value: BigInt(value),
    }));
    await mineTransfers(anvil, token, transfers);
    if (block.empty > 0) await anvil.mine(block.empty);
  }
  return blocks(from, await anvil.head());
}

/**
 * A source of what the wallet receives. With a filter for each direction every block would be looked
 * at anyway: blooms do not tell sender from receiver, so one of the two always lacks its logs.
 */
function incoming(options: Partial<EvmLogsOptions<typeof TRANSFER>> = {}) {
  const logs = () => ({ address: token, event: TRANSFER, args: { to: wallet } });
  return walletSource(proxy.url, token, { logs, ...options });
}

describe("a node that leaves out single logs", () => {
  test("is found out where blocks with logs are rare", async () => {
    const range = await mine({ count: 5, transfers: 3, empty: 6 });
    const { fetch, rows } = incoming();
    for (const dropped of ["first", "last"] as const) {
      proxy.faults = { ...NO_FAULTS, dropChance: 1, dropped };
      const fetched = fetch(range, contextOf({ wallet }));
      await expect(fetched).rejects.toBeInstanceOf(SourceUnavailable);
    }

    proxy.faults = NO_FAULTS;
    await fetch(range, contextOf({ wallet }));
    expect(rows()).toEqual(await chainRows(anvil, range, wallet));
  });

  test("is found out at the end of its answer where every block has logs", async () => {
    const range = await mine({ count: 10, transfers: 3, empty: 0 });
    proxy.faults = { ...NO_FAULTS, dropChance: 1, dropped: "last" };

    const fetched = incoming().fetch(range, contextOf({ wallet }));
    await expect(fetched).rejects.toBeInstanceOf(SourceUnavailable);
  });

  test("is found out anywhere when every receipt is looked at", async () => {
    const range = await mine({ count: 10, transfers: 3, empty: 0 });
    proxy.faults = { ...NO_FAULTS, dropChance: 1, dropped: "first" };
    const { fetch } = incoming({ receiptCheck: "always" });

    await expect(fetch(range, contextOf({ wallet }))).rejects.toThrow(
      `eth_getLogs gave 2 logs of block ${range.from}, where its receipts have 3`,
    );
  });
});

test("blocks that were rewritten are read anew, whatever was known of them", async () => {
  const range = await mine({ count: 20, transfers: 1, empty: 0 });
  const { fetch, hash, rows, pages } = walletSource(proxy.url, token);
  await fetch(range, contextOf({ wallet }));
  const hashBefore = await hash(range.to, contextOf({ wallet }));
  expect(rows()).toHaveLength(20);

  await anvil.reorg(12);
  pages.length = 0;
  await fetch(range, contextOf({ wallet }));

  expect(rows()).toHaveLength(8);
  expect(rows()).toEqual(await chainRows(anvil, range, wallet));
  expect(await hash(range.to, contextOf({ wallet }))).not.toBe(hashBefore);
});

test("answers of more than 10 MiB are taken, up to a bound", async () => {
  const range = await mine({ count: 20, transfers: 900, empty: 0 });
  const { fetch, pages } = walletSource(proxy.url, token);
  await fetch(range, contextOf({ wallet }));
  expect(pages[0]?.logs).toHaveLength(18_000);

  const bounded = walletSource(proxy.url, token, { answerBytesMax: 10 * 1024 * 1024 });
  const fetched = bounded.fetch(range, contextOf({ wallet }));
  await expect(fetched).rejects.toBeInstanceOf(RangeTooLarge);
});

test("more blocks than can be checked at once are a range that is too large", async () => {
  const { fetch } = walletSource(proxy.url, token);

  await expect(fetch(blocks(1, 2_001), contextOf({ wallet }))).rejects.toMatchObject({
    name: "RangeTooLarge",
    suggestedSize: 2_000,
  });
});
