import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Client } from "../../src/client/client.ts";
import type { PartInput } from "../../src/work/operations.ts";
import { type Api, startApi, work } from "./api-server.ts";

// Goal: a backfill works in its time only. Method: a real server whose clock stands still until the
// test lets it jump; what is due then is asked for, as a server that was away would find it.

const HOUR_MS = 3_600_000;
let api: Api;
let client: Client;

beforeEach(async () => {
  api = await startApi({ clockAt: "2026-01-10T12:00:00.000Z", actsByItself: false });
  ({ client } = api);
  const partitions = { type: "static", keys: ["1", "2", "3", "4"] };
  const specs = [{ kind: "asset", asset_key: "report", partitions }];
  await client.call("publishDefinitions", { body: { specs } } as never);
});

afterEach(() => api.close());

type Body = PartInput<"createBackfill", "body">;

function wish(changes: Partial<Body>): Body {
  return { assets: ["report"], selector: { type: "all" }, chunk_size: 1, ...changes };
}

/** What has become of the backfill once everything that is due was done. */
async function standOf(backfill_id: string) {
  await client.call("tick", {});
  const { state, window_open, window_changes_at, ...counts } = await client.call("getBackfill", {
    params: { backfill_id },
  });
  const { chunks_pending, chunks_planned, chunks_succeeded } = counts;
  const chunks = [chunks_pending, chunks_planned, chunks_succeeded].join(" ");
  return { state, window_open, window_changes_at, chunks };
}

