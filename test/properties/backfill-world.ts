import type { CreateBackfillInput } from "../../src/work/backfill/create.ts";
import { DEFAULT_RETRY } from "../../src/work/definition/spec.ts";
import type { LedgerWorld } from "./ledger-world.ts";

/** A backfill of all partitions of the asset `a`, one by one, but for what is said otherwise. */
export function wish(changes: Partial<CreateBackfillInput> = {}): CreateBackfillInput {
  return {
    client_request_id: "r",
    assets: ["a"],
    selector: { type: "all" },
    chunk_size: 1,
    max_concurrent_runs: 2,
    order: "ascending",
    priority: 0,
    allow_overlap: true,
    continue_on_failure: false,
    retry: { ...DEFAULT_RETRY, max_attempts: 1 },
    ...changes,
  };
}

/** Runs everything of the assets `a` and `b`; the partitions named here fail. */
export function runAll(world: LedgerWorld, ...failing: readonly string[]): void {
  for (;;) {
    world.settle();
    const groups = world.claim(["a", "b"]);
    if (groups.length === 0) return;
    for (const { run_pos, tasks } of groups) {
      for (const { task_key, attempt, partition_keys } of tasks) {
        const fails = partition_keys.some((key) => failing.includes(key));
        const error = { class: "error", message: "broken" };
        const ref = { run_pos, task_key, attempt };
        world.report(
          fails ? { ...ref, outcome: "FAILED", error } : { ...ref, outcome: "SUCCEEDED" },
        );
      }
    }
  }
}
