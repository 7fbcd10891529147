import { describe, expect, test } from "vitest";
import { PawlError } from "../../kernel/errors.ts";
import { metadataOf, outcomeOfError, outcomeOfStop } from "./outcome.ts";

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

  test("I64: gives up at once, and says why, where more is to be kept than there is room for", () => {
    const error = new PawlError("QUOTA_EXCEEDED", "A checkpoint has 9 bytes; at most 8 are kept.");
    expect(outcomeOfError(error)).toEqual({
      outcome: "FAILED",
      error: {
        class: "quota",
        message: "A checkpoint has 9 bytes; at most 8 are kept. (QUOTA_EXCEEDED)",
      },
      final: true,
    });
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

describe("metadataOf", () => {
  test("refuses what is too long or no JSON", () => {
    expect(metadataOf(undefined)).toBeNull();
    expect(metadataOf({ metadata: { rows: 1 } })).toEqual({ value: { rows: 1 } });
    expect(metadataOf({ metadata: { text: "x".repeat(20_000) } })).toMatchObject({
      fault: expect.stringContaining("at most 16000"),
    });
    expect(metadataOf({ metadata: { rows: 1n } })).toMatchObject({
      fault: expect.stringContaining("bigint"),
    });
  });
});
