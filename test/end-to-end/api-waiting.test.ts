import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createClient } from "../../src/client/client.ts";
import { ALL_ORDERS, type Api, checkedFetch, publish, startApi, work } from "./api-server.ts";

let api: Api;

beforeAll(async () => {
  api = await startApi();
  await publish(api.client);
});

afterAll(() => api.close());

const wish = () => ({ ...ALL_ORDERS, allow_overlap: true });

/** A client that keeps what it asked for, by path. */
function watchedClient() {
  const requests: Request[] = [];
  const fetch = (request: Request): Promise<Response> => {
    requests.push(request);
    return checkedFetch(request);
  };
  const client = createClient({ url: api.url, fetch, retryDelaysMs: [] });
  const count = (end: string): number =>
    requests.filter(({ url }) => new URL(url).pathname.endsWith(end)).length;
  const streams = (): Request[] => requests.filter(({ url }) => url.includes("follow=true"));
  return { client, count, streams };
}

/** Works until the promise has settled. */
async function workDuring<Answer>(
  waited: Promise<Answer>,
  outcome: "SUCCEEDED" | "FAILED",
): Promise<Answer> {
  const ended = { isOver: false };
  const over = (): void => void (ended.isOver = true);
  waited.then(over, over);
  while (!ended.isOver) await work(api.client, outcome, null, 20);
  return waited;
}

describe("waiting for a backfill", () => {
  test("resolves with how it ended, by following it and not by asking again and again", async () => {
    const { client, count, streams } = watchedClient();
    const { backfill_id } = await client.call("createBackfill", { body: wish() });

    const ended = await workDuring(client.backfills.waitFor(backfill_id), "SUCCEEDED");

    expect(ended).toMatchObject({ backfill_id, state: "SUCCEEDED", partitions_succeeded: 10 });
    // PENDING to RUNNING and RUNNING to SUCCEEDED, and one look before.
    expect(count(backfill_id)).toBeLessThanOrEqual(3);
    expect(streams().map(({ signal }) => signal.aborted)).toEqual([true]);
  });

  test("answers at once about one that has ended, and without a stream", async () => {
    const { client, streams } = watchedClient();
    const { backfill_id } = await client.call("createBackfill", { body: wish() });
    await workDuring(client.backfills.waitFor(backfill_id), "FAILED");
    const before = streams().length;

    expect(await client.backfills.waitFor(backfill_id)).toMatchObject({ state: "FAILED" });
    expect(streams()).toHaveLength(before);
  });

  test("answers about one that waits for somebody to decide", async () => {
    const { client } = watchedClient();
    const limited = { ...wish(), chunk_size: 1, failure_limit: { count: 1 } };
    const first = await client.call("createBackfill", { body: limited });
    const after_backfill_id = first.backfill_id;
    const second = await client.call("createBackfill", { body: { ...wish(), after_backfill_id } });

    const both = Promise.all([
      client.backfills.waitFor(first.backfill_id),
      client.backfills.waitFor(second.backfill_id),
    ]);

    const [paused, behind] = await workDuring(both, "FAILED");
    expect(paused).toMatchObject({ state: "PAUSED", failure_limit_reached: true });
    expect(behind).toMatchObject({ state: "PENDING" });
    for (const { backfill_id } of [first, second]) {
      await client.call("cancelBackfill", { params: { backfill_id }, body: {} });
    }
  });

  test("goes on when its stream is cut", async () => {
    const { client: plain } = watchedClient();
    let cuts = 0;
    const client = createClient({
      url: api.url,
      retryDelaysMs: [0],
      async fetch(request) {
        const answer = await fetch(request);
        const isStream = answer.headers.get("content-type") === "text/event-stream";
        if (!isStream || cuts++ > 0) return answer;
        await answer.body?.cancel();
        return new Response(ReadableStream.from([]), { headers: answer.headers });
      },
    });
    const { backfill_id } = await plain.call("createBackfill", { body: wish() });

    const ended = await workDuring(client.backfills.waitFor(backfill_id), "SUCCEEDED");

    expect(ended.state).toBe("SUCCEEDED");
    expect(cuts).toBeGreaterThan(1);
  });

  test("gives up after its time and by its signal, and the backfill goes on", async () => {
    const { client, streams } = watchedClient();
    const { backfill_id } = await client.call("createBackfill", { body: wish() });

    await expect(client.backfills.waitFor(backfill_id, { timeoutMs: 50 })).rejects.toMatchObject({
      code: "NOT_YET",
      message: expect.stringMatching(
        /^Backfill \S+ is (PENDING|RUNNING|not known yet) after 50 ms/,
      ),
    });
    const stop = new AbortController();
    const waited = client.backfills.waitFor(backfill_id, { signal: stop.signal });
    stop.abort(new Error("The user went away."));
    await expect(waited).rejects.toThrow("The user went away.");
    await expect(client.backfills.waitFor(backfill_id, { signal: stop.signal })).rejects.toThrow(
      "The user went away.",
    );

    expect(streams().every(({ signal }) => signal.aborted)).toBe(true);
    const ended = await workDuring(client.backfills.waitFor(backfill_id), "SUCCEEDED");
    expect(ended.state).toBe("SUCCEEDED");
  });

  test.each([0, -1, Number.NaN, Number.POSITIVE_INFINITY])(
    "refuses a timeout of %s",
    async (timeoutMs) => {
      const waited = watchedClient().client.backfills.waitFor("any", { timeoutMs });
      await expect(waited).rejects.toMatchObject({ code: "INPUT_INVALID" });
    },
  );

  test("refuses a backfill that is not there", async () => {
    const waited = watchedClient().client.backfills.waitFor("nothing");
    await expect(waited).rejects.toMatchObject({ code: "BACKFILL_NOT_FOUND" });
  });
});

describe("waiting for a run", () => {
  test.each(["SUCCEEDED", "FAILED"] as const)("resolves when it %s", async (outcome) => {
    const { client, count } = watchedClient();
    const { run_id } = await client.call("requestRun", { body: { assets: ["report"] } });

    const ended = await workDuring(client.runs.waitFor(run_id), outcome);

    expect(ended).toMatchObject({ run_id, state: outcome });
    expect(count(run_id)).toBeLessThanOrEqual(2);
  });

  test("resolves when it is cancelled before it began", async () => {
    const { client } = watchedClient();
    const body = { assets: ["sales/orders"], partition_keys: ["2025-01-01"] };
    const { run_id } = await client.call("requestRun", { body });
    const waited = client.runs.waitFor(run_id);
    await client.call("cancelRun", { params: { run_id }, body: {} });

    expect(await waited).toMatchObject({ state: "CANCELLED" });
  });

  test("refuses a run that is not there", async () => {
    const waited = watchedClient().client.runs.waitFor("run_nothing");
    await expect(waited).rejects.toMatchObject({ code: "RUN_NOT_FOUND" });
  });
});
