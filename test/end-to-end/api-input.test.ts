import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { OPERATIONS } from "../../src/work/operations.ts";
import type { Operation } from "../../src/work/operation.ts";
import {
  ALL_ORDERS,
  type Api,
  checkAnswer,
  publish,
  type SendOptions,
  startApi,
} from "./api-server.ts";

const BASE = "/api/v1/orchestration";
const BACKFILLS = `${BASE}/backfills`;
const SAMPLES = `${BASE}/samples`;

let api: Api;

beforeAll(async () => {
  api = await startApi({ limits: { streamsPerToken: 2, waitingClaims: 1, requests: 4 } });
  await publish(api.client);
});

afterAll(() => api.close());

const key = { "idempotency-key": "bad-input" };
const deep = `{"assets":["report"],"config":${"[".repeat(100)}${"]".repeat(100)}}`;

/** Name, request, status, code, and what the sentence must say. */
const BAD: [string, [string, string, SendOptions?], number, string, string][] = [
  ["an unknown path", ["GET", "/nothing"], 404, "ROUTE_NOT_FOUND", "/nothing"],
  ["a wrong method", ["PUT", BACKFILLS], 405, "METHOD_NOT_ALLOWED", "POST, GET"],
  ["no JSON", ["POST", BACKFILLS, { body: "{", headers: key }], 400, "INPUT_INVALID", "not JSON"],
  [
    "no JSON type",
    ["POST", BACKFILLS, { body: "{}", headers: { ...key, "content-type": "text/plain" } }],
    415,
    "INPUT_INVALID",
    "text/plain",
  ],
  ["a list", ["POST", BACKFILLS, { body: [], headers: key }], 400, "INPUT_INVALID", "an object"],
  [
    "an unknown field",
    ["POST", BACKFILLS, { body: { ...ALL_ORDERS, chunksize: 1 }, headers: key }],
    400,
    "INPUT_INVALID",
    "did you mean chunk_size?",
  ],
  [
    "a number out of bounds",
    ["POST", BACKFILLS, { body: { ...ALL_ORDERS, chunk_size: 10_001 }, headers: key }],
    400,
    "INPUT_INVALID",
    "body.chunk_size must be at most 10000, not 10001",
  ],
  [
    "a missing field",
    ["POST", BACKFILLS, { body: { assets: ["report"] }, headers: key }],
    400,
    "INPUT_INVALID",
    "body.selector is missing",
  ],
  [
    "an unknown selector",
    ["POST", BACKFILLS, { body: { ...ALL_ORDERS, selector: { type: "x" } }, headers: key }],
    400,
    "INPUT_INVALID",
    '"range" or "explicit"',
  ],
  [
    "a partition that does not exist",
    [
      "POST",
      BACKFILLS,
      {
        body: { ...ALL_ORDERS, selector: { type: "explicit", partition_keys: ["2030-01-01"] } },
        headers: key,
      },
    ],
    400,
    "PARTITION_INVALID",
    "2030-01-01",
  ],
  [
    "an unknown asset",
    ["POST", BACKFILLS, { body: { ...ALL_ORDERS, assets: ["nope"] }, headers: key }],
    404,
    "ASSET_NOT_FOUND",
    "nope",
  ],
  ["an unknown backfill", ["GET", `${BACKFILLS}/nope`], 404, "BACKFILL_NOT_FOUND", "nope"],
  ["an unknown run", ["GET", `${BASE}/runs/nope`], 404, "RUN_NOT_FOUND", "nope"],
  ["an unknown chunk", ["GET", `${BASE}/events?entity=a:1`], 404, "CHUNK_NOT_FOUND", "a:1"],
  ["an unknown query", ["GET", `${BACKFILLS}?color=red`], 400, "INPUT_INVALID", "query.color"],
  ["a limit of 0", ["GET", `${BACKFILLS}?limit=0`], 400, "INPUT_INVALID", "at least 1"],
  ["a limit of text", ["GET", `${BACKFILLS}?limit=ten`], 400, "INPUT_INVALID", "query.limit"],
  ["no cursor", ["GET", `${BACKFILLS}?cursor=%21`], 400, "INPUT_INVALID", "cursor"],
  ["no state", ["GET", `${BACKFILLS}?status=GOING`], 400, "INPUT_INVALID", "GOING"],
  ["no instant", ["GET", `${BACKFILLS}?since=soon`], 400, "INPUT_INVALID", "soon"],
  ["a NUL", ["GET", `${BACKFILLS}/a%00b`], 400, "INPUT_INVALID", "NUL"],
  [
    "a NUL in a body",
    ["POST", `${BASE}/runs`, { body: { assets: ["report"], config: "\0" }, headers: key }],
    400,
    "INPUT_INVALID",
    "NUL",
  ],
  [
    "a forbidden key",
    [
      "POST",
      `${BASE}/runs`,
      { body: '{"assets":["report"],"config":{"__proto__":1}}', headers: key },
    ],
    400,
    "INPUT_INVALID",
    "__proto__",
  ],
  [
    "a number that JSON cannot keep",
    ["POST", `${BASE}/runs`, { body: '{"assets":["report"],"config":1e999}', headers: key }],
    400,
    "INPUT_INVALID",
    "",
  ],
  [
    "a deep body",
    ["POST", `${BASE}/runs`, { body: deep, headers: key }],
    400,
    "INPUT_INVALID",
    "64",
  ],
  [
    "a large body",
    ["POST", BACKFILLS, { body: `"${"x".repeat(1_048_576)}"`, headers: key }],
    413,
    "INPUT_INVALID",
    "at most 1048576",
  ],
  ["no query where one is needed", ["GET", SAMPLES], 400, "INPUT_INVALID", "query.series"],
  [
    "a time before all others",
    ["GET", `${SAMPLES}?series=tasks_failed&until=0000-01-01T00:00:00Z`],
    400,
    "INPUT_INVALID",
    "0000-01-01",
  ],
  [
    "a position beyond the end",
    ["GET", `${BACKFILLS}/nope?as_of=999999`],
    409,
    "NOT_YET",
    "999999",
  ],
];

