import { describe, expect, test } from "vitest";
import { AssertionFailure } from "./errors.ts";
import { addMs, instantOf } from "./instant.ts";

describe("instantOf", () => {
  test("writes every time of the years 0 to 9999 in the same width", () => {
    expect(instantOf(Date.parse("0000-01-01T00:00:00.000Z"))).toBe("0000-01-01T00:00:00.000Z");
    expect(instantOf(Date.parse("9999-12-31T23:59:59.999Z"))).toBe("9999-12-31T23:59:59.999Z");
  });

  test("writes no time beyond, whose text would be out of order", () => {
    expect(() => addMs("9999-12-31T23:59:59.999Z", 1)).toThrow(AssertionFailure);
    expect(() => addMs("0000-01-01T00:00:00.000Z", -1)).toThrow(AssertionFailure);
    expect(() => instantOf(Number.MAX_SAFE_INTEGER)).toThrow(AssertionFailure);
    expect(() => instantOf(Number.NaN)).toThrow(AssertionFailure);
  });
});
