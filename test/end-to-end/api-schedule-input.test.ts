import fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Api, publish, startApi } from "./api-server.ts";

const BASE = "/api/v1/orchestration";

let api: Api;

beforeAll(async () => {
  api = await startApi({ clockAt: "2026-03-01T09:30:00.000Z" });
  await publish(api.client);
});

afterAll(() => api.close());

/** Mostly what makes sense, so that much of it is carried out. */
function mostly<T, U>(sound: readonly T[], odd: fc.Arbitrary<U>): fc.Arbitrary<T | U> {
  return fc.oneof(
    { weight: 12, arbitrary: fc.constantFrom(...sound) },
    { weight: 1, arbitrary: odd },
  );
}

const cron = mostly(
  ["* * * * * *", "0 * * * *", "@daily", "0 0 29 2 *", "*/7 1-3 * * 5", "30 2 * * *"],
  fc.oneof(fc.constant("0 0 30 2 *"), fc.string({ maxLength: 20 })),
);
const timezone = mostly(["UTC", "Europe/Berlin", "Pacific/Apia"], fc.constant("Mars"));
const instant = mostly(
  [null, null, null, "2026-03-02T00:00:00+14:00", "9998-12-31T23:59:59.999Z"],
  fc.constantFrom("0000-01-01", "2026-02-30", "2026-13-45T99:99:99.000Z", "9999-12-31T23:59:59Z"),
);
const orders = ["sales/orders"];
const target = mostly<object, object>(
  [
    { asset_selection: ["report"] },
    { asset_selection: orders, selection: { type: "all" } },
    { asset_selection: orders, selection: { type: "stale", limit: 3 } },
    { asset_selection: orders, selection: { type: "tick_time", offset: -400 } },
    { asset_selection: orders, selection: { type: "explicit", partition_keys: ["2025-01-01"] } },
    { asset_selection: orders, selection: { type: "explicit", partition_keys: ["2030-01-01"] } },
  ],
  fc.record({
    asset_selection: fc.array(fc.constantFrom("report", "tenants", "nope"), { maxLength: 2 }),
    selection: fc.record({
      type: fc.constantFrom("whole", "tick_time", "stale", "explicit"),
      offset: fc.integer({ min: -10_001, max: 1 }),
    }),
  }),
);
const options = fc.record(
  {
    timezone,
    overlap: fc.constantFrom("allow", "skip", "buffer_one"),
    catchup_window_minutes: mostly([0, 1, 1_440, 5_256_000], fc.integer()),
    max_catchup_ticks: mostly([0, 1, 3, 100], fc.integer()),
    catch_up_on_resume: fc.boolean(),
    jitter_ms: mostly([0, 1, 60_000, 86_400_000], fc.integer()),
    starts_at: instant,
    ends_at: instant,
    enabled: fc.boolean(),
    config: fc.jsonValue({ maxDepth: 2 }),
  },
  { requiredKeys: [] },
);
const definition = fc
  .tuple(fc.constantFrom("a", "b", "c/d"), cron, target, options)
  .map(([name, expression, what, rest]) => ({ name, cron: expression, ...what, ...rest }));
const name = fc.constantFrom("a", "b", "c%2Fd", "nope");
const change = fc.constantFrom("pause", "resume", "trigger");

type Request = { method: string; path: string; body?: unknown };

const request: fc.Arbitrary<Request> = fc.oneof(
  definition.map((body) => ({ method: "POST", path: "/schedules", body })),
  definition.map((body) => {
    return { method: "PUT", path: `/schedules/${encodeURIComponent(body.name)}`, body };
  }),
  definition.map((spec) => {
    const body = { origin: "code", specs: [{ kind: "schedule", ...spec }], prune: true };
    return { method: "POST", path: "/definitions", body };
  }),
  fc.record({ cron, timezone, after: instant }).map(({ after, ...body }) => {
    const rest = after === null ? {} : { after };
    return { method: "POST", path: "/schedules/preview", body: { ...body, ...rest } };
  }),
  fc.tuple(name, change).map(([at, verb]) => {
    return { method: "POST", path: `/schedules/${at}/${verb}`, body: {} };
  }),
  name.map((at) => ({ method: "DELETE", path: `/schedules/${at}` })),
  fc.tuple(name, fc.constantFrom("", "/ticks", "/next")).map(([at, part]) => {
    return { method: "GET", path: `/schedules/${at}${part}` };
  }),
);

test("I61: no schedule, and nothing that is done with one, makes the server fail", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(request, { minLength: 1, maxLength: 12 }),
      fc.constantFrom(0, 60_000, 3_600_000, 400 * 86_400_000),
      async (requests, ms) => {
        for (const { method, path, body } of requests) {
          const answer = await api.send(method, BASE + path, {
            body,
            headers: { "idempotency-key": crypto.randomUUID() },
          });
          expect(answer.status, await answer.text()).toBeLessThan(500);
        }
        api.jump(ms);
        await api.client.call("tick");
        expect(api.engines[0].status().poisoned).toEqual({});
      },
    ),
    { numRuns: 60 },
  );
  expect(api.logged).toEqual([]);
});
