import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { ALL_ORDERS, type Api, publish, startApi } from "./api-server.ts";

const EVENTS = "/api/v1/orchestration/events";

let api: Api;

beforeEach(async () => {
  api = await startApi();
  await publish(api.client);
});

afterEach(() => api.close());

async function take<Event>(events: AsyncGenerator<Event>, count: number): Promise<Event[]> {
  const taken: Event[] = [];
  for await (const event of events) {
    taken.push(event);
    if (taken.length === count) break;
  }
  return taken;
}

describe("following the ledger", () => {
  test("I2: gives every event once and in order, those there are and those that come", async () => {
    const followed = take(api.client.follow(), 20);
    for (let count = 0; count < 19; count++) {
      await api.client.call("requestRun", { body: { assets: ["report"] } });
    }
    const events = await followed;
    expect(events.map(({ pos }) => pos)).toEqual(Array.from({ length: 20 }, (_, at) => at + 1));
    const { items } = await api.client.call("listEvents");
    expect(events).toEqual(items);
  });

  test("goes on after the last event that was seen", async () => {
    await api.client.call("createBackfill", { body: ALL_ORDERS });
    const headers = { "last-event-id": "2" };
    const stream = await api.send("GET", `${EVENTS}?follow`, { headers });
    const reader = stream.body?.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    while (!text.includes("id: ")) text += (await reader?.read())?.value ?? "";
    expect(/^id: (\d+)$/m.exec(text)?.[1]).toBe("3");
    await reader?.cancel();
    const refused = await api.send("GET", `${EVENTS}?follow=true`, {
      headers: { "last-event-id": "the last one" },
    });
    expect(refused.status).toBe(400);
  });

  test("gives only the types and the entity that were asked for", async () => {
    const { backfill_id } = await api.client.call("createBackfill", { body: ALL_ORDERS });
    const planned = take(api.client.follow({ types: ["BackfillChunkPlanned"] }), 2);
    // Of a type that is named, the data has its type.
    const chunks: [string, number][] = (await planned).map(({ type, data }) => [
      type,
      data.chunk_index,
    ]);
    expect(chunks).toEqual([
      ["BackfillChunkPlanned", 0],
      ["BackfillChunkPlanned", 1],
    ]);
    const published = await api.client.call("listEvents", {
      query: { type: "DefinitionsPublished" },
    });
    expect(published.items.map(({ type }) => type)).toEqual(["DefinitionsPublished"]);
    const unknown = api.client.call("listEvents", { query: { types: "BackfilCreated" } });
    await expect(unknown).rejects.toMatchObject({
      code: "INPUT_INVALID",
      message: expect.stringContaining("Did you mean BackfillCreated?") as string,
    });
    const [first] = await take(api.client.follow({ entity: backfill_id }), 1);
    expect(first?.type).toBe("BackfillCreated");
  });

  test("lists newest first, page by page, down to the first event", async () => {
    for (let count = 0; count < 5; count++) {
      await api.client.call("requestRun", { body: { assets: ["report"] } });
    }
    const seen: number[] = [];
    let before: number | undefined;
    do {
      const query = {
        descending: "true" as const,
        limit: 2,
        ...(before === undefined ? {} : { before }),
      };
      const page = await api.client.call("listEvents", { query });
      seen.push(...page.items.map(({ pos }) => pos));
      before = page.next_before ?? undefined;
    } while (before !== undefined);
    expect(seen).toEqual([6, 5, 4, 3, 2, 1]);
  });
});

describe("a token that ends", () => {
  test("I68: ends its streams, which deliver nothing that comes after", async () => {
    const reader = await api.clientOf(0, ["read"]);
    const headers = { authorization: `Bearer ${reader.token}` };
    const paths = [`${EVENTS}?follow=true`, "/api/v1/orchestration/changes"];
    const streams = await Promise.all(paths.map((path) => api.send("GET", path, { headers })));
    const readers = streams.map((stream) =>
      (stream.body as ReadableStream<Uint8Array>).pipeThrough(new TextDecoderStream()).getReader(),
    );
    let text = "";
    while (!text.includes("DefinitionsPublished")) text += (await readers[0]?.read())?.value ?? "";
    await api.store.revokeToken(api.engines[0].workspace.ws, reader.tokenId);
    const { accepted_pos } = await api.client.call("requestRun", { body: { assets: ["report"] } });
    for (const each of readers) {
      for (let read = await each.read(); !read.done; read = await each.read()) text += read.value;
    }
    expect(text).not.toContain(`id: ${accepted_pos}`);
    expect(text).not.toContain("RunRequested");
  });
});

describe("stopping", () => {
  test("I65: answers every request it took, and ends streams and waiting claims", async () => {
    const stream = await api.send("GET", `${EVENTS}?follow=true`);
    const streamed = stream.text();
    const claim = api.client.call("claim", {
      body: {
        worker_id: "w",
        lease_id: "l",
        slots: 1,
        assets: ["none"],
        code_version: null,
        wait_ms: 30_000,
      },
    });
    await expect.poll(() => api.engines[0].status().waiting_claims).toBe(1);
    const requests = Array.from({ length: 40 }, (_, index) =>
      api.client.call("requestRun", { body: { request_id: `run-${index}`, assets: ["report"] } }),
    );
    await requests[0];
    const started = performance.now();
    const stopped = api.stopServer();
    const settled = await Promise.allSettled(requests);
    const accepted = settled.filter(({ status }) => status === "fulfilled");
    await stopped;
    // The claim would have waited for longer.
    expect(performance.now() - started).toBeLessThan(20_000);
    expect(await claim).toMatchObject({ groups: [] });
    expect(await streamed).toContain("event: DefinitionsPublished");
    for (const each of settled) {
      if (each.status === "rejected") {
        expect(each.reason).toMatchObject({ code: "SERVER_UNREACHABLE" });
      }
    }
    const recorded = await api.store.read(api.engines[0].workspace.ws, (reader) =>
      reader.events({ after: 0, types: ["RunRequested"], limit: 1_000 }),
    );
    expect(recorded.length).toBe(accepted.length);
  });

  test("has no events about a partition that nobody has tried", async () => {
    const query = { entity: "sales/orders@2025-01-03" };
    expect((await api.client.call("listEvents", { query })).items).toEqual([]);
    await expect(
      api.client.call("listEvents", { query: { entity: "none@a=1" } }),
    ).rejects.toMatchObject({ code: "SYNC_NOT_FOUND" });
  });
});
