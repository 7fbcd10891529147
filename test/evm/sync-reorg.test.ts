import type { Address } from "viem";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { EventData } from "../../src/work/events.ts";
import { until } from "../faults/pawl-process.ts";
import { type Anvil, deployToken, startAnvil } from "./anvil.ts";
import { ChainMirror } from "./chain-mirror.ts";
import { mineRandomBlocks } from "./chain-rows.ts";
import { type FaultProxy, startFaultProxy } from "./fault-proxy.ts";
import { NO_FAULTS } from "./faults.ts";
import { pageOf } from "./log-page.ts";
import { SyncSite } from "./sync-site.ts";
import { isAt, watchSync, type WatchedSync } from "./watch-sync.ts";

/** A chain of its own for each test, as a rewrite meets everybody on it. */
const NETWORKS = ["followed", "flapping", "in history"] as const;
type Network = (typeof NETWORKS)[number];

const HISTORY_BLOCKS = 120;
const FINALITY = 2;
const REORG_DEPTH = 12;
/** Blocks between two looks at the head whose hashes are kept. */
const STEP = 4;
const SEEN_WITHIN_MS = 600_000;
const TIMEOUT_MS = 600_000;

type Chain = { anvil: Anvil; token: Address; proxy: FaultProxy; mirror: ChainMirror };

const chains = new Map<string, Chain>();
let site: SyncSite;

async function startChain(): Promise<Chain> {
  const anvil = await startAnvil();
  const token = await deployToken(anvil);
  await mineRandomBlocks(anvil, token, { count: HISTORY_BLOCKS, share: 0.4, seed: 1 });
  const proxy = await startFaultProxy(anvil.url, 1);
  return { anvil, token, proxy, mirror: new ChainMirror(anvil) };
}

beforeAll(async () => {
  for (const network of NETWORKS) chains.set(network, await startChain());
  const nodes = [...chains].map(([network, { proxy }]) => [network, proxy.url]);
  site = await SyncSite.start({
    token: chainOf("followed").token,
    nodes: Object.fromEntries(nodes),
    options: { finality: FINALITY, segments: { max: 6, minSize: 10 }, maxParallel: 8 },
  });
});
afterAll(async () => {
  await site?.close();
  for (const { proxy, anvil } of chains.values()) {
    await proxy.close();
    await anvil.stop();
  }
});

function chainOf(network: Network): Chain {
  const chain = chains.get(network);
  if (chain === undefined) throw new Error(`There is no chain ${network}.`);
  return chain;
}

async function addWallets(network: Network): Promise<WatchedSync[]> {
  const { anvil, mirror } = chainOf(network);
  const added: WatchedSync[] = [];
  for (const wallet of anvil.accounts.slice(0, 2)) {
    const target = { network, wallet };
    added.push({ site, syncId: await site.add(target), target, mirror });
  }
  return added;
}

async function sourceOf(network: Network) {
  const { items } = await site.client.call("listSyncSources", {});
  return items.find(({ source }) => source === network);
}

/** Lets the chain grow step by step, each seen, so that many hashes are known. */
async function growSeen(network: Network, steps: number, seed: number): Promise<void> {
  const { anvil, token } = chainOf(network);
  for (let step = 0; step < steps; step++) {
    await mineRandomBlocks(anvil, token, { count: STEP, share: 0.9, seed: seed + step });
    const head = await anvil.head();
    await until(async () => (await sourceOf(network))?.head === head, SEEN_WITHIN_MS);
  }
}

/** Rewrites the newest blocks, and adds some to the new ones; gives the last block that stays. */
async function rewrite(network: Network): Promise<number> {
  const { anvil, token, mirror } = chainOf(network);
  const fork = (await anvil.head()) - REORG_DEPTH;
  const before = await anvil.call("eth_getBlockByNumber", `0x${(fork + 1).toString(16)}`, false);
  mirror.forgetAbove(fork);
  await anvil.reorg(REORG_DEPTH);
  await anvil.call("anvil_dropAllTransactions");
  const after = await anvil.call("eth_getBlockByNumber", `0x${(fork + 1).toString(16)}`, false);
  expect(after).not.toEqual(before);
  await mineRandomBlocks(anvil, token, { count: STEP, share: 1, seed: 1_000 });
  return fork;
}

async function following(watched: readonly WatchedSync[], network: Network, fixedTo?: number) {
  const { anvil } = chainOf(network);
  const to = (await anvil.head()) - FINALITY;
  const fixed = fixedTo === undefined ? {} : { fixedTo: () => fixedTo };
  await Promise.all(watched.map((each) => watchSync({ ...each, ...fixed }, isAt(to))));
  return to;
}

async function expectSameRows(watched: readonly WatchedSync[], to: number): Promise<void> {
  for (const { target, mirror } of watched) {
    const rows = await mirror.rows(target.wallet, to);
    expect(rows.length).toBeGreaterThan(10);
    expect(site.table.rows(target)).toEqual(rows);
  }
}

async function rewritesOf(network: Network): Promise<EventData<"SyncRewritten">[]> {
  const events = await site.events("SyncRewritten");
  return events.filter(({ source }) => source === network);
}

/** The bounds of each segment that an event opened again: as it was cut, or as it was before. */
async function openedBounds(
  { syncId }: WatchedSync,
  before: ReadonlyMap<number, { from_block: number; to_block: number }>,
) {
  const events = await site.events("SyncSegmentsReopened");
  return events
    .filter(({ sync_id }) => sync_id === syncId)
    .flatMap(({ splits, segments, cause, undo }) => {
      expect({ cause, undo }).toEqual({ cause: "rewrite", undo: true });
      const tiles = new Map(
        splits.flatMap((split) => split.tiles.map((tile) => [tile.segment_index, tile] as const)),
      );
      return segments.map(({ segment_index }) => {
        const found = tiles.get(segment_index) ?? before.get(segment_index);
        return { segment_index, from_block: found?.from_block, to_block: found?.to_block };
      });
    });
}

