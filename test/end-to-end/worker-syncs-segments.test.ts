import { afterEach, describe, expect, test } from "vitest";
import type { ClaimedSegment } from "../../src/work/sync/segment-protocol.ts";
import {
  rangeTooLarge,
  sourceLagging,
  sourceUnavailable,
  throttled,
  doNotRetry,
  retryAfter,
  skip,
} from "../../src/define/errors.ts";
import type { SyncRange } from "../../src/define/automation-context.ts";
import { stopWorkers, tasks, workOnSync } from "./started-worker.ts";
import { type Work, WorkServer } from "./work-server.ts";

afterEach(stopWorkers);

const SEGMENT: ClaimedSegment = {
  sync_id: "sync_1",
  sync: "blocks",
  target: { chain: "main" },
  source: "main",
  segment_index: 3,
  generation: 0,
  purpose: "fetch",
  from_block: 100,
  to_block: 199,
  last_processed_block: null,
  undo: false,
  is_live: false,
  splittable: true,
  was_quarantined: false,
  quarantine_after: 2,
  request_size: null,
  requests_per_second: null,
};

function addSegment(
  server: WorkServer,
  segment: Partial<ClaimedSegment>,
  more: Partial<Work> = {},
): void {
  const whole = { ...SEGMENT, ...segment };
  server.add({ asset_key: "sync:blocks", tasks: tasks(1), segment: whole, ...more });
}

/** A server with one segment to be fetched, from 100 to 199 unless told. */
function serverWith(segment: Partial<ClaimedSegment> = {}, more: Partial<Work> = {}): WorkServer {
  const server = new WorkServer();
  addSegment(server, segment, more);
  return server;
}

/** Resolves with the result of the attempt. */
async function resultOf(server: WorkServer, attempt = 1) {
  await server.until(() => server.results.some((result) => result.attempt === attempt));
  return server.results.find((result) => result.attempt === attempt);
}

const textOf = ({ from, to }: { from: number; to: number }): string => `${from}-${to}`;

