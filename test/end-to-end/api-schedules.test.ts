import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Client } from "../../src/client/client.ts";
import type { PartInput } from "../../src/work/operations.ts";
import { type Api, checkAnswer, publish, startApi, work } from "./api-server.ts";

const BASE = "/api/v1/orchestration/schedules";
const HOUR_MS = 3_600_000;

let api: Api;
let client: Client;

beforeEach(async () => {
  api = await startApi({ clockAt: "2026-03-01T09:30:00.000Z" });
  ({ client } = api);
  await publish(client);
});

afterEach(() => api.close());

type Body = PartInput<"createSchedule", "body">;

const HOURLY: Body = { name: "hourly", cron: "0 * * * *", asset_selection: ["report"] };

function create(changes: Partial<Body> = {}) {
  return client.call("createSchedule", { body: { ...HOURLY, ...changes } });
}

function at(schedule_id: string) {
  return { params: { schedule_id } };
}

describe("a schedule", () => {
  test("is made with defaults, shown by id and name, and made once", async () => {
    const body = { ...HOURLY, client_request_id: "once" };
    const made = await client.call("createSchedule", { body });
    expect(made).toMatchObject({
      message: "Schedule hourly was created.",
      name: "hourly",
      state: "ACTIVE",
      state_version: 1,
      definition_version: 2,
    });
    expect(await client.call("createSchedule", { body })).toEqual(made);

    const shown = await client.call("getSchedule", at("hourly"));
    expect(shown).toEqual(await client.call("getSchedule", at(made.schedule_id)));
    expect(shown).toMatchObject({
      schedule_id: made.schedule_id,
      origin: "api",
      timezone: "UTC",
      selection: { type: "whole" },
      overlap: "allow",
      catchup_window_minutes: 1_440,
      max_catchup_ticks: 3,
      catch_up_on_resume: false,
      enabled: true,
      next_scheduled_for: "2026-03-01T10:00:00.000Z",
      next_due_at: "2026-03-01T10:00:00.000Z",
      last_tick_id: null,
      waiting_for: null,
      active_runs: 0,
      ticks_triggered: 0,
    });
  });

  test("I62: is replaced as a whole, for the version that was seen, and keeps its name", async () => {
    const { schedule_id } = await create({ description: "first", labels: { team: "a" } });
    const body = { cron: "30 * * * *", asset_selection: ["report"], expected_state_version: 1 };
    const changed = await client.call("updateSchedule", { ...at("hourly"), body });
    expect(changed).toMatchObject({ schedule_id, state_version: 2, definition_version: 3 });
    expect(await client.call("getSchedule", at("hourly"))).toMatchObject({
      cron: "30 * * * *",
      labels: {},
      next_scheduled_for: "2026-03-01T10:30:00.000Z",
    });

    const again = client.call("updateSchedule", { ...at("hourly"), body });
    await expect(again).rejects.toMatchObject({
      code: "STATE_VERSION_MISMATCH",
      details: { expected_state_version: 1, state_version: 2 },
    });
    const same = { ...body, expected_state_version: 2 };
    const unchanged = await client.call("updateSchedule", { ...at("hourly"), body: same });
    expect(unchanged).toMatchObject({ state_version: 2, accepted_event_id: null });
    const renamed = client.call("updateSchedule", {
      ...at("hourly"),
      body: { ...same, name: "daily" },
    });
    await expect(renamed).rejects.toMatchObject({
      code: "DEFINITION_INVALID",
      message: expect.stringContaining("keeps its name, so it cannot become daily") as string,
    });

    const header = { headers: { "if-match": '"1"' } };
    const stale = await api.send("DELETE", `${BASE}/hourly`, header);
    expect(stale.status).toBe(412);
    await checkAnswer("DELETE", `${BASE}/hourly`, stale);
    const query = { expected_state_version: 2 };
    const deleted = await client.call("deleteSchedule", { ...at("hourly"), query });
    expect(deleted).toMatchObject({ schedule_id, state: "DELETED", state_version: 3 });
  });

  test("is gone from lists and free of its name when it is deleted, and can still be read", async () => {
    const { schedule_id } = await create();
    await client.call("triggerSchedule", at("hourly"));
    await client.call("deleteSchedule", at("hourly"));
    await expect(client.call("getSchedule", at("hourly"))).rejects.toMatchObject({
      code: "SCHEDULE_NOT_FOUND",
    });
    const gone = await client.call("getSchedule", at(schedule_id));
    expect(gone).toMatchObject({ state: "DELETED", next_scheduled_for: null, active_runs: 1 });
    expect((await client.call("listTicks", at(schedule_id))).items).toHaveLength(1);
    expect((await client.call("listNextTimes", at(schedule_id))).items).toEqual([]);
    for (const change of ["pauseSchedule", "resumeSchedule", "triggerSchedule"] as const) {
      const refused = client.call(change, at(schedule_id));
      await expect(refused).rejects.toMatchObject({ code: "STATE_ILLEGAL" });
    }

    const second = await create();
    expect(second.schedule_id).not.toBe(schedule_id);
    const listed = (status?: string) =>
      client.call("listSchedules", { query: status === undefined ? {} : { status } });
    expect((await listed()).items.map((each) => each.schedule_id)).toEqual([second.schedule_id]);
    expect((await listed("DELETED")).items.map((each) => each.schedule_id)).toEqual([schedule_id]);
  });

  test("of code is paused, resumed and triggered, but neither changed nor deleted", async () => {
    const spec = { kind: "schedule" as const, ...HOURLY, name: "from/code" };
    const code = { origin: "code" as const, specs: [spec], prune: true };
    await create();
    await client.call("publishDefinitions", { body: code });
    const { schedule_id } = at("from/code").params;
    await client.call("pauseSchedule", { ...at(schedule_id), body: { reason: "quiet" } });
    expect(await client.call("getSchedule", at(schedule_id))).toMatchObject({
      origin: "code",
      state: "PAUSED",
      reason: "quiet",
    });
    await client.call("triggerSchedule", at(schedule_id));
    await client.call("resumeSchedule", at(schedule_id));
    const body = { cron: "@daily", asset_selection: ["report"] };
    const refusals = [
      client.call("updateSchedule", { ...at(schedule_id), body }),
      client.call("deleteSchedule", at(schedule_id)),
    ];
    for (const refusal of refusals) {
      await expect(refusal).rejects.toMatchObject({
        code: "DEFINITION_INVALID",
        message: expect.stringContaining("is defined by code; change it there") as string,
      });
    }
    await expect(create({ name: "from/code" })).rejects.toMatchObject({ code: "NAME_TAKEN" });

    await client.call("publishDefinitions", { body: { ...code, specs: [] } });
    const { items } = await client.call("listSchedules");
    expect(items.map(({ name }) => name)).toEqual(["hourly"]);
  });
});

