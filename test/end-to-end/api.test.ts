import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Client } from "../../src/client/client.ts";
import type { Problem } from "../../src/work/operation.ts";
import type { TaskRef } from "../../src/work/run/protocol.ts";
import { ALL_ORDERS, type Api, publish, startApi, TENANTS, work } from "./api-server.ts";

const BACKFILLS = "/api/v1/orchestration/backfills";

let api: Api;

beforeAll(async () => {
  api = await startApi();
  await publish(api.client);
});

afterAll(() => api.close());

/** A wish that overlaps with no other of this file. */
const wish = () => ({ ...ALL_ORDERS, allow_overlap: true });

describe("creating", () => {
  test("I59: fifty equal requests at once make one backfill", async () => {
    const headers = { "idempotency-key": "fifty" };
    const answers = await Promise.all(
      Array.from({ length: 50 }, () => api.send("POST", BACKFILLS, { body: wish(), headers })),
    );
    const bodies = await Promise.all(
      answers.map(async (answer) => (await answer.json()) as { backfill_id: string }),
    );
    expect(new Set(bodies.map(({ backfill_id }) => backfill_id)).size).toBe(1);
    expect(answers.filter(({ status }) => status === 202)).toHaveLength(1);
    const replays = answers.filter(({ status }) => status === 200);
    expect(replays).toHaveLength(49);
    for (const { headers: sent } of replays) expect(sent.get("idempotent-replayed")).toBe("true");
    const made = await api.client.call("listEvents", { query: { types: "BackfillCreated" } });
    expect(made.items.filter(({ data }) => JSON.stringify(data).includes("fifty"))).toHaveLength(1);
  });

  test("I59: a key used for another body is refused with 422, under any order of fields", async () => {
    const headers = { "idempotency-key": "other-body" };
    const { assets, selector, chunk_size, allow_overlap } = wish();
    const first = { assets, selector, chunk_size, allow_overlap };
    const same = { allow_overlap, chunk_size, selector, assets };
    expect((await api.send("POST", BACKFILLS, { body: first, headers })).status).toBe(202);
    expect((await api.send("POST", BACKFILLS, { body: same, headers })).status).toBe(200);
    const other = await api.send("POST", BACKFILLS, { body: { ...first, chunk_size: 3 }, headers });
    expect(other.status).toBe(422);
    expect(await other.json()).toMatchObject({ code: "IDEMPOTENCY_KEY_REUSED" });
  });

  test("I59: a refused request does not burn its key", async () => {
    const idempotencyKey = "unburnt";
    const body = { ...wish(), assets: ["later"] };
    const refused = api.client.call("createBackfill", { body, idempotencyKey });
    await expect(refused).rejects.toMatchObject({ code: "ASSET_NOT_FOUND" });
    const specs = [{ ...TENANTS, asset_key: "later", partitions: null }];
    await api.client.call("publishDefinitions", { body: { specs } });
    const made = await api.client.call("createBackfill", { body, idempotencyKey });
    expect(made.total_partitions).toBe(1);
  });

  test("I59: without a key it is refused with 400, whichever place is empty", async () => {
    for (const path of [BACKFILLS, "/api/v1/orchestration/runs"]) {
      const body = path === BACKFILLS ? wish() : { assets: ["report"] };
      const refused = await api.send("POST", path, { body });
      expect(refused.status).toBe(400);
      expect(await refused.json()).toMatchObject({ code: "IDEMPOTENCY_KEY_MISSING" });
    }
  });

  test("I59: a key in the body is as good as one in the header, and must be the same", async () => {
    const body = { ...wish(), client_request_id: "in-body" };
    expect((await api.send("POST", BACKFILLS, { body })).status).toBe(202);
    const headers = { "idempotency-key": "in-body" };
    expect((await api.send("POST", BACKFILLS, { body: wish(), headers })).status).toBe(200);
    const both = { "idempotency-key": "in-header" };
    expect((await api.send("POST", BACKFILLS, { body, headers: both })).status).toBe(400);
  });

  test("I59: a quoted key, as the header's standard writes it, is the same as the plain one", async () => {
    const send = (header: string) =>
      api.send("POST", BACKFILLS, { body: wish(), headers: { "idempotency-key": header } });
    const first = await send('"a \\"quoted\\" key"');
    expect(first.status).toBe(202);
    const made = await first.text();
    for (const header of ['a "quoted" key', '"a \\"quoted\\" key"']) {
      const again = await send(header);
      expect({ status: again.status, body: await again.text() }).toEqual({
        status: 200,
        body: made,
      });
    }
    const body = { ...wish(), client_request_id: 'a "quoted" key' };
    const headers = { "idempotency-key": '"a \\"quoted\\" key"' };
    expect((await api.send("POST", BACKFILLS, { body, headers })).status).toBe(200);
    expect((await send('""')).status).toBe(400);
    // Neither of these is a text in quotes: they are keys as they stand.
    for (const header of ['"half', '"a" "b"', '"bad \\ escape"']) {
      expect((await send(header)).status).toBe(202);
    }
  });

  test("I59: a replay has the bytes of the first answer, also after a restart", async () => {
    const own = await startApi();
    await publish(own.client);
    const requests: [string, object][] = [
      [BACKFILLS, { ...ALL_ORDERS, labels: { z: "1", a: "2", "10": "x", "9": "y" } }],
      ["/api/v1/orchestration/runs", { assets: ["report"], config: { b: 1, a: [{ d: 1, c: 2 }] } }],
      [
        "/api/v1/orchestration/schedules",
        { name: "s", cron: "0 1 1 1 *", asset_selection: ["report"] },
      ],
      ["/api/v1/orchestration/assets/tenants/partitions", { keys: ["b", "a"] }],
    ];
    const answers = async (of: Api) => {
      const texts: string[] = [];
      for (const [path, body] of requests) {
        const headers = { "idempotency-key": "bytes" };
        texts.push(await (await of.send("POST", path, { body, headers })).text());
      }
      return texts;
    };
    const first = await answers(own);
    expect(first.join()).toContain("accepted_pos");
    expect(await answers(own)).toEqual(first);
    await own.stopServer();
    await own.store.close();
    const later = await startApi({ folder: own.folder });
    expect(await answers(later)).toEqual(first);
    await later.close();
  });

  test("I60: a repeat after a restart gives the answer that was lost", async () => {
    const first = await startApi();
    await publish(first.client);
    const request = { body: ALL_ORDERS, idempotencyKey: "lost" };
    const made = await first.client.call("createBackfill", request);
    await first.stopServer();
    await first.store.close();
    const second = await startApi({ folder: first.folder });
    expect(await second.client.call("createBackfill", request)).toEqual(made);
    expect((await second.client.call("listBackfills")).items).toHaveLength(1);
    await second.close();
  });
});

