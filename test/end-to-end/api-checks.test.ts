import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Client } from "../../src/client/client.ts";
import type { PartInput } from "../../src/work/operations.ts";
import { type Api, publish, startApi } from "./api-server.ts";

type Result = PartInput<"report", "body">["results"][number];
type Checks = NonNullable<Result["checks"]>;

let api: Api;
let client: Client;

beforeEach(async () => {
  api = await startApi();
  ({ client } = api);
  await publish(client);
  const body = { keys: ["a", "b", "c"] };
  await client.call("addPartitionKeys", { params: { asset_key: "tenants" }, body });
});

afterEach(() => api.close());

const passed = { name: "rows", severity: "fail", passed: true } as const;
const failed = { ...passed, passed: false, message: "no rows", metadata: { rows: 0 } };
const warned = { name: "late", severity: "warn", passed: false } as const;
const error = { class: "user", message: "no connection" };

/** Makes a partition with what its checks found; answers the run. */
async function make(key: string, checks: Checks | undefined): Promise<string> {
  const wish = { assets: ["tenants"], partition_keys: [key] };
  const { run_id } = await client.call("requestRun", { body: wish });
  const lease_id = crypto.randomUUID();
  const claim = { worker_id: "w", lease_id, slots: 1, wait_ms: 5_000, code_version: null };
  const { groups } = await client.call("claim", { body: { ...claim, assets: ["tenants"] } });
  const results = groups.flatMap(({ run_pos, tasks }) =>
    tasks.map(({ task_key, attempt }): Result => {
      const ref = { run_pos, task_key, attempt };
      return { ...ref, outcome: "SUCCEEDED", ...(checks === undefined ? {} : { checks }) };
    }),
  );
  const body = { worker_id: "w", code_version: null, results, released_leases: [lease_id] };
  await client.call("report", { body });
  return run_id;
}

const params = { asset_key: "tenants" };

