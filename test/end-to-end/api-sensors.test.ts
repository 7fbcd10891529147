import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Client } from "../../src/client/client.ts";
import type { PartInput } from "../../src/work/operations.ts";
import { type Api, checkAnswer, publish, REPORT, startApi, work } from "./api-server.ts";

const BASE = "/api/v1/orchestration/sensors";

let api: Api;
let client: Client;

beforeEach(async () => {
  api = await startApi();
  ({ client } = api);
  await publish(client);
});

afterEach(() => api.close());

type Body = PartInput<"createSensor", "body">;

const UPLOADS: Body = {
  name: "uploads",
  mode: "push",
  target: { asset_selection: ["sales/orders"], partition_key: "{payload.day}" },
};
const FILES: Body = {
  name: "files",
  mode: "poll",
  watch: { type: "files", folder: "/data", pattern: "*.csv" },
  target: { asset_selection: ["report"], config: { file: "{path}" } },
};
const MADE: Body = {
  name: "made",
  mode: "poll",
  watch: { type: "materializations", asset_key: "report" },
  target: { asset_selection: ["tenants"], partition_key: "acme" },
  min_interval_ms: 100,
};

function create(body: Body) {
  return client.call("createSensor", { body });
}

function at(sensor_id: string) {
  return { params: { sensor_id } };
}

async function push(sensor: string, id: string, payload: unknown): Promise<Response> {
  const headers = { "webhook-id": id };
  return api.send("POST", `${BASE}/${sensor}/messages`, { body: payload, headers });
}

/** Lets the server evaluate what it can by itself. */
function settle() {
  return client.call("tick");
}

/** Makes the looks that a worker without the project's code may make, and finds what is given. */
async function look(found: {
  cursor: string | null;
  items: string[];
  assets?: string[];
}): Promise<number> {
  const { assets } = found;
  const { probes } = await client.call("claimProbes", {
    body: { worker_id: "worker", sensors: [], slots: 10, wait_ms: 0 },
  });
  if (probes.length === 0) return 0;
  const run_requests = found.items.map((item) => ({
    asset_selection: assets ?? ["report"],
    partition_keys: assets === undefined ? null : [item],
    run_key: item,
    config: { file: item },
    labels: {},
  }));
  await client.call("reportProbes", {
    body: {
      worker_id: "worker",
      results: probes.map(({ probe_id, attempt, cursor, expected_state_version, poll_epoch }) => ({
        probe_id,
        attempt,
        cursor,
        expected_state_version,
        poll_epoch,
        outcome: { type: "evaluated" as const, cursor: found.cursor, run_requests },
      })),
    },
  });
  return probes.length;
}

