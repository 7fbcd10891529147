import { describe, expect, test } from "vitest";
import { type CreateForm, EMPTY_FORM } from "./create-form.ts";
import { refusedFields } from "./refused-fields.ts";

const refusal = (told: {
  code?: string;
  details?: Record<string, unknown>;
  fields?: { field: string; message: string }[];
}) => ({ code: "INPUT_INVALID", message: "No.", details: {}, fields: [], ...told });
const form = (fields: Partial<CreateForm>): CreateForm => ({ ...EMPTY_FORM, ...fields });

describe("refusedFields", () => {
  test("finds the place of every field that the API names", () => {
    const fields = [
      "body.chunk_size",
      "body.max_concurrent_runs",
      "body.retry.max_attempts",
      "body.retry.delay_ms",
      "body.failure_limit.count",
      "body.labels.team",
      "body.selector.partition_keys",
      "body.selector.dimensions.region.0",
      "body.selector.backfill_id",
      "body.assets.0",
    ].map((field) => ({ field, message: `is wrong in ${field}` }));
    const { problems, isAll } = refusedFields(refusal({ fields }), EMPTY_FORM);
    expect(isAll).toBe(true);
    expect(Object.keys(problems)).toEqual([
      "chunk_size",
      "concurrency",
      "attempts",
      "retry_delay_ms",
      "failure_limit",
      "labels",
      "keys",
      "filter.region",
      "of",
      "assets",
    ]);
  });

  test("says so when something has no place in the form", () => {
    const fields = [{ field: "body.nonsense", message: "is not a known field" }];
    expect(refusedFields(refusal({ fields }), EMPTY_FORM)).toEqual({ problems: {}, isAll: false });
  });

  test("puts a partition that does not exist where it was written", () => {
    const told = (partition_key: string, more = {}) =>
      refusal({ code: "PARTITION_INVALID", details: { partition_key, ...more } });
    const range = form({ kind: "range", start: "a", end: "b" });
    expect(refusedFields(told("b"), range).problems).toEqual({ end: "No." });
    expect(refusedFields(told("a"), range).problems).toEqual({ start: "No." });
    expect(refusedFields(told("x"), form({ kind: "keys" })).problems).toEqual({ keys: "No." });
    const filter = form({
      kind: "filter",
      filter: { region: { mode: "pattern", pattern: "x" } },
    });
    expect(refusedFields(told("x", { dimension: "region" }), filter).problems).toEqual({
      "filter.region": "No.",
    });
  });

  test("leaves what is about no field to be said elsewhere", () => {
    expect(refusedFields(refusal({ code: "PLAN_CHANGED" }), EMPTY_FORM)).toEqual({
      problems: {},
      isAll: false,
    });
  });
});
