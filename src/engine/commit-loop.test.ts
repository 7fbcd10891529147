import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { freshDatabaseUrl } from "../../test/postgres.ts";
import { createBackfill } from "../work/backfill/create.ts";
import type { Decide } from "../work/decision.ts";
import { publishDefinitions } from "../work/definition/publish.ts";
import { requestRun } from "../work/run/request.ts";
import { PawlError } from "../kernel/errors.ts";
import { Spec } from "../work/definition/published-spec.ts";
import { openPostgresStore } from "../store/postgres/store.ts";
import { openSqliteStore } from "../store/sqlite/store.ts";
import type { Flush, Store, Transaction } from "../store/store.ts";
import { Engine } from "./engine.ts";
import { machineEnvironment } from "./config.ts";

const ACTOR = { actor: { principal: "ann", token_id: null }, correlationId: "test" };
/** So many tasks, each of so many partitions. */
const TASKS = 60;
const PARTITIONS = 10_000;
/** What the events of a commit of the whole size may come to, with one decision more in each of its stages. */
const BYTES_MAX = 8_000_000;

let store: Store;
let engine: Engine;
let warnings: string[];
/** Characters in the bodies of the events that each commit wrote. */
let flushed: number[];

/** The same store, of which every flush is counted. */
function counted(real: Store): Store {
  const transact: Store["transact"] = (ws, body, options) => {
    const counting = (transaction: Transaction) => {
      const flush = transaction.flush.bind(transaction);
      transaction.flush = (written: Flush) => {
        flushed.push(written.events.reduce((sum, { data }) => sum + data.length, 0));
        return flush(written);
      };
      return body(transaction);
    };
    return real.transact(ws, counting, options);
  };
  return new Proxy(real, {
    get: (target, name) => {
      if (name === "transact") return transact;
      const value: unknown = Reflect.get(target, name);
      return typeof value === "function" ? (value.bind(target) as unknown) : value;
    },
  });
}

async function open(real: Store): Promise<void> {
  flushed = [];
  warnings = [];
  store = counted(real);
  const environment = machineEnvironment((message) => warnings.push(message));
  // Leases that outlive all this on any machine: nobody renews them here.
  const leaseMs = 600_000;
  engine = await Engine.open({ store, tenantId: "t", workspaceId: "w", environment, leaseMs });
  const partitions = { type: "integers", start: 0, end: TASKS * PARTITIONS };
  const specs = [
    Spec.parse({ kind: "asset", asset_key: "batch", batch: true, partitions }),
    Spec.parse({ kind: "asset", asset_key: "small", partitions: null }),
  ];
  await engine.submit(publishDefinitions({ origin: "code", specs, prune: false }), ACTOR);
  engine.start();
}

afterEach(async () => {
  await engine.stop();
  await store.close();
});

/** Claims until all tasks run. */
async function claimAll(): Promise<{ run_pos: number; task_key: number; attempt: number }[]> {
  const refs: { run_pos: number; task_key: number; attempt: number }[] = [];
  for (let claims = 0; refs.length < TASKS; claims++) {
    const { groups } = await engine.claim({
      worker_id: "w",
      lease_id: `lease-${claims}`,
      slots: TASKS,
      assets: ["batch"],
      code_version: null,
      wait_ms: 1_000,
    });
    for (const { run_pos, tasks } of groups) {
      for (const { task_key, attempt } of tasks) refs.push({ run_pos, task_key, attempt });
    }
  }
  return refs;
}

describe("a report of more partitions than a commit holds", () => {
  beforeEach(async () => open(await openSqliteStore({ path: ":memory:", clock: Date.now })));

  test("I76: is recorded commit by commit, with the commands that come meanwhile between", async () => {
    const backfill = createBackfill({
      client_request_id: "r",
      assets: ["batch"],
      selector: { type: "all" },
      chunk_size: PARTITIONS,
      max_concurrent_runs: TASKS,
      order: "ascending",
      priority: 0,
      allow_overlap: false,
      continue_on_failure: false,
    });
    await engine.submit(backfill, ACTOR);
    const refs = await claimAll();
    flushed = [];
    const results = refs.map((ref) => ({ ...ref, outcome: "SUCCEEDED" as const }));
    const request = { worker_id: "w", code_version: null, results, released_leases: [] };
    let isReported = false;
    const report = engine.report(request).finally(() => (isReported = true));
    await engine.submit(requestRun({ request_id: "now", assets: ["small"] }), ACTOR);
    const wasServedBefore = !isReported;
    const verdicts = await report;

    expect(wasServedBefore).toBe(true);
    expect(verdicts.results).toEqual(results.map(() => "recorded"));
    const keys = TASKS * PARTITIONS * `"${TASKS * PARTITIONS}",`.length * 0.9;
    expect(flushed.reduce((sum, bytes) => sum + bytes, 0)).toBeGreaterThan(keys);
    expect(flushed.length).toBeGreaterThan(1);
    expect(Math.max(...flushed)).toBeLessThan(keys * 0.9);
    expect(Math.max(...flushed)).toBeLessThan(BYTES_MAX);
    expect(warnings).toEqual([]);
  });
});

describe("a decision that takes longer than PostgreSQL waits", () => {
  beforeEach(async () => open(await openPostgresStore({ url: await freshDatabaseUrl() })));

  test("I76: is recorded in the end, as after failed commits one may take longer", async () => {
    const decide = requestRun({ request_id: "slow", assets: ["small"] });
    const slow: typeof decide = (rows, context) => {
      const decision = decide(rows, context);
      const until = performance.now() + 2_500;
      while (performance.now() < until);
      return decision;
    };
    const codes: string[] = [];
    for (let tries = 0; tries < 3; tries++) codes.push(await outcomeOf(slow));

    expect(codes.at(-1)).toBe("recorded");
    expect(codes.slice(0, -1).every((code) => code === "STORE_UNAVAILABLE")).toBe(true);
    const runs = await engine.evaluate((rows) => ({
      events: [],
      result: rows.runs.find([], [{ cell: "run_pos" }], 10).length,
    }));
    expect(runs.result).toBe(1);
  });
});

/** What becomes of a decision: its code when it is refused. */
async function outcomeOf(decide: Decide<unknown>): Promise<string> {
  try {
    await engine.submit(decide, ACTOR);
    return "recorded";
  } catch (error) {
    if (error instanceof PawlError) return error.code;
    throw error;
  }
}
