import type { Address } from "viem";
import { afterAll, beforeAll, expect, test } from "vitest";
import { until } from "../faults/pawl-process.ts";
import { type Anvil, deployToken, mineTransfers, startAnvil } from "./anvil.ts";
import { ChainMirror } from "./chain-mirror.ts";
import { mineRandomBlocks } from "./chain-rows.ts";
import { type FaultProxy, startFaultProxy } from "./fault-proxy.ts";
import { NO_FAULTS } from "./faults.ts";
import type { RpcRequest } from "./faulty-node.ts";
import { pageOf } from "./log-page.ts";
import { SyncSite, type SyncSiteOptions } from "./sync-site.ts";
import { lookAtSync, watchSync, type WatchedSync } from "./watch-sync.ts";

const BLOCKS = 300;
const FINALITY = 2;
const WITHIN_MS = 600_000;

let anvil: Anvil;
let token: Address;
let proxy: FaultProxy;
let mirror: ChainMirror;

beforeAll(async () => {
  anvil = await startAnvil();
  token = await deployToken(anvil);
  await mineRandomBlocks(anvil, token, { count: BLOCKS, share: 0.4, seed: 1 });
  mirror = new ChainMirror(anvil);
  proxy = await startFaultProxy(anvil.url, 1);
  // Pages of one block need no other headers, so that one request is one call of the sync's.
  proxy.faults = { ...NO_FAULTS, rangeCap: 1 };
});
afterAll(async () => {
  await proxy?.close();
  await anvil?.stop();
});

function startSite(options: SyncSiteOptions["options"]): Promise<SyncSite> {
  return SyncSite.start({
    token,
    nodes: { main: proxy.url },
    options: { finality: FINALITY, requestSize: 1, ...options },
  });
}

async function addWallet(site: SyncSite, account: number): Promise<WatchedSync> {
  const target = { network: "main", wallet: anvil.accounts[account] as Address };
  return { site, syncId: await site.add(target), target, mirror };
}

/** The block whose hash a request asks for, and nothing else; null for any other request. */
function hashOf(calls: readonly RpcRequest[]): number | null {
  const [call, ...more] = calls;
  if (call?.method !== "eth_getBlockByNumber" || more.length > 0) return null;
  return Number(call.params[0]);
}

test("two workers keep to the budget of a source together", async () => {
  const perSecond = 20;
  let asked: number[] = [];
  proxy.seen = () => {
    asked.push(performance.now());
  };
  const site = await startSite({
    requestsPerSecond: perSecond,
    headEveryMs: 1_000,
    segments: { max: 20, minSize: 10 },
    maxParallel: 20,
  });
  try {
    site.startWorker();
    const watched = [await addWallet(site, 0), await addWallet(site, 1)];
    // Each hears of the other when it tells what it learnt: every five seconds.
    await until(async () => {
      const { items } = await site.client.call("listSyncSources", {});
      return items[0]?.workers === 2;
    }, WITHIN_MS);
    const isTwice = asked.length + 6 * perSecond;
    await until(() => asked.length > isTwice, WITHIN_MS);
    asked = [];
    const workers = new Set<string>();
    await until(async () => {
      for (const each of watched) {
        const { segments } = await lookAtSync(each);
        for (const { worker_id } of segments) if (worker_id !== null) workers.add(worker_id);
      }
      return asked.length >= 8 * perSecond;
    }, WITHIN_MS);
    const tookMs = (asked.at(-1) ?? 0) - (asked[0] ?? 0);

    expect(workers.size).toBe(2);
    // One second more, as requests may be late to the proxy.
    expect(asked.length).toBeLessThanOrEqual((perSecond * (tookMs + 1_000)) / 1_000);
  } finally {
    await site.close();
  }
});

test("new blocks go before a long history", async () => {
  const parallel = 12;
  const tailFrom = (await anvil.head()) - FINALITY + 1;
  const asked: ("history" | "tail hash" | "tail")[] = [];
  proxy.seen = (calls) => {
    const page = pageOf(calls);
    if (page !== null) asked.push(page.from < tailFrom ? "history" : "tail");
    else if (hashOf(calls) === tailFrom) asked.push("tail hash");
  };
  const site = await startSite({
    requestsPerSecond: 6,
    segments: { max: parallel, minSize: 10 },
    maxParallel: parallel + 1,
  });
  try {
    const watched = await addWallet(site, 0);
    await watchSync(watched, ({ sync }) => sync.segments_running === parallel, WITHIN_MS);
    await until(() => asked.length > parallel, WITHIN_MS);
    const [from, to] = anvil.accounts as [Address, Address];

    await mineTransfers(anvil, token, [{ from, to, value: 1n }]);

    const { sync } = await watchSync(watched, (look) => look.sync.segments_complete > 0, WITHIN_MS);
    expect(sync).toMatchObject({ segments_complete: 1, segments_running: parallel });
    expect(site.table.pages(watched.target).find((page) => page.from === tailFrom)?.isLive).toBe(
      true,
    );
    // All segments of the history wait for their turns; were it the order in which they came, each
    // of them would be asked for between the two requests about the new block.
    const tail = asked.indexOf("tail");
    const hash = asked.lastIndexOf("tail hash", tail);
    expect(hash).toBeGreaterThan(-1);
    expect(tail - hash).toBeLessThan(parallel / 2);
  } finally {
    await site.close();
  }
});