describe("conditional changes", () => {
  test("I62: a stale version is refused with 412 and both versions", async () => {
    const { backfill_id } = await api.client.call("createBackfill", { body: wish() });
    const params = { backfill_id };
    const shown = await api.client.call("getBackfill", { params });
    const stale = { expected_state_version: shown.state_version - 1 };
    const refused = api.client.call("pauseBackfill", { params, body: stale });
    await expect(refused).rejects.toMatchObject({
      code: "STATE_VERSION_MISMATCH",
      details: { ...stale, state_version: shown.state_version },
    });
    const path = `${BACKFILLS}/${backfill_id}/pause`;
    const byHeader = (version: string) =>
      api.send("POST", path, { headers: { "if-match": version } });
    expect((await byHeader(`"${shown.state_version - 1}"`)).status).toBe(412);
    expect((await byHeader("tomorrow")).status).toBe(400);
    expect((await byHeader(`"${shown.state_version}"`)).status).toBe(202);
  });

  test("I62: an illegal change is refused with 409 and says what is legal", async () => {
    const { backfill_id } = await api.client.call("createBackfill", { body: wish() });
    const params = { backfill_id };
    const refused = api.client.call("resumeBackfill", { params });
    await expect(refused).rejects.toMatchObject({
      code: "STATE_ILLEGAL",
      details: { state: "RUNNING", legal: ["PAUSED", "PENDING"] },
    });
    const paused = await api.client.call("pauseBackfill", { params });
    const retuned = await api.client.call("retuneBackfill", {
      params,
      body: { max_concurrent_runs: 7, expected_state_version: paused.state_version },
    });
    expect(retuned.state_version).toBe(paused.state_version + 1);
    await api.client.call("cancelBackfill", { params, body: { now: true } });
    const ended = api.client.call("cancelBackfill", { params });
    await expect(ended).rejects.toMatchObject({ code: "STATE_ILLEGAL" });
  });
});

