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
  test("keeps what JSON can hold, and has nothing where nothing was returned", () => {
    expect(metadataOf(undefined)).toEqual({ faults: [] });
    expect(metadataOf({ metadata: undefined })).toEqual({ faults: [] });
    expect(metadataOf({ metadata: { rows: 1 } })).toEqual({ value: { rows: 1 }, faults: [] });
    expect(metadataOf({ metadata: {} })).toEqual({ value: {}, faults: [] });
    expect(metadataOf({ metadata: ["as", "before"] })).toEqual({
      value: ["as", "before"],
      faults: [],
    });
  });

  test("leaves out what is too long or no JSON, says so, and keeps the rest", () => {
    const ring: Record<string, unknown> = {};
    ring["self"] = ring;
    const given = {
      rows: 1,
      big: 1n,
      not: Number.NaN,
      endless: Number.POSITIVE_INFINITY,
      ring,
      long: "x".repeat(20_000),
      at: new Date(0),
      never: new Date("no date"),
      name: "orders",
    };
    const { value, faults } = metadataOf({ metadata: given });
    expect(value).toEqual({ rows: 1, at: "1970-01-01T00:00:00.000Z", name: "orders" });
    expect(faults).toEqual([
      'A fact of the metadata is not kept: "big": a bigint cannot be written as JSON.',
      expect.stringContaining('"not": the number NaN cannot be kept'),
      expect.stringContaining('"endless": the number Infinity cannot be kept'),
      expect.stringMatching(/"ring": it is .*nested|"ring": .*more than/),
      expect.stringContaining('"long": it is more than'),
      'A fact of the metadata is not kept: "never": a date that is none cannot be written as JSON.',
    ]);
    const none = metadataOf({ metadata: { rows: 1n } });
    expect(none).toEqual({
      faults: ['The metadata is not kept: "rows": a bigint cannot be written as JSON.'],
    });
  });

  test("keeps what comes after many facts that cannot be kept, and counts these", () => {
    const odd = Object.fromEntries(Array.from({ length: 50 }, (_, at) => [`odd ${at}`, 1n]));
    const { value, faults } = metadataOf({ metadata: { ...odd, rows: 5 } });
    expect(value).toEqual({ rows: 5 });
    expect(faults).toHaveLength(21);
    expect(faults.at(-1)).toBe("30 more facts of the metadata are not kept.");
  });

  test("keeps no more than the server takes, however it is written", () => {
    const quotes = Object.fromEntries(
      Array.from({ length: 40 }, (_, at) => [`fact ${at}`, '"'.repeat(400)]),
    );
    const { value, faults } = metadataOf({ metadata: quotes });
    expect(JSON.stringify(value).length).toBeLessThanOrEqual(16_000);
    expect(Object.keys(value ?? {}).length).toBeGreaterThan(15);
    expect(faults.length).toBeGreaterThan(0);
  });

  test("does not go on for ever about metadata of which nothing can be kept", () => {
    const many = Object.fromEntries(Array.from({ length: 1_000 }, (_, at) => [`n${at}`, 1n]));
    expect(metadataOf({ metadata: many }).faults.length).toBeLessThanOrEqual(21);
  });
});
