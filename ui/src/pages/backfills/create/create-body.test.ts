import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { CreateBackfillBody } from "../../../../../src/work/backfill/api.ts";
import { bodyOf } from "./create-body.ts";
import { type CreateForm, EMPTY_FORM } from "./create-form.ts";

const filled = (fields: Partial<CreateForm>) =>
  bodyOf({ ...EMPTY_FORM, assets: ["sales"], ...fields });

describe("bodyOf", () => {
  test("asks for what was filled in, and for defaults where nothing was", () => {
    const { body } = filled({ kind: "all" });
    expect(CreateBackfillBody.parse(body)).toMatchObject({
      assets: ["sales"],
      selector: { type: "all" },
      chunk_size: 10,
      max_concurrent_runs: 2,
      order: "ascending",
      priority: 0,
      allow_overlap: false,
    });
  });

  test("carries every option", () => {
    const { body } = filled({
      kind: "range",
      start: "2026-01-01",
      end: "2026-01-31",
      chunk_size: "5",
      concurrency: "4",
      order: "descending",
      priority: "-3",
      failure_limit: "2.5%",
      attempts: "7",
      retry_delay_ms: "50",
      labels: "team=sales\nwhy=late = data",
      config: '{"dry": true}',
      after: " bf_1 ",
      allow_overlap: true,
      continue_on_failure: true,
    });
    expect(body).toEqual({
      assets: ["sales"],
      selector: { type: "range", start: "2026-01-01", end: "2026-01-31" },
      chunk_size: 5,
      max_concurrent_runs: 4,
      order: "descending",
      priority: -3,
      failure_limit: { percent: 2.5 },
      retry: { max_attempts: 7, delay_ms: 50 },
      labels: { team: "sales", why: "late = data" },
      config: { dry: true },
      after_backfill_id: "bf_1",
      allow_overlap: true,
      continue_on_failure: true,
    });
    expect(CreateBackfillBody.safeParse(body).success).toBe(true);
  });

  test("makes a selector of each kind", () => {
    const selector = (fields: Partial<CreateForm>) => filled(fields).body?.selector;
    expect(selector({ kind: "keys", keys: "a\nb\na" })).toEqual({
      type: "explicit",
      partition_keys: ["a", "b"],
    });
    expect(
      selector({
        kind: "filter",
        filter: {
          region: { mode: "values", values: ["eu"] },
          date: { mode: "range", start: "2026-01-01", end: "2026-01-02" },
          tier: { mode: "pattern", pattern: "g*" },
        },
      }),
    ).toEqual({
      type: "filter",
      dimensions: { date: { start: "2026-01-01", end: "2026-01-02" }, region: ["eu"], tier: "g*" },
    });
    expect(selector({ kind: "filter" })).toEqual({ type: "all" });
    expect(selector({ kind: "stale", reasons: ["CODE_CHANGED"], limit: "5" })).toEqual({
      type: "stale",
      reasons: ["CODE_CHANGED"],
      limit: 5,
    });
    expect(selector({ kind: "left", of: "bf_1" })).toEqual({
      type: "missing",
      backfill_id: "bf_1",
    });
    expect(selector({ kind: "left", of: "bf_1", outcomes: ["FAILED"] })).toEqual({
      type: "outcome",
      backfill_id: "bf_1",
      outcomes: ["FAILED"],
    });
  });

  test("says what to fill in next rather than ask for half of it", () => {
    expect(bodyOf(EMPTY_FORM)).toMatchObject({ body: null, next: expect.stringMatching(/asset/) });
    expect(filled({ kind: "range", start: "2026-01-01" }).next).toMatch(/last partition/);
    expect(filled({ kind: "keys", keys: " \n" }).next).toMatch(/Paste/);
    expect(
      filled({ kind: "filter", filter: { region: { mode: "values", values: [] } } }).next,
    ).toBe("Choose values of region.");
  });

  test("says at its field what cannot be sent at all", () => {
    const { body, problems } = filled({
      kind: "all",
      chunk_size: "many",
      failure_limit: "half",
      labels: "team",
      config: "{",
    });
    expect(body).toBeNull();
    expect(Object.keys(problems).toSorted()).toEqual([
      "chunk_size",
      "config",
      "failure_limit",
      "labels",
    ]);
    expect(problems["chunk_size"]).toBe('must be a number, not "many"');
  });

  test("never sends what is not JSON, however odd the texts", () => {
    const text = fc.string({ unit: "grapheme" });
    fc.assert(
      fc.property(text, text, text, (chunk_size, labels, config) => {
        const { body, problems } = filled({ kind: "all", chunk_size, labels, config });
        expect(body === null).toBe(Object.keys(problems).length > 0);
        expect(() => JSON.stringify(body)).not.toThrow();
      }),
    );
  });
});