describe("reading", () => {
  test("I16: every answer says the position it reflects, and own writes are in it", async () => {
    const made = await api.client.call("createBackfill", { body: wish() });
    const answer = await api.send("GET", `${BACKFILLS}/${made.backfill_id}`);
    expect(answer.status).toBe(200);
    expect(Number(answer.headers.get("x-pawl-pos"))).toBeGreaterThanOrEqual(made.accepted_pos);
    const list = await api.client.call("listBackfills", {
      query: { wait_for_event_id: made.accepted_event_id ?? "", limit: 1 },
    });
    expect(list.items[0]?.backfill_id).toBe(made.backfill_id);
    expect(list.pos).toBeGreaterThanOrEqual(made.accepted_pos);
  });

  test("I16: a read waits for its position, and says 409 when it does not come", async () => {
    const { pos } = await api.client.call("listRuns");
    const waiting = api.client.call("listRuns", { query: { min_pos: pos + 1, limit: 1 } });
    const { run_id } = await api.client.call("requestRun", { body: { assets: ["report"] } });
    expect((await waiting).items[0]?.run_id).toBe(run_id);
    const query = { min_pos: pos + 1_000_000, timeout_ms: 20 };
    const early = api.client.call("listRuns", { query });
    await expect(early).rejects.toMatchObject({ code: "NOT_YET" });
    const unknown = { wait_for_event_id: "01ARZ3NDEKTSV4RRFFQ69G5FAV", timeout_ms: 20 };
    const never = api.client.call("listBackfills", { query: unknown });
    await expect(never).rejects.toMatchObject({ code: "NOT_YET" });
  });

  test("I63: each item that was there throughout is on exactly one page, whatever is added", async () => {
    for (let count = 0; count < 12; count++) {
      await api.client.call("requestRun", { body: { assets: ["report"] } });
    }
    const before = await ids(api.client.each("listRuns", { query: { limit: 200 } }));
    const seen: string[] = [];
    for await (const { run_id } of api.client.each("listRuns", { query: { limit: 5 } })) {
      seen.push(run_id);
      if (seen.length % 3 === 0) {
        await api.client.call("requestRun", { body: { assets: ["report"] } });
      }
    }
    expect(seen).toEqual(before);
  });

  test("I63: a page is at most 200 long, and a cursor of another list is refused", async () => {
    const refused = await api.send("GET", `${BACKFILLS}?limit=201`);
    expect(await refused.json()).toMatchObject({ status: 400, code: "INPUT_INVALID" });
    const { next_cursor } = await api.client.call("listDefinitions", { query: { limit: 1 } });
    const foreign = api.client.call("listRuns", { query: { cursor: next_cursor ?? "" } });
    await expect(foreign).rejects.toMatchObject({ code: "INPUT_INVALID" });
  });

  test("lists by state and time", async () => {
    const all = await ids(api.client.each("listRuns"));
    const pending = await ids(api.client.each("listRuns", { query: { status: "PENDING" } }));
    const ended = await ids(api.client.each("listRuns", { query: { status: "FAILED,SUCCEEDED" } }));
    expect(pending.length).toBeGreaterThan(0);
    expect(ended).toEqual([]);
    const since = await ids(api.client.each("listRuns", { query: { since: "2020-01-01" } }));
    expect(since).toEqual(all);
    expect(await ids(api.client.each("listRuns", { query: { until: "2020-01-01" } }))).toEqual([]);
  });

  test("I70: from a chunk to its run and back", async () => {
    const { backfill_id } = await api.client.call("createBackfill", { body: wish() });
    const { items } = await api.client.call("listChunks", { params: { backfill_id } });
    expect(items.map(({ state }) => state)).toEqual([
      "PLANNED",
      "PLANNED",
      "PENDING",
      "PENDING",
      "PENDING",
    ]);
    const planned = await api.client.call("listChunks", {
      params: { backfill_id },
      query: { status: "PLANNED" },
    });
    expect(planned.items).toEqual(items.slice(0, 2));
    const [chunk] = items;
    const run = await api.client.call("getRun", { params: { run_id: chunk?.run_id ?? "" } });
    expect(run.run_key).toBe(`backfill:${backfill_id}:chunk:0`);
    expect(run.trigger_source_ref).toMatchObject({ backfill_id, chunk_id: chunk?.chunk_id });
    expect(run.partition_keys).toEqual([chunk?.first_partition_key, chunk?.last_partition_key]);
  });
});

