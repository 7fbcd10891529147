import { afterEach, describe, expect, test } from "vitest";
import { rangeTooLarge, throttled } from "../../src/define/errors.ts";
import { openSyncSite, SYNC, type SyncSite } from "./worker-syncs-site.ts";

let site: SyncSite;
afterEach(() => site.close());

const isWhole = ({ state }: { state: string }): boolean => state === "COMPLETE";
const isAt =
  (block: number) =>
  ({ state, synced_to }: { state: string; synced_to: number | null }): boolean =>
    state === "FOLLOWING" && synced_to === block;

/** Segments tile the range, with no gap and nothing twice. */
async function expectTiled(to: number): Promise<void> {
  const segments = await site.segments();
  let next = 0;
  for (const { from_block, to_block } of segments.toSorted((a, b) => a.from_block - b.from_block)) {
    expect(from_block).toBe(next);
    next = to_block + 1;
  }
  expect(next).toBe(to + 1);
}

describe("a sync on a real server", () => {
  test("I47 I48: fetches the whole history, and follows the head at its distance", async () => {
    site = await openSyncSite(1_000, () => ({ finality: 10 }));
    site.work();
    await site.until(isAt(989));
    expect(site.chain.faults(989)).toEqual([]);
    site.chain.grow(25);
    await site.until(isAt(1_014));

    expect(site.chain.faults(1_014)).toEqual([]);
    expect(site.chain.faults(1_024)).toHaveLength(10);
    await expectTiled(1_014);
  });

  test("is complete at the end of a fixed range, and stays so", async () => {
    site = await openSyncSite(600, () => ({ to: 499 }));
    site.work();
    const { synced_to } = await site.until(isWhole);

    expect(synced_to).toBe(499);
    expect(site.chain.faults(499)).toEqual([]);
    expect(site.chain.faults(599)).toHaveLength(100);
  });

  test("learns how much it may ask for, and tells no other worker twice", async () => {
    const sizes: number[] = [];
    site = await openSyncSite(1_000, (chain) => ({
      to: 999,
      segments: { max: 2, minSize: 50 },
      fetch: async (range) => {
        const size = range.to - range.from + 1;
        sizes.push(size);
        if (size > 60) throw rangeTooLarge("Too many.", { suggestedSize: 10_000 });
        return { rows: chain.copy(range) };
      },
    }));
    const stop = site.work();
    await site.until(isWhole);
    expect(site.chain.faults(999)).toEqual([]);
    await stop();
    const learnt = sizes.filter((size) => size > 60).length;
    await site.api.client.call("repairSync", {
      params: { sync: SYNC },
      body: { from_block: 0, to_block: 999 },
    });
    site.work();
    await site.until(({ state, state_version }) => state === "COMPLETE" && state_version > 3);

    // A little more may be tried again, but not the whole segment.
    const again = sizes.filter((size) => size > 60).slice(learnt);
    expect(Math.max(0, ...again)).toBeLessThan(200);
    expect(site.chain.faults(999)).toEqual([]);
  });

  test("waits for a source that is asked too often, and loses nothing", async () => {
    let calls = 0;
    site = await openSyncSite(500, (chain) => ({
      to: 499,
      requestSize: 50,
      fetch: async (range) => {
        if (calls++ % 3 === 1) throw throttled("Slow down.", { retryAfterMs: 30 });
        return { rows: chain.copy(range) };
      },
    }));
    site.work();
    const { retry_count } = await site.until(isWhole);

    expect(retry_count).toBe(0);
    expect(site.chain.faults(499)).toEqual([]);
  });

  test("sets a block aside that cannot be fetched, and is whole only when it was", async () => {
    let isBroken = true;
    site = await openSyncSite(500, (chain) => ({
      to: 499,
      quarantineAfter: 2,
      fetch: async (range) => {
        if (isBroken && range.from <= 123 && range.to >= 123) throw new Error("Cannot decode 123.");
        return { rows: chain.copy(range) };
      },
    }));
    site.work();
    const stuck = await site.until(
      ({ segments_quarantined: bad, segments_complete: done, segments_total: all }) =>
        bad === 1 && done === all - 1,
    );
    expect(stuck).toMatchObject({ state: "RUNNING", synced_to: 122 });
    expect(site.chain.faults(499)).toEqual([123]);
    const aside = (await site.segments()).find(({ status }) => status === "QUARANTINED");
    expect(aside).toMatchObject({ from_block: 123, to_block: 123, error_class: "user" });
    await expectTiled(499);

    isBroken = false;
    await site.api.client.call("retrySegment", {
      params: { sync: SYNC, segment_index: aside?.segment_index ?? -1 },
      body: {},
    });
    await site.until(isWhole);
    expect(site.chain.faults(499)).toEqual([]);
  });

  test("I50: fetches only what was rewritten again, and removes what is void", async () => {
    site = await openSyncSite(400);
    site.work();
    for (const head of [399, 449, 499]) {
      await site.until(isAt(head));
      if (head < 499) site.chain.grow(50);
    }
    const before = site.chain.asked().length;
    site.chain.rewrite(449, 30, "b");
    site.chain.grow(30, "b");
    await site.until(isAt(509));

    expect(site.chain.faults(509)).toEqual([]);
    const again = site.chain.asked().slice(before);
    expect(again.some(({ undone }) => undone === 1)).toBe(true);
    expect(Math.min(...again.map(({ first }) => first))).toBe(450);
  });

  test("finds what is damaged when it is verified, and repairs that", async () => {
    site = await openSyncSite(500, () => ({ to: 499 }));
    site.work();
    await site.until(isWhole);
    site.chain.damage(321);
    const params = { sync: SYNC };
    await site.api.client.call("verifySync", { params, body: { repair: true } });
    await site.until(({ state, verify_waiting, verify_active }) => {
      const isDone = verify_waiting + verify_active === 0 && state === "COMPLETE";
      return isDone && site.chain.faults(499).length === 0;
    });

    const undone = site.chain.asked().filter((each) => each.undone === 1);
    expect(undone).toHaveLength(1);
  });

  test("asks for what cannot be split as a whole, and goes on where it was", async () => {
    let isDown = true;
    site = await openSyncSite(300, (chain) => ({
      to: 299,
      splittable: false,
      fetch: async (range, { progressTo }) => {
        for (let from = range.from; from <= range.to; from += 40) {
          const to = Math.min(range.to, from + 39);
          chain.copy({ ...range, from, to, undo: null });
          await progressTo(to);
          if (isDown && to >= 100) {
            isDown = false;
            throw Object.assign(new Error("reset"), { code: "ECONNRESET" });
          }
        }
      },
    }));
    site.work();
    const { segments_total, retry_count } = await site.until(isWhole);

    expect([segments_total, retry_count]).toEqual([1, 1]);
    expect(site.chain.faults(299)).toEqual([]);
    expect(site.chain.asked().map(({ first }) => first)).toEqual([
      0, 40, 80, 120, 160, 200, 240, 280,
    ]);
  });

  test("pauses within a segment and goes on there", async () => {
    const { promise: reached, resolve: reach } = Promise.withResolvers<void>();
    let isHeld = true;
    site = await openSyncSite(400, (chain) => ({
      to: 399,
      segments: { max: 1, minSize: 50 },
      requestSize: 10,
      fetch: async (range, { signal }) => {
        if (isHeld && range.from >= 200) {
          isHeld = false;
          reach();
          await new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve()));
          signal.throwIfAborted();
        }
        return { rows: chain.copy(range) };
      },
    }));
    site.work();
    await reached;
    const done = site.chain.asked();
    const params = { sync: SYNC };
    await site.api.client.call("pauseSync", { params, body: {} });
    await site.until(({ segments_running, state }) => state === "PAUSED" && segments_running === 0);
    const { last } = done.at(-1) ?? { last: -1 };
    expect((await site.segments())[0]).toMatchObject({
      status: "PENDING",
      last_processed_block: last,
    });
    await site.api.client.call("resumeSync", { params, body: {} });
    await site.until(isWhole);

    expect(site.chain.faults(399)).toEqual([]);
    expect(site.chain.asked()[done.length]?.first).toBe(last + 1);
  });
});
