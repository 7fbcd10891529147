import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { checkJsonBudget, checkValue, isJson } from "./json-budget.ts";

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

  test("I64: takes an object of 100,000 members and refuses one more, at every level", () => {
    const members = (count: number) => `{${Array(count).fill('"a":1').join(",")}}`;
    checkJsonBudget(`[${members(100_000)},${members(100_000)}]`, 1_000_000);
    for (const text of [members(100_001), `[{"a":[${members(100_001)}]}]`]) {
      expect(() => checkJsonBudget(text, 1_000_000)).toThrow("more than 100000 members");
    }
    checkJsonBudget(`[${Array(200_000).fill("{}").join(",")}]`, 1_000_000);
  });

  test("leaves what is no JSON to the parser", () => {
    for (const text of ["", "]]]", '"open', '"open\\', "{,}"]) checkJsonBudget(text, 10);
  });
});

describe("checkValue", () => {
  const issuesOf = (schema: z.ZodType, value: unknown) => {
    const checked = checkValue(schema, value);
    return checked.success ? [] : checked.issues;
  };
  const field = z.strictObject({ table: z.string(), rows: z.int(), done: z.boolean() });

  test("lists all that is wrong in a small value", () => {
    expect(issuesOf(z.array(field), [{}, {}])).toHaveLength(6);
  });

  test.each([
    ["a list", z.array(field)],
    ["a list in an object", z.strictObject({ tables: z.array(field) })],
    ["a list in a list", z.array(z.strictObject({ tables: z.array(field) }))],
    ["one of several forms", z.union([z.array(field), z.literal("all")])],
  ])("I64: looks no further than the first wrong item of many: %s", (_name, schema) => {
    const wrong = Array.from({ length: 200_000 }, () => ({}));
    const value = schema instanceof z.ZodObject ? { tables: wrong } : [{ tables: wrong }, ...wrong];
    const issues = issuesOf(schema, value);
    expect(issues.length).toBeGreaterThan(0);
    expect(issues.length).toBeLessThan(10);
  });

  test("I61: says of as many wrong members as zod cannot tell that there are too many", () => {
    const names = Array.from({ length: 400_000 }, (_, at) => [`k${at}`, 1] as const);
    const schema = z.array(z.strictObject({ labels: z.record(z.string(), z.string()) }));
    const [issue] = issuesOf(schema, [{ labels: Object.fromEntries(names) }]);
    expect(issue?.message).toBe("has too many members that are not valid");
  });

  test("gives back what is valid, however large", () => {
    const value = Array.from({ length: 20_000 }, (_, rows) => ({ table: "t", rows, done: true }));
    expect(checkValue(z.array(field), value)).toEqual({ success: true, data: value });
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
