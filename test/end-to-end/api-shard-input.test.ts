import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Problem } from "../../src/work/operation.ts";
import { type Api, checkAnswer, startApi } from "./api-server.ts";
import { publishShards, SPREAD } from "./shard-hand.ts";

const SPLITS = "/api/v1/splits";
const MOVES = "/api/v1/moves";
const ROUTING = "/api/v1/routing";
const NOBODY = "01HZ0000000000000000000000";

let api: Api;
let split = "";
let move = "";

beforeAll(async () => {
  api = await startApi();
  await publishShards(api.client, SPREAD);
  await api.client.call("changeRouting", {
    body: { default_shard: "a", routes: [{ tenant: "elsewhere", shard: "c" }] },
  });
  const body = { source: "a", target: "b", tenants: ["acme"] };
  ({ split_id: split } = await api.client.call("planSplit", { body }));
  ({ move_id: move } = await api.client.call("planMove", { body: { move: "spread" } }));
});

afterAll(() => api.close());

async function send(method: string, path: string, body?: unknown): Promise<Response> {
  const headers = { "idempotency-key": crypto.randomUUID() };
  const response = await api.send(method, path, body === undefined ? {} : { body, headers });
  await checkAnswer(method, path.split("?")[0] ?? "", response.clone());
  return response;
}

async function refused(method: string, path: string, body?: unknown): Promise<Problem> {
  const response = await send(method, path, body);
  expect(response.ok).toBe(false);
  return Problem.parse(await response.json());
}

type Case = [string, object, number, string, string];

