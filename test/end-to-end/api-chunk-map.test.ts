import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { AnswerOf, PartInput } from "../../src/work/operations.ts";
import { type Api, startApi } from "./api-server.ts";
import { type Verdicts, workOnce, workThrough } from "./backfill-hand.ts";

// Goal: the map shows each chunk as the list of chunks does, and counts what the backfill counts.
// Method: backfills in every situation, compared with the list, which reads row by row.

const DAYS = { type: "daily", start: "2025-01-01", end: "2025-01-21" } as const;
const ASSETS = ["days", "batches", "regions"];

let api: Api;

beforeEach(async () => {
  api = await startApi();
  const days = { kind: "asset", asset_key: "days", partitions: DAYS } as const;
  const halved = { asset_key: "batches", batch: true, bisect: true } as const;
  const regions = { type: "static" as const, keys: ["north", "south"] };
  await api.client.call("publishDefinitions", {
    body: {
      specs: [
        days,
        { ...days, ...halved },
        { kind: "asset", asset_key: "regions", partitions: regions },
      ],
    },
  });
});

afterEach(() => api.close());

async function create(
  wish: Partial<PartInput<"createBackfill", "body">> = {},
): Promise<{ backfill_id: string }> {
  const { backfill_id } = await api.client.call("createBackfill", {
    body: {
      assets: ["days"],
      selector: { type: "all" },
      chunk_size: 2,
      max_concurrent_runs: 3,
      client_request_id: crypto.randomUUID(),
      allow_overlap: true,
      ...wish,
    },
  });
  return { backfill_id };
}

const all = (verdict: Verdicts["verdict"]): Verdicts => ({ assets: ASSETS, verdict });
const succeed = all(() => null);
const fail = all(() => "no");
const failOn = (days: readonly string[]) => all((key) => (days.includes(key) ? "no" : null));

/** The map with each cell spelt out, checked against the list and the counters. */
async function checkedStates(params: { backfill_id: string }): Promise<string[]> {
  const map = await api.client.call("mapChunks", { params });
  const states = spelledOut(map);
  const { items } = await api.client.call("listChunks", { params, query: { limit: 200 } });
  expect(items.map(({ chunk_index }) => chunk_index)).toEqual([...states.keys()]);
  expect(items.map(({ state }) => state)).toEqual(states);
  const backfill = await api.client.call("getBackfill", { params });
  const count = (state: string) => states.filter((cell) => cell === state).length;
  expect(map).toMatchObject({
    cells: states.length,
    base_chunks: backfill.base_chunks,
    total_chunks: backfill.total_chunks,
    state_version: backfill.state_version,
    row_version: backfill.row_version,
  });
  expect({
    pending: count("PENDING"),
    planned: count("PLANNED"),
    running: count("RUNNING"),
    succeeded: count("SUCCEEDED"),
    failed: count("FAILED"),
    cancelled: count("CANCELLED"),
    total: states.length - count("SPLIT"),
  }).toEqual({
    pending: backfill.chunks_pending,
    planned: backfill.chunks_planned,
    running: backfill.chunks_running,
    succeeded: backfill.chunks_succeeded,
    failed: backfill.chunks_failed,
    cancelled: backfill.chunks_cancelled,
    total: backfill.total_chunks,
  });
  return states;
}

function spelledOut({ states, lengths }: AnswerOf<"mapChunks">): string[] {
  const cells: string[] = [];
  for (let index = 0; index < lengths.length; index += 2) {
    const state = states[lengths[index] ?? -1] ?? "?";
    cells.push(...Array<string>(lengths[index + 1] ?? 0).fill(state));
  }
  return cells;
}