describe("a segment", () => {
  test("is fetched in requests of the size that is given, each kept before the next", async () => {
    const server = serverWith({ request_size: 40 });
    const order: string[] = [];
    server.after = (message) => void (message === "checkpoint" && order.push("kept"));
    workOnSync(server, {
      fetch: async (range, context) => {
        order.push(textOf(range));
        expect(context).toMatchObject({
          sync: "blocks",
          syncId: "sync_1",
          source: "main",
          target: { chain: "main" },
          segment: { index: 3, from: 100, to: 199, generation: 0 },
          attempt: 1,
        });
        expect(range).toMatchObject({ undo: null, isLive: false });
        return { rows: 2 };
      },
    });
    const result = await resultOf(server);

    expect(order).toEqual(["100-139", "kept", "140-179", "kept", "180-199", "kept"]);
    expect(result).toMatchObject({
      outcome: "SUCCEEDED",
      segment: {
        last_processed_block: 199,
        rows: 6,
        blocks: 100,
        requests: 3,
        end_hash: null,
        quarantined: [],
        verification: null,
      },
    });
  });

  test("is asked for again from where the function said it got to", async () => {
    const server = serverWith();
    const asked: string[] = [];
    workOnSync(server, {
      fetch: async (range, { progressTo }) => {
        asked.push(textOf(range));
        await progressTo(Math.min(range.to, range.from + 39));
      },
    });

    expect(await resultOf(server)).toMatchObject({ outcome: "SUCCEEDED" });
    expect(asked).toEqual(["100-199", "140-199", "180-199"]);
    expect(server.checkpoints.map(({ value }) => value)).toMatchObject([
      { last_processed_block: 139 },
      { last_processed_block: 179 },
      { last_processed_block: 199 },
    ]);
  });

  test.each<[string, (progressTo: (block: number) => Promise<void>) => Promise<void>, string]>([
    ["beyond its range", (say) => say(200), "progressTo(200) is outside the range"],
    ["before its range", (say) => say(98), "progressTo(98) is outside the range that was asked"],
    ["a step back", (say) => say(150).then(() => say(149)), "progressTo(149) goes back: 150 was"],
    ["no block", (say) => say(Number.NaN), "progressTo(NaN) needs a block"],
    ["that it got nowhere", (say) => say(99), "said with progressTo(99) that nothing is stored"],
  ])("fails when its function says %s", async (_what, say, sentence) => {
    const server = serverWith({ splittable: false });
    workOnSync(server, { fetch: (_range, { progressTo }) => say(progressTo) });
    const result = await resultOf(server);

    expect(result).toMatchObject({ outcome: "FAILED", error: { class: "user" } });
    expect(result?.error?.message).toContain(sentence);
  });

  test("I49: goes on behind its checkpoint in the next attempt", async () => {
    const server = serverWith({ request_size: 25 });
    const asked: string[] = [];
    workOnSync(server, {
      fetch: async (range, { attempt }) => {
        asked.push(textOf(range));
        if (range.from === 150 && attempt === 1) throw sourceUnavailable("Down.");
      },
    });
    expect(await resultOf(server)).toMatchObject({
      outcome: "FAILED",
      error: { class: "unavailable", message: "Down." },
      segment: { last_processed_block: 149, blocks: 50 },
    });
    server.tryAgain();
    await resultOf(server, 2);

    expect(asked).toEqual(["100-124", "125-149", "150-174", "150-174", "175-199"]);
  });

  test("goes on behind what an earlier run reported, and says what is void behind it", async () => {
    const server = serverWith({ last_processed_block: 149, generation: 2, undo: true });
    const asked: SyncRange[] = [];
    workOnSync(server, { fetch: async (range) => void asked.push(range) });
    await resultOf(server);

    expect(asked).toEqual([{ from: 150, to: 199, undo: { from: 150, to: 199 }, isLive: false }]);
  });

  test("asks for fewer blocks when the source wants that, whatever it suggests", async () => {
    const server = serverWith();
    const sizes: number[] = [];
    workOnSync(server, {
      fetch: async ({ from, to }) => {
        const size = to - from + 1;
        sizes.push(size);
        if (size > 30) throw rangeTooLarge("Too many.", { suggestedSize: size + 5_000 });
      },
    });

    expect(await resultOf(server)).toMatchObject({ outcome: "SUCCEEDED" });
    expect(sizes.slice(0, 4)).toEqual([100, 50, 25, 25]);
    await server.until(() => server.learnt.get("main")?.request_size === 25);
  });

  test("waits while it is throttled, and asks for as much as before", async () => {
    const server = serverWith();
    const asked: string[] = [];
    workOnSync(server, {
      fetch: async (range) => {
        asked.push(textOf(range));
        if (asked.length < 3) throw throttled("Slow down.", { retryAfterMs: 20 });
      },
    });

    expect(await resultOf(server)).toMatchObject({ outcome: "SUCCEEDED" });
    expect(asked).toEqual(["100-199", "100-199", "100-199"]);
  });

  test("leaves its place when the source wants to be left alone for long", async () => {
    const server = serverWith();
    workOnSync(server, {
      fetch: async () => {
        throw throttled("Slow down.", { retryAfterMs: 120_000 });
      },
    });
    const result = await resultOf(server);

    expect(result).toMatchObject({ outcome: "FAILED", error: { class: "throttled" } });
    expect(result?.retry_after_ms).toBeGreaterThan(60_000);
  });

  test("is not taken for stalled while it waits for its turn", async () => {
    const server = serverWith(
      { request_size: 50, requests_per_second: 0.5 },
      { stall_after_ms: 1_200 },
    );
    workOnSync(server, {});

    expect(await resultOf(server)).toMatchObject({ outcome: "SUCCEEDED" });
  });

  test.each<[string, () => unknown, object]>([
    ["any error", () => new Error("?"), { error: { class: "user", message: "?" } }],
    ["lagging", () => sourceLagging("Not yet."), { error: { class: "lagging" } }],
    [
      "the network",
      () => Object.assign(new Error("x"), { code: "ECONNRESET" }),
      { error: { class: "unavailable" } },
    ],
    ["a timeout", () => new DOMException("x", "TimeoutError"), { error: { class: "unavailable" } }],
    ["too large", () => rangeTooLarge("Too many."), { error: { class: "too-large" } }],
    ["never again", () => doNotRetry("Gone."), { error: { class: "user" }, final: true }],
    ["later", () => retryAfter(77), { error: { class: "transient" }, retry_after_ms: 77 }],
    [
      "skip",
      () => skip("Nothing."),
      {
        error: {
          class: "user",
          message: "fetch threw skip(), but blocks cannot be skipped. (cause: Nothing.)",
        },
      },
    ],
  ])(
    "that always fails with %s says so, and sets nothing aside",
    async (_what, error, expected) => {
      const server = serverWith();
      workOnSync(server, { fetch: () => Promise.reject(error()) });
      const result = await resultOf(server);

      expect(result).toMatchObject({
        outcome: "FAILED",
        segment: { last_processed_block: null, quarantined: [] },
        ...expected,
      });
    },
  );

  test("sets a block aside that keeps failing while others succeed, and goes on", async () => {
    const server = serverWith({ quarantine_after: 3 });
    const stored = new Set<number>();
    let tries = 0;
    workOnSync(server, {
      fetch: async ({ from, to }) => {
        if (from === 137 && to === 137) tries++;
        if (from <= 137 && 137 <= to) throw new Error("Cannot decode 137.");
        for (let block = from; block <= to; block++) stored.add(block);
      },
      verify: async ({ from, to }) => from > 137 || to < 137,
    });
    const result = await resultOf(server);

    expect(result).toMatchObject({
      outcome: "SUCCEEDED",
      segment: {
        last_processed_block: 199,
        quarantined: [{ block: 137, error: { class: "user", message: "Cannot decode 137." } }],
        verification: { ok: true },
      },
    });
    expect(stored.size).toBe(99);
    expect(tries).toBe(3);
  });

  test("that was quarantined before is quarantined again at its first failure", async () => {
    const server = serverWith({ from_block: 137, to_block: 137, was_quarantined: true });
    let tries = 0;
    workOnSync(server, {
      fetch: async () => {
        tries++;
        throw new Error("Cannot decode.");
      },
    });

    expect(await resultOf(server)).toMatchObject({
      outcome: "SUCCEEDED",
      segment: { quarantined: [{ block: 137 }] },
    });
    expect(tries).toBe(1);
  });

  test("that was quarantined as a whole loses no block to a source that is down", async () => {
    const server = serverWith({ was_quarantined: true });
    workOnSync(server, { fetch: () => Promise.reject(new Error("Status 500.")) });

    expect(await resultOf(server)).toMatchObject({
      outcome: "FAILED",
      segment: { last_processed_block: null, quarantined: [] },
    });
  });

  test("sets nothing aside when the source goes down while a block is tried again", async () => {
    const server = serverWith({ quarantine_after: 3 });
    let isDown = false;
    workOnSync(server, {
      fetch: async ({ from, to }) => {
        if (isDown || (from <= 137 && 137 <= to)) throw new Error("Status 500.");
        // The first block behind it is asked for only to see whether the source answers.
        isDown = from === 138;
      },
    });

    expect(await resultOf(server)).toMatchObject({
      outcome: "FAILED",
      segment: { last_processed_block: 136, quarantined: [] },
    });
  });

  test("of one block is quarantined once it kept failing while others were fetched", async () => {
    const one = { from_block: 137, to_block: 137, quarantine_after: 3 };
    const server = serverWith(one);
    workOnSync(server, {
      fetch: async ({ from }) => {
        if (from === 137) throw new Error("Cannot decode 137.");
      },
    });
    // Nothing else was asked for, so it may as well be the source.
    for (let attempt = 1; attempt <= 5; attempt++) {
      const failed = { outcome: "FAILED", segment: { quarantined: [] } };
      expect(await resultOf(server, attempt)).toMatchObject(failed);
      if (attempt < 5) server.tryAgain();
    }
    const ended = (run: number, attempt: number) =>
      server.results.find((result) => result.run_pos === run && result.attempt === attempt);
    for (let round = 1; round <= 2; round++) {
      addSegment(server, { segment_index: 3 + round, from_block: 200, to_block: 299 });
      await server.until(() => ended(1 + round, 1) !== undefined);
      server.tryAgain();
      await server.until(() => ended(1, 5 + round) !== undefined);
    }

    expect(ended(1, 6)).toMatchObject({ outcome: "FAILED", segment: { quarantined: [] } });
    expect(ended(1, 7)).toMatchObject({
      outcome: "SUCCEEDED",
      segment: { quarantined: [{ block: 137 }] },
    });
  });

  test("that cannot be split is asked for as a whole, and fails as a whole", async () => {
    const server = serverWith({ splittable: false, request_size: 10 });
    const asked: string[] = [];
    workOnSync(server, {
      fetch: async (range, { progressTo, attempt }) => {
        asked.push(textOf(range));
        if (attempt > 1) return;
        await progressTo(120);
        throw rangeTooLarge("Too many.");
      },
    });
    expect(await resultOf(server)).toMatchObject({
      outcome: "FAILED",
      error: { class: "too-large" },
      segment: { last_processed_block: 120 },
    });
    server.tryAgain();
    await resultOf(server, 2);

    expect(asked).toEqual(["100-199", "121-199"]);
  });

  test("lets a long verification show that it goes on", async () => {
    const server = serverWith({ purpose: "verify" });
    workOnSync(server, {
      verify: async ({ to }, { progressTo }) => {
        await progressTo(to);
        return true;
      },
    });

    expect(await resultOf(server)).toMatchObject({
      outcome: "SUCCEEDED",
      segment: { last_processed_block: null, verification: { ok: true } },
    });
  });

  test("is not verified by itself where the sync says so", async () => {
    const server = serverWith();
    workOnSync(server, {
      fetch: async () => undefined,
      verify: async () => false,
      verifyEachSegment: false,
    });

    expect(await resultOf(server)).toMatchObject({
      outcome: "SUCCEEDED",
      segment: { last_processed_block: 199, verification: null },
    });
  });

  test("that does not pass its verification is fetched again from its start", async () => {
    const server = serverWith();
    const asked: SyncRange[] = [];
    workOnSync(server, {
      fetch: async (range) => void asked.push(range),
      verify: async (_range, { attempt }) => ({ ok: attempt > 1, note: "3 rows are missing" }),
    });
    const failed = await resultOf(server);
    expect(failed).toMatchObject({
      outcome: "FAILED",
      error: { class: "verification" },
      segment: { last_processed_block: null, verification: { ok: false } },
    });
    expect(failed?.error?.message).toContain("3 rows are missing");
    server.tryAgain();

    expect(await resultOf(server, 2)).toMatchObject({ outcome: "SUCCEEDED" });
    expect(asked.map(({ from, undo }) => [from, undo])).toEqual([
      [100, null],
      [100, { from: 100, to: 199 }],
    ]);
  });

  test.each([true, false])("is only verified where that is what it is for (%s)", async (ok) => {
    const server = serverWith({ purpose: "verify", last_processed_block: 199 });
    let calls = 0;
    workOnSync(server, {
      fetch: async () => void calls++,
      verify: async () => ({ ok, note: "as it is" }),
    });

    expect(await resultOf(server)).toMatchObject({
      outcome: "SUCCEEDED",
      segment: { verification: { ok, note: "as it is" } },
    });
    expect(calls).toBe(0);
  });

  test("starts over when its last block was rewritten meanwhile", async () => {
    const server = serverWith();
    const asked: SyncRange[] = [];
    const hashes = ["a", "b", "b", "b"];
    workOnSync(server, {
      fetch: async (range) => void asked.push(range),
      hash: async () => hashes.shift() ?? "",
    });

    expect(await resultOf(server)).toMatchObject({
      outcome: "SUCCEEDED",
      segment: { end_hash: "b", last_processed_block: 199 },
    });
    expect(asked.map(({ undo }) => undo)).toEqual([null, { from: 100, to: 199 }]);
  });

  test("I48: is not complete while the source has left what was known of it", async () => {
    const server = serverWith({ anchor: { block: 250, hash: "known" } });
    const asked: number[] = [];
    let fetches = 0;
    workOnSync(server, {
      fetch: async () => void fetches++,
      hash: async (block) => {
        asked.push(block);
        if (block === 199) return "end";
        // The rewrite shows itself twice, and is gone for the second attempt.
        return asked.filter((each) => each === 250).length > 2 ? "known" : "other";
      },
    });

    expect(await resultOf(server)).toMatchObject({
      outcome: "FAILED",
      error: { class: "unavailable", message: expect.stringContaining("rewrote block 250") },
      segment: { end_hash: "end", last_processed_block: 199 },
    });
    server.tryAgain();
    expect(await resultOf(server, 2)).toMatchObject({
      outcome: "SUCCEEDED",
      segment: { end_hash: "end", last_processed_block: 199 },
    });
    // Nothing that was stored is fetched again.
    expect(fetches).toBe(1);
    expect(asked).toEqual([199, 199, 250, 250, 199, 250]);
  });

  test("keeps the hash of its last block from before the first request", async () => {
    const server = serverWith();
    let hash = "a";
    const asked: SyncRange[] = [];
    workOnSync(server, {
      fetch: async (range, { attempt, progressTo }) => {
        asked.push(range);
        await progressTo(150);
        if (attempt === 1) {
          hash = "b";
          throw sourceUnavailable("Down.");
        }
        await progressTo(199);
      },
      hash: async () => hash,
    });
    await resultOf(server);
    server.tryAgain();

    expect(await resultOf(server, 2)).toMatchObject({ segment: { end_hash: "b" } });
    expect(asked.map(({ from, undo }) => [from, undo === null])).toEqual([
      [100, true],
      [151, true],
      [100, false],
    ]);
  });

  test("reports how far it got when it is cancelled, whatever its function makes of that", async () => {
    const server = serverWith({ request_size: 10 });
    const { promise: reached, resolve: reach } = Promise.withResolvers<void>();
    workOnSync(server, {
      fetch: async ({ from }, { signal }) => {
        if (from < 150) return;
        reach();
        await new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve()));
      },
    });
    await reached;
    server.cancelAll();

    expect(await resultOf(server)).toMatchObject({
      outcome: "CANCELLED",
      segment: { last_processed_block: 149, blocks: 50 },
    });
  });

  test("reports how far it got when the worker stops", async () => {
    const server = serverWith({ request_size: 10 });
    const { promise: reached, resolve: reach } = Promise.withResolvers<void>();
    const { stop } = workOnSync(
      server,
      {
        fetch: async ({ from }, { signal }) => {
          if (from < 150) return;
          reach();
          await new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve()));
        },
      },
      { stopGraceMs: 10 },
    );
    await reached;
    await stop();

    expect(await resultOf(server)).toMatchObject({
      outcome: "FAILED",
      released: true,
      segment: { last_processed_block: 149 },
    });
  });

  test("of a sync that this worker does not have fails with a sentence", async () => {
    const server = serverWith({ sync: "others" }, { asset_key: "unknown:others" });
    workOnSync(server, {});
    const result = await resultOf(server);

    expect(result).toMatchObject({ outcome: "FAILED", error: { class: "input" } });
    expect(result?.error?.message).toContain("does not define the sync others; deploy the code");
  });
});