test("I61: a body that is not UTF-8 is refused with 400, on every route that takes one", async () => {
  const bytes = Buffer.concat([
    Buffer.from('{"assets":["report"],"config":"'),
    Buffer.from([0xc3, 0x28, 0xff]),
    Buffer.from('"}'),
  ]);
  const paths = ["/runs", "/backfills", "/definitions", "/schedules"].map((path) => BASE + path);
  for (const path of [...paths, "/api/v1/worker/report"]) {
    const headers = { "content-type": "application/json", "idempotency-key": "bytes" };
    const response = await fetch(api.url + path, { method: "POST", body: bytes, headers });
    expect(response.status, path).toBe(400);
    expect(await response.json()).toMatchObject({
      code: "INPUT_INVALID",
      detail: expect.stringContaining("UTF-8"),
    });
  }
});

describe("refusals", () => {
  test.each(BAD)("I61: %s", async (_name, [method, path, options], status, code, text) => {
    const answer = await api.send(method, path, options);
    await checkAnswer(method, path, answer.clone());
    const problem = (await answer.json()) as { detail: string };
    expect(problem).toMatchObject({ status, code, type: `urn:pawl:error:${code}` });
    expect(problem.detail).toContain(text);
    expect(problem.detail).not.toMatch(/\bat .*:\d+:\d+|node_modules|SqliteError|ZodError/);
  });

  test("I61: says which methods a path has", async () => {
    const answer = await api.send("DELETE", `${BACKFILLS}/x/chunks`);
    expect(answer.headers.get("allow")).toBe("GET");
  });

  test("I61: a request line that is no URL is answered, not dropped", async () => {
    const answer = await api.send("GET", "/..%2f..%2f%5c..%00");
    expect(answer.status).toBeLessThan(500);
  });
});