describe("work over HTTP", () => {
  test("a backfill goes through, and what it did can be looked at", async () => {
    const own = await startApi();
    const { client } = own;
    await publish(client);
    const { backfill_id } = await client.call("createBackfill", { body: ALL_ORDERS });
    const params = { backfill_id };
    const asset = { params: { asset_key: "sales/orders" } };
    expect(await work(client, "FAILED")).toBe(4);
    while ((await work(client, "SUCCEEDED")) > 0);
    const ended = await client.call("getBackfill", { params });
    expect(ended).toMatchObject({ state: "FAILED", partitions_failed: 4, partitions_succeeded: 6 });

    const retried = await client.call("retryBackfill", { params });
    expect(retried).toMatchObject({ total_partitions: 4 });
    while ((await work(client, "SUCCEEDED")) > 0);
    const query = { status: "MATERIALIZED" };
    expect(await countOf(client.each("listAssetPartitions", { ...asset, query }))).toBe(10);
    expect(await countOf(client.each("listPartitions", { query: { limit: 3 } }))).toBe(10);
    expect(await client.call("summarizePartitions", asset)).toMatchObject({
      total: 10,
      materialized: 10,
      never_materialized: 0,
    });

    const then = await client.call("getBackfill", { params, query: { as_of: ended.created_pos } });
    expect(then).toMatchObject({ state: "PENDING", chunks_pending: 5 });
    const { items: story } = await client.call("explainEntity", { query: { entity: backfill_id } });
    expect(story[0]?.type).toBe("BackfillCreated");
    const [run] = (await client.call("listRuns", { query: { backfill_id } })).items;
    const tasks = await client.call("listTasks", { params: { run_id: run?.run_id ?? "" } });
    expect(tasks.items.map(({ state }) => state)).toEqual(["SUCCEEDED", "SUCCEEDED"]);
    await own.close();
  });

  test("I27: another request under a run key is refused with both fingerprints and the run there is", async () => {
    const run_key = "nightly";
    const first = await api.client.call("requestRun", { body: { run_key, assets: ["report"] } });
    expect(first).toMatchObject({ outcome: "created", existing_fingerprint: null });
    const keys = { params: { asset_key: "tenants" }, body: { keys: ["a", "b"] } };
    expect(await api.client.call("addPartitionKeys", keys)).toMatchObject({ added: 2, count: 2 });
    const body = { run_key, assets: ["tenants"], partition_keys: ["b"] };
    const headers = { "idempotency-key": "second" };
    const refused = await api.send("POST", "/api/v1/orchestration/runs", { body, headers });
    expect(refused.status).toBe(409);
    const { code, details } = (await refused.json()) as Problem;
    expect(code).toBe("RUN_KEY_CONFLICT");
    expect(details).toMatchObject({
      run_key,
      run_id: first.run_id,
      existing_fingerprint: first.request_fingerprint,
      existing_run: { run_id: first.run_id, run_key, state: expect.stringMatching(/./) },
    });
    expect(details["request_fingerprint"]).toMatch(/^[0-9a-f]{64}$/);
    expect(details["request_fingerprint"]).not.toBe(first.request_fingerprint);

    const { items } = await api.client.call("listConflicts");
    expect(items[0]).toMatchObject({
      run_key,
      existing_fingerprint: first.request_fingerprint,
      conflicting_fingerprint: details["request_fingerprint"],
      differences: ["asset_selection", "partition_selection"],
      first: { asset_selection: ["report"] },
      conflicting: { partition_selection: ["b"] },
    });

    const again = await api.send("POST", "/api/v1/orchestration/runs", { body, headers });
    expect(again.status).toBe(409);
    expect(await api.client.call("listConflicts")).toMatchObject({
      items: { length: items.length },
    });
    const equal = await api.client.call("requestRun", { body: { run_key, assets: ["report"] } });
    expect(equal).toMatchObject({
      outcome: "existing",
      run_id: first.run_id,
      request_fingerprint: first.request_fingerprint,
      existing_fingerprint: first.request_fingerprint,
    });
  });

  test("I27: a caller that asks for the existing run gets it, and the conflict is on record", async () => {
    const run_key = "weekly";
    const first = await api.client.call("requestRun", { body: { run_key, assets: ["report"] } });
    const body = { run_key, assets: ["report"], config: { deep: true }, on_conflict: "existing" };
    const request = { body, headers: { "idempotency-key": "existing" } };
    const found = await api.send("POST", "/api/v1/orchestration/runs", request);
    expect(found.status).toBe(202);
    const answer: unknown = await found.json();
    expect(answer).toMatchObject({
      outcome: "conflict",
      run_id: first.run_id,
      existing_fingerprint: first.request_fingerprint,
    });
    const [conflict] = (await api.client.call("listConflicts")).items;
    expect(conflict).toMatchObject({ run_key, differences: ["config"] });
    const again = await api.send("POST", "/api/v1/orchestration/runs", request);
    expect(again.headers.get("idempotent-replayed")).toBe("true");
    expect(await again.json()).toEqual(answer);
  });
});

