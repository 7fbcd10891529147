import { describe, expect, test } from "vitest";
import { HOSTILE_THROWS } from "../../test/end-to-end/hostile-values.ts";
import { PawlError } from "../kernel/errors.ts";
import {
  Throttled,
  throttled,
  DoNotRetry,
  doNotRetry,
  RetryAfter,
  retryAfter,
  Skip,
  skip,
} from "../define/errors.ts";
import {
  keptJson,
  logFields,
  messageOf,
  plainError,
  shortened,
  readableText,
} from "./plain-values.ts";

describe("plainError", () => {
  test("keeps where an error was thrown, however long its message is", () => {
    const { stack = "" } = plainError(new Error(`no such row: ${"x".repeat(50_000)}`));
    expect(stack).toMatch(/^Error: no such row: x+…/);
    expect(stack).toMatch(/\n +at .*plain-values\.test\.ts/);
    expect(stack.length).toBeLessThanOrEqual(8_000);
  });
});

describe("messageOf", () => {
  test("finds words for anything that can be thrown", () => {
    expect(messageOf(undefined)).toContain("undefined");
    expect(messageOf({ a: 1 })).toContain('{"a":1}');
    expect(messageOf(1n)).toContain("1");
    expect(messageOf("just text")).toBe("just text");
    expect(messageOf(new RangeError("too far"))).toBe("RangeError: too far");
    expect(messageOf(new TypeError(""))).toBe("TypeError without a message");
  });

  test.each(HOSTILE_THROWS)("I79: has plain words for $name", ({ thrown, says }) => {
    const message = messageOf(thrown());

    expect(message).toMatch(says);
    expect(message.length).toBeLessThanOrEqual(2_000);
    expect(message.isWellFormed()).toBe(true);
  });
});

describe("plainError", () => {
  test("keeps the kinds that say what to do, and what they say", () => {
    expect(plainError(skip("Nothing."))).toBeInstanceOf(Skip);
    expect(plainError(doNotRetry("No use."))).toBeInstanceOf(DoNotRetry);
    expect(plainError(retryAfter(5, "Busy."))).toMatchObject({ delayMs: 5, message: "Busy." });
    expect(plainError(throttled("Slower.", { retryAfterMs: 7 }))).toMatchObject({
      retryAfterMs: 7,
    });
    const error = new PawlError("LEASE_LOST", "Gone.", { details: { at: 1 } });
    expect(plainError(error)).toMatchObject({ code: "LEASE_LOST", details: { at: 1 } });
  });

  test("keeps a kind whose members are not what they must be, without them", () => {
    const retry = Object.defineProperty(retryAfter(5), "delayMs", { value: "soon" });
    expect(plainError(retry)).toBeInstanceOf(RetryAfter);
    expect(plainError(retry)).toMatchObject({ delayMs: 0 });
    const slower = Object.defineProperty(throttled("x"), "retryAfterMs", { value: Symbol("x") });
    expect(plainError(slower)).toBeInstanceOf(Throttled);
    expect(plainError(slower)).toMatchObject({ retryAfterMs: null });
    const odd = Object.defineProperty(new PawlError("LEASE_LOST", "Gone."), "code", {
      value: "NO",
    });
    expect(plainError(odd)).not.toBeInstanceOf(PawlError);
  });

  test("leaves an error as it is that is plain already, with its causes", () => {
    const plain = plainError(new Error("outer", { cause: new TypeError("inner") }));

    expect(plainError(plain)).toBe(plain);
    expect(plain.cause).toMatchObject({ name: "TypeError", message: "inner" });
    expect(plainError(plain.cause)).toBe(plain.cause);
  });
});

describe("keptJson", () => {
  test("copies what JSON can hold, with the words of dates", () => {
    const given = { at: new Date(0), none: undefined, list: [1, "a", null, { b: true }] };

    expect(keptJson(given, 100)).toEqual({
      value: { at: "1970-01-01T00:00:00.000Z", list: [1, "a", null, { b: true }] },
    });
  });

  test("says why a value cannot be kept", () => {
    const ring: unknown[] = [];
    ring.push(ring);

    expect(keptJson(1n, 100)).toEqual({ fault: "a bigint cannot be written as JSON" });
    expect(keptJson([undefined], 100)).toMatchObject({ fault: expect.stringContaining("hole") });
    expect(keptJson(Number.NaN, 100)).toMatchObject({ fault: expect.stringContaining("NaN") });
    expect(keptJson(2 ** 53, 100)).toMatchObject({ fault: expect.stringContaining("exactly") });
    expect(keptJson(ring, 1_000)).toMatchObject({ fault: expect.stringContaining("ring") });
    expect(keptJson(JSON.parse('{"__proto__":1}'), 100)).toMatchObject({
      fault: expect.stringContaining("__proto__"),
    });
  });

  test.each([
    ["a Map", new Map([["a", 1]]), "Object.fromEntries"],
    ["a Set", new Set([1]), "[...set]"],
    ["a promise", Promise.resolve(1), "await it"],
    ["a RegExp", /a/, "source"],
    ["bytes", new ArrayBuffer(2), "as text"],
  ])("does not keep %s as if there were nothing in it", (_name, value, advice) => {
    const fault: unknown = expect.stringContaining(advice);
    expect(keptJson(value, 100)).toEqual({ fault });
    expect(keptJson({ rows: [value] }, 100)).toEqual({ fault });
  });

  test("keeps of an error what it says", () => {
    const given = { error: new TypeError("no such column", { cause: new Error("gone") }) };

    expect(keptJson(given, 100)).toEqual({
      value: { error: "TypeError: no such column (cause: gone)" },
    });
  });

  test("stops at its bound, however large the value is", () => {
    let read = 0;
    const endless = new Proxy([], {
      get(_target, key) {
        if (key === "length") return Number.MAX_SAFE_INTEGER;
        if (key === "toJSON") return undefined;
        read++;
        return 1;
      },
    });

    expect(keptJson(endless, 1_000)).toMatchObject({
      fault: expect.stringContaining("at most 1000"),
    });
    expect(read).toBeLessThanOrEqual(1_000);
  });
});

describe("logFields", () => {
  test("keeps what it can and says what it cannot", () => {
    expect(logFields({ rows: 1 }, 100)).toEqual({ rows: 1 });
    expect(logFields("text", 100)).toEqual({ value: "text" });
    expect(logFields(undefined, 100)).toEqual({});
    expect(logFields({ big: 1n }, 100)).toEqual({
      not_kept: "The fields are not kept: a bigint cannot be written as JSON.",
    });
  });
});

describe("textOf", () => {
  test("bounds a text and shows anything else", () => {
    expect(readableText("abc", 3)).toBe("abc");
    expect(readableText("abcd", 3)).toBe("ab…");
    expect(readableText({ a: 1 }, 100)).toBe('{"a":1}');
    expect(shortened(Symbol("odd"))).toBe("Symbol(odd)");
  });
});