describe("the map of chunks", () => {
  test("tells what is planned, running, done and not planned yet", async () => {
    const params = await create();
    await expect.poll(() => checkedStates(params)).toContain("PLANNED");
    await workOnce(api.client, failOn(["2025-01-03"]));
    await expect.poll(() => checkedStates(params)).toContain("PLANNED");
    const lease_id = crypto.randomUUID();
    const rest = { worker_id: "hand", assets: ASSETS, code_version: null, wait_ms: 100 };
    await api.client.call("claim", { body: { ...rest, lease_id, slots: 1 } });
    const states = await checkedStates(params);
    expect(states.slice(0, 3)).toEqual(["SUCCEEDED", "FAILED", "SUCCEEDED"]);
    expect(states.slice(3, 6).toSorted()).toEqual(["PLANNED", "PLANNED", "RUNNING"]);
    expect(states.slice(6)).toEqual(Array(4).fill("PENDING"));
  });

  test("is one run of cells when all went the same way", async () => {
    const good = await create();
    await workThrough(api.client, good.backfill_id, succeed);
    expect(await checkedStates(good)).toEqual(Array(10).fill("SUCCEEDED"));
    const bad = await create();
    await workThrough(api.client, bad.backfill_id, fail);
    expect(await checkedStates(bad)).toEqual(Array(10).fill("FAILED"));
    const { lengths } = await api.client.call("mapChunks", { params: bad });
    expect(lengths).toHaveLength(2);
  });

  test("shows what was never planned as pending while paused, and as cancelled after", async () => {
    const params = await create({ max_concurrent_runs: 1 });
    await api.client.call("pauseBackfill", { params, body: {} });
    await workOnce(api.client, succeed);
    expect(await checkedStates(params)).toContain("PENDING");
    await api.client.call("cancelBackfill", { params, body: {} });
    await expect.poll(() => checkedStates(params)).not.toContain("PENDING");
  });

  test("shows split chunks and the tiles that replace them", async () => {
    const params = await create({ assets: ["batches"], chunk_size: 8 });
    await workThrough(api.client, params.backfill_id, failOn(["2025-01-02", "2025-01-20"]));
    const states = await checkedStates(params);
    const map = await api.client.call("mapChunks", { params });
    expect(map.base_chunks).toBe(3);
    expect(states.slice(0, 3)).toEqual(["SPLIT", "SUCCEEDED", "SPLIT"]);
    expect(states.filter((state) => state === "FAILED")).toHaveLength(2);
    expect(states.length).toBeGreaterThan(map.total_chunks);
  });

  test("shows tiles that were never planned as cancelled when the backfill is", async () => {
    const params = await create({ assets: ["batches"], chunk_size: 8, max_concurrent_runs: 1 });
    await expect.poll(() => workOnce(api.client, fail)).toBe(1);
    await api.client.call("cancelBackfill", { params, body: { now: true } });
    const ended = async () => (await api.client.call("getBackfill", { params })).state;
    await expect.poll(ended).toBe("CANCELLED");
    const states = await checkedStates(params);
    expect(states[0]).toBe("SPLIT");
    const query = { status: "CANCELLED", limit: 200 };
    const { items } = await api.client.call("listChunks", { params, query });
    const cancelled = [...states.keys()].filter((index) => states[index] === "CANCELLED");
    expect(items.map(({ chunk_index }) => chunk_index)).toEqual(cancelled);
    const pending = { status: "PENDING", limit: 200 };
    expect((await api.client.call("listChunks", { params, query: pending })).items).toEqual([]);
  });

  test("refuses a backfill that is not there", async () => {
    for (const name of ["mapChunks", "listFailures"] as const) {
      await expect(
        api.client.call(name, { params: { backfill_id: "none" } }),
      ).rejects.toMatchObject({ code: "BACKFILL_NOT_FOUND" });
    }
  });
});

test("a list of chunks begins at any index, but not also at a cursor", async () => {
  const params = await create();
  const first = await api.client.call("listChunks", { params, query: { from: 4, limit: 2 } });
  expect(first.items.map(({ chunk_index }) => chunk_index)).toEqual([4, 5]);
  const cursor = first.next_cursor ?? "";
  const next = await api.client.call("listChunks", { params, query: { cursor, limit: 2 } });
  expect(next.items.map(({ chunk_index }) => chunk_index)).toEqual([6, 7]);
  await expect(
    api.client.call("listChunks", { params, query: { cursor, from: 4 } }),
  ).rejects.toMatchObject({ code: "INPUT_INVALID" });
  await api.client.call("cancelBackfill", { params, body: { now: true } });
});

