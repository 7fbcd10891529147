import { describe, expect, test } from "vitest";
import { globMatches } from "./selector.ts";

describe("globMatches", () => {
  test("takes a star for any characters and a question mark for one", () => {
    expect(globMatches("us-*", "us-east")).toBe(true);
    expect(globMatches("us-*", "us-")).toBe(true);
    expect(globMatches("us-*", "eus-east")).toBe(false);
    expect(globMatches("*east*", "us-east-1")).toBe(true);
    expect(globMatches("?u", "eu")).toBe(true);
    expect(globMatches("?", "")).toBe(false);
    expect(globMatches("a.c", "abc")).toBe(false);
    expect(globMatches("*", "")).toBe(true);
  });

  test("stays fast however many stars there are", () => {
    expect(globMatches(`${"a*".repeat(50)}b`, "a".repeat(500))).toBe(false);
  });
});
