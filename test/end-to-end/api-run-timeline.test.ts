import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { PartInput } from "../../src/work/operations.ts";
import { cursorOf } from "../../src/server/http/read-within.ts";
import { type Api, startApi } from "./api-server.ts";

const START = "2026-01-01T00:00:00.000Z";
const SECOND_MS = 1_000;
const at = (ms: number): string => new Date(Date.parse(START) + ms).toISOString();

type Specs = PartInput<"publishDefinitions", "body">["specs"];

const DAYS = { type: "static" as const, keys: ["mon", "tue", "wed"] };
const RETRY = {
  max_lost_attempts: 3,
  max_attempts: 3,
  delay_ms: 10 * SECOND_MS,
  factor: 1,
  jitter: 0,
} as const;
const SAME = { type: "identity" } as const;
const SPECS: Specs = [
  { kind: "asset", asset_key: "raw", partitions: DAYS, retry: RETRY },
  {
    kind: "asset",
    asset_key: "clean",
    partitions: DAYS,
    retry: RETRY,
    upstream: [{ asset_key: "raw", mapping: SAME }],
  },
  { kind: "asset", asset_key: "all", partitions: DAYS, batch: true, retry: RETRY },
  { kind: "asset", asset_key: "report", partitions: null, retry: RETRY },
];

let api: Api;
let elapsedMs = 0;
let leases = 0;

beforeAll(async () => {
  api = await startApi({ clockAt: START });
  await api.client.call("publishDefinitions", { body: { specs: SPECS } });
});

afterAll(() => api.close());

function pass(ms: number): void {
  elapsedMs += ms;
  api.jump(ms);
}

type Claimed = {
  lease_id: string;
  tasks: { run_pos: number; task_key: number; attempt: number }[];
};

/** Takes what is ready of some assets, as a worker of that name. */
async function claim(worker_id: string, assets: string[], slots = 10): Promise<Claimed> {
  leases += 1;
  const lease_id = `lease-${leases}`;
  const body = { worker_id, lease_id, slots, assets, code_version: null, wait_ms: 1_000 };
  const { groups } = await api.client.call("claim", { body });
  const tasks = groups.flatMap(({ run_pos, tasks: taken }) =>
    taken.map(({ task_key, attempt }) => ({ run_pos, task_key, attempt })),
  );
  return { lease_id, tasks };
}

type Result = Partial<PartInput<"report", "body">["results"][number]>;

async function report(worker_id: string, claimed: Claimed, result: Result): Promise<void> {
  const results = claimed.tasks.map((task) => ({
    outcome: "SUCCEEDED" as const,
    ...task,
    ...result,
  }));
  const body = { worker_id, code_version: null, results, released_leases: [claimed.lease_id] };
  await api.client.call("report", { body });
}

async function requestRun(assets: string[], partition_keys?: string[]): Promise<string> {
  const body = { assets, ...(partition_keys === undefined ? {} : { partition_keys }) };
  return (await api.client.call("requestRun", { body })).run_id;
}

const timelineOf = (run_id: string) => api.client.call("getRunTimeline", { params: { run_id } });
const taskOf = (run_id: string, task_key: number) =>
  api.client.call("getTask", { params: { run_id, task_key } });

const failure = (message: string) =>
  ({ outcome: "FAILED", error: { class: "user", message } }) as const;