describe("a sensor", () => {
  test("is made with defaults, shown by id and name, and made once", async () => {
    const body = { ...UPLOADS, client_request_id: "once" };
    const made = await client.call("createSensor", { body });
    expect(made).toMatchObject({
      message: "Sensor uploads was created.",
      name: "uploads",
      state: "ACTIVE",
      state_version: 1,
    });
    expect(await client.call("createSensor", { body })).toEqual(made);

    const shown = await client.call("getSensor", at("uploads"));
    expect(shown).toEqual(await client.call("getSensor", at(made.sensor_id)));
    expect(shown).toMatchObject({
      sensor_id: made.sensor_id,
      origin: "api",
      mode: "push",
      watch: null,
      cursor: null,
      min_interval_ms: 30_000,
      max_run_requests: 100,
      last_evaluation_at: null,
      last_looked_at: null,
      next_due_at: null,
      evaluations: 0,
      messages_pending: 0,
      lag_seconds: 0,
      has_secret: false,
      needs_function: false,
      has_worker: true,
    });
  });

  test("I62: is replaced as a whole, for the version that was seen, and keeps its name", async () => {
    await create(FILES);
    const { name: _, ...definition } = FILES;
    const body = { ...definition, min_interval_ms: 500, expected_state_version: 1 };
    const changed = await client.call("updateSensor", { ...at("files"), body });
    expect(changed).toMatchObject({ state_version: 2, state: "ACTIVE" });
    expect(await client.call("getSensor", at("files"))).toMatchObject({ min_interval_ms: 500 });
    await expect(client.call("updateSensor", { ...at("files"), body })).rejects.toMatchObject({
      code: "STATE_VERSION_MISMATCH",
    });
    const renamed = { ...definition, name: "others" };
    const refused = client.call("updateSensor", { ...at("files"), body: renamed });
    await expect(refused).rejects.toMatchObject({ code: "DEFINITION_INVALID" });
    const disabled = { ...definition, enabled: false };
    const paused = await client.call("updateSensor", { ...at("files"), body: disabled });
    expect(paused).toMatchObject({ state: "PAUSED" });
  });

  test("is gone from lists and free of its name when it is deleted, and can still be read", async () => {
    const { sensor_id } = await create(UPLOADS);
    await push("uploads", "m1", { day: "2025-01-02" });
    await settle();
    await client.call("deleteSensor", at("uploads"));
    const gone = { code: "SENSOR_NOT_FOUND" };
    await expect(client.call("getSensor", at("uploads"))).rejects.toMatchObject(gone);
    expect(await client.call("getSensor", at(sensor_id))).toMatchObject({ state: "DELETED" });
    expect((await client.call("listEvals", at(sensor_id))).items).toHaveLength(1);
    expect((await client.call("listSensors")).items).toEqual([]);
    const deleted = await client.call("listSensors", { query: { status: "DELETED" } });
    expect(deleted.items).toHaveLength(1);
    for (const change of ["pauseSensor", "resumeSensor"] as const) {
      const refused = client.call(change, at(sensor_id));
      await expect(refused).rejects.toMatchObject({ code: "STATE_ILLEGAL" });
    }
    expect((await push(sensor_id, "m2", {})).status).toBe(404);
    const secret = client.call("createSensorSecret", at(sensor_id));
    await expect(secret).rejects.toMatchObject({ code: "STATE_ILLEGAL" });
    const evaluated = client.call("evaluateSensor", at(sensor_id));
    await expect(evaluated).rejects.toMatchObject(gone);
    expect((await create(UPLOADS)).sensor_id).not.toBe(sensor_id);
  });

  test("I63: is listed by name, page by page, by state and mode", async () => {
    for (const name of ["b", "a", "c"]) await create({ ...UPLOADS, name });
    await create(FILES);
    await client.call("pauseSensor", at("b"));
    const names: string[] = [];
    for await (const { name } of client.each("listSensors", { query: { limit: 2 } })) {
      names.push(name);
    }
    expect(names).toEqual(["a", "b", "c", "files"]);
    const paused = await client.call("listSensors", { query: { status: "PAUSED" } });
    expect(paused.items.map(({ name }) => name)).toEqual(["b"]);
    const polls = await client.call("listSensors", { query: { mode: "poll" } });
    expect(polls.items.map(({ name }) => name)).toEqual(["files"]);
  });

  test("of the API must do without code, and says what it lacks", async () => {
    const refused = async (changes: Partial<Body>, text: string) => {
      const { message } = (await create({ ...FILES, ...changes }).catch(
        (error: unknown) => error,
      )) as Error & { code: string };
      expect(message).toContain(text);
    };
    await refused({ target: null }, "needs a target");
    await refused({ watch: null }, "needs a watch");
    await refused({ watch: { type: "objects" } }, "watches objects, which only code can list");
    const rows = { type: "rows", table: "t", watermark: "id" } as const;
    await refused({ watch: rows }, "needs database_env");
    await refused({ mode: "push" }, "it cannot watch anything");
    await refused({ name: "x", target: { asset_selection: ["rport"] } }, "perhaps report is meant");
    const braces = { asset_selection: ["report"], config: { file: "{path" } };
    await refused({ target: braces }, "has a brace that opens no field");
    const withDatabase = { ...rows, database_env: "SENSOR_SHOP" };
    expect(await create({ ...FILES, watch: withDatabase })).toMatchObject({ name: "files" });
  });

  test("of code is changed in code, and paused and resumed anywhere", async () => {
    const spec = { kind: "sensor", name: "coded", mode: "poll" } as const;
    const body = { origin: "code" as const, specs: [spec] };
    await client.call("publishDefinitions", { body });
    const refused = client.call("updateSensor", { ...at("coded"), body: { mode: "poll" } });
    await expect(refused).rejects.toMatchObject({
      code: "DEFINITION_INVALID",
      message: expect.stringContaining("is defined by code") as string,
    });
    const paused = await client.call("pauseSensor", {
      ...at("coded"),
      body: { reason: "the source is down", expected_state_version: 1 },
    });
    expect(paused).toMatchObject({ state: "PAUSED", state_version: 2 });
    expect(await client.call("getSensor", at("coded"))).toMatchObject({
      reason: "the source is down",
      next_due_at: null,
      needs_function: true,
      has_worker: false,
    });
    const again = client.call("pauseSensor", at("coded"));
    await expect(again).rejects.toMatchObject({ code: "STATE_ILLEGAL" });
    const resumed = await client.call("resumeSensor", at("coded"));
    expect(resumed).toMatchObject({ state: "ACTIVE", state_version: 3 });
  });
});

