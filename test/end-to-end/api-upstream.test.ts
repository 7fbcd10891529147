import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import type { Client } from "../../src/client/client.ts";
import type { PartInput } from "../../src/work/operations.ts";
import type { TaskRef } from "../../src/work/run/protocol.ts";
import { freshDatabaseUrl } from "../postgres.ts";
import { type Api, startApi, type TokenClient } from "./api-server.ts";

/** For a signal that comes soon, but not on a machine that is busy. */
const WAIT = { interval: 10, timeout: 600_000 };

const days = { type: "daily", start: "2025-01-01", end: "2025-03-01" } as const;
const months = { type: "monthly", start: "2025-01", end: "2025-03" } as const;
const asset = (asset_key: string, more: object) => ({ kind: "asset", asset_key, ...more });
const window = { type: "time_window" };
const SPECS = [
  asset("orders", { partitions: days, code_version: "v1" }),
  asset("settings", { partitions: null }),
  asset("tenants", { partitions: { type: "dynamic", name: "tenants" } }),
  asset("report", {
    partitions: months,
    upstream: [
      { asset_key: "orders", mapping: window },
      { asset_key: "settings", mapping: { type: "all" } },
    ],
  }),
  asset("letters", {
    partitions: months,
    batch: true,
    upstream: [{ asset_key: "orders", mapping: window }],
  }),
  asset("mirror", {
    partitions: { type: "dynamic", name: "tenants" },
    upstream: [{ asset_key: "tenants", mapping: { type: "identity" } }],
  }),
];