describe("checks of partitions", () => {
  test("I94: are shown with the partition and its task, by what they came to", async () => {
    const run = await make("a", [passed, failed, warned]);
    await make("b", [passed, { ...warned, error }]);
    await make("c", [passed]);
    const { items } = await client.call("listAssetPartitions", { params, query: {} });
    expect(items).toMatchObject([
      {
        partition_key: "a",
        status: "MATERIALIZED",
        check_status: "FAILED",
        failed_checks: [
          {
            name: "rows",
            severity: "fail",
            message: "no rows",
            metadata: { rows: 0 },
            error: null,
          },
          { name: "late", severity: "warn", message: null, metadata: null, passed: false },
        ],
      },
      { partition_key: "b", check_status: "WARNED", failed_checks: [{ name: "late", error }] },
      { partition_key: "c", check_status: "PASSED", failed_checks: [] },
    ]);
    const of = async (checks: string) => {
      const query = { checks, asset: "tenants" };
      const own = await client.call("listAssetPartitions", { params, query: { checks } });
      const tried = await client.call("listPartitions", { query });
      expect(tried.items.map(({ partition_key }) => partition_key).toSorted()).toEqual(
        own.items.map(({ partition_key }) => partition_key),
      );
      return own.items.map(({ partition_key }) => partition_key);
    };
    expect(await of("FAILED")).toEqual(["a"]);
    expect(await of("FAILED,WARNED")).toEqual(["a", "b"]);
    expect(await of("PASSED")).toEqual(["c"]);
    const wrong = client.call("listPartitions", { query: { checks: "wrong" } });
    await expect(wrong).rejects.toMatchObject({ code: "INPUT_INVALID" });
    const task = await client.call("getTask", { params: { run_id: run, task_key: 0 } });
    expect(task.attempts).toMatchObject([{ check_status: "FAILED" }]);
    expect(task.checks).toMatchObject([
      { name: "rows", passed: true, partition_count: 1, partition_keys: ["a"] },
      { name: "rows", passed: false },
      { name: "late", passed: false },
    ]);
  });

  test("I94: are those of the last materialization, none where it had none", async () => {
    await make("a", [failed]);
    await make("a", undefined);
    const query = { limit: 1 };
    const one = await client.call("listAssetPartitions", { params, query });
    expect(one.items).toMatchObject([{ check_status: null, failed_checks: [] }]);
  });

  test.each<[string, Checks, string]>([
    ["a name that is none", [{ ...passed, name: "a b" }], "checks.0.name"],
    ["a message that is too long", [{ ...failed, message: "x".repeat(1_001) }], "message"],
    ["metadata that is too long", [{ ...failed, metadata: "x".repeat(2_001) }], "metadata"],
    ["none at all", [], "checks"],
    [
      "more than there is room for",
      Array.from({ length: 100 }, (_, n) => ({ ...failed, metadata: `${n}`.repeat(900) })),
      "64000",
    ],
    [
      "more about a partition than an asset may have checks",
      Array.from({ length: 51 }, () => passed),
      "50 results",
    ],
    [
      "stretches that say a partition more often than that",
      [{ ...failed, partitions: Array.from({ length: 51 }, (): [number, number] => [0, 9_999]) }],
      "50 results",
    ],
  ])("are refused with %s", async (_name, checks, reason) => {
    const refused = make("a", checks);
    await expect(refused).rejects.toMatchObject({ code: "INPUT_INVALID" });
    await expect(refused).rejects.toThrow(reason);
  });

  test("I61, I94: are about no partitions but the task's, whatever a worker says", async () => {
    const partitions: [number, number][] = [
      [7, 3],
      [1, Number.MAX_SAFE_INTEGER],
      [0, Number.MAX_SAFE_INTEGER],
    ];
    const run = await make("a", [
      { ...failed, partitions },
      { ...warned, partitions: [[1, 5]] },
    ]);
    const task = await client.call("getTask", { params: { run_id: run, task_key: 0 } });
    expect(task.checks).toMatchObject([
      { name: "rows", partition_count: 1, partition_keys: ["a"] },
      { name: "late", partition_count: 0, partition_keys: [] },
    ]);
    const { items } = await client.call("listAssetPartitions", { params, query: { limit: 1 } });
    expect(items).toMatchObject([{ check_status: "FAILED", failed_checks: [{ name: "rows" }] }]);
  });
});

/** A batch of many partitions that checks did not pass, with much to say of each. */
describe("checks of many partitions at once", () => {
  const COUNT = 500;
  const asset_key = "numbers";

  test("I64, I94: make no page long: where there is no room left, only the verdict is shown", async () => {
    const partitions = { type: "integers" as const, start: 1, end: COUNT };
    const spec = { kind: "asset" as const, asset_key, batch: true, partitions };
    await client.call("publishDefinitions", { body: { specs: [spec] } });
    const selector = { type: "all" as const };
    await client.call("createBackfill", {
      body: { assets: [asset_key], selector, chunk_size: COUNT },
    });
    const claim = { worker_id: "w", lease_id: "l", slots: 1, wait_ms: 5_000, code_version: null };
    const { groups } = await client.call("claim", { body: { ...claim, assets: [asset_key] } });
    const [group] = groups;
    const [task] = group?.tasks ?? [];
    if (group === undefined || task === undefined) throw new Error("Nothing was claimed.");
    const checks = Array.from({ length: 50 }, (_, n) => {
      return { ...failed, name: `c${n}`, message: "x".repeat(1_000) };
    });
    const { task_key, attempt } = task;
    const outcome = "SUCCEEDED" as const;
    const result = { run_pos: group.run_pos, task_key, attempt, outcome, checks };
    const body = { worker_id: "w", code_version: null, results: [result], released_leases: ["l"] };
    await client.call("report", { body });

    const query = { limit: 200 };
    const { items } = await client.call("listAssetPartitions", { params: { asset_key }, query });
    expect(JSON.stringify(items).length).toBeLessThan(4_100_000);
    expect(new Set(items.map(({ check_status }) => check_status))).toEqual(new Set(["FAILED"]));
    expect(items[0]?.failed_checks).toHaveLength(50);
  });
});