describe("evaluations", () => {
  test("I70: of messages ask for runs, which can be followed both ways", async () => {
    const { sensor_id } = await create(UPLOADS);
    await push("uploads", "m1", { day: "2025-01-02" });
    await push("uploads", "m2", { day: "2025-01-03" });
    await push("uploads", "m3", { day: "never" });
    for (let tries = 0; tries < 5; tries++) {
      await settle();
      api.jump(16_000);
    }
    const { items } = await client.call("listEvals", at("uploads"));
    expect(items.map(({ eval_id }) => eval_id)).toEqual(
      ["m3", "m2", "m1"].map((id) => `${sensor_id}:msg:${id}`),
    );
    const [bad, , first] = items;
    expect(bad?.run_requests).toMatchObject([
      { outcome: "refused", run_id: null, run_state: null },
    ]);
    expect(first).toMatchObject({
      status: "triggered",
      trigger_source: { type: "push", message_id: "m1" },
      cursor_after: "m1",
      run_requests: [{ outcome: "created", run_state: "PENDING" }],
    });
    const run_id = first?.run_requests[0]?.run_id ?? "";
    const run = await client.call("getRun", { params: { run_id } });
    expect(run.trigger_source_ref).toEqual({
      type: "sensor",
      sensor_id,
      eval_id: first?.eval_id,
    });
    await work(client, "SUCCEEDED");
    const after = await client.call("listEvals", { ...at("uploads"), query: { limit: 1 } });
    const rest = await client.call("listEvals", {
      ...at("uploads"),
      query: { cursor: after.next_cursor ?? "" },
    });
    expect(rest.items.map(({ run_requests }) => run_requests[0]?.run_state)).toEqual([
      "SUCCEEDED",
      "SUCCEEDED",
    ]);
    const none = await client.call("listEvals", {
      ...at("uploads"),
      query: { status: "error", since: "2100-01-01" },
    });
    expect(none.items).toEqual([]);

    const query = { entity: first?.eval_id ?? "" };
    const events = await client.call("listEvents", { query });
    expect(events.items[0]?.type).toBe("RunRequested");
    const refusedEval = await client.call("listEvents", { query: { entity: bad?.eval_id ?? "" } });
    expect(refusedEval.items.map(({ type }) => type)).toEqual(["SensorEvaluated"]);
    const ofSensor = await client.call("listEvents", { query: { entity: "uploads" } });
    expect(ofSensor.items.map(({ type }) => type)).toContain("SensorMessageReceived");
    const why = async (entity: string) =>
      (await client.call("explainEntity", { query: { entity } })).items.map(({ type }) => type);
    expect((await why(run_id)).slice(0, 4)).toEqual([
      "DefinitionsPublished",
      "SensorMessageReceived",
      "SensorEvaluated",
      "RunRequested",
    ]);
    expect(await why(first?.eval_id ?? "")).toEqual(await why(run_id));
    expect(await why("uploads")).toEqual(["DefinitionsPublished", "SensorEvaluated"]);
    const unknown = client.call("listEvents", { query: { entity: `${sensor_id}:msg:none` } });
    await expect(unknown).rejects.toMatchObject({ code: "CHUNK_NOT_FOUND" });
  });

  test("I25: of a message for a partition that is not there yet are made once it is there", async () => {
    const target = { asset_selection: ["tenants"], partition_key: "{payload.tenant}" };
    await create({ name: "signups", mode: "push", target });
    await push("signups", "m1", { tenant: "acme" });
    await settle();
    expect(await client.call("getSensor", at("signups"))).toMatchObject({
      messages_pending: 1,
      evaluations: 0,
    });
    await client.call("addPartitionKeys", {
      params: { asset_key: "tenants" },
      body: { keys: ["acme"] },
    });
    api.jump(2_000);
    await settle();
    const [made] = (await client.call("listEvals", at("signups"))).items;
    expect(made).toMatchObject({ status: "triggered", run_requests: [{ outcome: "created" }] });
    const { items } = await client.call("listMessages", at("signups"));
    expect(items).toMatchObject([{ message_id: "m1", state: "EVALUATED" }]);
  });

  test("I26: of a watch that asks for what is refused leave the cursor, tell it, and try again", async () => {
    const target = { asset_selection: ["tenants"], partition_key: "{stem}" };
    await create({ ...FILES, target });
    await settle();
    const refused = { cursor: "c1", items: ["acme"], assets: ["tenants"] };
    expect(await look(refused)).toBe(1);
    expect(await client.call("getSensor", at("files"))).toMatchObject({
      state: "ERROR",
      cursor: null,
      error: { class: "refused", message: expect.stringContaining('"acme"') as string },
    });
    await client.call("addPartitionKeys", {
      params: { asset_key: "tenants" },
      body: { keys: ["acme"] },
    });
    api.jump(60_000);
    expect(await look(refused)).toBe(1);
    expect(await client.call("getSensor", at("files"))).toMatchObject({
      state: "ACTIVE",
      cursor: "c1",
      runs_requested: 1,
    });
  });

  test("of a watch move the cursor; looks without a result are counted", async () => {
    await create(FILES);
    await settle();
    const due = await client.call("getSensor", at("files"));
    expect(due).toMatchObject({ last_looked_at: null, has_worker: false });
    expect(due.next_due_at).not.toBeNull();
    expect(await look({ cursor: "c1", items: ["a.csv", "b.csv"] })).toBe(1);
    const [made] = (await client.call("listEvals", at("files"))).items;
    expect(made).toMatchObject({ cursor_before: null, cursor_after: "c1", status: "triggered" });
    expect(made?.run_requests).toHaveLength(2);
    api.jump(60_000);
    const late = await client.call("getSensor", at("files"));
    expect(late.lag_seconds).toBeGreaterThan(25);
    expect(await look({ cursor: "c1", items: [] })).toBe(1);
    const shown = await client.call("getSensor", at("files"));
    expect(shown).toMatchObject({
      cursor: "c1",
      evaluations: 1,
      looks: 1,
      runs_requested: 2,
      lag_seconds: 0,
    });
    expect(shown.last_looked_at).not.toBeNull();
  });

  test("of a watch on the ledger need no worker", async () => {
    await create(MADE);
    const params = { asset_key: "tenants" };
    await client.call("addPartitionKeys", { params, body: { keys: ["acme"] } });
    await client.call("requestRun", { body: { assets: ["report"] } });
    await work(client, "SUCCEEDED");
    await expect
      .poll(async () => (await client.call("getSensor", at("made"))).runs_requested)
      .toBe(1);
  });

  test("I62: start anew or further back when the cursor is moved", async () => {
    await create(FILES);
    await settle();
    await look({ cursor: "c1", items: ["a.csv"] });
    const moved = await client.call("resetCursor", {
      ...at("files"),
      body: { cursor: "c0", reason: "load again", expected_state_version: 2 },
    });
    expect(moved).toMatchObject({ cursor: "c0", state_version: 3 });
    const stale = { cursor: null, expected_state_version: 2 };
    const refused = client.call("resetCursor", { ...at("files"), body: stale });
    await expect(refused).rejects.toMatchObject({ code: "STATE_VERSION_MISMATCH" });
    const start = await client.call("resetCursor", { ...at("files"), body: { cursor: null } });
    expect(start).toMatchObject({ cursor: null, state_version: 4 });
    await create(UPLOADS);
    const pushed = client.call("resetCursor", { ...at("uploads"), body: { cursor: null } });
    await expect(pushed).rejects.toMatchObject({ code: "INPUT_INVALID" });
    const { name: _, ...made } = MADE;
    await create({ ...made, name: "made" });
    const wrong = client.call("resetCursor", { ...at("made"), body: { cursor: "yesterday" } });
    await expect(wrong).rejects.toMatchObject({ code: "INPUT_INVALID" });
  });
});

