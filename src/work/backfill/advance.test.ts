import { describe, expect, test } from "vitest";
import { LedgerWorld } from "../../../test/properties/ledger-world.ts";
import type { FailureLimit } from "./rows.ts";
import { DEFAULT_RETRY } from "../definition/spec.ts";
import { createBackfill } from "./create.ts";
import { planChunks } from "./advance.ts";

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
  test("I76: plans as many chunks as one decision has room for, at least one, and goes on from there", () => {
    const keys = Array.from({ length: 40 }, (_, index) => `k${index}`);
    const wish = {
      client_request_id: "r",
      assets: ["a"],
      selector: { type: "all" },
      chunk_size: 4,
      max_concurrent_runs: 100,
      order: "ascending",
      priority: 0,
      allow_overlap: false,
      continue_on_failure: false,
    } as const;
    const planned = (rowsMax: number, bytesMax: number): number[] => {
      const world = new LedgerWorld();
      world.room = { rows: rowsMax, bytes: bytesMax };
      world.publish({ asset_key: "a", partitions: { type: "static", keys } });
      world.submit(createBackfill(wish));
      const perDecision: number[] = [];
      for (;;) {
        const before = world.runs().length;
        const [backfill] = world.backfills();
        if (backfill === undefined) throw new Error("There is no backfill.");
        const pos = world.pos;
        world.record(world.read((rows) => planChunks(rows, backfill, world.context())));
        if (world.pos === pos) return perDecision;
        const added = world.runs().length - before;
        if (added > 0) perDecision.push(added);
      }
    };
    expect(planned(1, 1)).toEqual(Array.from({ length: 10 }, () => 1));
    expect(planned(25, 1_000_000)).toEqual([3, 3, 3, 1]);
    expect(planned(1_000_000, 25)).toEqual([3, 3, 3, 1]);
    expect(planned(1_000_000, 1_000_000)).toEqual([10]);
  });

  test("I76: pauses at a chunk that is larger than anything recorded, and says why", () => {
    const world = new LedgerWorld();
    // Creation looks at the first chunk, the middle one and the last; this is the second.
    const keys = Array.from({ length: 35_000 }, (_, index) =>
      index >= 7_000 && index < 14_000 ? String(index).padStart(450, "-") : String(index),
    );
    world.publish({ asset_key: "a", batch: true, partitions: { type: "static", keys } });
    const backfill = createBackfill({
      client_request_id: "r",
      assets: ["a"],
      selector: { type: "all" },
      chunk_size: 7_000,
      max_concurrent_runs: 10,
      order: "ascending",
      priority: 0,
      allow_overlap: false,
      continue_on_failure: false,
    });
    world.submit(backfill);
    world.settle();

    expect(world.runs()).toHaveLength(1);
    expect(world.backfills()[0]?.state).toBe("PAUSED");
    expect(world.backfills()[0]?.reason).toMatch(
      /^chunk 1 cannot be planned: .* 3000000\. .* smaller chunk size\. Cancel it/,
    );
  });

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