describe("the window of a backfill", () => {
  test("I87: plans nothing outside, lets what runs end, and goes on when it opens", async () => {
    const window = "22:00-06:00 Europe/Berlin";
    const body = wish({ window, max_concurrent_runs: 1 });
    expect(await client.call("previewBackfill", { body })).toMatchObject({
      opens_at: "2026-01-10T21:00:00.000Z",
    });
    const { backfill_id: id } = await client.call("createBackfill", { body });
    const closed = { window_open: false, window_changes_at: "2026-01-10T21:00:00.000Z" };
    expect(await standOf(id)).toEqual({ state: "PENDING", ...closed, chunks: "4 0 0" });

    api.jump(9 * HOUR_MS);
    const open = { window_open: true, window_changes_at: "2026-01-11T05:00:00.000Z" };
    expect(await standOf(id)).toEqual({ state: "RUNNING", ...open, chunks: "3 1 0" });

    // It closes while a chunk is planned: that one ends, and no other is begun.
    api.jump(8 * HOUR_MS);
    await standOf(id);
    expect(await work(client, "SUCCEEDED")).toBe(1);
    const again = { window_open: false, window_changes_at: "2026-01-11T21:00:00.000Z" };
    expect(await standOf(id)).toEqual({ state: "RUNNING", ...again, chunks: "3 0 1" });
    expect(await work(client, "SUCCEEDED", null, 0)).toBe(0);

    // A server that was away for days finds it in the time that it is then.
    api.jump(3 * 24 * HOUR_MS + 17 * HOUR_MS);
    expect(await standOf(id)).toMatchObject({ window_open: true, chunks: "2 1 1" });
    while ((await work(client, "SUCCEEDED", null, 0)) > 0) await standOf(id);
    expect(await standOf(id)).toMatchObject({ state: "SUCCEEDED", chunks: "0 0 4" });

    const events = await client.call("listEvents", { query: { type: "BackfillWindowChanged" } });
    expect(events.items.map(({ data }) => data)).toMatchObject([
      { is_open: true },
      { is_open: false },
      { is_open: true },
    ]);
  });

  test("I87: waits for its start, is paused and cancelled like any other meanwhile", async () => {
    const start_at = "2026-01-10T13:00:00.000Z";
    const { backfill_id: id } = await client.call("createBackfill", { body: wish({ start_at }) });
    const waits = { window_open: false, window_changes_at: start_at, chunks: "4 0 0" };
    expect(await standOf(id)).toEqual({ state: "PENDING", ...waits });
    api.jump(HOUR_MS);
    const goesOn = { window_open: true, window_changes_at: null, chunks: "2 2 0" };
    expect(await standOf(id)).toEqual({ state: "RUNNING", ...goesOn });

    const other = wish({ start_at: "2026-01-20T00:00:00.000Z", allow_overlap: true });
    const { backfill_id } = await client.call("createBackfill", { body: other });
    const { state } = await client.call("cancelBackfill", { params: { backfill_id }, body: {} });
    expect(state).toBe("CANCELLED");
  });

  test("I87: a follower of one that failed waits for a person, and records nothing meanwhile", async () => {
    const first = await client.call("createBackfill", { body: wish({ chunk_size: 10 }) });
    const follower = await client.call("createBackfill", {
      body: wish({
        window: "22:00-23:00",
        after_backfill_id: first.backfill_id,
        allow_overlap: true,
      }),
    });
    const { backfill_id: id } = follower;
    await standOf(id);
    await work(client, "FAILED");
    const waits = { state: "PENDING", window_open: false, window_changes_at: null };
    expect(await standOf(id)).toMatchObject(waits);
    const { pos } = await client.call("listEvents", { query: { limit: 1 } });
    api.jump(36 * HOUR_MS);
    expect(await standOf(id)).toMatchObject(waits);
    expect((await client.call("listEvents", { query: { limit: 1 } })).pos).toBe(pos);
    await client.call("resumeBackfill", { params: { backfill_id: id }, body: {} });
    expect(await standOf(id)).toMatchObject({
      state: "RUNNING",
      window_open: false,
      window_changes_at: "2026-01-12T22:00:00.000Z",
    });
  });

  test("a window that is paused over its end opens when it is resumed in its time", async () => {
    const body = wish({ window: "13:00-15:00", max_concurrent_runs: 1 });
    const { backfill_id: id } = await client.call("createBackfill", { body });
    api.jump(HOUR_MS);
    expect(await standOf(id)).toMatchObject({ state: "RUNNING", chunks: "3 1 0" });
    const params = { backfill_id: id };
    await client.call("pauseBackfill", { params, body: {} });
    await work(client, "SUCCEEDED");
    api.jump(4 * HOUR_MS);
    await standOf(id);
    await client.call("resumeBackfill", { params, body: {} });
    expect(await standOf(id)).toMatchObject({ window_open: false, chunks: "3 0 1" });
    api.jump(20 * HOUR_MS);
    expect(await standOf(id)).toMatchObject({ window_open: true, chunks: "2 1 1" });
  });

  test("its failure limit pauses it outside its window, too", async () => {
    const failure_limit = { count: 1 };
    const body = wish({ window: "12:00-13:00", max_concurrent_runs: 1, failure_limit });
    const { backfill_id } = await client.call("createBackfill", { body });
    expect(await standOf(backfill_id)).toMatchObject({ window_open: true, chunks: "3 1 0" });
    api.jump(HOUR_MS);
    expect(await standOf(backfill_id)).toMatchObject({ window_open: false, chunks: "3 1 0" });
    await work(client, "FAILED");
    expect(await standOf(backfill_id)).toMatchObject({ state: "PAUSED", window_open: false });
    const params = { backfill_id };
    expect(await client.call("getBackfill", { params })).toMatchObject({
      failure_limit_reached: true,
    });
    await client.call("resumeBackfill", { params, body: {} });
    expect(await standOf(backfill_id)).toMatchObject({ state: "RUNNING", chunks: "3 0 0" });
    api.jump(23 * HOUR_MS);
    expect(await standOf(backfill_id)).toMatchObject({ window_open: true, chunks: "2 1 0" });
  });

  test.each([
    [{ window: "22:00" }, 'window: expected two times of the day and a time zone such as "22:00-'],
    [{ window: "22:00-06:00 Berlin" }, '"Berlin" must be an IANA time zone such as'],
    [{ start_at: "tomorrow" }, "start_at"],
  ])("refuses %j with a sentence", async (fields, sentence) => {
    await expect(client.call("createBackfill", { body: wish(fields) })).rejects.toMatchObject({
      code: "INPUT_INVALID",
      message: expect.stringContaining(sentence),
    });
  });
});