describe("a worker with syncs", () => {
  const head = async (): Promise<number> => 5;
  const wishes = (server: WorkServer) =>
    server.claims.map(({ slots, backfill_slots }) => [slots, backfill_slots]);

  test("keeps a slot free of backfills where a head is followed", async () => {
    const server = new WorkServer();
    workOnSync(server, { head }, { concurrency: 4 });
    await server.until(() => server.claims.length === 2);

    expect(wishes(server)).toEqual([
      [3, undefined],
      [1, 0],
    ]);
    expect(server.claims[0]?.assets).toEqual(["sync:blocks"]);
  });

  test("runs new blocks while long segments of the history take all other slots", async () => {
    const server = serverWith();
    const { promise: released, resolve: release } = Promise.withResolvers<void>();
    const order: string[] = [];
    workOnSync(
      server,
      {
        head,
        fetch: async ({ isLive }) => {
          if (!isLive) await released;
          order.push(isLive ? "live" : "history");
        },
      },
      { concurrency: 2 },
    );
    await server.until(() => server.claims.length >= 2);
    addSegment(server, { from_block: 200, to_block: 200, is_live: true });
    await server.until(() => server.results.length === 1);
    release();
    await server.until(() => server.results.length === 2);

    expect(order).toEqual(["live", "history"]);
  });

  test("has one lane only with one slot, or without a head to follow", async () => {
    for (const [functions, concurrency] of [
      [{ head }, 1],
      [{}, 4],
    ] as const) {
      const server = new WorkServer();
      workOnSync(server, functions, { concurrency });
      await server.until(() => server.claims.length === 1);
      expect(wishes(server)).toEqual([[concurrency, undefined]]);
    }
  });
});