describe("a plan that makes no sense", () => {
  const base = { source: "a", target: "b", tenants: ["new"] };

  test.each<Case>([
    ["has no source", { source: undefined }, 400, "INPUT_INVALID", "body.source is missing"],
    ["has a bad name", { source: "a b" }, 400, "INPUT_INVALID", "body.source must be 1 to 100"],
    ["is not known", { source: "zz" }, 404, "SHARD_NOT_FOUND", 'There is no shard "zz"'],
    ["goes nowhere", { target: "a" }, 400, "INPUT_INVALID", "The source and the target are both a"],
    ["changes engines", { target: "p" }, 400, "INPUT_INVALID", "a is kept in sqlite and p in"],
    [
      "has nobody",
      { tenants: [] },
      400,
      "INPUT_INVALID",
      "body.tenants must have at least 1 items",
    ],
    ["has an empty one", { tenants: [""] }, 400, "INPUT_INVALID", "body.tenants.0 must have at"],
    ["has a number", { tenants: [7] }, 400, "INPUT_INVALID", "body.tenants.0 must be a string"],
    ["has one twice", { tenants: ["x", "x"] }, 400, "INPUT_INVALID", '"x" stands there twice'],
    [
      "has too many",
      { tenants: Array.from({ length: 1_001 }, (_, n) => `t${n}`) },
      400,
      "INPUT_INVALID",
      "body.tenants must have at most 1000 items",
    ],
    ["is elsewhere", { tenants: ["elsewhere"] }, 409, "STATE_ILLEGAL", "it is routed to c"],
    ["overlaps", { tenants: ["acme"] }, 409, "SPLIT_OVERLAPS", "is under the split"],
    ["waits for less than nothing", { lag_limit_ms: 0 }, 400, "INPUT_INVALID", "lag_limit_ms must"],
    ["is no number", { grace_ms: "1d" }, 400, "INPUT_INVALID", 'a number, not "1d"'],
    ["has more", { autocutover: true }, 400, "INPUT_INVALID", "did you mean auto_cutover?"],
  ])("of a split that %s is refused", async (_, fields, status, code, sentence) => {
    const problem = await refused("POST", SPLITS, { ...base, ...fields });
    expect(problem).toMatchObject({ status, code });
    expect(problem.detail).toContain(sentence);
  });

  const topology = (shard: string) => ({ by: "tenant", tenants: {}, default: shard });
  const plan = (fields: object) => ({
    plan: { from: topology("a"), to: topology("b"), ...fields },
  });

  test.each<Case>([
    ["says nothing", {}, 400, "INPUT_INVALID", "body.move must be given, or plan, and not both"],
    ["says both", { ...plan({}), move: "spread" }, 400, "INPUT_INVALID", "and not both"],
    ["is not defined", { move: "nope" }, 404, "MOVE_NOT_FOUND", "no definition of a move"],
    ["moves nothing", plan({ to: topology("a") }), 400, "INPUT_INVALID", "nothing to move"],
    ["names no shard", plan({ to: topology("zz") }), 400, "INPUT_INVALID", 'the shard "zz"'],
    [
      "changes engines",
      plan({ to: topology("p") }),
      400,
      "INPUT_INVALID",
      "kept in sqlite and p in",
    ],
    ["names no table", plan({ tables: ["nope"] }), 400, "INPUT_INVALID", 'the table "nope"'],
    ["has no kind", plan({ to: { by: "moon" } }), 400, "INPUT_INVALID", "body.plan.to.by must be"],
    ["has no buckets", plan({ to: { by: "hash", buckets: [] } }), 400, "INPUT_INVALID", "buckets"],
    [
      "has an end",
      plan({ to: { by: "range", ranges: [{ below: "m", shard: "b" }] } }),
      400,
      "INPUT_INVALID",
      "whose last range ends somewhere",
    ],
    ["is too wide", plan({ segment_concurrency: 65 }), 400, "INPUT_INVALID", "at most 64"],
    ["has more", plan({ speed: 1 }), 400, "INPUT_INVALID", "body.plan.speed is not a known field"],
    ["is a text", { plan: "all" }, 400, "INPUT_INVALID", 'body.plan must be an object, not "all"'],
  ])("of a move that %s is refused", async (_, body, status, code, sentence) => {
    const problem = await refused("POST", MOVES, body);
    expect(problem).toMatchObject({ status, code });
    expect(problem.detail).toContain(sentence);
  });

  test.each<Case>([
    ["nothing", {}, 400, "INPUT_INVALID", "Nothing to change"],
    ["what is so", { default_shard: "a" }, 400, "INPUT_INVALID", "Nothing to change"],
    ["no shard", { default_shard: "zz" }, 404, "SHARD_NOT_FOUND", 'There is no shard "zz"'],
    ["a text", { routes: "acme=a" }, 400, "INPUT_INVALID", "body.routes must be an array"],
    [
      "half a route",
      { routes: [{ tenant: "x" }] },
      400,
      "INPUT_INVALID",
      "routes.0.shard is missing",
    ],
    [
      "a tenant twice",
      { routes: ["a", "b"].map((shard) => ({ tenant: "x", shard })) },
      400,
      "INPUT_INVALID",
      '"x" stands there twice',
    ],
    [
      "a tenant under a split",
      { routes: [{ tenant: "acme", shard: "c" }] },
      409,
      "SPLIT_OVERLAPS",
      "is under the split",
    ],
    ["everybody", { default_shard: "c" }, 409, "SPLIT_OVERLAPS", "is under the split"],
    [
      "another version",
      { default_shard: "c", expected_version: 7 },
      412,
      "STATE_VERSION_MISMATCH",
      "The routing is at version 1, not 7",
    ],
    ["below zero", { expected_version: -1 }, 400, "INPUT_INVALID", "expected_version must be at"],
  ])("of a routing that changes %s is refused", async (_, body, status, code, sentence) => {
    const problem = await refused("PUT", ROUTING, body);
    expect(problem).toMatchObject({ status, code });
    expect(problem.detail).toContain(sentence);
  });

  test.each([SPLITS, MOVES])("without a key is refused at %s", async (path) => {
    const response = await api.send("POST", path, { body: { move: "spread", ...base } });
    expect(Problem.parse(await response.json()).code).toMatch(/^(?:IDEMPOTENCY_KEY_M|INPUT_INV)/);
  });
});

