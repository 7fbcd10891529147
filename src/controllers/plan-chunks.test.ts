import { describe, expect, test } from "vitest";
import { LedgerWorld } from "../../test/properties/ledger-world.ts";
import type { FailureLimit } from "../core/rows/backfill-rows.ts";
import { DEFAULT_RETRY } from "../core/spec.ts";
import { createBackfill } from "./create-backfill.ts";

const KEYS = { type: "static", keys: ["1", "2", "3", "4"] };
const ERROR = { class: "error", message: "broken" };

function create(world: LedgerWorld, chunk_size: number, failure_limit: FailureLimit): void {
  world.submit(
    createBackfill({
      client_request_id: "r",
      assets: ["a", "b"],
      selector: { type: "all" },
      chunk_size,
      max_concurrent_runs: 1,
      order: "ascending",
      priority: 0,
      failure_limit,
      allow_overlap: false,
      continue_on_failure: false,
      retry: { ...DEFAULT_RETRY, max_attempts: 1 },
    }),
  );
  world.settle();
}

/** Claims the tasks of an asset and reports them all alike. */
function report(world: LedgerWorld, asset: string, outcome: "FAILED" | "SUCCEEDED"): void {
  for (const { run_pos, tasks } of world.claim([asset])) {
    for (const { task_key, attempt } of tasks) {
      const ref = { run_pos, task_key, attempt };
      world.report(outcome === "FAILED" ? { ...ref, outcome, error: ERROR } : { ...ref, outcome });
    }
  }
  world.settle();
}

describe("planChunks", () => {
  test("ends a backfill whose last chunk reaches the failure limit, as there is nothing to pause", () => {
    const world = new LedgerWorld();
    world.publish({ asset_key: "a", partitions: KEYS }, { asset_key: "b", partitions: KEYS });
    create(world, 4, { count: 1 });
    report(world, "a", "FAILED");
    report(world, "b", "FAILED");
    expect(world.backfills()[0]?.state).toBe("FAILED");
  });

  test("pauses at the failure limit while chunks are left", () => {
    const world = new LedgerWorld();
    world.publish({ asset_key: "a", partitions: KEYS }, { asset_key: "b", partitions: KEYS });
    create(world, 1, { count: 1 });
    report(world, "a", "FAILED");
    expect(world.backfills()[0]?.state).toBe("PAUSED");
  });

  test("does not count the failures of a batch that is about to be split", () => {
    const world = new LedgerWorld();
    world.publish(
      { asset_key: "a", partitions: KEYS, batch: true, bisect: true },
      { asset_key: "b", partitions: KEYS },
    );
    create(world, 2, { count: 2 });
    report(world, "a", "FAILED");
    expect(world.backfills()[0]?.partitions_failed).toBe(2);
    expect(world.backfills()[0]?.state).toBe("RUNNING");

    report(world, "b", "SUCCEEDED");
    expect(world.backfills()[0]).toMatchObject({ state: "RUNNING", partitions_failed: 0 });

    // The tiles are single partitions: what fails now has failed for good.
    report(world, "a", "FAILED");
    report(world, "a", "FAILED");
    expect(world.backfills()[0]).toMatchObject({ state: "PAUSED", partitions_failed: 2 });
  });
});
