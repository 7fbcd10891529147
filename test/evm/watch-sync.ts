import { setTimeout as sleep } from "node:timers/promises";
import { expect } from "vitest";
import type { SegmentDocument, SyncDocument } from "../../src/work/sync/documents.ts";
import type { ChainMirror } from "./chain-mirror.ts";
import type { SyncSite, WalletTarget } from "./sync-site.ts";

/** A sync as it is looked at, and what it is held against. */
export type WatchedSync = {
  site: SyncSite;
  syncId: string;
  target: WalletTarget;
  mirror: ChainMirror;
  /** Up to which block the chain stays as it is; all of it unless told. */
  fixedTo?: () => number;
};

/** What one look found. */
export type Look = { sync: SyncDocument; segments: SegmentDocument[] };

/** Pauses of this length leave something of the machine to those who are watched. */
const PAUSE_MS = 200;

/** Looks at a sync again and again, each time holding it to its promises, until this holds. */
export async function watchSync(
  watched: WatchedSync,
  isEnough: (look: Look) => boolean | Promise<boolean>,
  withinMs = 600_000,
): Promise<Look> {
  const deadline = performance.now() + withinMs;
  for (;;) {
    const look = await lookAtSync(watched);
    if (await isEnough(look)) return look;
    if (performance.now() > deadline) {
      const open = look.segments.filter(({ status }) => status !== "COMPLETE");
      const sources = await watched.site.client.call("listSyncSources", {});
      const source = sources.items.find((each) => each.source === look.sync.source);
      const state = JSON.stringify({ sync: look.sync, source, open }, null, 1);
      throw new Error(
        `Not so within ${withinMs} ms: ${String(isEnough)}\n${state}\n${watched.site.output()}`,
      );
    }
    await sleep(PAUSE_MS);
  }
}

/** Whether a sync has caught up with a head. */
export function isAt(block: number): (look: Look) => boolean {
  return ({ sync }) => sync.status === "FOLLOWING" && sync.synced_to === block;
}

/**
 * Looks at a sync by the API and then at what is stored: its segments tile its range, and all that
 * it says is stored is stored, each transfer once.
 */
export async function lookAtSync(watched: WatchedSync): Promise<Look> {
  const { site, syncId } = watched;
  const sync = await site.sync(syncId);
  const page = await site.client.call("listSegments", {
    params: { sync: syncId },
    query: { limit: 200 },
  });
  expect(page.next_cursor, "all segments fit on a page, which is of one moment").toBeNull();
  const segments = page.items;
  const after = await site.sync(syncId);
  assertTiling(sync, segments, after);
  await assertStored(watched, sync);
  return { sync, segments };
}

function assertTiling(
  before: SyncDocument,
  segments: SegmentDocument[],
  after: SyncDocument,
): void {
  const [first] = segments;
  if (first === undefined) {
    expect(before.to_block, "a planned range has segments").toBeNull();
    return;
  }
  expect(first.from_block).toBe(before.from_block);
  const gaps = segments.filter(
    ({ from_block, to_block }, index) =>
      from_block > to_block ||
      (index > 0 && from_block !== (segments[index - 1]?.to_block ?? 0) + 1),
  );
  expect(gaps, "segments tile their range").toEqual([]);
  const end = segments.at(-1)?.to_block ?? 0;
  expect(end).toBeGreaterThanOrEqual(before.to_block ?? 0);
  expect(end).toBeLessThanOrEqual(after.to_block ?? 0);
  if (before.row_version !== after.row_version) return;
  const open = segments.find(({ status }) => status !== "COMPLETE");
  const prefixEnd = open === undefined ? end : open.from_block - 1;
  const syncedTo = before.synced_to ?? before.from_block - 1;
  expect(syncedTo, "synced_to is the end of the complete prefix").toBe(prefixEnd);
  expect(before.segments_total).toBe(segments.length);
}

async function assertStored(
  { site, target, mirror, fixedTo }: WatchedSync,
  { synced_to }: SyncDocument,
): Promise<void> {
  const to = Math.min(synced_to ?? 0, fixedTo?.() ?? Number.POSITIVE_INFINITY);
  const stored = site.table.rows(target, to);
  const keys = new Set(stored.map(({ block, logIndex }) => `${block}/${logIndex}`));
  expect(keys.size, "no transfer is stored twice").toBe(stored.length);
  expect(stored, `everything up to ${to} is stored`).toEqual(await mirror.rows(target.wallet, to));
}
