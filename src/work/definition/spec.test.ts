import { describe, expect, test } from "vitest";
import { AssetSpec, DURATION_MS_MAX } from "./spec.ts";

describe("AssetSpec", () => {
  const asset = { kind: "asset", asset_key: "a", partitions: null };
  const over = DURATION_MS_MAX + 1;

  test.each([
    { timeout_ms: over },
    { timeout_ms: 0 },
    { stall_after_ms: over },
    { retry: { delay_ms: over } },
    { retry: { max_delay_ms: over } },
  ])("has no duration that leads beyond the times that can be written: %j", (given) => {
    expect(AssetSpec.safeParse({ ...asset, ...given }).success).toBe(false);
  });

  test("may take ten years", () => {
    const given = { timeout_ms: DURATION_MS_MAX, retry: { delay_ms: 0 } };
    expect(AssetSpec.safeParse({ ...asset, ...given }).success).toBe(true);
  });
});