describe("lists", () => {
  test("I63: of schedules go by name and lose none while others come and go", async () => {
    for (const name of ["e", "a", "c", "d", "b"]) await create({ name });
    await client.call("deleteSchedule", at("d"));
    await client.call("pauseSchedule", at("c"));
    const first = await client.call("listSchedules", { query: { limit: 2 } });
    expect(first.items.map(({ name }) => name)).toEqual(["a", "b"]);
    await create({ name: "aa" });
    await client.call("deleteSchedule", at("b"));
    const query = { limit: 2, cursor: first.next_cursor ?? "" };
    const second = await client.call("listSchedules", { query });
    expect(second.items.map(({ name }) => name)).toEqual(["c", "e"]);
    expect(second.next_cursor).toBeNull();
    const paused = await client.call("listSchedules", { query: { status: "PAUSED" } });
    expect(paused.items.map(({ name }) => name)).toEqual(["c"]);
  });

  test("of schedules are narrowed to those that ask for an asset", async () => {
    const daily = { cron: "@daily", selection: { type: "stale" } } as const;
    await create({ name: "a" });
    await create({ name: "b", ...daily, asset_selection: ["sales/orders"] });
    await create({ name: "c", ...daily, asset_selection: ["tenants"] });
    await create({ name: "d", ...daily, asset_selection: ["sales/orders"] });
    const query = { asset: "sales/orders", limit: 1 };
    const names: string[] = [];
    for await (const { name } of client.each("listSchedules", { query })) names.push(name);
    expect(names).toEqual(["b", "d"]);
  });

  test("I64, I63: of schedules with long definitions are short pages, and hold each once", async () => {
    const names = Array.from({ length: 45 }, (_, index) => `long-${10 + index}`);
    const partition_keys = Array.from({ length: 200 }, (_, index) => `${index}`.padEnd(900, "x"));
    const selection = { type: "explicit", partition_keys } as const;
    for (const [index, name] of names.entries()) {
      const asset_selection = index % 3 === 0 ? ["report"] : ["tenants"];
      const what = index % 3 === 0 ? {} : { selection };
      await create({ name, cron: "@daily", asset_selection, ...what });
    }
    for (const [query, expected] of [
      [{ limit: 200 }, names],
      [{ limit: 200, asset: "report" }, names.filter((_, index) => index % 3 === 0)],
      [{ limit: 7, asset: "tenants" }, names.filter((_, index) => index % 3 !== 0)],
    ] as const) {
      const found: string[] = [];
      let next: { cursor?: string } | null = {};
      while (next !== null) {
        const asked: PartInput<"listSchedules", "query"> = { ...query, ...next };
        const { items, next_cursor } = await client.call("listSchedules", { query: asked });
        expect(items.length).toBeLessThanOrEqual(query.limit);
        expect(JSON.stringify(items).length).toBeLessThan(8_000_000);
        found.push(...items.map(({ name }) => name));
        next = next_cursor === null ? null : { cursor: next_cursor };
      }
      expect(found).toEqual(expected);
    }
  });

  test("I63: of ticks go newest first, by what became of them, and do not shift", async () => {
    await create();
    await client.call("pauseSchedule", at("hourly"));
    api.jump(2 * HOUR_MS);
    await client.call("resumeSchedule", at("hourly"));
    for (let hour = 0; hour < 3; hour++) {
      api.jump(HOUR_MS);
      await client.call("tick");
    }
    await client.call("triggerSchedule", at("hourly"));
    const ticks = async (query: PartInput<"listTicks", "query">) =>
      (await client.call("listTicks", { ...at("hourly"), query })).items.map(
        ({ scheduled_for, status, reason, manual }) =>
          `${scheduled_for.slice(11, 16)} ${status} ${reason ?? ""}${manual ? "manual" : ""}`,
      );
    expect(await ticks({})).toEqual([
      "14:30 triggered manual",
      "14:00 triggered ",
      "13:00 triggered ",
      "12:00 triggered ",
      "11:00 skipped paused",
      "10:00 skipped paused",
    ]);
    expect(await ticks({ status: "skipped" })).toHaveLength(2);
    expect(await ticks({ reason: "paused,overlap" })).toHaveLength(2);
    expect(await ticks({ manual: "true" })).toEqual(["14:30 triggered manual"]);
    const period = { since: "2026-03-01T11:00:00Z", until: "2026-03-01T13:00:00Z" };
    expect(await ticks(period)).toEqual(["12:00 triggered ", "11:00 skipped paused"]);

    const first = await client.call("listTicks", { ...at("hourly"), query: { limit: 2 } });
    await client.call("triggerSchedule", at("hourly"));
    const query = { limit: 50, cursor: first.next_cursor ?? "" };
    expect(await ticks(query)).toEqual((await ticks({})).slice(3));
  });
});