describe("any input", () => {
  const operations = (Object.values(OPERATIONS) as Operation[]).filter(
    ({ path }) => !path.endsWith("/claim") && !path.endsWith("/changes"),
  );
  const text = fc.oneof(
    fc.string({ minLength: 1 }),
    fc.constantFrom(
      "report",
      "sales/orders",
      "tenants",
      "2025-01-02",
      "2025-01-09",
      "a=1,b=2",
      "*",
    ),
  );
  const selector = fc.oneof(
    fc.record({ type: fc.constant("all") }),
    fc.record({ type: fc.constant("range"), start: text, end: text }),
    fc.record({ type: fc.constant("explicit"), partition_keys: fc.array(text, { minLength: 1 }) }),
    fc.record({
      type: fc.constant("filter"),
      dimensions: fc.dictionary(fc.constantFrom("partition", "region"), text, { minKeys: 1 }),
    }),
    fc.record({ type: fc.constant("missing"), backfill_id: text }),
  );
  const day = fc.constantFrom("2025-01-01", "2025-02-29", "0001-01-01", "9999-12-31");
  const partitions = fc.oneof(
    fc.constant(null),
    fc.record({
      type: fc.constantFrom("hourly", "daily", "weekly", "monthly"),
      start: day,
      time_zone: fc.constantFrom("UTC", "Europe/Berlin", "Mars"),
    }),
    fc.record({ type: fc.constant("cron"), expression: text, start: day }),
    fc.record({ type: fc.constant("static"), keys: fc.array(text, { minLength: 1 }) }),
    fc.record({ type: fc.constant("integers"), start: fc.maxSafeInteger(), size: fc.integer() }),
  );
  const spec = fc.record({
    kind: fc.constant("asset"),
    asset_key: fc.constantFrom("report", "fuzz/a", "fuzz/b"),
    partitions,
    upstream: fc.array(
      fc.record({
        asset_key: fc.constantFrom("fuzz/a", "fuzz/b", "sales/orders"),
        mapping: fc.record({ type: fc.constantFrom("identity", "all", "time_window") }),
      }),
      { maxLength: 2 },
    ),
  });
  const ref = {
    run_pos: fc.integer({ min: 1, max: 50 }),
    task_key: fc.nat({ max: 5 }),
    attempt: fc.integer({ min: 1, max: 3 }),
  };
  const result = fc.record({
    ...ref,
    outcome: fc.constantFrom("SUCCEEDED", "FAILED", "CANCELLED", "SKIPPED"),
    metadata: fc.jsonValue({ maxDepth: 2 }),
  });
  const sent = fc.oneof(
    fc.jsonValue({ maxDepth: 3 }),
    fc.record(
      {
        assets: fc.array(fc.constantFrom("report", "sales/orders", "fuzz/a", "fuzz/b"), {
          minLength: 1,
        }),
        selector,
        partition_keys: fc.array(text),
        chunk_size: fc.integer({ min: 0, max: 11_000 }),
        allow_overlap: fc.boolean(),
        config: fc.jsonValue(),
        labels: fc.dictionary(fc.string(), fc.string()),
      },
      { requiredKeys: ["assets"] },
    ),
    fc.record({ specs: fc.array(spec, { maxLength: 3 }) }),
    fc.record({ keys: fc.array(text, { minLength: 1 }) }),
    fc.record({ items: fc.array(fc.record({ ...ref, value: fc.jsonValue() }), { minLength: 1 }) }),
    fc.record({
      worker_id: fc.constant("w"),
      code_version: fc.constant(null),
      results: fc.array(result),
      released_leases: fc.array(text),
    }),
  );
  const segment = fc.oneof(fc.string({ minLength: 1, unit: "binary" }), text);
  const query = fc.dictionary(fc.constantFrom("limit", "cursor", "status", "entity"), fc.string());

  test("I61: never makes the server fail", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom(...operations),
        fc.array(segment, { minLength: 2, maxLength: 2 }),
        sent,
        query,
        async (operation, segments, body, search) => {
          const [one = "", other = ""] = segments.map((part) =>
            encodeURIComponent(part.toWellFormed()),
          );
          const path = operation.path.replace(/\{\w+\}/, one).replace(/\{\w+\}/, other);
          const isPost = operation.method === "POST";
          const suffix = isPost ? "" : `?${new URLSearchParams(search).toString()}`;
          const answer = await api.send(operation.method, `${path}${suffix}`, {
            ...(isPost ? { body: JSON.stringify(body) } : {}),
            headers: { "idempotency-key": crypto.randomUUID() },
          });
          expect(answer.status, await answer.text()).toBeLessThan(500);
        },
      ),
      { numRuns: 500 },
    );
    expect(api.logged).toEqual([]);
  });
});