describe("the keys of chunks", () => {
  test("stand in the list, with the run key and what failed", async () => {
    const params = await create({ chunk_size: 3, max_concurrent_runs: 1 });
    await workOnce(api.client, failOn(["2025-01-02", "2025-01-03"]));
    const { items } = await api.client.call("listChunks", { params, query: { limit: 200 } });
    expect(items[0]).toMatchObject({
      state: "FAILED",
      run_key: `backfill:${params.backfill_id}:chunk:0`,
      partition_count: 3,
      partition_keys: ["2025-01-01", "2025-01-02", "2025-01-03"],
      failed_partition_keys: ["2025-01-02", "2025-01-03"],
      partition_keys_cursor: null,
    });
    const run = await api.client.call("getRun", { params: { run_id: items[0]?.run_id ?? "" } });
    expect(run.run_key).toBe(items[0]?.run_key);
    expect(items.at(-1)).toMatchObject({
      state: "PENDING",
      run_key: `backfill:${params.backfill_id}:chunk:6`,
      partition_keys: ["2025-01-19", "2025-01-20"],
      failed_partition_keys: [],
    });
    const keys = items.flatMap(({ partition_keys }) => partition_keys);
    expect(keys).toEqual(Array.from({ length: 20 }, (_, day) => `2025-01-${two(day + 1)}`));
  });

  test("are bounded, and go on page by page, also only those that failed", async () => {
    const numbers = { type: "integers" as const, start: 0, end: 900, size: 1 };
    const spec = { kind: "asset" as const, asset_key: "numbers", partitions: numbers };
    await api.client.call("publishDefinitions", { body: { specs: [spec] } });
    const params = await create({ assets: ["numbers"], chunk_size: 450 });
    const [first] = (await api.client.call("listChunks", { params })).items;
    expect(first?.partition_count).toBe(450);
    const { partition_keys: keys = [], partition_keys_cursor: cursor } = first ?? {};
    expect(keys).toHaveLength(100);
    const chunk = { ...params, chunk_index: 0 };
    const rest: string[] = [];
    const query = { limit: 60, ...(cursor === null ? {} : { cursor }) };
    for await (const item of api.client.each("listChunkPartitions", { params: chunk, query })) {
      rest.push(item.partition_key);
    }
    expect(new Set([...keys, ...rest]).size).toBe(450);
    expect(rest).toHaveLength(350);

    const verdict = (key: string) => (Number(key) % 2 === 0 ? "even" : null);
    const verdicts = { assets: ["numbers"], verdict };
    while ((await workOnce(api.client, verdicts)) > 0);
    const failed: string[] = [];
    const only = { params: chunk, query: { limit: 100, outcome: "FAILED" } };
    for await (const item of api.client.each("listChunkPartitions", only)) {
      expect(item).toMatchObject({ failed: ["numbers"], cancelled: [], skipped: [] });
      failed.push(item.partition_key);
    }
    expect(failed).toHaveLength(225);
    const [ended] = (await api.client.call("listChunks", { params })).items;
    expect(ended?.failed_partition_keys).toEqual(failed.slice(0, 100));
    const none = api.client.call("listChunkPartitions", { params: { ...params, chunk_index: 2 } });
    await expect(none).rejects.toMatchObject({ code: "CHUNK_NOT_FOUND" });
  });

  test("have a share of what a page has room for, by their number and by their length", async () => {
    const numbers = { type: "integers" as const, start: 0, end: 8_000, size: 1 };
    const long = Array.from({ length: 2_000 }, (_, at) => `${at}-`.padEnd(190, "x"));
    const names = { type: "static" as const, keys: long };
    const specs = [
      { kind: "asset" as const, asset_key: "counted", partitions: numbers },
      { kind: "asset" as const, asset_key: "long", partitions: names },
    ];
    await api.client.call("publishDefinitions", { body: { specs } });
    const listed = async (asset: string, chunk_size: number) => {
      const params = await create({ assets: [asset], chunk_size });
      return api.client.call("listChunks", { params, query: { limit: 200 } });
    };
    const { items: counted } = await listed("counted", 40);
    expect(counted.map(({ partition_keys }) => partition_keys.length)).toEqual(
      Array<number>(200).fill(10),
    );
    const { items } = await listed("long", 100);
    const kept = items.flatMap(({ partition_keys }) => partition_keys);
    expect(kept).toEqual(long.slice(0, Math.floor(200_000 / 190)));
    // What has no room in the list is a page of the chunk away.
    const rest: string[] = [];
    for (const { backfill_id, chunk_index, partition_keys_cursor: cursor } of items) {
      if (cursor === null) continue;
      const behind = { params: { backfill_id, chunk_index }, query: { cursor, limit: 200 } };
      const page = await api.client.call("listChunkPartitions", behind);
      rest.push(...page.items.map(({ partition_key }) => partition_key));
    }
    expect(rest).toEqual(long.slice(kept.length));
  });

  test("are none of assets without partitions, and cancelled where a chunk never ran", async () => {
    const report = { kind: "asset" as const, asset_key: "report", partitions: null };
    await api.client.call("publishDefinitions", { body: { specs: [report] } });
    const whole = await create({ assets: ["report"] });
    const { items } = await api.client.call("listChunks", { params: whole });
    expect(items).toMatchObject([{ partition_count: 0, partition_keys: [] }]);
    const listed = { params: { ...whole, chunk_index: 0 } };
    expect(await api.client.call("listChunkPartitions", listed)).toMatchObject({ items: [] });

    const params = await create();
    await api.client.call("pauseBackfill", { params });
    await api.client.call("cancelBackfill", { params, body: { now: true } });
    const state = async () => (await api.client.call("getBackfill", { params })).state;
    await expect.poll(state).toBe("CANCELLED");
    const last = { params: { ...params, chunk_index: 9 }, query: { outcome: "CANCELLED" } };
    expect((await api.client.call("listChunkPartitions", last)).items).toMatchObject([
      { partition_key: "2025-01-19", cancelled: ["days"] },
      { partition_key: "2025-01-20", cancelled: ["days"] },
    ]);
  });
});

