import { describe, expect, test } from "vitest";
import type { RecordedEvent } from "../work/envelope.ts";
import { SampleCounts } from "./sampler.ts";

const AT = "2026-03-01T12:00:07.000Z";
const BUCKET = Date.parse("2026-03-01T12:00:00.000Z") / 1_000;

function countsOf(...results: object[]): Record<string, number> {
  const counts = new SampleCounts();
  const data = JSON.stringify({ results });
  counts.count([{ type: "TasksFinished", occurred_at: AT, data } as RecordedEvent]);
  const taken = counts.take();
  expect(taken.every(({ at }) => at === BUCKET)).toBe(true);
  return Object.fromEntries(taken.map(({ series, value }) => [series, value]));
}

describe("SampleCounts", () => {
  test("counts the tasks that an entry stands for, by how they ended", () => {
    expect(
      countsOf(
        { outcome: "SUCCEEDED", count: 20 },
        { outcome: "SUCCEEDED" },
        { outcome: "FAILED" },
        { outcome: "CANCELLED" },
      ),
    ).toEqual({ tasks_succeeded: 21, tasks_failed: 1 });
  });

  test("counts a batch that failed in some partitions as failed, and once it ended only", () => {
    const partly = { outcome: "SUCCEEDED", exceptions: [{ index: 1, outcome: "FAILED" }] };
    const skipping = { outcome: "SUCCEEDED", exceptions: [{ index: 1, outcome: "SKIPPED" }] };
    expect(countsOf(partly, skipping)).toEqual({ tasks_succeeded: 1, tasks_failed: 1 });
    expect(countsOf({ ...partly, retry_at: AT }, { outcome: "FAILED", retry_at: AT })).toEqual({});
  });
});
