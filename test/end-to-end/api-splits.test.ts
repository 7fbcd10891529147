import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Client } from "../../src/client/client.ts";
import type { SplitDocument } from "../../src/work/split/api.ts";
import { type Api, startApi } from "./api-server.ts";
import {
  CAUGHT_UP,
  COPIED,
  endStep,
  FITTING,
  publishShards,
  say,
  takeSplitStep,
} from "./shard-hand.ts";

let api: Api;
let client: Client;

beforeEach(async () => {
  api = await startApi();
  ({ client } = api);
  await publishShards(client);
  await client.call("changeRouting", { body: { default_shard: "a" } });
});

afterEach(() => api.close());

const of = (split: string) => ({ params: { split } });
const getSplit = (split: string): Promise<SplitDocument> => client.call("getSplit", of(split));
const commandsOf = async (split: string) =>
  (await getSplit(split)).next.commands.map(({ command }) => command);

async function plan(fields: object = {}): Promise<string> {
  const body = { source: "a", target: "b", tenants: ["acme"], ...fields };
  return (await client.call("planSplit", { body })).split_id;
}

/** A split whose shards were found fit. */
async function checked(fields: object = {}): Promise<string> {
  const split = await plan(fields);
  await endStep(client, await takeSplitStep(client, "check"), FITTING);
  return split;
}

/** A split whose capture is armed. */
async function armed(fields: object = {}): Promise<string> {
  const split = await checked(fields);
  await client.call("startDualWrite", of(split));
  await endStep(client, await takeSplitStep(client, "arm"));
  return split;
}

/** A split whose tail is caught up and verified, and that tail. */
async function caughtUp(fields: object = {}) {
  const split = await armed(fields);
  await client.call("runSplitBackfill", of(split));
  await endStep(client, await takeSplitStep(client, "copy"), COPIED);
  const tail = await takeSplitStep(client, "tail");
  await say(client, tail, CAUGHT_UP, "caught_up");
  await say(client, tail, CAUGHT_UP);
  return { split, tail };
}

/** A split whose target serves, and the tail of the way back. */
async function cutOver() {
  const { split, tail } = await caughtUp();
  await client.call("cutOverSplit", of(split));
  expect(await say(client, tail, CAUGHT_UP)).toMatchObject({ stop: true });
  await endStep(client, tail, CAUGHT_UP);
  const cutover = await takeSplitStep(client, "cutover");
  const { routing_version } = await say(client, cutover, {}, "commit");
  await endStep(client, cutover, { write_pause_ms: 12.5 });
  return { split, routing_version, reverse: await takeSplitStep(client, "reverse") };
}

describe("the runs of a split", () => {
  test("I61: show their tasks also once they have ended, whatever step they were", async () => {
    await cutOver();
    const { items } = await client.call("listRuns", {});
    const ended = items.filter(({ finished_at }) => finished_at !== null);
    expect(ended).toHaveLength(5);
    for (const { run_id } of ended) {
      const { items: tasks } = await client.call("listTasks", { params: { run_id } });
      expect(tasks).toMatchObject([{ run_id, state: "SUCCEEDED", attempt: 1 }]);
      const timeline = await client.call("getRunTimeline", { params: { run_id } });
      expect(timeline.attempts).toMatchObject([{ outcome: "SUCCEEDED" }]);
    }
  });
});