describe("retrying what failed while the backfill goes on", () => {
  type Held = { ref: TaskRef; backfill_id: string | null; key: string };

  async function claimAll(client: Client): Promise<Held[]> {
    const body = { worker_id: "hand", lease_id: crypto.randomUUID(), slots: 500, wait_ms: 200 };
    const assets = ["sales/orders"];
    const { groups } = await client.call("claim", {
      body: { ...body, assets, code_version: null },
    });
    return groups.flatMap(({ run_pos, backfill_id, tasks }) =>
      tasks.map(({ task_key, attempt, partition_keys: [key = ""] }) => ({
        ref: { run_pos, task_key, attempt },
        backfill_id,
        key,
      })),
    );
  }

  async function report(client: Client, held: readonly Held[], failed: readonly string[]) {
    const error = { class: "user", message: "no" };
    const results = held.map(({ ref, key }) =>
      failed.includes(key)
        ? { ...ref, outcome: "FAILED" as const, final: true, error }
        : { ...ref, outcome: "SUCCEEDED" as const },
    );
    const body = { worker_id: "hand", code_version: null, results, released_leases: [] };
    await client.call("report", { body });
  }

  async function keysOf(client: Client, backfill_id: string): Promise<string[]> {
    const keys: string[] = [];
    for await (const run of client.each("listRuns", { query: { backfill_id } })) {
      keys.push(...(run.partition_keys ?? []));
    }
    return keys.toSorted();
  }

  test("I32: takes at once what failed so far, later what failed since, and nothing twice", async () => {
    const own = await startApi();
    const { client } = own;
    await publish(client);
    const body = { ...ALL_ORDERS, chunk_size: 5, max_concurrent_runs: 1 };
    const { backfill_id } = await client.call("createBackfill", { body });
    const params = { backfill_id };
    const day = (n: number) => `2025-01-0${n}`;

    const first = await claimAll(client);
    await report(client, first.slice(0, 2), [day(1), day(2)]);
    const before = await client.call("getBackfill", { params });
    expect(before).toMatchObject({ state: "RUNNING", chunks_running: 1, partitions_failed: 2 });
    const one = await client.call("retryBackfill", { params });
    expect(one).toMatchObject({ total_partitions: 2 });
    const nothing = client.call("retryBackfill", { params });
    await expect(nothing).rejects.toMatchObject({
      code: "SELECTION_EMPTY",
      message: expect.stringContaining(one.backfill_id),
    });
    const { state, state_version, partitions_failed } = await client.call("getBackfill", {
      params,
    });
    expect({ state, state_version, partitions_failed }).toEqual({
      state: "RUNNING",
      state_version: before.state_version,
      partitions_failed: 2,
    });

    await report(client, first.slice(2), [day(3)]);
    const two = await client.call("retryBackfill", { params, idempotencyKey: "two" });
    expect(two).toMatchObject({ total_partitions: 1 });
    const again = await client.call("retryBackfill", { params, idempotencyKey: "two" });
    expect(again).toEqual(two);

    await client.call("pauseBackfill", { params });
    const second = await claimAll(client);
    expect(await keysOf(client, one.backfill_id)).toEqual([day(1), day(2)]);
    expect(await keysOf(client, two.backfill_id)).toEqual([day(3)]);
    await report(client, second, [day(1), day(6)]);
    const paused = await client.call("getBackfill", { params });
    expect(paused).toMatchObject({ display_status: "PAUSED_WITH_FAILURES", partitions_failed: 4 });
    // The first retry has ended, and left the first day again.
    const three = await client.call("retryBackfill", { params });
    expect(three).toMatchObject({ total_partitions: 2 });
    await report(client, await claimAll(client), []);
    expect(await keysOf(client, three.backfill_id)).toEqual([day(1), day(6)]);

    await client.call("resumeBackfill", { params });
    const ended = await client.call("getBackfill", { params });
    expect(ended).toMatchObject({ state: "FAILED", partitions_failed: 4, partitions_succeeded: 6 });
    for (const id of [backfill_id, one.backfill_id]) {
      const made = client.call("retryBackfill", { params: { backfill_id: id } });
      await expect(made).rejects.toMatchObject({ code: "SELECTION_EMPTY" });
    }
    await own.close();
  });

  test("I32: of a backfill that goes on, only what failed can be retried", async () => {
    const { backfill_id } = await api.client.call("createBackfill", { body: wish() });
    const params = { backfill_id };
    for (const body of [{ missing: true }, { outcomes: ["CANCELLED" as const] }]) {
      const refused = api.client.call("retryBackfill", { params, body });
      await expect(refused).rejects.toMatchObject({ code: "STATE_ILLEGAL" });
    }
    const empty = api.client.call("retryBackfill", { params });
    await expect(empty).rejects.toMatchObject({ code: "SELECTION_EMPTY" });
    await api.client.call("cancelBackfill", { params, body: { now: true } });
  });
});

async function ids(runs: AsyncIterable<{ run_id: string }>): Promise<string[]> {
  const all: string[] = [];
  for await (const { run_id } of runs) all.push(run_id);
  return all;
}

async function countOf(items: AsyncIterable<unknown>): Promise<number> {
  let counted = 0;
  for await (const _ of items) counted++;
  return counted;
}
