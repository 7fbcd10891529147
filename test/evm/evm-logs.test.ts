import type { Address } from "viem";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import {
  RangeTooLarge,
  SourceLagging,
  SourceUnavailable,
  Throttled,
} from "../../src/define/errors.ts";
import type { EvmLogsOptions } from "../../src/evm/index.ts";
import { type Anvil, deployToken, startAnvil, TRANSFER } from "./anvil.ts";
import { chainRows, mineRandomBlocks } from "./chain-rows.ts";
import { type FaultProxy, startFaultProxy } from "./fault-proxy.ts";
import { type Faults, NO_FAULTS } from "./faults.ts";
import { blocks, contextOf } from "./recorded-context.ts";
import { walletSource } from "./wallet-source.ts";

let anvil: Anvil;
let token: Address;
let wallet: Address;
let proxy: FaultProxy;
let last: number;

beforeAll(async () => {
  anvil = await startAnvil();
  token = await deployToken(anvil);
  wallet = anvil.accounts[0] as Address;
  await mineRandomBlocks(anvil, token, { count: 300, share: 0.4, seed: 1 });
  last = await anvil.head();
  proxy = await startFaultProxy(anvil.url, 1);
});
afterAll(async () => {
  await proxy.close();
  await anvil.stop();
});
beforeEach(() => {
  proxy.faults = NO_FAULTS;
  proxy.calls.clear();
  proxy.struck.clear();
  proxy.seen = () => undefined;
});

type Options = Partial<EvmLogsOptions<typeof TRANSFER>>;

const source = (options: Options = {}) => walletSource(proxy.url, token, options);
const target = () => ({ wallet });
const breakNode = (faults: Partial<Faults>) => {
  proxy.faults = { ...NO_FAULTS, ...faults };
};