describe("what a tick asked for", () => {
  test("I70: is followed from the tick to the run and back", async () => {
    const { schedule_id } = await create();
    api.jump(HOUR_MS);
    await client.call("tick");
    const [tick] = (await client.call("listTicks", at("hourly"))).items;
    const epoch = Date.parse("2026-03-01T10:00:00Z") / 1_000;
    const tick_id = `${schedule_id}:${epoch}`;
    const run_key = `sched:${schedule_id}:${epoch}`;
    expect(tick).toMatchObject({ tick_id, run_key, run_state: "PENDING", backfill_id: null });
    const run_id = tick?.run_id ?? "";
    const run = await client.call("getRun", { params: { run_id } });
    const trigger_source_ref = { type: "schedule", schedule_id, tick_id };
    expect(run).toMatchObject({ run_key, trigger_source_ref });
    expect(await client.call("getSchedule", at("hourly"))).toMatchObject({
      last_tick_id: tick_id,
      last_run_key: run_key,
      last_run_id: run_id,
      last_run_state: "PENDING",
      active_runs: 1,
    });
    await work(client, "SUCCEEDED");
    const [ended] = (await client.call("listTicks", at("hourly"))).items;
    expect(ended?.run_state).toBe("SUCCEEDED");

    const types = async (entity: string) =>
      (await client.call("listEvents", { query: { entity } })).items.map(({ type }) => type);
    expect(await types("hourly")).toEqual(["ScheduleTicked"]);
    expect(await types(schedule_id)).toEqual(["ScheduleTicked"]);
    expect(await types(tick_id)).toEqual(await types(run_id));
    const why = await client.call("explainEntity", { query: { entity: run_id } });
    expect(why.items.map(({ type }) => type).slice(0, 3)).toEqual([
      "DefinitionsPublished",
      "ScheduleTicked",
      "RunRequested",
    ]);
    for (const entity of [tick_id, "hourly"]) {
      const { items } = await client.call("explainEntity", { query: { entity } });
      expect(items.map(({ type }) => type)).toContain("ScheduleTicked");
    }
  });

  test("I70: is a backfill with the tick's name where what is stale was looked for", async () => {
    const selection = { type: "stale", limit: 3 } as const;
    const asset_selection = ["sales/orders"];
    const { schedule_id } = await create({ asset_selection, selection, overlap: "skip" });
    api.jump(HOUR_MS);
    await client.call("tick");
    const [tick] = (await client.call("listTicks", at("hourly"))).items;
    expect(tick).toMatchObject({
      run_id: null,
      backfill_state: "RUNNING",
      stale_reasons: { NEVER_MATERIALIZED: 3 },
    });
    const backfill_id = tick?.backfill_id ?? "";
    const backfill = await client.call("getBackfill", { params: { backfill_id } });
    expect(backfill).toMatchObject({
      client_request_id: tick?.tick_id,
      created_by: `schedule/${schedule_id}`,
      total_partitions: 3,
    });
    const { items } = await client.call("explainEntity", { query: { entity: backfill_id } });
    expect(items.map(({ type }) => type)).toContain("ScheduleTicked");
    api.jump(HOUR_MS);
    await client.call("tick");
    const [next] = (await client.call("listTicks", at("hourly"))).items;
    expect(next).toMatchObject({ status: "skipped", reason: "overlap" });
  });

  test("is made by each of two triggers in one second, and once by a repeat", async () => {
    const { schedule_id } = await create();
    const epoch = Date.parse("2026-03-01T09:30:00Z") / 1_000;
    const first = await client.call("triggerSchedule", { ...at("hourly"), idempotencyKey: "a" });
    const second = await client.call("triggerSchedule", { ...at("hourly"), idempotencyKey: "b" });
    expect(first.tick_id).toBe(`${schedule_id}:manual:${epoch}`);
    expect(second.tick_id).toBe(`${schedule_id}:manual:${epoch}:2`);
    expect(second.run_id).not.toBe(first.run_id);
    const repeated = await client.call("triggerSchedule", { ...at("hourly"), idempotencyKey: "a" });
    expect(repeated).toEqual(first);
    expect((await client.call("listTicks", at("hourly"))).items).toHaveLength(2);
  });
});

describe("metrics", () => {
  test("count schedules and ticks, and how late they were", async () => {
    await create();
    await create({ name: "quiet", enabled: false });
    api.jump(HOUR_MS);
    await client.call("tick");
    const text = await (await api.send("GET", "/metrics")).text();
    expect(text).toContain('pawl_schedules{state="ACTIVE"} 1');
    expect(text).toContain('pawl_schedules{state="PAUSED"} 1');
    expect(text).toContain('pawl_schedule_ticks_total{status="triggered"} 1');
    expect(text).toContain("pawl_schedule_lateness_seconds_sum 1800");
    expect(text).toContain("pawl_schedules_overdue 0");
  });
});