describe("a split", () => {
  test("is shown as it was planned, and says what it waits for", async () => {
    const split = await plan({ description: "too full", grace_ms: 7_200_000 });
    expect(await getSplit(split)).toMatchObject({
      id: split,
      split_id: split,
      description: "too full",
      source: "a",
      target: "b",
      tenants: ["acme"],
      tables: [
        { table: "users", shard_by: "tenant" },
        { table: "orders", shard_by: "tenant" },
      ],
      phase: "planning",
      state_version: 1,
      wanted: null,
      auto_cutover: false,
      armed: false,
      lag_limit_ms: 1_000,
      fence_wait_ms: 1_000,
      fence_hold_ms: 5_000,
      grace_ms: 7_200_000,
      dual_write_started_at: null,
      checks: null,
      verification: null,
      error: null,
      error_message: null,
      write_pause_ms: null,
      routing_version_at_start: 1,
      routing_version_cutover: null,
      routing_version_rollback: null,
      backfill: {
        status: "pending",
        total_rows_copied: 0,
        tables: [
          { table: "users", rows: 0, cursor: null, done: false },
          { table: "orders", rows: 0, cursor: null, done: false },
        ],
        tenants: {},
      },
      tail: { status: "pending", lag_events: null, lag_ms: null },
      step: { n: 1, step: "check", state: "QUEUED", worker_id: null, lacks_worker: true },
      next: { text: expect.stringContaining("Waiting for a worker with a and b") as string },
    });
    expect(await commandsOf(split)).toEqual(["rollback"]);
  });

  test("says what does not fit, refuses to go on, and looks again when it is told to", async () => {
    const split = await plan();
    const checks = [{ check: "schema of users", ok: false, note: "b lacks the column age." }];
    await endStep(client, await takeSplitStep(client, "check"), { checks });
    const document = await getSplit(split);
    expect(document).toMatchObject({ checks, phase: "planning" });
    expect(document.next.text).toBe("The schemas of a and b do not match: b lacks the column age.");
    expect(await commandsOf(split)).toEqual(["resume", "rollback"]);
    await expect(client.call("startDualWrite", of(split))).rejects.toMatchObject({
      code: "STATE_ILLEGAL",
      message: expect.stringContaining("b lacks the column age.") as string,
    });
    await client.call("resumeSplit", of(split));
    await endStep(client, await takeSplitStep(client, "check"), FITTING);
    expect(await commandsOf(split)).toEqual(["start-dual-write", "rollback"]);
  });

  test("shows how far its copy is while that runs, and keeps it", async () => {
    const split = await armed();
    expect(await getSplit(split)).toMatchObject({ phase: "dual_write", armed: true });
    expect(await commandsOf(split)).toEqual(["run-backfill", "ddl", "rollback"]);
    await client.call("runSplitBackfill", of(split));
    const copy = await takeSplitStep(client, "copy");
    const tables = [{ table: "users", rows: 4, cursor: ["4"], done: false }];
    await say(client, copy, { rows_copied: 4, tables, tenant_rows: { acme: 4 } });
    const running = await getSplit(split);
    expect(running).toMatchObject({
      phase: "backfill",
      backfill: {
        status: "running",
        total_rows_copied: 4,
        tables: [...tables, { table: "orders", rows: 0, cursor: null, done: false }],
        tenants: { acme: 4 },
      },
      step: { step: "copy", state: "RUNNING", worker_id: "hand", attempt: 1 },
    });
    expect(running.step?.reported_at).not.toBeNull();
    await endStep(client, copy, COPIED);
    expect(await getSplit(split)).toMatchObject({
      phase: "tailing",
      backfill: { status: "completed", total_rows_copied: 30 },
    });
  });

  test("keeps the phase when its copy fails for good, says why, and goes on when told to", async () => {
    const split = await armed();
    await client.call("runSplitBackfill", of(split));
    const error = { class: "SCHEMA_CHANGED", message: "A column is gone." };
    const copy = await takeSplitStep(client, "copy");
    await endStep(client, copy, {}, { error, final: true });
    const failed = await getSplit(split);
    expect(failed).toMatchObject({
      phase: "backfill",
      backfill: { status: "failed" },
      error,
      error_message: "A column is gone.",
      failures: 1,
      step: { step: "copy", state: "FAILED" },
    });
    expect(failed.next.text).toContain("Step copy failed: A column is gone.");
    expect(await commandsOf(split)).toContain("resume");
    await client.call("runSplitBackfill", of(split));
    await endStep(client, await takeSplitStep(client, "copy"), COPIED);
    expect(await getSplit(split)).toMatchObject({ phase: "tailing" });
  });

  test("says in a dry run what stands in the way of a cutover, and changes nothing", async () => {
    const split = await armed();
    const early = await client.call("cutOverSplit", { ...of(split), body: { dry_run: true } });
    expect(early).toMatchObject({ dry_run: true, ready: false, phase: "dual_write" });
    const wrong = early.checks?.flatMap(({ check, ok }) => (ok ? [] : [check]));
    expect(wrong).toEqual(["phase", "tail", "lag", "verification"]);

    await client.call("runSplitBackfill", of(split));
    await endStep(client, await takeSplitStep(client, "copy"), COPIED);
    const tail = await takeSplitStep(client, "tail");
    await say(client, tail, CAUGHT_UP, "caught_up");
    await say(client, tail, CAUGHT_UP);
    const before = await getSplit(split);
    expect(before).toMatchObject({
      phase: "cutover_pending",
      tail: { status: "caught_up", lag_events: 0, lag_ms: 3, last_event_id: "7" },
      verification: { ok: true, finished: true, rows: 30 },
    });
    const body = { dry_run: true, expected_state_version: before.state_version };
    const ready = await client.call("cutOverSplit", { ...of(split), body });
    expect(ready).toMatchObject({ ready: true, accepted_event_id: null });
    expect(ready.checks?.map(({ check }) => check)).toEqual([
      "phase",
      "tail",
      "lag",
      "verification",
      "schema",
      "routing",
    ]);
    expect(ready.checks?.at(-1)?.note).toBe("The tenant is routed to a as planned.");
    expect(await getSplit(split)).toMatchObject({
      wanted: null,
      state_version: before.state_version,
    });

    await say(client, tail, { ...CAUGHT_UP, lag_ms: 5_000, lag_events: 9 });
    const late = await client.call("cutOverSplit", { ...of(split), body: { dry_run: true } });
    expect(late.checks?.find(({ check }) => check === "lag")).toEqual({
      check: "lag",
      ok: false,
      note: "5000 ms and 9 changes behind; at most 1000 ms is wanted.",
    });
    const stale = { dry_run: true, expected_state_version: 99 };
    await expect(client.call("cutOverSplit", { ...of(split), body: stale })).rejects.toMatchObject({
      code: "STATE_VERSION_MISMATCH",
    });
  });

  test("cuts over once, shows the write pause, and is completed for the version that was seen", async () => {
    const { split, routing_version, reverse } = await cutOver();
    expect(routing_version).toBe(2);
    const { state_version, ...served } = await getSplit(split);
    expect(served).toMatchObject({
      phase: "reversible",
      wanted: null,
      routing_version_cutover: 2,
      write_pause_ms: 12.5,
      step: { step: "reverse", state: "RUNNING" },
    });
    expect(await client.call("cutOverSplit", of(split))).toMatchObject({
      routing_version_cutover: 2,
      accepted_event_id: null,
      dry_run: false,
      ready: null,
    });
    expect(await client.call("getRoute", { query: { tenant: "acme" } })).toEqual({
      tenant: "acme",
      shard: "b",
      epoch: 2,
      own: true,
      version: 2,
    });
    const stale = { expected_state_version: state_version - 1 };
    await expect(client.call("completeSplit", { ...of(split), body: stale })).rejects.toMatchObject(
      { code: "STATE_VERSION_MISMATCH" },
    );
    const wanted = await client.call("completeSplit", {
      ...of(split),
      body: { expected_state_version: state_version, reason: "all is well" },
    });
    expect(wanted).toMatchObject({ wanted: "complete", phase: "reversible" });
    expect((await say(client, reverse, {})).stop).toBe(true);
    await endStep(client, reverse);
    await endStep(client, await takeSplitStep(client, "finish"));
    const completed = await getSplit(split);
    expect(completed).toMatchObject({ phase: "completed", removed_at: null });
    expect(completed.next.text).toContain("the rows on a will be removed after");
  });

  test("is rolled back, and lists its steps with their runs", async () => {
    const { split, reverse } = await cutOver();
    await client.call("rollBackSplit", of(split));
    await endStep(client, reverse);
    const cutback = await takeSplitStep(client, "cutback");
    expect(await say(client, cutback, {}, "commit")).toMatchObject({ routing_version: 3 });
    await endStep(client, cutback, { write_pause_ms: 1 });
    await endStep(client, await takeSplitStep(client, "discard"));
    expect(await getSplit(split)).toMatchObject({
      phase: "rolled_back",
      routing_version_rollback: 3,
      armed: false,
      dual_write_started_at: null,
      verification: null,
      backfill: { status: "pending", started_at: null, total_rows_copied: 0, tenants: {} },
      tail: { status: "pending", last_event_id: null, lag_events: null, lag_ms: null },
    });
    expect(await commandsOf(split)).toEqual(["start-dual-write"]);
    const query = { limit: 5 };
    const newest = await client.call("listSplitSteps", { ...of(split), query });
    expect(newest.items.map(({ step, state, outcome }) => [step, state, outcome])).toEqual([
      ["discard", "SUCCEEDED", "done"],
      ["cutback", "SUCCEEDED", "done"],
      ["reverse", "SUCCEEDED", "stopped"],
      ["cutover", "SUCCEEDED", "done"],
      ["tail", "SUCCEEDED", "stopped"],
    ]);
    const [cutover] = newest.items.filter(({ step }) => step === "cutover");
    expect(cutover?.report).toEqual({ write_pause_ms: 12.5 });
    const cursor = newest.next_cursor ?? "";
    const oldest = await client.call("listSplitSteps", { ...of(split), query: { cursor } });
    expect(oldest.items.map(({ n, step }) => [n, step])).toEqual([
      [3, "copy"],
      [2, "arm"],
      [1, "check"],
    ]);
    expect(oldest.next_cursor).toBeNull();
    const run = await client.call("getRun", { params: { run_id: cutover?.run_id ?? "" } });
    expect(run.run_key).toBe(`split:${split}:5:cutover`);
  });

  test("I56: is run again once it was rolled back, with the same id, up to its next cutover", async () => {
    const { split, reverse } = await cutOver();
    await client.call("rollBackSplit", of(split));
    await endStep(client, reverse);
    const cutback = await takeSplitStep(client, "cutback");
    await say(client, cutback, {}, "commit");
    await endStep(client, cutback);
    await endStep(client, await takeSplitStep(client, "discard"));

    await client.call("startDualWrite", of(split));
    await endStep(client, await takeSplitStep(client, "arm"), FITTING);
    expect(await getSplit(split)).toMatchObject({
      phase: "dual_write",
      armed: true,
      checks: FITTING.checks,
      routing_version_at_start: 3,
      routing_version_cutover: null,
      routing_version_rollback: null,
      write_pause_ms: null,
      finished_at: null,
    });
    await client.call("runSplitBackfill", of(split));
    await endStep(client, await takeSplitStep(client, "copy"), COPIED);
    const tail = await takeSplitStep(client, "tail");
    await say(client, tail, CAUGHT_UP, "caught_up");
    await client.call("cutOverSplit", of(split));
    await endStep(client, tail, CAUGHT_UP);
    const cutover = await takeSplitStep(client, "cutover");
    expect(await say(client, cutover, {}, "commit")).toMatchObject({ routing_version: 4 });
    await endStep(client, cutover);
    expect(await getSplit(split)).toMatchObject({
      phase: "reversible",
      routing_version_cutover: 4,
      backfill: { status: "completed", total_rows_copied: 30 },
    });
  });

  test("I57: records nothing more when a command is repeated, with its key and without it", async () => {
    const split = await checked();
    const posOf = async () => (await client.call("listSplits", {})).pos;
    /** Sends a command three times, once with its own key again; all answers are about the same state. */
    const thrice = async (
      operation: "startDualWrite" | "runSplitBackfill" | "completeSplit" | "rollBackSplit",
    ) => {
      const options = { ...of(split), idempotencyKey: `${operation} of ${split}` };
      const first = await client.call(operation, options);
      const pos = await posOf();
      expect(await client.call(operation, options)).toEqual(first);
      const { message, phase, state_version, wanted } = first;
      expect(await client.call(operation, of(split))).toMatchObject({
        message,
        phase,
        state_version,
        wanted,
        accepted_event_id: null,
      });
      expect(await posOf()).toBe(pos);
    };
    await thrice("startDualWrite");
    await endStep(client, await takeSplitStep(client, "arm"));
    await thrice("runSplitBackfill");
    await endStep(client, await takeSplitStep(client, "copy"), COPIED);
    const tail = await takeSplitStep(client, "tail");
    await say(client, tail, CAUGHT_UP, "caught_up");
    await client.call("cutOverSplit", of(split));
    await endStep(client, tail, CAUGHT_UP);
    const cutover = await takeSplitStep(client, "cutover");
    await say(client, cutover, {}, "commit");
    await endStep(client, cutover);
    const reverse = await takeSplitStep(client, "reverse");
    await thrice("completeSplit");
    await endStep(client, reverse);
    await endStep(client, await takeSplitStep(client, "finish"));
    const ended = await posOf();
    for (const operation of ["startDualWrite", "runSplitBackfill", "completeSplit"] as const) {
      expect(await client.call(operation, of(split))).toMatchObject({ phase: "completed" });
    }
    expect(await posOf()).toBe(ended);

    const other = await plan({ tenants: ["beta"] });
    await client.call("rollBackSplit", of(other));
    const back = await posOf();
    expect(await client.call("rollBackSplit", of(other))).toMatchObject({ phase: "rolled_back" });
    expect(await posOf()).toBe(back);
  });

  test("shows a cutover that fell back, and why", async () => {
    const { split, tail } = await caughtUp();
    await client.call("cutOverSplit", of(split));
    expect((await getSplit(split)).next.text).toContain("Cutover requested; the current step");
    await endStep(client, tail, CAUGHT_UP);
    const error = { class: "FENCE_BUSY", message: "A write would not end." };
    const cutover = await takeSplitStep(client, "cutover");
    await endStep(client, cutover, {}, { error, final: true });
    await takeSplitStep(client, "tail");
    expect(await getSplit(split)).toMatchObject({
      phase: "cutover_pending",
      wanted: null,
      routing_version_cutover: null,
      error_message: "A write would not end.",
    });
    // What goes on is not what failed.
    await expect(client.call("resumeSplit", of(split))).rejects.toMatchObject({
      code: "STATE_ILLEGAL",
      message: expect.stringContaining(
        "there is nothing to resume: its last step, tail, is running",
      ),
    });
    const { items } = await client.call("listSplitSteps", of(split));
    expect(items.find(({ step }) => step === "cutover")).toMatchObject({
      outcome: "fell_back",
      error,
    });
  });

  test("changes the schema of both shards between two tails", async () => {
    const { split, tail } = await caughtUp();
    const ddl = "alter table users add column age integer";
    const wanted = await client.call("changeSplitSchema", { ...of(split), body: { ddl } });
    expect(wanted).toMatchObject({ wanted: "ddl" });
    await endStep(client, tail, CAUGHT_UP);
    const step = await takeSplitStep(client, "ddl");
    expect(step.step.ddl).toBe(ddl);
    await endStep(client, step);
    await takeSplitStep(client, "tail");
    expect(await getSplit(split)).toMatchObject({ wanted: null });
  });

  test("I81: changes no schema for a token without that right, of no other table, by no other statement", async () => {
    const { split } = await caughtUp();
    const ddl = "alter table users add column age integer";
    const writer = await api.clientOf(0, ["read", "write", "admin"]);
    const forbidden = writer.call("changeSplitSchema", { ...of(split), body: { ddl } });
    await expect(forbidden).rejects.toMatchObject({ code: "FORBIDDEN" });
    const owner = await api.clientOf(0, ["ddl"]);
    for (const other of [
      "select 1; update payroll set salary = 0; copy users to program 'id'",
      "alter table payroll add column age integer",
      "alter table users add column age integer default now()",
      "drop table users",
    ]) {
      const asked = owner.call("changeSplitSchema", { ...of(split), body: { ddl: other } });
      await expect(asked, other).rejects.toMatchObject({ code: "INPUT_INVALID" });
    }
    expect(await getSplit(split)).toMatchObject({ wanted: null });
    const wanted = await owner.call("changeSplitSchema", { ...of(split), body: { ddl } });
    expect(wanted).toMatchObject({ wanted: "ddl" });
  });

  test("is listed newest first, by phase and by shard", async () => {
    const first = await checked();
    const second = await checked({ tenants: ["beta"], target: "c" });
    await client.call("rollBackSplit", of(first));
    const ids = async (query: object) =>
      (await client.call("listSplits", { query })).items.map(({ id }) => id);
    expect(await ids({})).toEqual([second, first]);
    expect(await ids({ phase: "planning,tailing" })).toEqual([second]);
    expect(await ids({ phase: "rolled_back" })).toEqual([first]);
    expect(await ids({ target: "b" })).toEqual([first]);
    expect(await ids({ source: "c" })).toEqual([]);
    const page = await client.call("listSplits", { query: { limit: 1 } });
    expect(await ids({ limit: 1, cursor: page.next_cursor ?? "" })).toEqual([first]);
  });

  test("says what is being done about a wish, and that it waits only while it does", async () => {
    const { split, tail } = await caughtUp();
    const text = async () => (await getSplit(split)).next.text;
    await client.call("rollBackSplit", of(split));
    expect(await text()).toContain("the current step ends first");
    await endStep(client, tail, CAUGHT_UP);
    await takeSplitStep(client, "discard");
    expect(await text()).toBe("Discarding the copy on b. Rollback requested.");
  });

  test("has a story, and events of its own", async () => {
    const { split } = await cutOver();
    const { items } = await client.call("listEvents", { query: { entity: split, limit: 200 } });
    const own = new Set(items.map(({ type }) => type));
    expect([...own].toSorted()).toEqual([
      "SplitCaughtUp",
      "SplitCutOver",
      "SplitPhaseChanged",
      "SplitPlanned",
      "SplitStepSettled",
      "SplitWanted",
    ]);
    const why = await client.call("explainEntity", { query: { entity: split } });
    const types = why.items.map(({ type }) => type);
    expect(types[0]).toBe("SplitPlanned");
    expect(types).toContain("RoutingChanged");
    const { items: steps } = await client.call("listSplitSteps", of(split));
    const run = steps.find(({ step }) => step === "copy")?.run_id ?? "";
    const story = await client.call("explainEntity", { query: { entity: run } });
    expect(story.items.map(({ type }) => type)).toEqual(
      expect.arrayContaining(["SplitPlanned", "RunRequested", "RunFinished"]),
    );
  });

  test("is counted for those who watch, also how far it is behind just now", async () => {
    const { split, tail } = await caughtUp();
    await say(client, tail, { ...CAUGHT_UP, lag_ms: 1_500, lag_events: 4 });
    const text = await (await api.send("GET", "/metrics")).text();
    const labels = `{split_id="${split}",source_shard="a",target_shard="b"}`;
    expect(text).toContain(`pawl_split_phase${labels} 4`);
    expect(text).toContain(`pawl_split_rows_copied${labels} 30`);
    expect(text).toContain(`pawl_split_tail_lag_events${labels} 4`);
    expect(text).toContain(`pawl_split_tail_lag_seconds${labels} 1.5`);
    expect(text).not.toContain(`pawl_split_write_pause_seconds${labels}`);
    expect(text).toContain(
      `pawl_split_info{split_id="${split}",source_shard="a",target_shard="b",` +
        'phase="cutover_pending",backfill_status="completed",tail_status="caught_up"} 1',
    );
  });
});

