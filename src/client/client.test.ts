import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type ServerSentEvent, serverSentEvents, createClient, type Fetch } from "./client.ts";
import { PawlError } from "../kernel/errors.ts";

const TEXT = [
  "retry: 1000\n\n",
  'id: 7\nevent: RunRequested\ndata: {"a":"é"}\n\n',
  ": still here\n\n",
  "data: one\ndata: two\n\n",
  "data: cut off",
].join("");

const EVENTS = [
  { id: "7", event: "RunRequested", data: '{"a":"é"}' },
  { id: null, event: "message", data: "one\ntwo" },
];

describe("serverSentEvents", () => {
  test("holds the stream before the first message is asked for", () => {
    const body = new ReadableStream<Uint8Array>();
    serverSentEvents(body);
    expect(body.locked).toBe(true);
  });

  test("gives the same messages however the bytes are cut", async () => {
    const bytes = new TextEncoder().encode(TEXT);
    await fc.assert(
      fc.asyncProperty(fc.array(fc.nat({ max: bytes.length })), async (cuts) => {
        const ends = [...cuts, bytes.length].toSorted((one, other) => one - other);
        let start = 0;
        const parts = ends.map((end) => bytes.slice(start, (start = end)));
        const body = ReadableStream.from(parts) as ReadableStream<Uint8Array>;
        const events: ServerSentEvent[] = [];
        for await (const event of serverSentEvents(body)) events.push(event);
        expect(events).toEqual(EVENTS);
      }),
    );
  });
});

const URL_OF_SERVER = "http://127.0.0.1:7290";

/** A client whose server gives these answers in turn; an error is a lost connection. */
function clientOf(answers: (Response | Error)[], options: { token?: string } = {}) {
  const requests: Request[] = [];
  const fetch: Fetch = (request) => {
    requests.push(request);
    const answer = answers.shift() ?? new Error("no more answers");
    if (answer instanceof Error) throw answer;
    return answer;
  };
  const client = createClient({ url: URL_OF_SERVER, fetch, retryDelaysMs: [0, 0], ...options });
  return { client, requests };
}

const lost = () => Object.assign(new TypeError("fetch failed"), { cause: { code: "ECONNRESET" } });
const json = (body: unknown, status = 200) => new Response(JSON.stringify(body), { status });

