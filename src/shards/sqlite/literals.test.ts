import { describe, expect, test } from "vitest";
import { literal, quoted, type SqliteValue, valueOf } from "./literals.ts";

describe("literals", () => {
  const values: SqliteValue[] = [
    0n,
    -9_223_372_036_854_775_808n,
    1.5,
    3,
    -1e300,
    5e-324,
    1e21,
    Infinity,
    -Infinity,
    "",
    "it's",
    "line\nbreak",
    Buffer.alloc(0),
    Buffer.from([0, 255]),
  ];

  test.each(values.map((value) => [literal(value), value]))(
    "%s is read as written",
    (text, value) => {
      expect(valueOf(text)).toStrictEqual(value);
    },
  );

  test("tells integers from reals and texts", () => {
    expect([literal(1n), literal(1), literal("1")]).toEqual(["1", "1.0", "'1'"]);
    expect([literal(0), literal(-0)]).toEqual(["0.0", "0.0"]);
  });

  test.each(["", "NULL", "a", "'a", "'a'b'", "1; drop table t", "X'0'", "1 or 1", "--"])(
    "refuses %j as a key",
    (text) => {
      expect(() => valueOf(text)).toThrow("is no key");
    },
  );

  test("quotes names", () => {
    expect(quoted('a "b"')).toBe('"a ""b"""');
  });
});
