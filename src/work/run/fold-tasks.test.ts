import { describe, expect, test } from "vitest";
import type { TaskResultField } from "./events.ts";
import { instantOf } from "../../kernel/instant.ts";
import { blockKeyOf, partitionAt } from "../asset/partition-blocks.ts";
import { PARTITION_BLOCKS, type PartitionRow } from "./rows.ts";
import { WorkingSet } from "../working-set.ts";
import { BlockChanges, recordAttempts } from "./fold-tasks.ts";

type Attempt = {
  run_id: string;
  started_pos: number;
  pos: number;
  outcome: TaskResultField["outcome"];
};

/** The row of a partition after attempts that ended in this order. */
function after(...attempts: readonly Attempt[]): PartitionRow | null {
  const set = new WorkingSet();
  set.loaded(PARTITION_BLOCKS, [blockKeyOf("a", "1")], []);
  for (const { run_id, started_pos, pos, outcome } of attempts) {
    const change = {
      rows: set.rows,
      run: { run_id },
      pos,
      at: instantOf(pos),
      made: new Set<string>(),
      blocks: new BlockChanges(set.rows),
    };
    const result = {
      task_key: 0,
      attempt: 1,
      outcome,
      asset_key: "a",
      partition_keys: ["1"],
      code_version: null,
    } as unknown as TaskResultField;
    recordAttempts(change, { started_pos }, result, new Map());
    change.blocks.write();
  }
  return partitionAt(set.rows, "a", "1");
}

describe("recordAttempts", () => {
  test("I44: keeps what was made when a later attempt fails", () => {
    const made = { run_id: "one", started_pos: 1, pos: 2, outcome: "SUCCEEDED" } as const;
    const failed = { run_id: "two", started_pos: 3, pos: 4, outcome: "FAILED" } as const;
    expect(after(made, failed)).toMatchObject({
      last_materialization_run_id: "one",
      last_materialization_at: instantOf(2),
      last_materialization_start_pos: 1,
      last_attempt_run_id: "two",
      last_attempt_outcome: "FAILED",
      row_version: 4,
    });
  });

  test("I45: is not overwritten by a run that started before and ends late", () => {
    const newer = { run_id: "two", started_pos: 3, pos: 4, outcome: "SUCCEEDED" } as const;
    const older = { run_id: "one", started_pos: 1, pos: 9 } as const;
    for (const outcome of ["SUCCEEDED", "FAILED"] as const) {
      expect(after(newer, { ...older, outcome })).toEqual(after(newer));
    }
  });
});