/** What a fetch of everything is refused with. */
async function refusal(options: Options = {}): Promise<unknown> {
  const { fetch, pages } = source(options);
  const error = await fetch(blocks(1, last), contextOf(target())).catch(
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(Error);
  expect(pages, "nothing is stored of an answer that is refused").toEqual([]);
  return error;
}

describe("evmLogs", () => {
  test("stores exactly the wallet's transfers, each once and in order", async () => {
    const { fetch, pages, rows } = source();

    const { rows: count } = await fetch(blocks(1, last), contextOf(target()));

    const expected = await chainRows(anvil, { from: 1, to: last }, wallet);
    expect(rows()).toEqual(expected);
    expect(expected.some(({ from, to }) => from === to)).toBe(true);
    expect(count).toBe(expected.length);
    expect(pages).toMatchObject([{ from: 1, to: last, undo: null, isLive: false }]);
  });

  test("takes a turn for each request but the first of a call", async () => {
    let asked = 0;
    let turns = 0;
    proxy.seen = () => {
      asked++;
    };
    const turn = async () => void turns++;
    const { fetch, hash, verify } = source({ batchSize: 20, receiptCheck: "always" });
    const context = { ...contextOf(target()), turn };

    await fetch(blocks(1, last), context);
    expect(asked).toBeGreaterThan(10);
    expect(turns).toBe(asked - 1);
    await hash(last, context);
    await verify(blocks(1, last), context);
    expect(turns).toBe(asked - 3);
  });

  test("stores the pages of many small ranges, empty ones too", async () => {
    const { fetch, pages, rows } = source();

    for (let from = 1; from <= last; from += 7) {
      const range = blocks(from, Math.min(last, from + 6), { undo: { from, to: last } });
      await fetch(range, contextOf(target()));
    }

    expect(rows()).toEqual(await chainRows(anvil, { from: 1, to: last }, wallet));
    expect(pages.some(({ logs }) => logs.length === 0)).toBe(true);
    expect(pages[1]?.undo).toEqual({ from: 8, to: last });
  });

  test("asks for each header once, whichever targets need it", async () => {
    const { fetch } = source();
    for (const account of anvil.accounts.slice(0, 4)) {
      await fetch(blocks(1, last), contextOf({ wallet: account }));
    }

    // The last one is asked for anew each time, as it tells which chain the node is on.
    expect(proxy.calls.get("eth_getBlockByNumber")).toBeLessThanOrEqual(last + 3);
  });

  test("reads no headers but the last where it is told to trust the node", async () => {
    const { fetch, rows } = source({ bloomCheck: "never" });
    await fetch(blocks(1, last), contextOf(target()));

    expect(rows()).toEqual(await chainRows(anvil, { from: 1, to: last }, wallet));
    expect(Object.fromEntries(proxy.calls)).toEqual({ eth_getLogs: 2, eth_getBlockByNumber: 1 });
  });

  test("checks the head only, if it is told so", async () => {
    breakNode({ dropChance: 1 });
    const { fetch } = source({ bloomCheck: "live" });

    await expect(fetch(blocks(1, last), contextOf(target()))).resolves.toBeDefined();
    const live = fetch(blocks(1, last, { isLive: true }), contextOf(target()));
    await expect(live).rejects.toBeInstanceOf(SourceUnavailable);
  });

  test("gives the newest block, and the hash of any block", async () => {
    const { head, hash } = source();
    const block = (await anvil.call("eth_getBlockByNumber", "0x7", false)) as { hash: string };

    expect(await head(contextOf(target()))).toBe(last);
    expect(await hash(7, contextOf(target()))).toBe(block.hash);
    expect(await source({ head: "finalized" }).head(contextOf(target()))).toBeLessThan(last);
  });

  test("says that the node lags when it does not know a block", async () => {
    const { fetch, hash } = source();

    await expect(hash(last + 1, contextOf(target()))).rejects.toBeInstanceOf(SourceLagging);
    for (const bloomCheck of ["always", "never"] as const) {
      const beyond = source({ bloomCheck }).fetch(blocks(last, last + 1), contextOf(target()));
      await expect(beyond).rejects.toBeInstanceOf(SourceLagging);
    }
    await expect(fetch(blocks(1, last), contextOf(target()))).resolves.toBeDefined();
  });
});

describe("evmLogs behind a faulty node", () => {
  test("a cap on blocks is a range that is too large, with the cap", async () => {
    breakNode({ rangeCap: 100 });

    expect(await refusal()).toMatchObject({ name: "RangeTooLarge", suggestedSize: 100 });
  });

  test("a cap on results is a range that is too large, with what is suggested", async () => {
    breakNode({ resultCap: 10, suggestion: "half" });
    expect(await refusal()).toMatchObject({ suggestedSize: Math.floor((last - 1) / 2) + 1 });

    breakNode({ resultCap: 10, suggestion: "same" });
    expect(await refusal()).toMatchObject({ suggestedSize: last });

    breakNode({ resultCap: 10 });
    expect(await refusal()).toMatchObject({ name: "RangeTooLarge", suggestedSize: null });
  });

  test("a 429 is throttling, with the time to wait", async () => {
    breakNode({ throttleChance: 1, retryAfter: "3" });
    expect(await refusal()).toMatchObject({ name: "Throttled", retryAfterMs: 3_000 });

    breakNode({ throttleChance: 1 });
    const error = await refusal();
    expect(error).toBeInstanceOf(Throttled);
    expect(error).toMatchObject({ retryAfterMs: null });
  });

  test("headers that came before a throttled batch are not asked for again", async () => {
    const { fetch, rows } = source({ batchSize: 10 });
    breakNode({ throttleChance: 0.15 });
    const refusals: unknown[] = [];
    for (let isStored = false; !isStored; ) {
      isStored = await fetch(blocks(1, last), contextOf(target())).then(
        () => true,
        (error: unknown) => refusals.push(error) > 500,
      );
    }
    const throttles = refusals.length;
    expect(refusals.every((error) => error instanceof Throttled)).toBe(true);
    expect(throttles).toBeGreaterThan(0);
    // Asked for all at once, so many headers would never come through.
    expect(proxy.calls.get("eth_getBlockByNumber")).toBeLessThan(3 * last + throttles);
    expect(rows()).toEqual(await chainRows(anvil, { from: 1, to: last }, wallet));
  });

  test("logs that are left out are never taken for none", async () => {
    breakNode({ dropChance: 0.5 });
    let refused = 0;
    for (let from = 1; from <= last; from += 3) {
      const { fetch, rows } = source({ receiptCheck: "always" });
      const to = Math.min(last, from + 2);
      const error = await fetch(blocks(from, to), contextOf(target())).catch((reason) => reason);
      if (error instanceof Error) {
        expect(error).toBeInstanceOf(SourceUnavailable);
        expect(error.message).toMatch(/the node left some out/);
        refused += 1;
      } else {
        expect(rows()).toEqual(await chainRows(anvil, { from, to }, wallet));
      }
    }
    expect(refused).toBeGreaterThan(0);
    expect(refused).toBeLessThan(last / 3);
  });

  test("a whole answer without its logs is noticed without looking at every receipt", async () => {
    const dense = () => ({ address: token, event: TRANSFER });
    const { fetch, pages } = source({ logs: dense });
    await fetch(blocks(1, last), contextOf(target()));
    const receipts = proxy.calls.get("eth_getBlockReceipts") ?? 0;
    expect(pages[0]?.logs.length).toBeGreaterThan(100);
    expect(receipts).toBeLessThan(20);

    breakNode({ dropChance: 1 });
    expect(await refusal({ logs: dense })).toBeInstanceOf(SourceUnavailable);
  });

  test("a node without receipts is asked for the logs of a block by its hash", async () => {
    breakNode({ missingMethod: "eth_getBlockReceipts" });
    const { fetch, rows } = source();
    await fetch(blocks(1, last), contextOf(target()));
    expect(rows()).toEqual(await chainRows(anvil, { from: 1, to: last }, wallet));
    expect(proxy.calls.get("eth_getLogs")).toBeGreaterThan(10);

    breakNode({ missingMethod: "eth_getBlockReceipts", dropChance: 1 });
    expect(await refusal()).toBeInstanceOf(SourceUnavailable);
  });

  test("a node that hangs, breaks off or fails is unavailable", async () => {
    breakNode({ hangChance: 1 });
    expect(await refusal({ timeoutMs: 50 })).toBeInstanceOf(SourceUnavailable);
    breakNode({ cutChance: 1 });
    expect(await refusal()).toBeInstanceOf(SourceUnavailable);
    breakNode({ errorChance: 1 });
    expect(await refusal()).toBeInstanceOf(SourceUnavailable);
  });

  test("an aborted fetch ends with the reason, though the node hangs", async () => {
    breakNode({ hangChance: 1 });
    const controller = new AbortController();
    const reason = new Error("no longer wanted");
    const fetched = source().fetch(blocks(1, last), contextOf(target(), controller.signal));
    controller.abort(reason);

    await expect(fetched).rejects.toBe(reason);
  });

  test("a node that is behind and leaves out the rest in silence is lagging", async () => {
    breakNode({ lagChance: 1, lagBlocks: 3 });
    for (const bloomCheck of ["always", "never"] as const) {
      expect(await refusal({ bloomCheck })).toBeInstanceOf(SourceLagging);
    }
  });

  test("a block that cannot be read fails as itself, and the blocks around it do not", async () => {
    breakNode({ brokenBlock: 50 });
    const error = await refusal();
    for (const kind of [RangeTooLarge, Throttled, SourceLagging, SourceUnavailable]) {
      expect(error).not.toBeInstanceOf(kind);
    }
    expect((error as Error).message).toContain("block 50");

    const { fetch } = source();
    await fetch(blocks(1, 49), contextOf(target()));
    await fetch(blocks(51, last), contextOf(target()));
  });

  test("a node that takes small batches or none is asked in its way", async () => {
    const expected = await chainRows(anvil, { from: 1, to: last }, wallet);
    breakNode({ batchCap: 7 });
    const adapting = source();
    await adapting.fetch(blocks(1, last), contextOf(target()));
    expect(adapting.rows()).toEqual(expected);

    breakNode({ batchCap: 1 });
    const single = source({ batchSize: 1 });
    await single.fetch(blocks(1, last), contextOf(target()));
    expect(single.rows()).toEqual(expected);
    expect(proxy.struck.get("batchCap")).toBeLessThan(60);
  });
});

describe("verify", () => {
  test("counts again in parts that the node answers, and compares with what is stored", async () => {
    breakNode({ rangeCap: 64 });
    const expected = await chainRows(anvil, { from: 1, to: last }, wallet);
    const stored = expected.map(({ block }) => block);
    const count = async ({ from, to }: { from: number; to: number }) =>
      stored.filter((block) => from <= block && block <= to).length;
    const { verify } = source({ count });

    expect(await verify(blocks(1, last), contextOf(target()))).toEqual({
      ok: true,
      note: `${expected.length} logs, as the headers announce, are stored.`,
    });
    stored.pop();
    expect(await verify(blocks(1, last), contextOf(target()))).toMatchObject({
      ok: false,
      note: expect.stringMatching(/^Blocks \d+ to \d+ have \d+ logs, but \d+ are stored\.$/),
    });
  });
});
