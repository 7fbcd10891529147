import { describe, expect, test } from "vitest";
import { failurePattern } from "./failure-pattern.ts";

describe("failurePattern", () => {
  test.each([
    ["no rows for 2025-01-03", "no rows for …"],
    ["no rows for 2025-01-03T04:00:00Z", "no rows for …"],
    ["timeout after 30000 ms", "timeout after … ms"],
    ['unknown region "us-east"', 'unknown region "…"'],
    ["column 'price' can't be null", "column '…' can't be null"],
    ["don't and won't", "don't and won't"],
    ["block 0xdeadbeef is gone", "block … is gone"],
    ["job 7b0e1f9c-1111-4222-8333-444455556666 failed", "job … failed"],
    ["run run_abcdefghij0123456789abcdef ended", "run … ended"],
    ["s3://bucket/2025/01/03.parquet is missing", "s3://bucket/….parquet is missing"],
    ["rows 1, 2, 3 are bad", "rows … are bad"],
    ["connection refused", "connection refused"],
    ["", ""],
  ])("%j becomes %j", (message, pattern) => {
    expect(failurePattern(message, [])).toBe(pattern);
  });

  test("leaves out partition keys and the values of their dimensions", () => {
    expect(failurePattern("north is closed", ["north", "south"])).toBe("… is closed");
    expect(failurePattern("closed: south.", ["north", "south"])).toBe("closed: ….");
    const key = "day=2025-01-03,region=north";
    expect(failurePattern(`nothing for ${key}`, [key])).toBe("nothing for …");
    expect(failurePattern("north is closed", [key])).toBe("… is closed");
    expect(failurePattern("northern lights", ["north"])).toBe("northern lights");
  });

  test("cuts what is long, and is quick about what is hostile", () => {
    expect(failurePattern("x".repeat(100_000), [])).toHaveLength(500);
    expect(failurePattern(`"${"'".repeat(100_000)}`, []).length).toBeLessThanOrEqual(500);
  });
});