const two = (number: number) => String(number).padStart(2, "0");

describe("failures", () => {
  test("are grouped by what they have in common, the most frequent first", async () => {
    const params = await create({ chunk_size: 1 });
    const verdict = (key: string) => {
      if (key.endsWith("-07")) return `disk "d7" is full`;
      return key < "2025-01-05" ? `no rows for ${key}` : null;
    };
    await workThrough(api.client, params.backfill_id, all(verdict));
    const { items, complete } = await api.client.call("listFailures", { params });
    expect(complete).toBe(true);
    expect(items).toMatchObject([
      { error_class: "user", pattern: "no rows for …", runs: 4, tasks: 4 },
      { error_class: "user", pattern: 'disk "…" is full', message: 'disk "d7" is full', runs: 1 },
    ]);
    const [common, rare] = items;
    expect(rare?.example).toMatchObject({
      chunk_index: 6,
      asset_key: "days",
      partition_key: "2025-01-07",
    });
    const run_id = common?.example.run_id ?? "";
    const tasks = await api.client.call("listTasks", { params: { run_id } });
    const failed = tasks.items.find(({ task_key }) => task_key === common?.example.task_key);
    expect(failed).toMatchObject({ state: "FAILED", error: { message: common?.message } });
    expect(failed?.partition_keys).toEqual([common?.example.partition_key]);
  });

  test("are grouped by what each task failed with, not by the first failure of its run", async () => {
    const params = await create({ chunk_size: 100 });
    const verdict = (key: string) =>
      key < "2025-01-03" ? `disk ${key} is full` : `no rows for ${key}`;
    await workThrough(api.client, params.backfill_id, all(verdict));
    const { items, complete } = await api.client.call("listFailures", { params });
    expect(complete).toBe(true);
    const { partitions_total } = await api.client.call("getBackfill", { params });
    expect(items).toMatchObject([
      { pattern: "no rows for …", runs: 1, tasks: partitions_total - 2 },
      { pattern: "disk … is full", runs: 1, tasks: 2 },
    ]);
    for (const { example, message } of items) {
      expect(message).toContain(example.partition_key);
    }
  });

  test("of a batch are grouped by what each of its partitions failed with, in its last attempt", async () => {
    const params = await create({ assets: ["batches"], chunk_size: 100 });
    const worker = { worker_id: "hand", code_version: null };
    const failAll = async (final: boolean, messageOf: (key: string) => string | null) => {
      const lease_id = crypto.randomUUID();
      const claim = { ...worker, lease_id, slots: 1, assets: ["batches"], wait_ms: 1_000 };
      const [group] = (await api.client.call("claim", { body: claim })).groups;
      const [task] = group?.tasks ?? [];
      if (group === undefined || task === undefined) throw new Error("There is a task to take.");
      const exceptions = task.partition_keys.flatMap((key, index) => {
        const message = messageOf(key);
        if (message === null) return [];
        return [{ index, outcome: "FAILED" as const, error: { class: "user", message } }];
      });
      const { task_key, attempt } = task;
      const ended = { run_pos: group.run_pos, task_key, attempt, final, exceptions };
      const results = [{ ...ended, outcome: "SUCCEEDED" as const }];
      const body = { ...worker, results, released_leases: [lease_id] };
      await api.client.call("report", { body });
    };
    await failAll(false, (key) => (key < "2025-01-06" ? `${key} is locked` : null));
    api.jump(600_000);
    await failAll(true, (key) => {
      if (key < "2025-01-03") return `disk ${key} is full`;
      return key < "2025-01-05" ? `no rows for ${key}` : null;
    });
    expect(await api.client.call("getBackfill", { params })).toMatchObject({
      state: "FAILED",
      partitions_failed: 4,
    });
    const { items, complete } = await api.client.call("listFailures", { params });
    expect(complete).toBe(true);
    expect(items).toMatchObject([
      { pattern: "disk … is full", tasks: 1, example: { partition_key: "2025-01-01" } },
      { pattern: "no rows for …", tasks: 1, example: { partition_key: "2025-01-03" } },
    ]);
  });

  test("are looked for again when there are more", async () => {
    const params = await create({ chunk_size: 1, max_concurrent_runs: 1 });
    const failures = async () =>
      (await api.client.call("listFailures", { params })).items.map(({ runs }) => runs);
    expect(await failures()).toEqual([]);
    for (const failed of [1, 2]) {
      await expect.poll(() => workOnce(api.client, fail)).toBe(1);
      expect(await failures()).toEqual([failed]);
      expect(await failures()).toEqual([failed]);
    }
  });

  test("leave out partition keys, also those that are words", async () => {
    const params = await create({ assets: ["regions"], chunk_size: 1 });
    await workThrough(
      api.client,
      params.backfill_id,
      all((key) => `${key} is closed`),
    );
    const { items } = await api.client.call("listFailures", { params });
    expect(items).toMatchObject([{ pattern: "… is closed", runs: 2 }]);
  });

  test("of split chunks are those of their tiles", async () => {
    const params = await create({ assets: ["batches"], chunk_size: 8 });
    await workThrough(api.client, params.backfill_id, failOn(["2025-01-02"]));
    const { items } = await api.client.call("listFailures", { params });
    expect(items).toMatchObject([{ runs: 1, example: { partition_key: "2025-01-02" } }]);
  });

  test("are none when nothing failed", async () => {
    const params = await create();
    await workThrough(api.client, params.backfill_id, succeed);
    const { items, complete } = await api.client.call("listFailures", { params });
    expect({ items, complete }).toEqual({ items: [], complete: true });
  });
});