describe.each(["SQLite", "PostgreSQL"])("what a task is told of its upstream, on %s", (kind) => {
  let api: Api;
  let admin: TokenClient;
  let mine: TokenClient;
  let other: TokenClient;
  let leases = 0;

  beforeAll(async () => {
    const database = kind === "SQLite" ? {} : { databaseUrl: await freshDatabaseUrl() };
    api = await startApi({ tokensRequired: true, ...database });
    admin = await api.clientOf(0, ["read", "write", "admin"], "ann");
    mine = await api.clientOf(0, ["work"], "fleet");
    other = await api.clientOf(0, ["work"], "fleet");
    const body = { specs: SPECS } as unknown as PartInput<"publishDefinitions", "body">;
    await admin.call("publishDefinitions", { body });
  });

  afterAll(() => api.close());

  /** Has a run asked for, and its one task claimed. */
  async function claimed(name: string, keys?: string[]): Promise<TaskRef & { lease_id: string }> {
    const partitions = keys === undefined ? {} : { partition_keys: keys };
    await admin.call("requestRun", { body: { assets: [name], ...partitions } });
    const lease_id = `lease-${++leases}`;
    const body = { worker_id: "w", lease_id, slots: 1, code_version: null, wait_ms: 10_000 };
    return vi.waitFor(async () => {
      const { groups } = await mine.call("claim", { body: { ...body, assets: [name] } });
      const [group] = groups;
      const [task] = group?.tasks ?? [];
      if (group === undefined || task === undefined) throw new Error("nothing to claim");
      const { task_key, attempt } = task;
      return { run_pos: group.run_pos, task_key, attempt, lease_id };
    }, WAIT);
  }

  async function ended(task: TaskRef & { lease_id: string }, end: object): Promise<void> {
    const { lease_id, ...ref } = task;
    const results = [{ ...ref, ...end }] as PartInput<"report", "body">["results"];
    const body = { worker_id: "w", code_version: "v1", results, released_leases: [lease_id] };
    await mine.call("report", { body });
  }

  type More = { partition_key?: string; limit?: number; cursor?: string };

  function upstream(
    { run_pos, task_key, attempt }: TaskRef,
    asset_key: string,
    more: More = {},
    client: Client = mine,
  ) {
    const ref = { run_pos, task_key, attempt };
    return client.call("upstream", { body: { ...ref, asset_key, ...more } });
  }

  test("I91: is what its mapping names, with status, time, run, code and metadata, page by page", async () => {
    const made = await claimed("orders", ["2025-01-02"]);
    await ended(made, { outcome: "SUCCEEDED", metadata: { rows: 7 } });
    const failed = await claimed("orders", ["2025-01-03"]);
    await ended(failed, {
      outcome: "FAILED",
      final: true,
      error: { class: "user", message: "no" },
    });
    const running = await claimed("orders", ["2025-01-04"]);
    const task = await claimed("report", ["2025-01"]);

    const { items, total, next_cursor } = await upstream(task, "orders");

    expect([items.length, total, next_cursor]).toEqual([31, 31, null]);
    const nothing = {
      last_materialization_at: null,
      last_materialization_run_id: null,
      last_materialization_code_version: null,
      metadata: null,
    };
    expect(items.slice(0, 4)).toEqual([
      { partition_key: "2025-01-01", status: "NEVER_MATERIALIZED", ...nothing },
      {
        partition_key: "2025-01-02",
        status: "MATERIALIZED",
        last_materialization_at: expect.stringMatching(/^20\d\d-.*Z$/),
        last_materialization_run_id: expect.stringMatching(/^run_/),
        last_materialization_code_version: "v1",
        metadata: { rows: 7 },
      },
      { partition_key: "2025-01-03", status: "FAILED", ...nothing },
      { partition_key: "2025-01-04", status: "IN_PROGRESS", ...nothing },
    ]);
    const keys: string[] = [];
    for (let cursor: string | null = ""; cursor !== null; ) {
      const page: Awaited<ReturnType<typeof upstream>> = await upstream(task, "orders", {
        limit: 10,
        ...(cursor === "" ? {} : { cursor }),
      });
      keys.push(...page.items.map(({ partition_key }) => partition_key));
      cursor = page.next_cursor;
    }
    expect(keys).toEqual(items.map(({ partition_key }) => partition_key));
    expect((await upstream(task, "settings")).items).toEqual([
      { partition_key: "", status: "NEVER_MATERIALIZED", ...nothing },
    ]);
    await ended(running, { outcome: "SUCCEEDED" });
    await ended(task, { outcome: "SUCCEEDED" });
  });

  test("I91: is of all partitions of a batch, or of the one that is asked for", async () => {
    const task = await claimed("letters", ["2025-01", "2025-02"]);
    const { items, total } = await upstream(task, "orders");
    expect([total, items.at(0)?.partition_key, items.at(-1)?.partition_key]).toEqual([
      59,
      "2025-01-01",
      "2025-02-28",
    ]);
    const one = await upstream(task, "orders", { partition_key: "2025-02" });
    expect([one.total, one.items[0]?.partition_key]).toEqual([28, "2025-02-01"]);
    await expect(upstream(task, "orders", { partition_key: "2025-07" })).rejects.toMatchObject({
      code: "INPUT_INVALID",
      message: `"2025-07" is not one of this task's partitions, such as 2025-01.`,
    });
    await ended(task, { outcome: "SUCCEEDED" });
  });

  test("I91: is told only to the attempt that holds the task", async () => {
    const task = await claimed("report", ["2025-01"]);
    const lost = { code: "LEASE_LOST" };
    await expect(upstream(task, "orders", {}, other)).rejects.toMatchObject(lost);
    await expect(upstream({ ...task, attempt: 2 }, "orders")).rejects.toMatchObject(lost);
    await expect(upstream({ ...task, task_key: 9 }, "orders")).rejects.toMatchObject(lost);
    await expect(upstream({ ...task, run_pos: 9_999 }, "orders")).rejects.toMatchObject(lost);
    await expect(upstream(task, "orders", {}, admin)).rejects.toMatchObject({ code: "FORBIDDEN" });
    await ended(task, { outcome: "SUCCEEDED" });
    await expect(upstream(task, "orders")).rejects.toMatchObject(lost);
  });

  test("refuses an asset that is not upstream, naming those that are", async () => {
    const task = await claimed("report", ["2025-01"]);
    const refused = { code: "INPUT_INVALID" };
    await expect(upstream(task, "order")).rejects.toMatchObject({
      ...refused,
      message:
        '"order" is not an upstream asset of report (perhaps orders is meant): those are orders, settings.',
    });
    await expect(upstream(task, "report")).rejects.toMatchObject(refused);
    await expect(upstream(task, "a b")).rejects.toMatchObject(refused);
    await expect(upstream(task, "orders", { limit: 0 })).rejects.toMatchObject(refused);
    await expect(upstream(task, "orders", { limit: 201 })).rejects.toMatchObject(refused);
    await expect(upstream(task, "orders", { cursor: "no" })).rejects.toMatchObject(refused);
    await ended(task, { outcome: "SUCCEEDED" });
    const settings = await claimed("settings");
    await expect(upstream(settings, "orders")).rejects.toMatchObject({
      ...refused,
      message: '"orders" is not an upstream asset of settings: it has no upstream assets.',
    });
    await expect(upstream(settings, "orders", { partition_key: "x" })).rejects.toMatchObject({
      message: `"x" is not one of this task's partitions: it has none.`,
    });
    await ended(settings, { outcome: "SUCCEEDED" });
  });

  test("refuses a partition that was removed while its task ran", async () => {
    const params = { asset_key: "tenants" };
    const keys = ["acme", "globex"];
    await admin.call("addPartitionKeys", { params, body: { keys } });
    const task = await claimed("mirror", ["acme"]);
    const { items } = await upstream(task, "tenants");
    expect(items.map(({ partition_key }) => partition_key)).toEqual(["acme"]);
    await admin.call("removePartitionKeys", { params, body: { keys: ["acme"] } });
    await expect(upstream(task, "tenants")).rejects.toMatchObject({ code: "PARTITION_INVALID" });
    await ended(task, { outcome: "SUCCEEDED" });
  });
});
