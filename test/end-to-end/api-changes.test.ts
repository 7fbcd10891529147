import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { serverSentEvents } from "../../src/client/client.ts";
import { type Api, publish, startApi } from "./api-server.ts";

const CHANGES = "/api/v1/orchestration/changes";
const EVENTS_FOLLOWED = "/api/v1/orchestration/events?follow=true";

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

  test("I64: a stream that nobody reads or that cannot begin takes no place", async () => {
    const folder = mkdtempSync(join(tmpdir(), "pawl-api-"));
    const other = await startApi({ folder, limits: { streamsPerToken: 1 } });
    for (const path of [CHANGES, EVENTS_FOLLOWED, CHANGES]) {
      const head = await other.send("HEAD", path);
      expect(head.status).toBe(200);
      expect(head.headers.get("content-type")).toBe("text/event-stream");
    }
    for (const path of [CHANGES, EVENTS_FOLLOWED, CHANGES]) {
      const gone = new AbortController();
      const request = new Request(`http://localhost${path}`, { signal: gone.signal });
      expect((await other.app.fetch(request)).status).toBe(200);
      gone.abort();
    }
    const stream = await other.send("GET", CHANGES);
    expect(stream.status).toBe(200);
    await stream.body?.cancel();
    await other.close();
    rmSync(folder, { recursive: true });
    for (let time = 0; time < 2; time++) {
      const answer = await other.app.fetch(new Request(`http://localhost${CHANGES}`));
      expect(answer.status).toBeGreaterThanOrEqual(500);
    }
  });

  test("I68: ends with its token, also while there is much to tell", async () => {
    for (const tokensRequired of [true, false]) {
      const other = await startApi({
        workspaces: ["ours", "theirs"],
        tokensRequired,
        actsByItself: false,
      });
      const theirs = await other.clientOf(1, ["read", "write", "admin"]);
      await publish(theirs);
      const follower = await other.clientOf(1, ["read"]);
      const headers = { cookie: `pawl_session=${follower.token}` };
      const stream = await other.send("GET", CHANGES, { headers });
      if (stream.body === null) throw new Error("There is no stream.");
      const messages = serverSentEvents(stream.body);
      await theirs.call("requestRun", { body: { assets: ["report"] } });
      expect((await messages.next()).done).toBe(false);
      await theirs.call("revokeToken", { params: { token_id: follower.tokenId } });
      await theirs.call("requestRun", { body: { assets: ["report"] } });
      expect((await messages.next()).done).toBe(true);
      await other.close();
    }
  });

  test("ends when the server stops", async () => {
    const other = await startApi();
    const response = await fetch(`${other.url}${CHANGES}`);
    const read = response.text();
    await other.close();
    expect(await read).toBe("retry: 1000\n\n");
  });
});
