import { describe, expect, test } from "vitest";
import type { Operation } from "./operation.ts";
import { OPERATIONS } from "./operations.ts";

const operations = Object.entries(OPERATIONS) as [string, Operation][];

describe("OPERATIONS", () => {
  test("names each method and path once", () => {
    const routes = operations.map(([, { method, path }]) => `${method} ${path}`);
    expect(new Set(routes).size).toBe(routes.length);
  });

  test.each(operations)("%s takes the parameters that its path names", (_name, operation) => {
    const named = [...operation.path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name);
    expect(new Set(Object.keys(operation.params?.shape ?? {}))).toEqual(new Set(named));
  });

  test.each(operations)("%s reads with GET, and creates under a key", (_name, operation) => {
    const { method, body, creates, keyField } = operation;
    if (method === "GET" || method === "DELETE") expect(body).toBeUndefined();
    if (keyField !== undefined) expect(creates).toBe(true);
  });

  test("fills in the defaults of a backfill", () => {
    const body = { assets: ["a"], selector: { type: "all" } };
    expect(OPERATIONS.createBackfill.body.parse(body)).toMatchObject({
      chunk_size: 10,
      max_concurrent_runs: 2,
      order: "ascending",
      priority: 0,
      allow_overlap: false,
    });
  });

  test("takes the assets under one of their two names", () => {
    const { body } = OPERATIONS.createBackfill;
    const selector = { type: "all" };
    expect(body.safeParse({ asset_selection: ["a"], selector }).success).toBe(true);
    expect(body.safeParse({ selector }).success).toBe(false);
    expect(body.safeParse({ assets: ["a"], asset_selection: ["a"], selector }).success).toBe(false);
  });

  test("reads lists and instants from a query", () => {
    const { query } = OPERATIONS.listRuns;
    const since = "2026-01-31T08:00:00+02:00";
    expect(query.parse({ status: "FAILED,RUNNING", since, limit: "7" as never })).toMatchObject({
      status: ["FAILED", "RUNNING"],
      since: "2026-01-31T06:00:00.000Z",
      limit: 7,
    });
    expect(query.safeParse({ since: "2026-02-30" }).success).toBe(false);
  });
});

test.each(["planSplit", "changeRouting"] as const)("%s takes any tenant but __proto__", (name) => {
  const { body } = OPERATIONS[name];
  const given = (tenant: string) =>
    body.safeParse(
      name === "planSplit"
        ? { source: "a", target: "b", tenants: [tenant] }
        : { routes: [{ tenant, shard: "a" }] },
    );
  for (const tenant of ["constructor", "toString", "hasOwnProperty", "proto"]) {
    expect(given(tenant).success).toBe(true);
  }
  expect(given("__proto__").error?.issues[0]?.message).toMatch(
    /must not be __proto__.*another name/,
  );
});