describe("a client", () => {
  test("sends parameters, query, body, token and key where they belong", async () => {
    const { client, requests } = clientOf([json({}), json({})], { token: "pawl_x_y" });
    await client.call("listAssetPartitions", {
      params: { asset_key: "sales/orders" },
      query: { limit: 3, cursor: "a b" },
    });
    await client.call("createBackfill", {
      body: { assets: ["a"], selector: { type: "all" } },
      idempotencyKey: "key",
    });
    const [list, create] = requests;
    expect(list?.url).toBe(
      `${URL_OF_SERVER}/api/v1/orchestration/assets/sales%2Forders/partitions?limit=3&cursor=a+b`,
    );
    expect(list?.headers.get("authorization")).toBe("Bearer pawl_x_y");
    expect(create?.headers.get("idempotency-key")).toBe("key");
    expect(await create?.json()).toEqual({ assets: ["a"], selector: { type: "all" } });
  });

  test("throws the error that the server's problem stands for", async () => {
    const problem = {
      type: "urn:pawl:error:STATE_ILLEGAL",
      title: "Conflict",
      status: 409,
      code: "STATE_ILLEGAL",
      detail: "It is paused.",
      details: { state: "PAUSED" },
    };
    const { client } = clientOf([json(problem, 409)]);
    const call = client.call("getRun", { params: { run_id: "run_x" } });
    await expect(call).rejects.toThrow(
      new PawlError("STATE_ILLEGAL", "It is paused.", { details: { state: "PAUSED" } }),
    );
  });

  test("tries again after a lost connection what can do no harm twice", async () => {
    const { client, requests } = clientOf([lost(), json({ items: [] }), lost(), json({})]);
    await client.call("listRuns");
    await client.call("requestRun", { body: { assets: ["a"] } });
    expect(requests).toHaveLength(4);
    const keys = requests.slice(2).map(({ headers }) => headers.get("idempotency-key"));
    expect(new Set(keys).size).toBe(1);
  });

  test("does not repeat a change without a key, unless it was never sent", async () => {
    const refused = Object.assign(new TypeError("fetch failed"), {
      cause: { code: "ECONNREFUSED" },
    });
    const { client, requests } = clientOf([lost(), refused, json({})]);
    const pause = () => client.call("pauseBackfill", { params: { backfill_id: "b" } });
    await expect(pause()).rejects.toMatchObject({ code: "SERVER_UNREACHABLE" });
    await pause();
    expect(requests).toHaveLength(3);
  });

  test("gives up after a few tries, and when something else answers", async () => {
    const { client, requests } = clientOf([lost(), lost(), lost(), new Response("<html>")]);
    const unreachable = { code: "SERVER_UNREACHABLE" };
    await expect(client.call("listRuns")).rejects.toMatchObject(unreachable);
    expect(requests).toHaveLength(3);
    await expect(client.call("listRuns")).rejects.toMatchObject(unreachable);
  });

  test("goes through all pages of a list", async () => {
    const { client, requests } = clientOf([
      json({ items: [1, 2], next_cursor: "x", pos: 1 }),
      json({ items: [3], next_cursor: null, pos: 1 }),
    ]);
    const runs: unknown[] = [];
    for await (const run of client.each("listRuns", { query: { status: "FAILED" } }))
      runs.push(run);
    expect(runs).toEqual([1, 2, 3]);
    expect(requests[1]?.url).toContain("status=FAILED&cursor=x");
  });

  test("takes a stream up again after the last event it gave", async () => {
    const message = (pos: number) => `id: ${pos}\nevent: E\ndata: {"pos":${pos}}\n\n`;
    const { client, requests } = clientOf([
      new Response(message(4) + message(5)),
      lost(),
      new Response(message(6)),
    ]);
    const seen: number[] = [];
    for await (const { pos } of client.follow({ after: 3, types: ["E"] })) {
      seen.push(pos);
      if (pos === 6) break;
    }
    expect(seen).toEqual([4, 5, 6]);
    expect(requests.map(({ url }) => new URL(url).searchParams.get("after"))).toEqual([
      "3",
      "5",
      "5",
    ]);
  });

  test("refuses an address that is no URL", () => {
    expect(() => createClient({ url: "localhost:7290" })).toThrow("must be a URL");
  });
});

describe("a stream of a server", () => {
  setFlagsFromString("--expose-gc");
  const collectGarbage = runInNewContext("gc") as () => void;
  let isOpen = false;
  const server = createServer((_request, response) => {
    isOpen = true;
    response.once("close", () => (isOpen = false));
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.write('id: 1\nevent: E\ndata: {"pos":1}\n\n');
  });

  beforeAll(async () => {
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
  });
  afterAll(() => {
    server.closeAllConnections();
    server.close();
  });

  const open = (signal?: AbortSignal) => {
    const { port } = server.address() as AddressInfo;
    return createClient({ url: `http://127.0.0.1:${port}` }).follow({ signal });
  };
  const collectAll = async (): Promise<void> => {
    for (let round = 0; round < 3; round++) {
      collectGarbage();
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
  };

  test("ends when nobody reads on, whatever garbage was collected meanwhile", async () => {
    for await (const { pos } of open()) {
      expect([pos, isOpen]).toEqual([1, true]);
      await collectAll();
      break;
    }
    await expect.poll(() => isOpen).toBe(false);
  });

  test("ends by its signal while it is quiet, whatever garbage was collected meanwhile", async () => {
    const stop = new AbortController();
    const events = open(stop.signal);
    await events.next();
    const next = events.next();
    await collectAll();
    expect(isOpen).toBe(true);
    stop.abort();
    expect(await next).toMatchObject({ done: true });
    await expect.poll(() => isOpen).toBe(false);
  });
});