describe("the timeline of a run", () => {
  test("shows every attempt at tasks that wait for others, while it goes on and when it ended", async () => {
    const requestedAt = at(elapsedMs);
    const run_id = await requestRun(["raw", "clean"], ["mon", "tue"]);
    pass(SECOND_MS);
    const first = await claim("one", ["raw"]);
    const startedAt = at(elapsedMs);
    pass(SECOND_MS);
    const failedAt = at(elapsedMs);
    const { tasks, lease_id } = first;
    await report("one", { lease_id, tasks: tasks.slice(0, 1) }, {});
    await report("one", { lease_id, tasks: tasks.slice(1) }, failure("too many rows"));

    const going = await timelineOf(run_id);
    expect(going.edges).toEqual([
      [0, 2],
      [1, 3],
    ]);
    expect(going.tasks).toMatchObject([
      { task_key: 0, asset_key: "raw", partition_keys: ["mon"], state: "SUCCEEDED" },
      { task_key: 1, asset_key: "raw", partition_keys: ["tue"], state: "RETRY_WAIT" },
      { task_key: 2, asset_key: "clean", state: "READY", ready_at: failedAt },
      { task_key: 3, asset_key: "clean", state: "WAITING", ready_at: null, finished_at: null },
    ]);
    expect(going.tasks[1]).toMatchObject({ ready_at: requestedAt, finished_at: null });
    const retry_at = at(elapsedMs + RETRY.delay_ms);
    expect(going.attempts[1]).toEqual({
      task_key: 1,
      attempt: 1,
      worker_id: "one",
      started_at: startedAt,
      ended_at: failedAt,
      outcome: "FAILED",
      error: { class: "user", message: "too many rows" },
      check_status: null,
      retry_at,
      partitions: 1,
      partitions_failed: 0,
      partitions_skipped: 0,
    });

    pass(RETRY.delay_ms);
    const second = await claim("two", ["raw", "clean"]);
    expect((await timelineOf(run_id)).attempts.slice(2)).toMatchObject([
      { worker_id: "two", ended_at: null, outcome: null },
      { worker_id: "two", ended_at: null, outcome: null },
    ]);
    await report("two", second, {});
    await report("two", await claim("two", ["clean"]), {});
    const ended = await timelineOf(run_id);
    expect(ended).toMatchObject({ complete: true, finished_at: at(elapsedMs) });
    expect(ended.tasks.map(({ state }) => state)).toEqual(Array(4).fill("SUCCEEDED"));
    const attempts = ended.attempts.map(
      ({ task_key, attempt, outcome }) => `${task_key}/${attempt} ${outcome}`,
    );
    expect(new Set(attempts)).toEqual(
      new Set(["0/1 SUCCEEDED", "1/1 FAILED", "1/2 SUCCEEDED", "2/1 SUCCEEDED", "3/1 SUCCEEDED"]),
    );
    expect(await taskOf(run_id, 1)).toMatchObject({
      state: "SUCCEEDED",
      complete: true,
      attempts: [
        { attempt: 1, worker_id: "one", outcome: "FAILED" },
        { attempt: 2, worker_id: "two", outcome: "SUCCEEDED" },
      ],
    });
  });

  test("shows a worker that was not heard of again, and what nobody could do then", async () => {
    const run_id = await requestRun(["raw", "clean"], ["wed"]);
    for (const worker of ["one", "two", "three"]) {
      await claim(worker, ["raw"]);
      pass(60 * SECOND_MS);
      await api.client.call("tick");
      pass(RETRY.delay_ms);
    }
    const { attempts, tasks } = await timelineOf(run_id);
    expect(attempts).toMatchObject([
      { worker_id: "one", outcome: "LEASE_EXPIRED", error: { class: "lease-lost" } },
      { worker_id: "two", outcome: "LEASE_EXPIRED" },
      { worker_id: "three", outcome: "LEASE_EXPIRED", retry_at: null },
    ]);
    expect(attempts[0]?.retry_at).not.toBeNull();
    expect(tasks).toMatchObject([
      { state: "FAILED" },
      { state: "SKIPPED", ready_at: null, finished_at: attempts[2]?.ended_at },
    ]);
  });

  test("counts the partitions of a batch that failed on their own", async () => {
    const run_id = await requestRun(["all"], ["mon", "tue", "wed"]);
    const exceptions = [
      { index: 1, outcome: "FAILED" as const, error: { class: "user", message: "tue is bad" } },
      { index: 2, outcome: "SKIPPED" as const, error: null },
    ];
    await report("one", await claim("one", ["all"]), { exceptions });
    const { attempts, tasks } = await timelineOf(run_id);
    expect(tasks).toMatchObject([{ partition_count: 3, partition_keys: ["mon", "tue", "wed"] }]);
    expect(attempts).toMatchObject([
      { outcome: "FAILED", error: { message: "tue is bad" }, partitions: 3 },
    ]);
    expect(attempts[0]).toMatchObject({ partitions_failed: 1, partitions_skipped: 1 });
    pass(RETRY.delay_ms);
    await report("one", await claim("one", ["all"]), {});
    const again = (await timelineOf(run_id)).attempts[1];
    expect(again).toMatchObject({ outcome: "SUCCEEDED", partitions: 1, attempt: 2 });
  });

  test("shows a task that was given back and one that was cancelled before it began", async () => {
    const run_id = await requestRun(["raw", "clean"], ["mon"]);
    const given = { ...failure("the worker stops"), released: true };
    await report("one", await claim("one", ["raw"]), given);
    await api.client.call("cancelRun", { params: { run_id }, body: {} });
    const { attempts, tasks, complete } = await timelineOf(run_id);
    expect(attempts).toMatchObject([{ attempt: 1, outcome: "RELEASED" }]);
    expect(tasks).toMatchObject([{ state: "CANCELLED" }, { state: "CANCELLED", ready_at: null }]);
    expect(complete).toBe(true);
  });

  test("says of a task what it saved, and refuses one that there is not", async () => {
    const run_id = await requestRun(["report"]);
    const claimed = await claim("one", ["report"]);
    const items = claimed.tasks.map((task) => ({ ...task, value: { page: 7 } }));
    await api.client.call("checkpoint", { body: { items } });
    expect(await taskOf(run_id, 0)).toMatchObject({
      state: "RUNNING",
      partition_keys: [],
      checkpoint: { attempt: 1, value: { page: 7 }, saved_at: at(elapsedMs) },
      attempts: [{ worker_id: "one", outcome: null }],
    });
    await report("one", claimed, {});
    expect((await taskOf(run_id, 0)).checkpoint).toBeNull();
    await expect(taskOf(run_id, 1)).rejects.toMatchObject({
      code: "TASK_NOT_FOUND",
      details: { run_id, task_key: 1, tasks_total: 1 },
    });
    await expect(timelineOf("run_nothing")).rejects.toMatchObject({ code: "RUN_NOT_FOUND" });
  });

  test("is cut at 2,000 tasks, and says so", async () => {
    const partitions = { type: "integers", start: 0, end: 2_500 } as const;
    const specs = [{ kind: "asset", asset_key: "many", partitions } as const];
    await api.client.call("publishDefinitions", { body: { specs } });
    const keys = Array.from({ length: 2_500 }, (_, index) => String(index));
    const run_id = await requestRun(["many"], keys);
    const { tasks, complete } = await timelineOf(run_id);
    expect(tasks).toHaveLength(2_000);
    expect(tasks.at(-1)).toMatchObject({ task_key: 1_999, state: "READY" });
    expect(complete).toBe(false);
  });
});