async function segmentsOf({ syncId }: WatchedSync) {
  const query = { limit: 200 };
  const page = await site.client.call("listSegments", { params: { sync: syncId }, query });
  return new Map(page.items.map((segment) => [segment.segment_index, segment]));
}

/** Only what lies above the last hash that still holds was opened again and fetched again. */
async function expectOnlyAbove(
  watched: WatchedSync,
  forkBlock: number,
  before: { segments: Awaited<ReturnType<typeof segmentsOf>>; pages: number },
): Promise<void> {
  const opened = await openedBounds(watched, before.segments);
  expect(opened.length).toBeGreaterThan(0);
  for (const { from_block } of opened) expect(from_block).toBeGreaterThan(forkBlock);
  const again = site.table.pages(watched.target).slice(before.pages);
  expect(again.length).toBeGreaterThan(0);
  for (const { from } of again) expect(from).toBeGreaterThan(forkBlock);
}

describe("a chain that rewrites its newest blocks", { concurrent: true }, () => {
  test.each(["followed", "flapping"] as const)(
    "I50: opens only the segments above the fork again when it is %s",
    async (network) => {
      const { proxy } = chainOf(network);
      const watched = await addWallets(network);
      await following(watched, network);
      await growSeen(network, 6, 10);
      if (network === "flapping") {
        proxy.faults = { ...NO_FAULTS, headFlap: 6 };
        const looks = proxy.calls.get("eth_blockNumber") ?? 0;
        const isFlapping = () => (proxy.calls.get("eth_blockNumber") ?? 0) > looks + 20;
        await until(isFlapping, SEEN_WITHIN_MS);
        expect(proxy.struck.get("headFlap")).toBeGreaterThan(5);
      }
      await following(watched, network);
      expect(await rewritesOf(network)).toEqual([]);
      const before = await Promise.all(
        watched.map(async (each) => {
          const segments = await segmentsOf(each);
          return { segments, pages: site.table.pages(each.target).length };
        }),
      );

      const fork = await rewrite(network);

      await until(async () => (await rewritesOf(network)).length > 0, SEEN_WITHIN_MS);
      const to = await following(watched, network, fork);
      await expectSameRows(watched, to);
      const [rewritten, ...more] = await rewritesOf(network);
      expect(more).toEqual([]);
      const forkBlock = rewritten?.fork_block ?? 0;
      expect(forkBlock).toBeLessThanOrEqual(fork);
      expect(forkBlock).toBeGreaterThan(fork - STEP);
      for (const [index, each] of watched.entries()) {
        const known = before[index];
        if (known !== undefined) await expectOnlyAbove(each, forkBlock, known);
      }
    },
    TIMEOUT_MS,
  );

  test(
    "I50: leaves the history below the fork to those who are at it",
    async () => {
      const network = "in history";
      const { proxy, anvil } = chainOf(network);
      const planned = (await anvil.head()) - FINALITY;
      const { promise: released, resolve: release } = Promise.withResolvers<void>();
      let tailHeldFrom = Number.POSITIVE_INFINITY;
      const held = new Set<number>();
      proxy.seen = async (calls) => {
        const page = pageOf(calls);
        const isHistory = page !== null && page.from > 40 && page.to <= planned;
        if (page === null || !(isHistory || page.from >= tailHeldFrom)) return;
        held.add(page.from);
        await released;
      };
      const watched = await addWallets(network);
      for (const each of watched) {
        await watchSync(each, ({ sync }) => sync.to_block === planned, SEEN_WITHIN_MS);
      }
      await growSeen(network, 5, 20);
      const tail = (await anvil.head()) - FINALITY;
      const [first] = watched;
      const isTailStored = (each: WatchedSync) =>
        site.table.pages(each.target).some((page) => page.to === tail);
      for (const each of watched) await watchSync(each, () => isTailStored(each), SEEN_WITHIN_MS);
      // One piece of tail is under way when its blocks are rewritten.
      tailHeldFrom = tail + 1;
      await growSeen(network, 1, 30);
      await until(() => held.has(tail + 1), SEEN_WITHIN_MS);
      const before = first === undefined ? new Map() : await segmentsOf(first);
      const running = [...before.values()].filter(({ status }) => status === "RUNNING");
      expect(running.length).toBeGreaterThan(3);

      const fork = await rewrite(network);

      await until(async () => (await rewritesOf(network)).length > 0, SEEN_WITHIN_MS);
      release();
      const to = await following(watched, network, fork);
      await expectSameRows(watched, to);
      const [rewritten, ...more] = await rewritesOf(network);
      expect(more).toEqual([]);
      const forkBlock = rewritten?.fork_block ?? 0;
      expect(forkBlock).toBeLessThanOrEqual(fork);
      expect(forkBlock).toBeGreaterThan(fork - STEP);
      for (const each of watched) {
        const opened = await openedBounds(each, before);
        expect(opened.length).toBeGreaterThan(0);
        for (const { from_block } of opened) expect(from_block).toBeGreaterThan(forkBlock);
        const history = [...(await segmentsOf(each)).values()].filter(
          ({ to_block }) => to_block <= forkBlock,
        );
        expect(history.filter(({ generation }) => generation > 0)).toEqual([]);
      }
    },
    TIMEOUT_MS,
  );
});