describe("an evaluation by hand", () => {
  test("shows what a sample would come to, and changes nothing", async () => {
    await create(UPLOADS);
    const { pos } = await client.call("listEvents", { query: { limit: 1 } });
    const body = { payload: { day: "2025-01-04" }, dry_run: true };
    const dry = await client.call("evaluateSensor", { ...at("uploads"), body });
    expect(dry).toMatchObject({
      message: "Sensor uploads would trigger 1 run: 1 created.",
      dry_run: true,
      status: "triggered",
      run_requests: [{ partition_selection: ["2025-01-04"], outcome: "created", run_state: null }],
    });
    expect((await client.call("listEvents", { query: { limit: 1 } })).pos).toBe(pos);
    const wrong = await client.call("evaluateSensor", {
      ...at("uploads"),
      body: { payload: {}, dry_run: true },
    });
    expect(wrong).toMatchObject({ status: "error" });
    expect(wrong.error?.message).toContain("names the field payload.day");
  });

  test("I59: asks for runs, once for a request", async () => {
    await create(UPLOADS);
    const body = { payload: { day: "2025-01-04" }, request_id: "mine" };
    const first = await client.call("evaluateSensor", { ...at("uploads"), body });
    expect(first).toMatchObject({ verdict: "recorded", run_requests: [{ outcome: "created" }] });
    const second = await client.call("evaluateSensor", { ...at("uploads"), body });
    expect(second).toMatchObject({ eval_id: first.eval_id });
    expect((await client.call("listRuns")).items).toHaveLength(1);
    const other = { payload: { day: "2025-01-05" }, request_id: "mine" };
    const reused = client.call("evaluateSensor", { ...at("uploads"), body: other });
    await expect(reused).rejects.toMatchObject({ code: "IDEMPOTENCY_KEY_REUSED" });
    const path = `${BASE}/uploads/evaluate`;
    const unnamed = await api.send("POST", path, { body: { payload: {} } });
    expect(unnamed.status).toBe(400);
    await checkAnswer("POST", path, unnamed);
  });

  test("takes a message whose evaluation failed, and no other", async () => {
    await create(UPLOADS);
    await push("uploads", "bad", { nothing: true });
    await push("uploads", "good", { day: "2025-01-02" });
    await settle();
    const { items } = await client.call("listMessages", at("uploads"));
    expect(items).toMatchObject([
      { message_id: "good", state: "EVALUATED", payload: null, payload_length: null },
      { message_id: "bad", state: "FAILED", payload: { nothing: true } },
    ]);
    const failed = await client.call("listMessages", {
      ...at("uploads"),
      query: { status: "FAILED" },
    });
    expect(failed.items).toHaveLength(1);
    const { name: _, ...definition } = UPLOADS;
    const target = { asset_selection: ["report"] };
    await client.call("updateSensor", { ...at("uploads"), body: { ...definition, target } });
    const again = await client.call("evaluateSensor", {
      ...at("uploads"),
      body: { message_id: "bad" },
    });
    expect(again).toMatchObject({ status: "triggered" });
    const refused = async (body: PartInput<"evaluateSensor", "body">) =>
      (
        (await client
          .call("evaluateSensor", { ...at("uploads"), body })
          .catch((error: unknown) => error)) as { code: string }
      ).code;
    expect(await refused({ message_id: "good" })).toBe("STATE_ILLEGAL");
    expect(await refused({ message_id: "none" })).toBe("INPUT_INVALID");
    expect(await refused({ message_id: "bad", payload: 1 })).toBe("INPUT_INVALID");
  });

  test("waits for a worker with the function, and says when there is none", async () => {
    const spec = { kind: "sensor", name: "coded", mode: "poll" } as const;
    await client.call("publishDefinitions", { body: { specs: [REPORT, spec] } });
    const body = { request_id: "one", timeout_ms: 0 };
    const waiting = client.call("evaluateSensor", { ...at("coded"), body });
    await expect(waiting).rejects.toMatchObject({
      code: "NOT_YET",
      message: expect.stringContaining("No worker with the function of sensor coded") as string,
    });
    const payload = { ...body, request_id: "two", payload: {} };
    const refused = client.call("evaluateSensor", { ...at("coded"), body: payload });
    await expect(refused).rejects.toMatchObject({ code: "INPUT_INVALID" });
    const { probes } = await client.call("claimProbes", {
      body: { worker_id: "worker", sensors: ["coded"], slots: 10, wait_ms: 0 },
    });
    const manual = probes.find(({ kind }) => kind === "manual");
    expect(manual).toMatchObject({ name: "coded", cursor: null });
    if (manual === undefined) return;
    const { probe_id, attempt, cursor, expected_state_version, poll_epoch } = manual;
    const ref = { probe_id, attempt, cursor, expected_state_version, poll_epoch };
    const outcome = { type: "evaluated" as const, cursor: "c1", run_requests: [] };
    await client.call("reportProbes", {
      body: { worker_id: "worker", results: [{ ...ref, outcome }] },
    });
    const done = await client.call("evaluateSensor", { ...at("coded"), body });
    expect(done).toMatchObject({ verdict: "recorded", cursor_after: "c1" });
    expect(await client.call("getSensor", at("coded"))).toMatchObject({
      cursor: "c1",
      has_worker: true,
    });
  });
});

