import { expect, test } from "vitest";
import type { TaskResultField } from "../work/run/events.ts";
import { endLines, type TaskLines } from "./task-lines.ts";

/** An end of a task, as the ledger has it. */
function result(given: Partial<TaskResultField>): TaskResultField {
  return {
    task_key: 3,
    attempt: 1,
    asset_index: 0,
    asset_key: "visits",
    outcome: "FAILED",
    partition_keys: ["mon"],
    partitions: 1,
    code_version: null,
    error: { class: "user", message: "out of stock" },
    ...given,
  };
}

function linesOf(results: readonly TaskResultField[], which: TaskLines = "failures"): unknown[] {
  const data = JSON.stringify({ run_id: "run_1", run_pos: 7, results });
  return endLines({ type: "TasksFinished", data }, which).map(({ level, message }) => [
    level,
    message,
  ]);
}

test("a line tells of a task that failed, or is tried again", () => {
  const retry_at = "2026-01-01T00:00:05.000Z";
  const batch = result({ outcome: "SUCCEEDED", partition_keys: ["mon", "tue"] });
  const exceptions = [{ index: 1, outcome: "FAILED" as const, error: batch.error ?? null }];
  expect(
    linesOf([
      result({}),
      result({ retry_at }),
      result({ partition_keys: [""] }),
      { ...batch, error: undefined, exceptions },
      result({ count: 2, partition_keys: ["wed", "thu"] }),
    ]),
  ).toEqual([
    ["error", "visits mon failed: out of stock"],
    ["warn", "visits mon failed and is tried again: out of stock"],
    ["error", "visits failed: out of stock"],
    ["error", "visits mon … (2) failed in 1 of 2 partitions: out of stock"],
    ["error", "visits wed failed: out of stock"],
    ["error", "visits thu failed: out of stock"],
  ]);
});

test("what succeeded is told of only where all is, and what was given back never", () => {
  const succeeded = result({ outcome: "SUCCEEDED" });
  const given = result({ released: true, retry_at: "2026-01-01T00:00:00.000Z" });
  expect(linesOf([succeeded, given])).toEqual([]);
  expect(linesOf([succeeded, given], "all")).toEqual([["info", "visits mon succeeded."]]);
});

test("a line tells of a task whose worker was not heard of", () => {
  const lost = result({ error: { class: "lease_expired", message: "The worker is silent." } });
  const data = JSON.stringify({ run_id: "run_1", run_pos: 7, result: lost });
  expect(endLines({ type: "TaskLeaseExpired", data }, "failures")).toEqual([
    {
      level: "error",
      fields: { run: "run_1", task: 3, attempt: 1 },
      message: "visits mon failed: The worker is silent.",
    },
  ]);
});
