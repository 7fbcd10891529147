import { describe, expect, test } from "vitest";
import { LoneFailures } from "./source-failure.ts";

describe("LoneFailures", () => {
  test("counts a failure again only when something else of the sync was fetched meanwhile", () => {
    const lone = new LoneFailures();

    expect(lone.failed("blocks", "a", 7)).toBe(1);
    expect(lone.failed("blocks", "a", 7)).toBe(1);
    lone.fetched("others", "b", 7, 7);
    expect(lone.failed("blocks", "a", 7)).toBe(1);
    lone.fetched("blocks", "b", 7, 7);
    expect(lone.failed("blocks", "a", 7)).toBe(2);
    expect(lone.failed("blocks", "a", 7)).toBe(2);
  });

  test("forgets a block that was fetched after all", () => {
    const lone = new LoneFailures();
    lone.failed("blocks", "a", 7);
    lone.fetched("blocks", "a", 8, 9);
    expect(lone.failed("blocks", "a", 7)).toBe(2);
    lone.fetched("blocks", "a", 5, 7);

    expect(lone.failed("blocks", "a", 7)).toBe(1);
  });
});
