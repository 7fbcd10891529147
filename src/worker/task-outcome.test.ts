import { describe, expect, test } from "vitest";
import { PawlError } from "../core/errors.ts";
import { messageOf, metadataFault, outcomeOfError, outcomeOfStop } from "./task-outcome.ts";

describe("outcomeOfError", () => {
  test("takes failures of the network for ones that pass, also when they are a cause", () => {
    const cause = Object.assign(new Error("connect refused"), { code: "ECONNREFUSED" });
    const error = new TypeError("fetch failed", { cause });

    expect(outcomeOfError(error)).toEqual({
      outcome: "FAILED",
      error: { class: "transient", message: "TypeError: fetch failed (cause: connect refused)" },
    });
  });

  test("takes Pawl's own failures by whether another attempt may help", () => {
    const classOf = (error: unknown) => outcomeOfError(error).error?.class;

    expect(classOf(new PawlError("SERVER_UNREACHABLE", "Away."))).toBe("transient");
    expect(classOf(new PawlError("PARTITION_INVALID", "None."))).toBe("input");
    expect(classOf(new PawlError("FORBIDDEN", "No."))).toBe("user");
  });
});

describe("outcomeOfStop", () => {
  test("gives a task back without an attempt lost when the worker stops", () => {
    expect(outcomeOfStop({ type: "stopped", message: "Bye." })).toEqual({
      outcome: "FAILED",
      error: { class: "transient", message: "Bye." },
      retry_after_ms: 0,
      released: true,
    });
  });

  test("has nothing to say of a task that is lost", () => {
    expect(outcomeOfStop({ type: "lost", message: "Gone." })).toBeNull();
  });
});

describe("messageOf", () => {
  test("finds words for anything that can be thrown", () => {
    expect(messageOf(undefined)).toContain("undefined");
    expect(messageOf({ a: 1 })).toContain('{"a":1}');
    expect(messageOf(1n)).toContain("1");
    expect(messageOf(new RangeError("too far"))).toBe("RangeError: too far");
  });
});

describe("metadataFault", () => {
  test("refuses what is too long or no JSON", () => {
    expect(metadataFault({ rows: 1 })).toBeNull();
    expect(metadataFault({ text: "x".repeat(20_000) })).toContain("at most 16000");
    expect(metadataFault({ rows: 1n })).toContain("bigint");
  });
});