describe("a change that makes no sense", () => {
  test.each<Case>([
    ["run-backfill", {}, 409, "STATE_ILLEGAL", "possible only while it is dual_write or backfill"],
    ["start-dual-write", {}, 409, "STATE_ILLEGAL", "both shards are still being looked at"],
    ["cutover", {}, 409, "STATE_ILLEGAL", "possible only while it is cutover_pending"],
    ["complete", {}, 409, "STATE_ILLEGAL", "possible only while it is reversible"],
    ["resume", {}, 409, "STATE_ILLEGAL", "is planning"],
    ["ddl", {}, 400, "INPUT_INVALID", "body.ddl is missing"],
    ["ddl", { ddl: "" }, 400, "INPUT_INVALID", "body.ddl must have at least 1 characters"],
    ["ddl", { ddl: "select 1" }, 409, "STATE_ILLEGAL", "is planning"],
    ["rollback", { expected_state_version: 9 }, 412, "STATE_VERSION_MISMATCH", "not 9"],
    ["rollback", { expected_state_version: 0 }, 400, "INPUT_INVALID", "must be at least 1"],
    ["cutover", { dry_run: "yes" }, 400, "INPUT_INVALID", "body.dry_run must be a boolean"],
    ["cutover", { dryrun: true }, 400, "INPUT_INVALID", "did you mean dry_run?"],
  ])("to %s a split with %j is refused", async (action, body, status, code, sentence) => {
    const problem = await refused("POST", `${SPLITS}/${split}/${action}`, body);
    expect(problem).toMatchObject({ status, code });
    expect(problem.detail).toContain(sentence);
  });

  test.each<Case>([
    ["resume", {}, 409, "STATE_ILLEGAL", "possible only while it is PAUSED"],
    ["verify", {}, 409, "STATE_ILLEGAL", "possible only while it is RUNNING or PAUSED or COMPLETE"],
    ["retry", {}, 409, "STATE_ILLEGAL", "possible only while it is RUNNING or PAUSED"],
    ["retune", {}, 400, "INPUT_INVALID", "segment_concurrency must be given, or rows_per_second"],
    ["retune", { segment_concurrency: 0 }, 400, "INPUT_INVALID", "must be at least 1"],
    ["cancel", { expected_state_version: 9 }, 412, "STATE_VERSION_MISMATCH", "not 9"],
    ["segments/0/retry", {}, 409, "STATE_ILLEGAL", "is PLANNED"],
    ["segments/x/retry", {}, 400, "INPUT_INVALID", "must be the index of a segment"],
    ["segments/0/exclude", {}, 400, "INPUT_INVALID", "body.reason is missing"],
  ])("to %s a move with %j is refused", async (action, body, status, code, sentence) => {
    const problem = await refused("POST", `${MOVES}/${move}/${action}`, body);
    expect(problem).toMatchObject({ status, code });
    expect(problem.detail).toContain(sentence);
  });

  test.each(["start-dual-write", "run-backfill", "cutover", "complete", "rollback", "resume"])(
    "to %s a split that is not there is refused",
    async (action) => {
      const problem = await refused("POST", `${SPLITS}/${NOBODY}/${action}`, {});
      expect(problem).toMatchObject({ status: 404, code: "SPLIT_NOT_FOUND" });
    },
  );

  test.each(["start", "pause", "resume", "cancel", "verify", "retry", "segments/0/recopy"])(
    "to %s a move that is not there is refused",
    async (action) => {
      const problem = await refused("POST", `${MOVES}/${NOBODY}/${action}`, {});
      expect(problem).toMatchObject({ status: 404, code: "MOVE_NOT_FOUND" });
    },
  );
});

describe("a question that makes no sense", () => {
  test.each<[string, number, string, string]>([
    [`${SPLITS}/${NOBODY}`, 404, "SPLIT_NOT_FOUND", "`pawl split list` shows"],
    [`${SPLITS}/${NOBODY}/steps`, 404, "SPLIT_NOT_FOUND", "There is no split"],
    [`${SPLITS}/%E0%A4%A`, 404, "SPLIT_NOT_FOUND", "There is no split"],
    [`${SPLITS}?phase=done`, 400, "INPUT_INVALID", 'not "done"'],
    [`${SPLITS}?cursor=nothing`, 400, "INPUT_INVALID", "is not one that a page of this list"],
    [`${SPLITS}?source=a%20b`, 400, "INPUT_INVALID", "query.source must be"],
    [`${MOVES}/${NOBODY}`, 404, "MOVE_NOT_FOUND", "`pawl move list` shows"],
    [`${MOVES}/${NOBODY}/segments`, 404, "MOVE_NOT_FOUND", "There is no move"],
    [`${MOVES}/${NOBODY}/segments/0`, 404, "MOVE_NOT_FOUND", "There is no move"],
    [`${MOVES}/spread/segments/0`, 404, "SEGMENT_NOT_FOUND", "none is known yet"],
    [`${MOVES}/spread/segments/x`, 400, "INPUT_INVALID", "must be the index of a segment"],
    [`${MOVES}/spread/segments?state=DONE`, 400, "INPUT_INVALID", 'not "DONE"'],
    [`${MOVES}/spread/segments?cursor=WyJhIl0`, 400, "INPUT_INVALID", "is not one that a page"],
    [`${MOVES}?status=DONE`, 400, "INPUT_INVALID", 'not "DONE"'],
    [`${ROUTING}/history?cursor=x`, 400, "INPUT_INVALID", "is not one that a page"],
    [`${ROUTING}/routes?shard=%20`, 400, "INPUT_INVALID", "query.shard must be"],
    [`${ROUTING}/route?tenant=${"x".repeat(501)}`, 400, "INPUT_INVALID", "query.tenant must have"],
    [`${ROUTING}/route`, 400, "INPUT_INVALID", "query.tenant"],
  ])("such as %s is refused", async (path, status, code, sentence) => {
    const problem = await refused("GET", path);
    expect(problem).toMatchObject({ status, code });
    expect(problem.detail).toContain(sentence);
  });

  test("such as where a tenant is, while nothing is routed, is refused", async () => {
    const empty = await startApi();
    try {
      const query = { tenant: "acme" };
      await expect(empty.client.call("getRoute", { query })).rejects.toMatchObject({
        code: "SHARD_NOT_FOUND",
        message: expect.stringContaining("is on no shard") as string,
      });
      expect(await empty.client.call("getRouting")).toMatchObject({
        version: 0,
        default_shard: null,
        tenants: 0,
        shards: [],
      });
      const body = { source: "a", target: "b", tenants: ["acme"] };
      await expect(empty.client.call("planSplit", { body })).rejects.toMatchObject({
        code: "SHARD_NOT_FOUND",
      });
    } finally {
      await empty.close();
    }
  });
});

