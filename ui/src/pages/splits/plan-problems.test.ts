import { describe, expect, test } from "vitest";
import type { Refusal } from "../../api/call.ts";
import { planProblems } from "./plan-problems.ts";

const refusal = (fields: Partial<Refusal>): Refusal =>
  ({ code: "INPUT_INVALID", message: "No.", details: {}, fields: [], ...fields }) as Refusal;

const KNOWN = ["source", "target", "tenants"];

describe("planProblems", () => {
  test("puts what is wrong with a field at that field, and counts lines from 1", () => {
    const fields = [
      { field: "body.target", message: "is missing" },
      { field: "body.tenants.1", message: "is too long" },
    ];
    expect(planProblems(refusal({ fields }), KNOWN)).toEqual({
      at: { target: "is missing", tenants: "Line 2 is too long" },
      isAllSaid: true,
    });
  });

  test("leaves the rest to be said below", () => {
    const fields = [{ field: "body.unheard_of", message: "is not known" }];
    expect(planProblems(refusal({ fields }), KNOWN)).toEqual({ at: {}, isAllSaid: false });
    expect(planProblems(refusal({}), KNOWN)).toEqual({ at: {}, isAllSaid: false });
  });

  test("finds the field in what the refusal is about", () => {
    const details = { tenant: "acme", source: "a" };
    expect(planProblems(refusal({ details }), KNOWN).at).toEqual({ tenants: "No." });
    expect(planProblems(refusal({ details: { source: "a" } }), KNOWN).at).toEqual({
      source: "No.",
    });
  });
});
