import { describe, expect, test } from "vitest";
import { nearMiss } from "./near-miss.ts";

describe("nearMiss", () => {
  test("finds what differs by a slip, by case or by separators", () => {
    expect(nearMiss("partitons", ["pool", "partitions"])).toBe("partitions");
    expect(nearMiss("max_attempts", ["maxAttempts", "delayMs"])).toBe("maxAttempts");
  });

  test("suggests nothing for what is not alike", () => {
    expect(nearMiss("colour", ["pool", "partitions"])).toBeNull();
    expect(nearMiss("x", [])).toBeNull();
  });
});
