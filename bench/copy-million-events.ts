import { copyFileSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { createBackfill } from "../src/work/backfill/create.ts";
import { publishDefinitions } from "../src/work/definition/publish.ts";
import { CreateBackfillBody } from "../src/work/backfill/api.ts";
import { CLAIM_SLOTS_MAX } from "../src/work/run/protocol.ts";
import { Engine } from "../src/engine/engine.ts";
import { machineEnvironment } from "../src/engine/config.ts";
import { openSqliteStore } from "../src/store/sqlite/store.ts";
import type { Bench } from "./benchmark.ts";
import { project } from "./project.ts";

const WHO = { actor: { principal: "bench", token_id: null }, correlationId: "bench" };
/** Claims under way at once. */
const CLAIMERS = 2;

/** The folder of the ledger that was made, which several benchmarks copy. */
let made: string | null = null;

/**
 * Puts a ledger of at least a million events at the path: a backfill of single no-op tasks in
 * chunks of 10, unfinished, run without a network.
 */
export async function copyMillionEvents(bench: Bench, path: string): Promise<void> {
  if (made === null) {
    const folder = mkdtempSync(join(tmpdir(), "pawl-bench-ledger-"));
    process.once("exit", () => rmSync(folder, { recursive: true, force: true }));
    bench.say("making a ledger of a million events");
    await makeLedger(bench, join(folder, "ledger.sqlite"), 1_000_000);
    made = folder;
  }
  copyFileSync(join(made, "ledger.sqlite"), path);
}

async function makeLedger(bench: Bench, path: string, events: number): Promise<void> {
  const store = await openSqliteStore({ path, clock: Date.now });
  const engine = await Engine.open({
    store,
    tenantId: "default",
    workspaceId: "default",
    environment: machineEnvironment((message, details) =>
      bench.say(`${message} ${JSON.stringify(details)}`),
    ),
  });
  await engine.submit(
    publishDefinitions({ origin: "code", specs: [...project.specs], prune: true }),
    WHO,
  );
  const body = CreateBackfillBody.parse({
    assets: ["ledger"],
    selector: { type: "all" },
    max_concurrent_runs: 100,
  });
  await engine.submit(
    createBackfill({ ...body, assets: ["ledger"], client_request_id: "ledger" }),
    WHO,
  );
  engine.start();
  await Promise.all(Array.from({ length: CLAIMERS }, (_, index) => work(engine, index, events)));
  await engine.stop();
  await store.close();
}

async function work(engine: Engine, index: number, events: number): Promise<void> {
  const worker_id = `bench:${index}`;
  for (let claim = 0; engine.status().pos < events; claim++) {
    const lease_id = `${worker_id}:${claim}`;
    const { groups } = await engine.claim({
      worker_id,
      lease_id,
      slots: CLAIM_SLOTS_MAX,
      assets: ["ledger"],
      code_version: null,
      wait_ms: 1_000,
    });
    const results = groups.flatMap(({ run_pos, tasks }) =>
      tasks.map(({ task_key, attempt }) => {
        return { run_pos, task_key, attempt, outcome: "SUCCEEDED" as const };
      }),
    );
    const report = { worker_id, code_version: null, results, released_leases: [lease_id] };
    if (results.length > 0) await engine.report(report);
  }
}
