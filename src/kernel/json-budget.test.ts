import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { checkJsonBudget, isJson } from "./json-budget.ts";

/** How many lists, objects and members a value has, counted the slow way. */
function countOf(value: unknown): number {
  if (typeof value !== "object" || value === null) return 0;
  const inner = Object.values(value) as unknown[];
  return (
    1 + Math.max(0, inner.length - 1) + inner.reduce<number>((sum, each) => sum + countOf(each), 0)
  );
}

describe("checkJsonBudget", () => {
  test("I64: takes a text of so many values and refuses one more, whatever its texts hold", () => {
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 4 }), (value) => {
        const count = 1 + countOf(value);
        checkJsonBudget(JSON.stringify(value), count);
        if (count > 1) {
          expect(() => checkJsonBudget(JSON.stringify(value), count - 1)).toThrow("values");
        }
      }),
    );
  });

  test("I64: counts no commas or brackets in texts, and none after an escaped quote", () => {
    checkJsonBudget('"a,[{\\",[[\\\\"', 1);
    checkJsonBudget(`["${"[,".repeat(1_000)}"]`, 2);
    expect(() => checkJsonBudget('["\\\\",1,1]', 3)).toThrow("more than 3 values");
  });

  test("I64: takes 64 levels and refuses one more", () => {
    const nested = (levels: number) => "[".repeat(levels) + "]".repeat(levels);
    checkJsonBudget(nested(64), 1_000);
    expect(() => checkJsonBudget(nested(65), 1_000)).toThrow("64 levels");
  });

  test("leaves what is no JSON to the parser", () => {
    for (const text of ["", "]]]", '"open', '"open\\', "{,}"]) checkJsonBudget(text, 10);
  });
});

describe("isJson", () => {
  test("says of every value what zod says of it", () => {
    const slow = z.json();
    const odd = fc.constantFrom(undefined, NaN, Infinity, () => 1, 1n, new Date(0), new Map());
    const value = fc.anything({ maxDepth: 3, withNullPrototype: true });
    fc.assert(
      fc.property(fc.oneof(value, odd), (given) => {
        const holds = fc.stringify(given);
        if (holds.includes("__proto__") || holds.includes("Symbol")) return;
        expect(isJson(given), holds).toBe(slow.safeParse(given).success);
      }),
    );
  });

  test("is false for what refers to itself", () => {
    const list: unknown[] = [];
    list.push(list);
    expect(isJson(list)).toBe(false);
  });
});