/** Values that come near to what is meant, and some that do not. */
const anything = fc.oneof(
  { weight: 2, arbitrary: fc.constantFrom("a", "b", "p", "zz", "users", "acme", "", "__proto__") },
  { weight: 1, arbitrary: fc.integer() },
  { weight: 1, arbitrary: fc.jsonValue({ maxDepth: 2 }) },
);

const topologies = fc.oneof(
  fc.record({
    by: fc.constant("tenant"),
    tenants: fc.dictionary(fc.string(), anything),
    default: anything,
  }),
  fc.record({ by: fc.constant("hash"), buckets: fc.array(anything, { maxLength: 4 }) }),
  fc.record({
    by: fc.constant("range"),
    ranges: fc.array(fc.record({ below: anything, shard: anything }), { maxLength: 3 }),
  }),
  anything,
);

/** Bodies whose fields are right, wrong or missing at random. */
const bodies: Readonly<Record<string, [string, string, fc.Arbitrary<unknown>]>> = {
  split: [
    "POST",
    SPLITS,
    fc.record(
      {
        source: anything,
        target: anything,
        tenants: fc.oneof(fc.array(anything, { maxLength: 3 }), anything),
        lag_limit_ms: anything,
        grace_ms: anything,
        auto_cutover: fc.oneof(fc.boolean(), anything),
      },
      { requiredKeys: [] },
    ),
  ],
  move: [
    "POST",
    MOVES,
    fc.record(
      {
        move: fc.oneof(fc.constant("spread"), anything),
        plan: fc.oneof(
          fc.record(
            {
              from: topologies,
              to: topologies,
              tables: fc.oneof(fc.array(anything, { maxLength: 2 }), anything),
              strategy: fc.oneof(fc.record({ type: anything, rows: anything }), anything),
              segment_concurrency: anything,
            },
            { requiredKeys: ["from", "to"] },
          ),
          anything,
        ),
        dry_run: fc.oneof(fc.boolean(), anything),
      },
      { requiredKeys: [] },
    ),
  ],
  routing: [
    "PUT",
    ROUTING,
    fc.record(
      {
        default_shard: anything,
        expected_version: anything,
        routes: fc.oneof(
          fc.array(fc.record({ tenant: anything, shard: anything }), { maxLength: 3 }),
          anything,
        ),
        reason: anything,
      },
      { requiredKeys: [] },
    ),
  ],
};

describe("any body", () => {
  test.each(Object.keys(bodies))("for a %s is taken, or refused in a sentence", async (name) => {
    const [method, path, body] = bodies[name] ?? ["", "", fc.constant(null)];
    await fc.assert(
      fc.asyncProperty(fc.oneof({ weight: 9, arbitrary: body }, fc.jsonValue()), async (value) => {
        const response = await send(method, path, JSON.stringify(value));
        if (response.ok) return;
        const problem = Problem.parse(await response.json());
        expect([400, 404, 409, 412, 413, 422]).toContain(problem.status);
        expect(problem.detail).toMatch(/^[A-Z"].+[.?]$/s);
      }),
      { numRuns: 300 },
    );
  });

  test("and nothing of all that was a mistake of the server", () => {
    expect(api.logged).toEqual([]);
  });
});