describe("the lines that a task logged", () => {
  test("are read from any line on, and say which is the last", async () => {
    const run_id = await requestRun(["report"]);
    const claimed = await claim("one", ["report"]);
    const params = { run_id, task_key: 0 };
    const none = await api.client.call("listTaskLogs", { params });
    expect(none).toMatchObject({ items: [], last_line: 0, next_cursor: null });
    const items = Array.from({ length: 700 }, (_, index) => ({
      ...claimed.tasks[0],
      message: `line ${index + 1}`,
      fields: {},
    })) as PartInput<"log", "body">["items"];
    await api.client.call("log", { body: { items } });
    const lines = (query: PartInput<"listTaskLogs", "query">) =>
      api.client.call("listTaskLogs", { params, query });
    const first = await lines({ limit: 2 });
    expect(first).toMatchObject({ items: [{ line: 1 }, { line: 2 }], last_line: 700 });
    const end = await lines({ after: 698 });
    expect(end.items.map(({ message }) => message)).toEqual(["line 699", "line 700"]);
    expect(end).toMatchObject({ last_line: 700, next_cursor: null });
    expect(await lines({ after: 700 })).toMatchObject({ items: [], last_line: 700 });
    const both = lines({ after: 1, cursor: first.next_cursor ?? "" });
    await expect(both).rejects.toMatchObject({ code: "INPUT_INVALID" });
    await report("one", claimed, {});
  });
});