describe("limits", () => {
  test("I64: streams beyond the limit get 429 and a time to come again", async () => {
    const open = () => api.send("GET", `${BASE}/events?follow=true`);
    const streams = [await open(), await open()];
    const refused = await open();
    expect(refused.status).toBe(429);
    expect(refused.headers.get("retry-after")).toBe("1");
    for (const stream of streams) await stream.body?.cancel();
  });

  test("I64: claims that wait beyond the limit get 429, and health answers meanwhile", async () => {
    const claim = (lease_id: string, wait_ms: number) =>
      api.client.call("claim", {
        body: { worker_id: "w", lease_id, slots: 1, assets: ["none"], code_version: null, wait_ms },
      });
    const waiting = claim("first", 300);
    await expect(claim("second", 300)).rejects.toMatchObject({ code: "OVERLOADED" });
    expect((await api.client.call("livez")).status).toBe("ok");
    expect(await claim("third", 0)).toMatchObject({ groups: [] });
    expect(await waiting).toMatchObject({ groups: [] });
  });

  test("I64: workers that wait for heads to look up keep no request out", async () => {
    const small = await startApi({ limits: { waitingClaims: 1, requests: 1 } });
    const claim = () =>
      small.client.call("claimHeads", {
        body: { worker_id: "w", syncs: ["none"], slots: 1, wait_ms: 1_000 },
      });
    const waiting = claim();
    await expect(claim()).rejects.toMatchObject({ code: "OVERLOADED" });
    expect(await small.client.call("listRuns")).toMatchObject({ items: [] });
    expect(await waiting).toMatchObject({ heads: [] });
    await small.close();
  });

  test("I64: a body of more values than its request takes is refused before it is looked at", async () => {
    const empties = (count: number) => `[${"[],".repeat(count - 1)}[]]`;
    const run = (config: string) =>
      api.send("POST", `${BASE}/runs`, {
        body: `{"assets":["report"],"config":${config}}`,
        headers: { "idempotency-key": crypto.randomUUID() },
      });
    const refused = await run(empties(340_000));
    expect(refused.status).toBe(413);
    expect(await refused.text()).toContain("more than 104858 values");
    expect((await run(empties(50_000))).status).toBe(202);
    const item = { run_pos: 1, task_key: 0, attempt: 1 };
    const checkpoint = (value: string) =>
      api.send("POST", "/api/v1/worker/checkpoint", {
        body: `{"items":[${JSON.stringify(item).slice(0, -1)},"value":${value}}]}`,
      });
    expect((await checkpoint(empties(5_000_000))).status).toBe(413);
    expect((await checkpoint(empties(200_000))).status).toBe(200);
  });

  test("I64: unknown names are listed up to a number, and long ones are not gone into", async () => {
    const names = Array.from({ length: 90_000 }, (_, at) => `"z${at}":1`);
    const many = await api.send("POST", BACKFILLS, { body: `{${names.join(",")}}`, headers: key });
    const problem = (await many.json()) as { status: number; errors: { field: string }[] };
    expect(problem).toMatchObject({ status: 400, code: "INPUT_INVALID" });
    expect(problem.errors).toHaveLength(20);
    const body = `{"${"k".repeat(1_048_000)}":1}`;
    const long = await api.send("POST", BACKFILLS, { body, headers: key });
    const text = await long.text();
    expect(text).toContain("a key may have at most 2000");
    expect(text.length).toBeLessThan(2_000);
  });

  test("I61, I64: lists and objects of nothing but wrong values are refused like one of them", async () => {
    const wrong = (count: number) => `[${Array(count).fill("{}").join(",")}]`;
    const ref = '"run_pos":1,"task_key":0,"attempt":1';
    const bodies: [string, string][] = [
      ["report", `{"results":[{${ref},"outcome":"SUCCEEDED","exceptions":${wrong(124_000)}}]}`],
      ["steps", `{${ref},"report":{"tables":${wrong(249_000)}}}`],
    ];
    for (const [path, body] of bodies) {
      const answer = await api.send("POST", `/api/v1/worker/${path}`, { body });
      expect(answer.status, path).toBe(400);
      const { errors } = (await answer.json()) as { errors: unknown[] };
      expect(errors.length, path).toBeLessThan(10);
    }
    const labels = Array.from({ length: 240_000 }, (_, at) => `"l${at}":1`);
    const body = `{"specs":[{"kind":"asset","asset_key":"a","labels":{${labels.join(",")}}}]}`;
    const many = await api.send("POST", `${BASE}/definitions`, { body, headers: key });
    expect(many.status).toBe(413);
  });

  test("I64: a sign-in takes 1 KiB, a change of state 64 KiB, a backfill 1 MiB", async () => {
    const long = (bytes: number) => JSON.stringify({ token: "x".repeat(bytes) });
    const sizes: [string, number][] = [
      ["/api/v1/session", 1_024],
      [`${BASE}/tick`, 65_536],
      [BACKFILLS, 1_048_576],
    ];
    for (const [path, bytes] of sizes) {
      const send = (length: number) => api.send("POST", path, { body: long(length), headers: key });
      expect((await send(bytes)).status, path).toBe(413);
      expect((await send(bytes - 200)).status, path).toBe(400);
    }
  });

  test("I64: a body without a length is counted as it comes", async () => {
    const part = new TextEncoder().encode("x".repeat(100_000));
    let sent = 0;
    const body = new ReadableStream<Uint8Array>({
      pull(controller) {
        if (sent++ === 20) controller.close();
        else controller.enqueue(part);
      },
    });
    const headers = { ...key, "content-type": "application/json" };
    const request = new Request(`${api.url}${BACKFILLS}`, {
      method: "POST",
      headers,
      body,
      duplex: "half",
    });
    const answer = await fetch(request);
    expect(answer.status).toBe(413);
  });
});
