import { describe, expect, test } from "vitest";
import { checkContentType, parseBody } from "./request-body.ts";

describe("parseBody", () => {
  test("takes no body for an empty object", () => {
    expect(parseBody("", false, 1_000)).toEqual({});
  });

  test("refuses what is no JSON", () => {
    expect(() => parseBody("{]", false, 1_000)).toThrow("The body is not JSON");
  });

  test("takes 64 levels and refuses one more", () => {
    const nested = (levels: number) => "[".repeat(levels) + "]".repeat(levels);
    expect(() => parseBody(nested(64), false, 1_000)).not.toThrow();
    expect(() => parseBody(nested(65), false, 1_000)).toThrow("64 levels");
    expect(() => parseBody(nested(500_000), false, 1_000)).toThrow("64 levels");
  });

  test("I64: takes so many values and refuses one more, and keys that are too long", () => {
    const list = (length: number) => JSON.stringify(Array.from({ length }, () => []));
    expect(() => parseBody(list(100), false, 1_000)).not.toThrow();
    expect(() => parseBody(list(501), false, 1_000)).toThrow("more than 1000 values");
    const keyed = (length: number) => `{"${"k".repeat(length)}":1}`;
    expect(() => parseBody(keyed(2_000), false, 1_000)).not.toThrow();
    expect(() => parseBody(keyed(2_001), false, 1_000)).toThrow("at most 2000");
  });

  test("refuses text that not every database keeps, wherever it stands", () => {
    for (const text of ['"a\\u0000"', '["\\ud800"]', '{"a":{"b":"\\u0000"}}', '{"\\u0000":1}']) {
      expect(() => parseBody(text, false, 1_000), text).toThrow(/NUL/);
    }
  });

  test("mends such text when told to", () => {
    expect(parseBody('{"items":[{"message":"a\\u0000b\\ud800"}]}', true, 1_000)).toEqual({
      items: [{ message: "a\uFFFDb\uFFFD" }],
    });
  });

  test("refuses the key __proto__", () => {
    expect(() => parseBody('{"a":{"__proto__":{}}}', true, 1_000)).toThrow("__proto__");
  });
});

describe("checkContentType", () => {
  test("takes JSON in its forms and nothing else", () => {
    for (const type of [
      "application/json",
      "Application/JSON; charset=utf-8",
      "application/a+json",
    ]) {
      expect(() => checkContentType(type), type).not.toThrow();
    }
    for (const type of [undefined, "text/plain", "application/x-www-form-urlencoded", "json"]) {
      expect(() => checkContentType(type), type).toThrow("application/json");
    }
  });
});