describe("the lines that the tasks of a run logged", () => {
  type Query = PartInput<"listRunLogs", "query">;
  const linesOf = async (run_id: string, query: Query = {}): Promise<unknown[]> => {
    const lines: unknown[] = [];
    for await (const line of api.client.each("listRunLogs", { params: { run_id }, query })) {
      lines.push([line.task_key, line.message]);
    }
    return lines;
  };
  const log = (claimed: Claimed, message: string, fields: Record<string, string> = {}) => {
    const items = claimed.tasks.map((task) => ({ ...task, message, fields }));
    return api.client.call("log", { body: { items } });
  };

  test("are read page by page, of a task, of a partition, and from a time on", async () => {
    const run_id = await requestRun(["raw", "all"], ["mon", "tue"]);
    const raw = await claim("one", ["raw"]);
    const all = await claim("one", ["all"]);
    await log(raw, "first");
    await log(all, "of both", { level: "warn" });
    pass(SECOND_MS);
    await log(raw, "second", { level: "loud" });

    const lines = [
      [0, "of both"],
      [1, "first"],
      [1, "second"],
      [2, "first"],
      [2, "second"],
    ];
    expect(await linesOf(run_id)).toEqual(lines);
    expect(await linesOf(run_id, { limit: 2 })).toEqual(lines);
    expect(await linesOf(run_id, { task_key: 1 })).toEqual(lines.slice(1, 3));
    expect(await linesOf(run_id, { asset: "all" })).toEqual(lines.slice(0, 1));
    expect(await linesOf(run_id, { partition: "tue" })).toEqual(lines.toSpliced(1, 2));
    expect(await linesOf(run_id, { asset: "raw", partition: "wed" })).toEqual([]);
    expect(await linesOf(run_id, { since: at(elapsedMs) })).toEqual([lines[2], lines[4]]);

    const { items, dropped } = await api.client.call("listRunLogs", { params: { run_id } });
    expect([items[0], items[4]]).toMatchObject([
      { asset_key: "all", partition_keys: ["mon", "tue"], partition_count: 2, level: "warn" },
      { run_id, asset_key: "raw", partition_keys: ["tue"], level: "info", attempt: 1 },
    ]);
    expect(dropped).toBe(0);
    const nowhere = linesOf(run_id, { task_key: 3 });
    await expect(nowhere).rejects.toMatchObject({ code: "TASK_NOT_FOUND" });
    await report("one", raw, {});
    await report("one", all, {});
    expect(await linesOf(run_id)).toEqual(lines);
  });

  test("I64: cost those who follow a run no look at all of its tasks while there are none", async () => {
    const run_id = await requestRun(["raw"], ["mon"]);
    const raw = await claim("one", ["raw"]);
    await log(raw, "first");
    pass(SECOND_MS);
    const { store } = api;
    const read = store.read.bind(store);
    let looks = 0;
    store.read = (ws, body) =>
      read(ws, (reader) => {
        const events = reader.events.bind(reader);
        reader.events = (filter) => {
          looks++;
          return events(filter);
        };
        return body(reader);
      });
    expect(await linesOf(run_id, { since: at(elapsedMs) })).toEqual([]);
    expect(looks).toBe(0);
    expect(await linesOf(run_id)).toEqual([[0, "first"]]);
    expect(looks).toBe(1);
    store.read = read;
    await report("one", raw, {});
  });

  test("are found by the runs of a backfill that have any, the last chunks first", async () => {
    const specs: Specs = [{ kind: "asset", asset_key: "chatty", partitions: DAYS }];
    await api.client.call("publishDefinitions", { body: { specs } });
    const body = {
      assets: ["chatty"],
      selector: { type: "all" as const },
      chunk_size: 1,
      max_concurrent_runs: 3,
    };
    const { backfill_id } = await api.client.call("createBackfill", { body });
    const params = { backfill_id };
    for (const message of ["one", null, "three"]) {
      const claimed = await claim("one", ["chatty"], 1);
      if (message !== null) await log(claimed, message);
      await report("one", claimed, {});
    }
    const found: number[] = [];
    for await (const run of api.client.each("listLoggedRuns", { params, query: { limit: 1 } })) {
      expect(await linesOf(run.run_id)).toEqual([[0, run.chunk_index === 0 ? "one" : "three"]]);
      found.push(run.chunk_index);
    }
    expect(found).toEqual([2, 0]);
    const nowhere = api.client.call("listLoggedRuns", { params: { backfill_id: "nothing" } });
    await expect(nowhere).rejects.toMatchObject({ code: "BACKFILL_NOT_FOUND" });
  });
});

describe("the list of runs", () => {
  test("is filtered by asset and by what asked for them, page by page", async () => {
    const specs: Specs = [{ kind: "asset", asset_key: "rare", partitions: DAYS }];
    await api.client.call("publishDefinitions", { body: { specs } });
    const body = { assets: ["rare"], selector: { type: "all" as const }, chunk_size: 1 };
    const { backfill_id } = await api.client.call("createBackfill", { body });
    const mine = [await requestRun(["rare"], ["mon"]), await requestRun(["rare"], ["tue"])];
    const list = (query: PartInput<"listRuns", "query">) => api.client.call("listRuns", { query });

    const manual = await list({ asset: "rare", trigger: "manual" });
    expect(manual.items.map(({ run_id }) => run_id)).toEqual(mine.toReversed());
    expect(manual.next_cursor).toBeNull();
    const first = await list({ asset: "rare", trigger: "manual,schedule", limit: 1 });
    const second = await list({
      asset: "rare",
      trigger: "manual,schedule",
      limit: 1,
      cursor: first.next_cursor ?? "",
    });
    expect([...first.items, ...second.items].map(({ run_id }) => run_id)).toEqual(
      mine.toReversed(),
    );
    expect(second.next_cursor).toBeNull();
    const failed = await list({ asset: "raw", status: "FAILED" });
    expect(failed.items.every(({ state }) => state === "FAILED")).toBe(true);
    expect(failed.items).toHaveLength(1);
    await expect
      .poll(async () => (await list({ asset: "rare", trigger: "backfill" })).items)
      .toMatchObject([{ backfill_id }, { backfill_id }]);
    expect((await list({ trigger: "split,move,sync,sensor" })).items).toEqual([]);
    expect((await list({ asset: "nobody" })).items).toEqual([]);
    const beyond = cursorOf([Number.MAX_SAFE_INTEGER]);
    expect((await list({ trigger: "manual", cursor: beyond })).items).toEqual(
      (await list({ trigger: "manual" })).items,
    );
    const unknown = list({ trigger: "weather" });
    await expect(unknown).rejects.toMatchObject({ code: "INPUT_INVALID" });
  });
});
