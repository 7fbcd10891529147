import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { serverSentEvents } from "../../src/client/server-sent-events.ts";
import { type Api, publish, startApi } from "./api-server.ts";

const CHANGES = "/api/v1/orchestration/changes";

let api: Api;

beforeAll(async () => {
  api = await startApi();
  await publish(api.client);
});

afterAll(() => api.close());

type Change = { pos: number; types: string[] };

/** Follows the changes as a page does. */
async function follow() {
  const stop = new AbortController();
  const response = await fetch(`${api.url}${CHANGES}`, { signal: stop.signal });
  expect(response.headers.get("content-type")).toBe("text/event-stream");
  if (response.body === null) throw new Error("There is no stream.");
  const messages = serverSentEvents(response.body);
  return {
    async next(): Promise<Change> {
      const { value } = await messages.next();
      return JSON.parse(value?.data ?? "null") as Change;
    },
    end: () => stop.abort(),
  };
}

const requestRun = () => api.client.call("requestRun", { body: { assets: ["report"] } });

describe("following changes", () => {
  test("tells which types of events came, and how far the ledger is", async () => {
    const changes = await follow();
    const { accepted_pos } = await requestRun();
    const change = await changes.next();
    expect(change.types).toContain("RunRequested");
    expect(change.pos).toBeGreaterThanOrEqual(accepted_pos);
    changes.end();
  });

  test("tells many changes in few messages, and the last of them too", async () => {
    const changes = await follow();
    let last = 0;
    for (let count = 0; count < 200; count++) last = (await requestRun()).accepted_pos;
    let messages = 0;
    for (let pos = 0; pos < last; messages++) ({ pos } = await changes.next());
    expect(messages).toBeLessThan(100);
    changes.end();
  });

  test("tells each who follows, and no longer who went away", async () => {
    const [one, other] = [await follow(), await follow()];
    one.end();
    const { accepted_pos } = await requestRun();
    expect((await other.next()).pos).toBeGreaterThanOrEqual(accepted_pos);
    other.end();
    const again = await follow();
    const { accepted_pos: later } = await requestRun();
    expect((await again.next()).pos).toBeGreaterThanOrEqual(later);
    again.end();
  });

  test("ends when the server stops", async () => {
    const other = await startApi();
    const response = await fetch(`${other.url}${CHANGES}`);
    const read = response.text();
    await other.close();
    expect(await read).toBe("retry: 1000\n\n");
  });
});