test("the retries of a backfill are listed by their parent", async () => {
  const params = await create();
  await workThrough(api.client, params.backfill_id, failOn(["2025-01-02"]));
  const { backfill_id } = await api.client.call("retryBackfill", {
    params,
    body: { retry_request_id: crypto.randomUUID(), allow_overlap: true },
  });
  const query = { parent_backfill_id: params.backfill_id };
  const { items } = await api.client.call("listBackfills", { query });
  expect(items.map((item) => item.backfill_id)).toEqual([backfill_id]);
});

describe("why", () => {
  const whyTypes = async (entity: string) => {
    const { items } = await api.client.call("explainEntity", { query: { entity } });
    return items.filter(({ type }) => type !== "BackfillStateChanged");
  };
  const ASKED = ["BackfillCreated", "BackfillChunkPlanned", "RunRequested", "RunStarted"];

  test("a partition is as it is: what asked for it, its chunk, its run, its task and the outcome", async () => {
    const { backfill_id } = await create({ chunk_size: 10 });
    await workThrough(api.client, backfill_id, { ...failOn(["2025-01-04"]), slots: 1 });
    for (const key of ["2025-01-02", "2025-01-04", "2025-01-20"]) {
      const story = await whyTypes(`days@${key}`);
      const types = story.map(({ type }) => type);
      expect(types.toSorted()).toEqual(
        [...ASKED, "RunFinished", "TasksFinished", "TasksStarted"].toSorted(),
      );
      const { data } = story.find(({ type }) => type === "TasksFinished") ?? {};
      expect(data).toMatchObject({ results: [{ partition_keys: [key] }] });
    }
  });

  test("a chunk is as it is: what asked for it, its run, what failed in it and the outcome", async () => {
    const { backfill_id } = await create({ chunk_size: 10 });
    await workThrough(api.client, backfill_id, { ...failOn(["2025-01-04"]), slots: 1 });
    const failed = await whyTypes(`${backfill_id}:0`);
    expect(failed.map(({ type }) => type)).toEqual([
      ...ASKED,
      "TasksStarted",
      "TasksFinished",
      "RunFinished",
    ]);
    expect(failed[5]?.data).toMatchObject({ results: [{ partition_keys: ["2025-01-04"] }] });
    const whole = await whyTypes(`${backfill_id}:1`);
    expect(whole.map(({ type }) => type)).toEqual([...ASKED, "RunFinished"]);
  });

  test("a tile of a split chunk is there", async () => {
    const { backfill_id } = await create({ assets: ["batches"], chunk_size: 8 });
    await workThrough(api.client, backfill_id, failOn(["2025-01-02"]));
    const { items } = await api.client.call("listChunks", { params: { backfill_id } });
    const tile = items.findLast(({ state }) => state === "FAILED");
    const story = await whyTypes(`${backfill_id}:${tile?.chunk_index}`);
    expect(story.map(({ type }) => type)).toContain("BackfillChunkSplit");
    expect(story.filter(({ type }) => type === "TasksFinished")).toHaveLength(1);
  });
});
