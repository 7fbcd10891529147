import { describe, expect, test } from "vitest";
import { z } from "zod";
import type { PawlError } from "../../kernel/errors.ts";
import { commaList } from "../../work/operation.ts";
import { parseInput } from "./input-problems.ts";

const schema = z.strictObject({
  name: z.string().min(2).max(3),
  size: z.int().max(5).optional(),
  sizes: z.array(z.int()).max(1).optional(),
  order: z.enum(["up", "down"]).optional(),
  kind: z
    .discriminatedUnion("type", [
      z.strictObject({ type: z.literal("a") }),
      z.strictObject({ type: z.literal("b"), n: z.int() }),
    ])
    .optional(),
  limit: z
    .union([z.strictObject({ count: z.int() }), z.strictObject({ percent: z.number() })])
    .optional(),
  asset: z.string().regex(/^a/, { error: "must start with a" }).optional(),
});

function problemsOf(input: unknown): string[] {
  try {
    parseInput(schema, "body", input);
    return [];
  } catch (error) {
    const { errors } = (error as PawlError).details as {
      errors: { field: string; message: string }[];
    };
    return errors.map(({ field, message }) => `${field} ${message}`);
  }
}

describe("parseInput", () => {
  test("gives back what is valid", () => {
    expect(parseInput(schema, "body", { name: "abc" })).toEqual({ name: "abc" });
  });

  test.each([
    [{}, "body.name is missing"],
    [{ name: 7 }, "body.name must be a string, not 7"],
    [{ name: "a" }, 'body.name must have at least 2 characters, not "a"'],
    [{ name: "abcd" }, 'body.name must have at most 3 characters, not "abcd"'],
    [{ name: "ab", size: 6 }, "body.size must be at most 5, not 6"],
    [{ name: "ab", size: 1.5 }, "body.size must be an integer, not 1.5"],
    [{ name: "ab", sizes: [1, 2] }, "body.sizes must have at most 1 items, not [1,2]"],
    [{ name: "ab", sizes: ["x"] }, 'body.sizes.0 must be a number, not "x"'],
    [{ name: "ab", order: "left" }, 'body.order must be "up" or "down", not "left"'],
    [{ name: "ab", kind: { type: "c" } }, 'body.kind.type must be "a" or "b", not "c"'],
    [{ name: "ab", kind: { type: "b" } }, "body.kind.n is missing"],
    [{ name: "ab", limit: { count: "x" } }, 'body.limit.count must be a number, not "x"'],
    [{ name: "ab", asset: "b" }, 'body.asset must start with a, not "b"'],
    [{ name: "ab", colour: 1 }, "body.colour is not a known field"],
    [{ name: "ab", siz: 1 }, "body.siz is not a known field (did you mean size?)"],
    [[], "body must be an object, not []"],
  ])("says of %j: %s", (input, sentence) => {
    expect(problemsOf(input)).toEqual([sentence]);
  });

  test("puts every problem into one sentence", () => {
    expect(() => parseInput(schema, "query", { size: 9 })).toThrow(
      "The request is not valid: query.name is missing; query.size must be at most 5, not 9.",
    );
  });

  test("says which of the words was probably meant, also of one part of a list", () => {
    const states = z.object({ state: commaList(z.enum(["RUNNING", "PAUSED"])) });
    expect(() => parseInput(states, "query", { state: "PAUSED,RUNING" })).toThrow(
      'query.state.1 must be "RUNNING" or "PAUSED", not "RUNING" (did you mean RUNNING?).',
    );
    expect(() => parseInput(states, "query", { state: "asleep" })).toThrow(/not "asleep"\.$/);
  });
});