describe("the routing", () => {
  test("answers where a tenant is, by its own route and by default", async () => {
    const body = { routes: [{ tenant: "acme", shard: "b" }], expected_version: 1 };
    expect(await client.call("changeRouting", { body })).toMatchObject({ version: 2 });
    const at = (tenant: string) => client.call("getRoute", { query: { tenant } });
    const own = { tenant: "acme", shard: "b", epoch: 2, own: true, version: 2 };
    expect(await at("acme")).toEqual(own);
    for (const tenant of ["x/y z", ".", "..", "%2e"]) {
      expect(await at(tenant)).toEqual({ tenant, shard: "a", epoch: 1, own: false, version: 2 });
    }
    expect(await client.call("getRouting")).toMatchObject({
      version: 2,
      default_shard: "a",
      default_epoch: 1,
      tenants: 1,
      shards: [{ shard: "b", tenants: 1 }],
    });
    await expect(client.call("changeRouting", { body })).rejects.toMatchObject({
      code: "STATE_VERSION_MISMATCH",
    });
  });

  test("lists routes by shard, and its versions newest first, page by page", async () => {
    const routes = ["a1", "a2", "b1"].map((tenant) => ({ tenant, shard: tenant.slice(0, 1) }));
    await client.call("changeRouting", { body: { routes, reason: "moved by hand" } });
    const { items } = await client.call("listRoutes", { query: { shard: "a" } });
    expect(items.map(({ tenant, epoch }) => [tenant, epoch])).toEqual([
      ["a1", 2],
      ["a2", 2],
    ]);
    const page = await client.call("listRoutingVersions", { query: { limit: 1 } });
    expect(page.items).toMatchObject([
      {
        version: 2,
        default_shard: null,
        routes: routes.map((route) => ({ ...route, from: null })),
        cause: { type: "manual" },
        reason: "moved by hand",
      },
    ]);
    const rest = await client.call("listRoutingVersions", {
      query: { cursor: page.next_cursor ?? "" },
    });
    expect(rest.items).toMatchObject([{ version: 1, default_shard: "a", routes: [] }]);
  });
});
