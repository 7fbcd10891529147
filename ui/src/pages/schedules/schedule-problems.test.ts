import { describe, expect, test } from "vitest";
import type { Refusal } from "../../api/call.ts";
import { problemsOf } from "./schedule-problems.ts";

function refused(...fields: string[]): Refusal {
  return { fields: fields.map((field) => ({ field, message: "is wrong" })) } as unknown as Refusal;
}

describe("problemsOf", () => {
  test("finds the field, also of what is within", () => {
    expect(problemsOf(refused("body.cron", "body.selection.limit", "body.labels.a"))).toEqual({
      at: { cron: "is wrong", limit: "is wrong", labels: "is wrong" },
      whole: null,
    });
  });

  test("leaves the rest to be said as a whole", () => {
    for (const refusal of [refused("body.cron", "body"), refused()]) {
      expect(problemsOf(refusal).whole).toBe(refusal);
    }
  });

  test("says that the config is no JSON", () => {
    expect(problemsOf(new SyntaxError("a brace is missing")).at).toEqual({
      config: "The config is not JSON: a brace is missing",
    });
  });
});
