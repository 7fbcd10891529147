import { describe, expect, test } from "vitest";
import { CommitSize, STAGE_PARTS } from "./commit.ts";

describe("CommitSize", () => {
  test("I76: halves with each commit that fails, down to a least size, and its decisions with it", () => {
    const size = new CommitSize();
    const { bounds, room } = size;
    size.failed();
    expect(size.bounds.rows).toBe(bounds.rows / 2);
    expect(size.bounds.ms).toBe(bounds.ms / 2);
    expect(size.room).toEqual({ rows: room.rows / 2, bytes: room.bytes / 2 });
    for (let failures = 0; failures < 100; failures++) size.failed();
    expect(size.bounds.rows).toBeGreaterThan(100);
    expect(size.room.rows).toBeGreaterThan(100);
  });

  test("I76: grows back slowly, and never beyond the whole", () => {
    const size = new CommitSize();
    const { bounds } = size;
    size.failed();
    size.succeeded();
    expect(size.bounds.rows).toBeLessThan(bounds.rows * 0.6);
    for (let commits = 0; commits < 100; commits++) size.succeeded();
    expect(size.bounds).toEqual(bounds);
  });

  test("I76: may take long once a smaller commit did not help either", () => {
    const size = new CommitSize();
    size.failed();
    expect(size.isPatient).toBe(false);
    size.failed();
    expect(size.isPatient).toBe(true);
    for (let commits = 0; commits < 10; commits++) size.succeeded();
    expect(size.isPatient).toBe(false);
  });

  test("gives every stage a part, all of them together no more than the whole", () => {
    const parts = Object.values(STAGE_PARTS);
    expect(Math.min(...parts)).toBeGreaterThan(0);
    expect(parts.reduce((sum, part) => sum + part, 0)).toBeCloseTo(1);
  });
});
