import type { Address } from "viem";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { SegmentDocument } from "../../src/work/sync/documents.ts";
import { type Anvil, deployToken, startAnvil } from "./anvil.ts";
import { ChainMirror } from "./chain-mirror.ts";
import { mineRandomBlocks } from "./chain-rows.ts";
import { type FaultProxy, startFaultProxy } from "./fault-proxy.ts";
import { KillAtPages } from "./kill-at-pages.ts";
import type { LogPageRequest } from "./log-page.ts";
import { SyncSite } from "./sync-site.ts";
import { isAt, watchSync, type WatchedSync } from "./watch-sync.ts";

const BLOCKS = 200;
const FINALITY = 2;
/** Segments of each wallet, and pages of each segment. */
const SEGMENTS = 3;
const PAGES = 2;
/** Where both are killed it takes twice the time to start again. */
const WALLETS = { "the worker": 2, "the server": 2, both: 1 };
const WITHIN_MS = 600_000;

let anvil: Anvil;
let token: Address;
let mirror: ChainMirror;

beforeAll(async () => {
  anvil = await startAnvil();
  token = await deployToken(anvil);
  await mineRandomBlocks(anvil, token, { count: BLOCKS, share: 0.4, seed: 1 });
  mirror = new ChainMirror(anvil);
});
afterAll(() => anvil?.stop());

/** A place of its own for each test: what the others kill is none of its business. */
async function openPlace(): Promise<{ proxy: FaultProxy; site: SyncSite }> {
  const proxy = await startFaultProxy(anvil.url, 1);
  const planned = (await anvil.head()) - FINALITY;
  const site = await SyncSite.start({
    token,
    nodes: { main: proxy.url },
    // Segments that a killed worker had are free only later: the next worker takes others.
    concurrency: 3,
    requestTimeoutMs: 60_000,
    options: {
      finality: FINALITY,
      // The chain stays as it is.
      headEveryMs: 1_000,
      segments: { max: SEGMENTS, minSize: 10 },
      maxParallel: SEGMENTS,
      requestSize: Math.ceil(planned / SEGMENTS / PAGES),
    },
  });
  return { proxy, site };
}

/** What is killed at each page. */
type Victim = keyof typeof WALLETS;

/** How far a segment was, by what the server knew of it when its worker was dead. */
type KnownProgress = { askedBefore: number; wallet: string; from: number; lastProcessed: number };

/** Syncs wallets while something is killed at each page, and gives what was asked for. */
async function syncUnderKills(victim: Victim) {
  const { proxy, site } = await openPlace();
  const watched: WatchedSync[] = [];
  const known: KnownProgress[] = [];
  const killer = new KillAtPages({
    proxy,
    seed: 1,
    askerDies: victim !== "the server",
    isStored: ({ wallet, from }) =>
      watched
        .filter(({ target }) => isSame(target.wallet, wallet))
        .some(({ target }) => site.table.pages(target).some((page) => page.from === from)),
    async kill() {
      const workersEnd = victim === "the server" ? null : site.killWorkers();
      const serverEnds = victim === "the worker" ? null : site.killServer();
      await Promise.all([workersEnd, serverEnds]);
      if (victim === "the worker") known.push(...(await progressOf(watched, killer)));
      else await site.startServer();
      if (victim !== "the server") site.startWorker();
    },
  });
  try {
    for (const wallet of anvil.accounts.slice(0, WALLETS[victim])) {
      const target = { network: "main", wallet };
      watched.push({ site, syncId: await site.add(target), target, mirror });
    }
    const to = (await anvil.head()) - FINALITY;
    const looks = await Promise.all(watched.map((each) => watchSync(each, isAt(to), WITHIN_MS)));
    await killer.settled();
    for (const { target } of watched) {
      expect(site.table.rows(target)).toEqual(await mirror.rows(target.wallet, to));
    }
    expect(site.complaints()).toEqual([]);
    const segments = looks.map((look) => look.segments);
    return { killer, known, wallets: watched.map(({ target }) => target.wallet), segments };
  } finally {
    await site.close();
    await proxy.close();
  }
}

async function progressOf(
  watched: readonly WatchedSync[],
  { asked }: KillAtPages,
): Promise<KnownProgress[]> {
  const found: KnownProgress[] = [];
  for (const { site, syncId, target } of watched) {
    const { items } = await site.client.call("listSegments", { params: { sync: syncId } });
    for (const { from_block: from, last_processed_block } of items) {
      const lastProcessed = last_processed_block ?? from - 1;
      found.push({ askedBefore: asked.length, wallet: target.wallet, from, lastProcessed });
    }
  }
  return found;
}

function isSame(wallet: string, other: string): boolean {
  return wallet.toLowerCase() === other.toLowerCase();
}

/** What was asked for in each segment, in that order, and how often somebody began with it. */
function askedBySegment(
  asked: readonly LogPageRequest[],
  wallets: readonly string[],
  segments: readonly SegmentDocument[][],
): { pages: LogPageRequest[]; attempts: number }[] {
  return wallets.flatMap((wallet, index) =>
    (segments[index] ?? []).map(({ from_block, to_block, attempt: attempts }) => {
      const pages = asked.filter(
        ({ wallet: asker, from, to }) =>
          isSame(asker, wallet) && from >= from_block && to <= to_block,
      );
      return { pages, attempts };
    }),
  );
}

/** Whoever goes on with a segment repeats one request at most, the last one. */
function expectOneRequestRepeated(pages: readonly LogPageRequest[], attempts: number): void {
  const starts = pages.map(({ from }) => from);
  expect(starts).toEqual(starts.toSorted((a, b) => a - b));
  expect(starts.length - new Set(starts).size).toBeLessThan(attempts);
}

/** What the server knew to be stored is not asked for again. */
function expectNothingKnownAsked(
  { askedBefore, wallet, from, lastProcessed }: KnownProgress,
  asked: readonly LogPageRequest[],
): void {
  const again = asked
    .slice(askedBefore)
    .filter((page) => isSame(page.wallet, wallet))
    .filter((page) => page.from >= from && page.from <= lastProcessed);
  expect(again).toEqual([]);
}

describe("a sync whose processes are killed at each page", { concurrent: true }, () => {
  test.each(["the worker", "the server", "both"] as const)(
    "I47, I48, I49: has each row once and repeats one request at most, with kills of %s",
    async (victim) => {
      const { killer, known, wallets, segments } = await syncUnderKills(victim);
      const bySegment = askedBySegment(killer.asked, wallets, segments);
      expect(bySegment.flatMap(({ pages }) => pages)).toHaveLength(killer.asked.length);
      for (const { pages, attempts } of bySegment) expectOneRequestRepeated(pages, attempts);
      for (const each of known) expectNothingKnownAsked(each, killer.asked);
      const pages = new Set(killer.asked.map(({ wallet, from }) => `${wallet}/${from}`)).size;
      const count = WALLETS[victim] * SEGMENTS;
      expect(pages).toBeGreaterThanOrEqual(count * PAGES);
      // A page whose asker died before it was its turn may have been passed over.
      expect(killer.kills).toBeGreaterThan(count);
    },
    WITHIN_MS + 10_000,
  );
});