describe("what is wrong", () => {
  test("I61: is refused with a sentence, whatever it is", async () => {
    await create(UPLOADS);
    await create(FILES);
    const bad: [string, string, unknown][] = [
      ["POST", BASE, { ...UPLOADS, name: "" }],
      ["POST", BASE, { ...UPLOADS, name: "x", mode: "pull" }],
      ["POST", BASE, { ...UPLOADS, name: "x", unknown: 1 }],
      ["POST", BASE, UPLOADS],
      ["PUT", `${BASE}/none`, UPLOADS],
      ["DELETE", `${BASE}/none`, undefined],
      ["GET", `${BASE}/none/evals`, undefined],
      ["GET", `${BASE}/uploads/evals?status=fine`, undefined],
      ["GET", `${BASE}/uploads/evals?cursor=nonsense`, undefined],
      ["GET", `${BASE}/uploads/messages?status=fine`, undefined],
      ["GET", `${BASE}?status=fine`, undefined],
      ["POST", `${BASE}/uploads/reset-cursor`, {}],
      ["POST", `${BASE}/uploads/reset-cursor`, { cursor: 7 }],
      ["POST", `${BASE}/files/secret`, {}],
      ["POST", `${BASE}/uploads/secret`, { overlap_seconds: -1 }],
      ["POST", `${BASE}/none/secret`, {}],
      ["POST", `${BASE}/none/evaluate`, {}],
      ["POST", `${BASE}/uploads/evaluate`, { timeout_ms: 1e9 }],
      ["POST", `${BASE}/uploads/pause`, { reason: 7 }],
    ];
    for (const [method, path, body] of bad) {
      const headers = { "idempotency-key": path };
      const answer = await api.send(method, path, { body, headers });
      expect(answer.status, `${method} ${path}`).toBeGreaterThanOrEqual(400);
      expect(answer.status, `${method} ${path}`).toBeLessThan(500);
      await checkAnswer(method, path.split("?")[0] ?? "", answer);
    }
    expect(api.logged).toEqual([]);
  });

  test("is visible in the metrics", async () => {
    await create(UPLOADS);
    await push("uploads", "m1", { day: "2025-01-02" });
    await settle();
    await push("uploads", "m2", { nothing: true });
    await settle();
    const text = await (await api.send("GET", "/metrics")).text();
    expect(text).toMatch(/pawl_sensors\{state="ERROR"\} 1/);
    expect(text).toMatch(/pawl_sensor_evaluations_total\{result="triggered"\} 1/);
    expect(text).toMatch(/pawl_sensor_evaluations_total\{result="error"\} 1/);
    expect(text).toMatch(/pawl_sensor_messages_pending 0/);
    expect(text).toMatch(/pawl_sensor_message_lag_seconds 0/);
  });
});
